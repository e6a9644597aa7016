"""One live request equals its part of a log, for every field: features to the bit, scores, and the order."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from towns import TownEngine, make_towns

from placings.features.catalogue import FAMILIES
from placings.features.category import OneHot
from placings.features.engine_signals import EngineSignals
from placings.features.fields import FieldMatch, QueryCover
from placings.features.geo import Coordinates, Distance
from placings.features.ngrams import CountedNgrams, HashedNgrams
from placings.features.number import Number
from placings.features.similarity import Similarity
from placings.features.spec import FeatureSet
from placings.features.standing import Standing
from placings.features.text import TextShape
from placings.features.time import Clock
from placings.logs import OwnClicks, add_past_clicks, hash_user
from placings.rankers import make_ranker
from placings.rankers.linear import LinearRanker
from placings.rerank.own_histories import give_own_clicks
from placings.rerank.requests import Request, read_time
from placings.rerank.reranker import Reranker, list_requests
from placings.simulate import make_shop_actions, make_shop_log, simulate_log

pd = pytest.importorskip("pandas")

WORDS = ["ulm", "Bad", "Köln", "Hbf", "12", "str", "Am", "Markt,", "(Süd)", "ß", "?", "l'a", "ü"]
TEXTS = st.none() | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.text(max_size=6)
NUMBERS = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, np.nan, 1.0, 1e39])
COUNTS = st.integers(0, 10**6)
DEGREES = st.none() | st.floats(-90, 90)
TIMES = st.none() | st.datetimes(pd.Timestamp(1990, 1, 1), pd.Timestamp(2035, 1, 1))
EVERY = [
    Clock("Europe/Berlin", zone_column="zone"), Coordinates(), CountedNgrams("name"), Distance(),
    EngineSignals(), FieldMatch("locality"), HashedNgrams("query", buckets=32, fold=True),
    Number("weight", ("raw", "log", "share", "rank")), OneHot("type"), QueryCover(), Similarity(), Standing(),
    TextShape("query"), Number("stars"), OneHot("device", kind="context"),
]  # fmt: skip


def join_places() -> Any:
    places = make_towns()
    rows = simulate_log(places, TownEngine(places), 150, k=12, random_state=0).to_rows()
    rows = rows.assign(
        stars=np.arange(len(rows)) % 5 + 0.5, device=np.where(rows["platform"] == "ios", "phone", "pc")
    )
    return rows.assign(zone="Europe/Berlin")


@cache
def make_reranker(kind: str) -> Reranker:
    if kind == "shop":
        shop = make_shop_actions(make_shop_log(days=14, searches=40, random_state=0))
        return Reranker(features="shop", ranker="ridge").fit(shop.to_rows())
    rows = join_places()
    if kind == "places":
        return Reranker(features="places", ranker="ridge").fit(rows)
    if kind == "history":
        return Reranker(features="places", ranker="ridge", history=True).fit(rows)
    rows = add_past_clicks(rows, rows)
    features = FeatureSet(EVERY).fit(rows)
    return Reranker(features, LinearRanker().fit(features.to_ranking(rows)), None)


def draw_values(column: str, kinds: dict[str, Any]) -> Any:
    """Values for a column: of its own kind, and such as a careless caller sends."""
    if column == "time":
        return TIMES
    if column in ("focus_lat", "focus_lon", "lat", "lon"):
        return DEGREES
    if column == "past_clicks":
        return COUNTS
    return NUMBERS if kinds[column] in "fiu" else TEXTS


def draw_searches(kind: str) -> Any:
    """Searches of one to five items with a value, or none, in every column that a feature reads."""
    reranker = make_reranker(kind)
    sample = join_places() if kind != "shop" else None
    kinds: dict[str, str] = {}
    for column in reranker.features_.columns:
        if sample is not None and column in sample:
            kinds[column] = sample[column].dtype.kind
        else:
            known = reranker._sample.items[0].get(column) if reranker._sample is not None else None
            kinds[column] = "f" if isinstance(known, int | float | np.number) else "O"
    kinds |= {"past_clicks": "f", "stars": "f", "weight": "f"}
    columns = [name for name in reranker.features_.columns if name not in ("search_id", "position")]
    context = [
        name for name in columns if name in ("query", "time", "focus_lat", "focus_lon", "target", "platform")
    ]
    fields = [name for name in columns if name not in context]
    return st.lists(
        st.tuples(
            st.fixed_dictionaries({name: draw_values(name, kinds) for name in context}),
            st.lists(
                st.fixed_dictionaries({name: draw_values(name, kinds) for name in fields}),
                min_size=1,
                max_size=5,
            ),
        ),
        min_size=1,
        max_size=3,
    )


def as_frame(searches: list[Any]) -> Any:
    rows = [
        {
            "search_id": f"s{number}",
            "item_id": f"i{place}",
            **context,
            **item,
            "position": place,
            "label": 0.0,
        }
        for number, (context, items) in enumerate(searches)
        for place, item in enumerate(items, 1)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def test_every_family_takes_part() -> None:
    assert {each.family for each in EVERY} == set(FAMILIES)


@pytest.mark.parametrize("kind", ["shop", "places", "every family"])
def test_a_request_has_the_features_scores_and_order_of_the_log(kind: str) -> None:
    reranker = make_reranker(kind)

    @settings(max_examples=20)
    @given(draw_searches(kind))
    def check(searches: list[Any]) -> None:
        rows = as_frame(searches)
        batch, matrix = reranker.score(rows), reranker.features_.transform(rows)
        start = 0
        for request in list_requests(rows):
            told = json.loads(json.dumps(request.to_dict()))  # as a server would hear it
            stop = start + len(request.items)
            for asked in (request, Request.from_dict(told)):
                if any(
                    isinstance(value, float) and abs(value) > 1e38
                    for item in asked.items
                    for value in item.values()
                ):
                    pass  # 1e39 is more than a float32 holds: missing in both ways
                live = reranker.features_.transform_request(asked.context, asked.items)
                part = matrix[start:stop]
                if not isinstance(live, np.ndarray):
                    live, part = live.toarray(), part.toarray()
                assert live.tobytes() == part.tobytes()
                answer = reranker.rerank(asked)
                np.testing.assert_allclose(answer.scores, batch[start:stop], rtol=1e-6, atol=1e-9)
                assert_same_order(answer.order, batch[start:stop])
            start = stop

    check()


PEOPLE = st.none() | st.sampled_from(["known", "stranger", 7])


def test_a_person_has_the_same_history_live_and_in_a_log() -> None:
    """Which items they clicked is looked up by person, item and time: in a request as in a table."""
    reranker = make_reranker("history")
    clicked = OwnClicks(
        30.0,
        {
            hash_user("known"): {"i1": (1.7, 10**15), "i3": (0.3, 17 * 10**14)},
            hash_user(7): {"i2": (40.0, 16 * 10**14)},
        },
    )
    reranker.own_clicks_ = clicked

    @settings(max_examples=30)
    @given(
        draw_searches("places"),
        st.lists(st.tuples(PEOPLE, st.sampled_from([None, False, True, "no"])), min_size=3, max_size=3),
    )
    def check(searches: list[Any], people: list[Any]) -> None:
        told = [
            ({**context, "user_id": who, "no_history": flag}, items)
            for (context, items), (who, flag) in zip(searches, people, strict=False)
        ]
        rows = as_frame(told)
        batch, given = reranker.score(rows), clicked.add_to(rows)["own_clicks"].to_numpy()
        start = 0
        for request in list_requests(rows):
            stop = start + len(request.items)
            sent = Request.from_dict(json.loads(json.dumps(request.to_dict())))
            for asked in (request, sent):
                answer = reranker.rerank(asked)
                np.testing.assert_allclose(answer.scores, batch[start:stop], rtol=1e-6, atol=1e-9)
                context = {**asked.context}
                if context.get("time") is not None:
                    context["time"] = read_time(context["time"])
                found = [item["own_clicks"] for item in give_own_clicks(clicked, context, asked.items)]
                assert np.array(found).tobytes() == given[start:stop].tobytes()
            start = stop

    check()


def assert_same_order(order: Any, batch: Any) -> None:
    """Falling scores, but for ties within the rounding of the two ways."""
    falls = batch[order]
    assert (np.diff(falls) <= 1e-6 * np.maximum(np.abs(falls[:-1]), 1.0)).all()


@pytest.mark.parametrize("kind", ["shop", "places"])
def test_a_field_that_features_need_and_a_request_lacks_is_counted_and_said(kind: str) -> None:
    reranker = make_reranker(kind)
    needed = [
        name for name in reranker.features_.columns if name not in ("search_id", "position", "past_clicks")
    ]
    whole = dict.fromkeys(needed)
    lost = needed[-1]
    items = [{**whole, "item_id": "a"}, {name: None for name in needed if name != lost}]
    answer = reranker.rerank(Request({"query": "x", "time": None}, items))
    assert answer.missing == {lost: 1}
    assert answer.say_missing() == f"{lost} is missing for 1 of 2 items"


NETWORK = {"hidden": [16, 8], "steps": 30, "batch": 8, "check_every": 15, "device": "cpu", "random_state": 0}
TREES = {"rounds": 20, "random_state": 0}
TRANSFORMED = ("mixture", "gauss", "cdf", "raw")
SCORED: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("mean", {"members": {"lightgbm": TREES, "neural": {**NETWORK, "members": 3}, "ridge": {}}}),
    "lightgbm": ("lightgbm", {**TREES, "min_data_in_leaf": 2}),
    "xgboost": ("xgboost", TREES),
    "catboost": ("catboost", TREES),
    "ridge": ("ridge", {}),
    "ranksvm": ("ranksvm", {}),
    **{f"neural {kind}": ("neural", {**NETWORK, "transform": kind}) for kind in TRANSFORMED},
}  # fmt: skip


@cache
def join_few() -> Any:
    """Rows of some searches, with past clicks; a value is missing here and there."""
    rows = join_places()
    rows = add_past_clicks(rows, rows).head(600)
    for column, step in (("weight", 5), ("stars", 7), ("lat", 11)):
        rows.loc[::step, column] = np.nan
    return rows


@cache
def make_dense_reranker(kind: str) -> Reranker:
    rows = join_few()
    features = FeatureSet([each for each in EVERY if not each.sparse]).fit(rows)
    name, settings = SCORED[kind]
    return Reranker(features, make_ranker(name, **settings).fit(features.to_ranking(rows)), None)


@pytest.mark.parametrize("kind", SCORED)
def test_the_quick_way_gives_the_scores_of_the_batch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"xgboost": "xgboost", "catboost": "catboost"}.get(kind, "lightgbm"))
    reranker = make_dense_reranker(kind)
    rows = join_few()
    batch, requests = reranker.score(rows), list_requests(rows)
    reranker.rerank(requests[0])  # which makes the scorer, and compares it with the ranker

    def refuse(*_: Any) -> Any:
        raise AssertionError("the ranker itself was asked")

    for ranker in (reranker.ranker_, *getattr(reranker.ranker_, "members_", {}).values()):
        monkeypatch.setattr(ranker, "_score_lists", refuse)
        monkeypatch.setattr(ranker, "_score", refuse)
    start = 0
    for request in requests:
        stop = start + len(request.items)
        answer = reranker.rerank(request)
        np.testing.assert_allclose(answer.scores, batch[start:stop], rtol=0, atol=1e-6 * np.abs(batch).max())
        assert_same_order(answer.order, batch[start:stop])
        start = stop
