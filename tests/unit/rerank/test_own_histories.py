"""A re-ranker that knows what each person clicked before: learned, saved, asked live, and forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from towns import TownEngine, make_towns

from placings.core import BadInput
from placings.features import FeatureSet, Number, history_features, numeric_features, shop_features
from placings.logs import OwnClicks, add_own_clicks, hash_user
from placings.rerank import Request, Reranker, load_reranker
from placings.rerank.own_histories import learn_histories
from placings.simulate import Behaviour, simulate_log

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rows() -> Any:
    """Few people who come back often to places of their own."""
    places = make_towns()
    behaviour = Behaviour(sessions=12.0, repeats=0.7)
    log = simulate_log(places, TownEngine(places), 400, k=12, random_state=0, behaviour=behaviour)
    return log.to_rows()


@pytest.fixture(scope="module")
def parts(rows: Any) -> tuple[Any, Any]:
    """The log up to a moment, and what came after it."""
    border = rows["time"].quantile(0.8)
    sessions = rows.groupby("session_id")["time"].transform("min")
    return rows[sessions < border], rows[sessions >= border]


@pytest.fixture(scope="module")
def fitted(parts: tuple[Any, Any]) -> Reranker:
    return Reranker(ranker="ridge", guard=False, history=True, half_life=20.0).fit(parts[0])


def test_history_adds_two_features_and_is_off_by_default(rows: Any, fitted: Reranker) -> None:
    without = Reranker(ranker="ridge").fit(rows)
    assert fitted.features_.names == [*without.features_.names, "log_own_clicks", "own_clicks_share"]
    assert without.own_clicks_ is None
    assert fitted.own_clicks_ is not None
    assert fitted.own_clicks_.half_life == 20.0


def test_it_learns_from_clicks_before_the_session_and_keeps_those_of_the_whole_log(
    parts: tuple[Any, Any], fitted: Reranker
) -> None:
    learned = OwnClicks.learn(parts[0], half_life=20.0)
    assert fitted.own_clicks_ is not None
    assert fitted.own_clicks_.to_state() == learned.to_state()
    people = parts[0].loc[parts[0]["label"] > 0, "user_id"].unique()
    assert set(learned.people) <= {hash_user(person) for person in people}
    assert len(learned.people) > 5


def test_a_request_has_the_history_of_the_log_to_the_bit(parts: tuple[Any, Any], fitted: Reranker) -> None:
    later = parts[1]
    asof = add_own_clicks(later, parts[0], half_life=20.0)  # all of it is before these sessions
    assert (asof["own_clicks"] > 0).sum() > 20
    batch = fitted.score(later)
    np.testing.assert_array_equal(batch, fitted.score(asof))
    np.testing.assert_allclose(fitted.score(later, live=True), batch, rtol=1e-9)
    assert not np.array_equal(batch, fitted.score(later.assign(own_clicks=0.0)))
    first = later[later["search_id"] == asof.loc[asof["own_clicks"] > 0, "search_id"].iloc[0]]
    head = first.iloc[0]
    context = {
        name: head[name] for name in ("query", "focus_lat", "focus_lon", "target", "platform", "user_id")
    }
    items = first.drop(columns=[*context, "time", "label"]).to_dict("records")
    asked = Request({**context, "time": head["time"].isoformat()}, items)
    told = json.loads(json.dumps(asked.to_dict()))
    np.testing.assert_allclose(fitted.rerank(told).scores, batch[later["search_id"] == head["search_id"]])
    other = Request({**asked.context, "user_id": "stranger"}, items)
    assert not np.array_equal(fitted.rerank(other).scores, fitted.rerank(asked).scores)


def test_an_opted_out_request_is_that_of_a_stranger(parts: tuple[Any, Any], fitted: Reranker) -> None:
    later = parts[1]
    hidden = fitted.score(later.assign(no_history=True))
    np.testing.assert_array_equal(hidden, fitted.score(later.assign(user_id="stranger")))
    np.testing.assert_allclose(fitted.score(later.assign(no_history=True), live=True), hidden, rtol=1e-9)


def test_people_who_opted_out_are_not_kept(parts: tuple[Any, Any]) -> None:
    known = parts[0]
    person = known.loc[known["label"] > 0, "user_id"].iloc[0]
    told = known.assign(no_history=known["user_id"] == person)
    learned = Reranker(ranker="ridge", history=True).fit(told)
    assert learned.own_clicks_ is not None
    assert not learned.own_clicks_.knows(person)
    assert learned.own_clicks_.people
    assert {"no_history", "own_clicks", "user_id"}.isdisjoint({*learned.features_.columns} - {"own_clicks"})


def test_who_opts_out_in_one_of_two_logs_is_out_of_both(parts: tuple[Any, Any]) -> None:
    known, later = parts
    person = known.loc[known["label"] > 0, "user_id"].iloc[0]
    told = later.assign(no_history=later["user_id"] == person)
    first, second, kept = learn_histories(known, told, half_life=30.0, served="engine_position")
    assert person in set(later["user_id"])
    assert not kept.knows(person)
    for each in (first, second):
        assert each.loc[each["user_id"] == person, "own_clicks"].eq(0.0).all()
        assert each["own_clicks"].gt(0.0).any()


def test_a_saved_history_is_loaded_and_holds_no_ids(
    parts: tuple[Any, Any], fitted: Reranker, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "kept")
    loaded = load_reranker(tmp_path / "kept")
    assert loaded.own_clicks_ is not None
    assert loaded.own_clicks_.to_state() == fitted.own_clicks_.to_state()  # type: ignore[union-attr]
    assert (loaded.history, loaded.half_life) == (True, 20.0)
    np.testing.assert_array_equal(loaded.score(parts[1]), fitted.score(parts[1]))
    content = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    people = parts[0]["user_id"].unique().tolist()
    assert any(hash_user(person).encode() in content for person in people)
    assert not any(f'"{person}"'.encode() in content for person in people)


def test_only_a_re_ranker_with_a_history_is_of_the_new_version(
    rows: Any, fitted: Reranker, tmp_path: Path
) -> None:
    plain = Reranker(ranker="ridge").fit(rows)
    versions = []
    for name, each in (("plain", plain), ("personal", fitted)):
        each.save(tmp_path / name)
        manifest = json.loads((tmp_path / name / "reranker" / "manifest.json").read_bytes())
        versions.append(manifest["reranker"])
    assert versions == [2, 3]


def test_a_person_is_forgotten_and_gone_from_what_is_saved_next(
    parts: tuple[Any, Any], fitted: Reranker, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "kept")
    loaded = load_reranker(tmp_path / "kept")
    person = next(each for each in parts[0]["user_id"].unique() if loaded.own_clicks_.knows(each))  # type: ignore[union-attr]
    assert loaded.forget(person)
    assert not loaded.forget(person)
    loaded.save(tmp_path / "kept")
    content = b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert hash_user(person).encode() not in content
    assert not Reranker(ranker="ridge").fit(parts[0]).forget(person)


def test_evaluate_tells_people_seen_before_from_those_never_seen(
    parts: tuple[Any, Any], fitted: Reranker
) -> None:
    later = parts[1].copy()
    strangers = later["user_id"].unique()[:3]
    later["user_id"] = later["user_id"].where(~later["user_id"].isin(strangers), "new " + later["user_id"])
    found = fitted.evaluate(later, "mrr", slices="person", bootstrap=10)
    assert {each.value for each in found.slices} == {"seen before", "never seen"}
    counts = {each.value: each.queries for each in found.slices}
    sizes = later.groupby("search_id")["item_id"].transform("size")
    judged = later[(later["position"] <= 40) & (sizes > 0)]
    new = judged[judged["user_id"].str.startswith("new ")]["search_id"].nunique()
    assert counts["never seen"] >= new > 0
    assert sum(counts.values()) == judged["search_id"].nunique()


def test_what_a_service_showed_is_learned_from(parts: tuple[Any, Any]) -> None:
    served = parts[0].assign(engine_position=parts[0]["position"], own_clicks=5.0)
    learned = Reranker(ranker="ridge", history=True).fit(served)
    column = learned.features_.names.index("log_own_clicks")
    assert learned._sample is not None
    assert {item["own_clicks"] for item in learned._sample.items} == {5.0}
    np.testing.assert_allclose(learned.features_.transform(served)[:, column], np.log(6.0), rtol=1e-6)
    assert learned.own_clicks_ is not None
    shown = parts[0][["user_id", "item_id"]].drop_duplicates()
    assert sum(map(len, learned.own_clicks_.people.values())) == len(shown)  # each begins with 5


@pytest.mark.parametrize("name", ["user_id", "time"])
def test_a_log_without_people_or_times_is_refused(rows: Any, name: str) -> None:
    with pytest.raises(BadInput, match=f"history=True needs a column {name}: whose clicks"):
        Reranker(ranker="ridge", history=True).fit(rows.drop(columns=name))


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"history": 30}, "history must be True or False"), ({"half_life": 0}, "half_life must be a number")],
)
def test_settings_that_cannot_be_used_are_refused_before_the_log_is_read(
    setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        Reranker(ranker="ridge", **setting).check_settings()


def test_a_set_of_ones_own_is_given_the_features_unless_it_has_them(rows: Any) -> None:
    own = Reranker(numeric_features(["weight"]), "ridge", history=True).fit(rows)
    assert own.features_.names == ["weight", "log_own_clicks", "own_clicks_share"]
    raw = Reranker(FeatureSet([Number("own_clicks")]), "ridge", history=True).fit(rows)
    assert raw.features_.names == ["own_clicks"]


def test_a_shop_never_takes_these_columns_by_itself() -> None:
    table = {"search_id": ["s", "s"], "price": [1.0, 2.0], "own_clicks": [0.0, 1.0], "no_history": [0.0, 1.0]}
    assert {"own_clicks", "no_history"}.isdisjoint(shop_features(table).columns)
    assert history_features().columns == ["own_clicks"]
