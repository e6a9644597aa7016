"""Every feature through the same demands: offline equals live to the bit, and odd rows break nothing."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import placings.features
from placings.features.catalogue import FAMILIES
from placings.features.category import OneHot
from placings.features.engine_signals import EngineSignals
from placings.features.fields import FieldMatch, QueryCover
from placings.features.geo import Coordinates, Distance
from placings.features.ngrams import CountedNgrams, HashedNgrams
from placings.features.number import Number
from placings.features.similarity import Similarity
from placings.features.spec import KINDS, Feature, FeatureSet
from placings.features.standing import Standing
from placings.features.text import TextShape
from placings.features.time import Clock
from placings.places.presets import place_features

FEATURES: list[Feature] = [
    Clock("Europe/Berlin", zone_column="zone"),
    Coordinates(),
    CountedNgrams("name"),
    Distance(),
    EngineSignals(),
    FieldMatch("locality"),
    HashedNgrams("query", buckets=32, fold=True),
    Number("weight", ("raw", "log", "share", "rank")),
    OneHot("type"),
    QueryCover(),
    Similarity(),
    Standing(),
    TextShape("query"),
]
IDS = [each.family for each in FEATURES]
CONTEXT = ("search_id", "query", "time", "focus_lat", "focus_lon", "target", "platform")

words = st.sampled_from(
    ["ulm", "Bad", "Köln", "Hbf", "12", "str", "Am", "Markt,", "(Süd)", "ß", "?", "l'a", "ü"]
)
texts = st.none() | st.lists(words, max_size=4).map(" ".join) | st.text(max_size=6)
numbers = st.none() | st.floats(-1e6, 1e6) | st.sampled_from([0.0, np.nan, 1.0, 1e39])
degrees = st.none() | st.floats(-90, 90)
moments = st.none() | st.datetimes(
    pd.Timestamp(1990, 1, 1).to_pydatetime(), pd.Timestamp(2035, 1, 1).to_pydatetime()
)
item = st.fixed_dictionaries(
    {
        "name": texts, "locality": texts, "street": texts, "type": st.sampled_from([None, "stop", "x"]),
        "lat": degrees, "lon": degrees, "weight": numbers, "score": numbers,
        "zone": st.sampled_from([None, "Asia/Tokyo", "nowhere"]),
    }
)  # fmt: skip
search = st.tuples(
    st.fixed_dictionaries(
        {
            "query": texts, "time": moments, "focus_lat": degrees, "focus_lon": degrees,
            "target": st.sampled_from([None, "origin"]), "platform": st.sampled_from(["ios", "web"]),
        }
    ),
    st.lists(item, min_size=1, max_size=5),
)  # fmt: skip


def as_rows(searches: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [
        {**context, "search_id": f"s{number}", **one, "position": place}
        for number, (context, items) in enumerate(searches)
        for place, one in enumerate(items, 1)
    ]


def as_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def as_dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def assert_same_bits(found: Any, expected: Any) -> None:
    assert as_dense(found).tobytes() == as_dense(expected).tobytes()


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Any]]:
    rng = np.random.default_rng(0)
    names = ["Ulm", "Ulm Hbf", "Bad Ems", "Köln (Süd)", "Markt 12, Ulm", "Am Markt"]
    made = []
    for number in range(12):
        hidden = rng.random() < 0.3
        for position in range(1, int(rng.integers(1, 7)) + 1):
            made.append(
                {
                    "search_id": f"s{number}", "query": ["ulm", "markt ulm 12", "bad", "koeln"][number % 4],
                    "time": pd.Timestamp(2026, 1 + number, 28, 2 * number, 5).to_pydatetime(),
                    "focus_lat": None if hidden else 48.0 + number, "focus_lon": None if hidden else 9.0,
                    "target": [None, "origin"][number % 2], "platform": "ios", "zone": "Asia/Tokyo",
                    "name": names[int(rng.integers(6))], "locality": ["Ulm", None][int(rng.integers(2))],
                    "type": ["stop", "poi"][int(rng.integers(2))], "lat": 48.0 + rng.normal(),
                    "lon": 9.0 + rng.normal(), "weight": float(rng.pareto(1)), "position": position,
                    "score": float(rng.random()),
                }
            )  # fmt: skip
    return as_columns(made)


def test_every_family_is_swept() -> None:
    assert {each.family for each in FEATURES} == set(FAMILIES)


@settings(max_examples=60)
@given(st.lists(search, min_size=1, max_size=4))
def test_a_live_request_has_the_bits_of_the_table(searches: list[Any]) -> None:
    table = as_rows(searches)
    for features in (FeatureSet(FEATURES), place_features(coordinates=True)):
        whole = as_dense(features.fit(as_columns(table)).transform(as_columns(table)))
        start = 0
        for context, items in searches:
            live = features.transform_request(context, items)
            assert_same_bits(live, whole[start : start + len(items)])
            start += len(items)


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_a_request_of_each_feature_has_the_bits_of_a_pandas_table(
    feature: Feature, rows: dict[str, Any]
) -> None:
    frame = pd.DataFrame(rows)
    features = FeatureSet([feature]).fit(frame)
    whole = as_dense(features.transform(frame))
    for _, part in frame.groupby("search_id"):
        context = {name: part[name].iloc[0] for name in CONTEXT}
        items = part.drop(columns=[*CONTEXT, "position"]).to_dict("records")
        assert_same_bits(features.transform_request(context, items), whole[part.index])


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_the_order_of_the_rows_changes_nothing_in_a_row(feature: Feature, rows: dict[str, Any]) -> None:
    count = len(rows["query"])
    order = np.random.default_rng(1).permutation(count)
    features = FeatureSet([feature]).fit(rows)
    shuffled = {name: [values[i] for i in order] for name, values in rows.items()}
    np.testing.assert_allclose(
        as_dense(features.transform(shuffled)), as_dense(features.transform(rows))[order], rtol=1e-6
    )


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_a_name_and_a_kind_for_each_column(feature: Feature, rows: dict[str, Any]) -> None:
    features = FeatureSet([feature]).fit(rows)
    width = features.transform(rows).shape[1]
    assert len(features.names) == len(features.kinds) == len(set(features.names)) == width
    assert set(features.kinds) <= set(KINDS)
    assert features.transform(rows).dtype == np.float32


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_no_rows_one_row_and_nothing_known_break_nothing(feature: Feature, rows: dict[str, Any]) -> None:
    features = FeatureSet([feature]).fit(rows)
    width = len(features.names)
    assert features.transform({name: [] for name in rows}).shape == (0, width)
    assert features.transform({}).shape == (0, width)
    assert features.transform({name: values[:1] for name, values in rows.items()}).shape == (1, width)
    for empty in (None, np.nan):
        blank = as_dense(features.transform({name: [empty] * 2 for name in rows if name != "search_id"}))
        assert blank.shape == (2, width)
        assert not np.isinf(blank).any()
    FeatureSet([feature]).fit({name: [] for name in rows}).transform(rows)


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_a_state_of_plain_json_gives_the_same_bits(feature: Feature, rows: dict[str, Any]) -> None:
    features = FeatureSet([feature]).fit(rows)
    again = FeatureSet.from_state(json.loads(json.dumps(features.to_state())))
    assert_same_bits(again.transform(rows), features.transform(rows))
    assert again.fitted == features.fitted


@pytest.mark.parametrize("feature", FEATURES, ids=IDS)
def test_without_data_a_feature_that_may_go_goes(feature: Feature) -> None:
    state = {**feature.to_state(), "missing": "drop"}
    features = FeatureSet([type(feature).from_state(state)]).fit({"search_id": ["s1"]})
    assert features.names == []
    assert len(features.notes) == 1


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(placings.features.__path__)])
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"placings.features.{name}"))
    assert found.failed == 0


@pytest.mark.slow
def test_800_000_pairs_take_well_under_two_minutes() -> None:
    import time

    rng = np.random.default_rng(0)
    parts = ["haupt", "markt", "schloss", "wald", "berg", "stein", "bach", "heim", "straße", "platz"]
    names = np.array([" ".join(rng.choice(parts, 3)) for _ in range(5000)], dtype=object)
    lists = np.repeat(np.arange(20_000), 40)
    queries = np.array(
        [str(name)[: int(rng.integers(2, 12))] for name in rng.choice(names, 20_000)], dtype=object
    )
    frame = {"search_id": lists, "query": queries[lists], "name": rng.choice(names, len(lists))}
    features = FeatureSet([Similarity()]).fit(frame)
    start = time.process_time()
    features.transform(frame)
    assert time.process_time() - start < 60


def test_the_page_names_every_family_and_measure() -> None:
    from placings.features import engine_signals, fields, geo, number, similarity, standing, time

    page = (Path(__file__).parents[2] / "docs" / "features.md").read_text(encoding="utf-8")
    measures = [
        *engine_signals.SIGNALS, *geo.DISTANCES, *number.FORMS, *similarity.MEASURES, *standing.STANDINGS,
        *time.MEASURES, *(f"locality_{each}" for each in fields.MATCHES),
    ]  # fmt: skip
    missing = [each for each in measures if f"`{each}`" not in page]
    assert missing == []
    assert [each.__name__ for each in FAMILIES.values() if f"`{each.__name__}(" not in page] == []
