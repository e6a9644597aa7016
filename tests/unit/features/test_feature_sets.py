"""Feature sets: fitting, names, ranking data, states and files."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadFile, BadInput, UnknownName
from placings.features.category import OneHot
from placings.features.engine_signals import EngineSignals
from placings.features.ngrams import HashedNgrams
from placings.features.number import Number
from placings.features.presets import numeric_features, shop_features
from placings.features.spec import FeatureSet, read_features, write_features
from placings.features.text import TextShape

ROWS = pd.DataFrame(
    {
        "search_id": ["s2", "s2", "s1"],
        "session_id": ["u1", "u1", "u2"],
        "time": pd.to_datetime(["2026-01-02", "2026-01-02", "2026-01-01"]),
        "query": ["ulm", "ulm", "bad ems"],
        "target": ["origin", "origin", None],
        "platform": ["ios", "ios", "web"],
        "item_id": ["a", "b", "a"],
        "position": [1, 2, 1],
        "price": [1.0, np.nan, 3.0],
        "label": [0.0, 1.0, 0.0],
    }
)


def some_features() -> FeatureSet:
    return FeatureSet(
        [TextShape("query"), Number("price"), OneHot("platform", kind="context"), EngineSignals(("rank",))]
    )


def test_rows_become_ranking_data_with_all_that_is_known() -> None:
    data = some_features().fit(ROWS).to_ranking(ROWS)
    assert data.qids.tolist() == ["s2", "s1"]
    assert data.y.tolist() == [0, 1, 0]
    assert data.items is not None
    assert data.items.tolist() == ["a", "b", "a"]
    assert data.position is not None
    assert data.position.tolist() == [1, 2, 1]
    assert data.time is not None
    assert str(data.time[2])[:10] == "2026-01-01"
    assert {name: values.tolist() for name, values in data.segments.items()} == {
        "query": ["ulm", "ulm", "bad ems"],
        "target": ["origin", "origin", "unknown"],
        "platform": ["ios", "ios", "web"],
        "session_id": ["u1", "u1", "u2"],
    }
    assert data.feature_names[3] == "price"
    np.testing.assert_array_equal(data.X[:, 3], [1, np.nan, 3])


def test_labels_are_named_or_none() -> None:
    features = some_features().fit(ROWS)
    assert features.to_ranking(ROWS, label=None).y.tolist() == [0, 0, 0]
    with pytest.raises(UnknownName, match="no column 'lable'; did you mean 'label'"):
        features.to_ranking(ROWS, label="lable")


def test_what_has_no_data_is_left_out_with_a_note_or_kept_as_missing() -> None:
    dropped = FeatureSet([Number("price"), Number("size", missing="drop")]).fit(ROWS)
    assert dropped.names == ["price"]
    assert dropped.notes == ("number of size left out: no data in 'size'",)
    kept = FeatureSet([Number("size")]).fit(ROWS)
    assert np.isnan(kept.transform(ROWS)).all()
    assert kept.notes == ()


def test_columns_stay_once_fitted_though_the_data_go() -> None:
    features = FeatureSet([Number("price", missing="drop")]).fit(ROWS)
    np.testing.assert_array_equal(features.transform({"query": ["x"]}), [[np.nan]])


def test_a_sparse_feature_makes_all_sparse_and_keeps_the_order() -> None:
    features = FeatureSet([Number("price"), HashedNgrams("query", buckets=8), EngineSignals(("rank",))]).fit(
        ROWS
    )
    found = features.transform(ROWS)
    assert found.shape == (3, 10)
    assert features.names[0] == "price"
    assert features.names[-1] == "rank"
    np.testing.assert_array_equal(found.toarray()[:, [0, 9]], [[1, 1], [np.nan, 2], [3, 1]])
    assert features.to_ranking(ROWS).is_sparse


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(BadInput, match="Got 'price' twice"):
        FeatureSet([Number("price"), Number("price")]).fit(ROWS)
    with pytest.raises(BadInput, match="'n-grams of query' twice"):
        FeatureSet([HashedNgrams("query"), HashedNgrams("query", buckets=4)]).fit(ROWS)


def test_a_set_must_be_fitted_and_hold_features() -> None:
    with pytest.raises(BadInput, match="Call fit"):
        some_features().transform(ROWS)
    with pytest.raises(BadInput, match="Got str"):
        FeatureSet(["price"])  # type: ignore[list-item]


def test_declarations_never_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Number("price").column = "size"  # type: ignore[misc]
    before = ROWS.copy(deep=True)
    some_features().fit(ROWS).to_ranking(ROWS)
    pd.testing.assert_frame_equal(ROWS, before)


def test_a_request_counts_positions_itself_and_takes_fields_from_the_item_first() -> None:
    features = some_features().fit(ROWS)
    found = features.transform_request({"query": "ulm", "price": 5.0}, [{"price": 7.0}, {}])
    assert found[:, features.names.index("rank")].tolist() == [1, 2]
    assert found[:, features.names.index("price")].tolist() == [7, 5]
    assert features.transform_request({"query": "ulm"}, []).shape == (0, len(features.names))
    with pytest.raises(BadInput, match="context must be a dict"):
        features.transform_request({}, ["ulm"])  # type: ignore[list-item]


def test_states_come_back_from_json_as_they_were(tmp_path: Path) -> None:
    features = FeatureSet([Number("price"), Number("gone", missing="drop"), OneHot("platform")]).fit(ROWS)
    again = FeatureSet.from_state(json.loads(json.dumps(features.to_state())))
    assert again.to_state() == features.to_state()
    assert again.names == features.names
    assert again.notes == features.notes
    read = read_features(write_features(features, tmp_path / "features.json"))
    np.testing.assert_array_equal(read.transform(ROWS), features.transform(ROWS))


def test_a_state_that_was_never_fitted_stays_so() -> None:
    again = FeatureSet.from_state(some_features().to_state())
    with pytest.raises(BadInput, match="Call fit"):
        again.transform(ROWS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "must be of version 1. Got 2"),
        ({"format": "pickle"}, "format is 'placings features'"),
        ({"features": "all"}, "list of dicts"),
        ({"features": [{"feature": "os.system", "command": "true"}]}, "no feature 'os.system'"),
        ({"features": [{"feature": "number"}]}, "lacks a field"),
        ({"features": [{"feature": "number", "column": 3}]}, "column of a number feature must be str. Got 3"),
        (
            {"features": [{"feature": "number", "column": "a", "colour": 1}]},
            "no field of a number feature 'colour'",
        ),
        ({"features": [{"feature": "number", "column": "a", "missing": "zero"}]}, "no missing 'zero'"),
        ({"features": [{"feature": "one-hot", "column": "a", "limit": True}]}, "limit of a one-hot"),
        ({"features": [{"feature": "one-hot", "column": "a", "categories": [1]}]}, "categories of a one-hot"),
        ({"features": [{"feature": "clock", "zone": "Mars"}]}, "zone must be"),
        ({"notes": [1]}, "notes of a state"),
    ],
)
def test_states_of_other_versions_or_makes_are_refused(change: dict[str, Any], message: str) -> None:
    state = {**some_features().fit(ROWS).to_state(), **change}
    with pytest.raises(BadInput, match=message):
        FeatureSet.from_state(state)


def test_files_that_hold_no_features_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "features.json"
    for text in ("{", "[]", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(BadFile, match="features.json"):
            read_features(file)
    with pytest.raises(BadFile):
        read_features(tmp_path / "nothing.json")


def test_numeric_columns_go_through_as_they_are() -> None:
    features = numeric_features(["price", "position"]).fit(ROWS)
    np.testing.assert_array_equal(features.transform(ROWS), [[1, 1], [np.nan, 2], [3, 1]])
    with pytest.raises(BadInput, match="list of column names"):
        numeric_features("price")


def test_a_shops_log_gives_its_numbers_categories_and_query_and_never_its_labels() -> None:
    from placings.simulate.shop_log import make_shop_log

    log = make_shop_log(4, searches=40, random_state=0)
    rows = log.to_pandas().rename(columns={"item": "item_id", "click": "label"})
    rows["query_count"] = rows.groupby("query")["search_id"].transform("count").astype(float)
    features = shop_features(rows).fit(rows)
    kinds = dict(zip(features.names, features.kinds, strict=True))
    assert set(log.features) <= set(kinds)
    assert kinds["query_count"] == "query"
    assert kinds["price"] == "item"
    assert {"query_length", "rank", "category=shoes", "platform=app", "region=north"} <= set(kinds)
    assert kinds["region=north"] == "context"
    assert not {"label", "first_seen", "arrival", "item_id"} & set(features.columns)
    data = features.to_ranking(rows)
    price = rows["price"].to_numpy(dtype=np.float32)
    np.testing.assert_array_equal(np.sort(data.X[:, features.names.index("price")]), np.sort(price))


def test_ranking_data_keep_the_propensity_of_every_row() -> None:
    rows = {"search_id": ["s", "s"], "price": [1.0, 2.0], "label": [0.0, 1.0], "propensity": [1.0, 0.25],
            "user_id": ["u", "u"], "device": ["tv", None], "arm": [1, 1]}  # fmt: skip
    features = numeric_features(["price"]).fit(rows)
    data = features.to_ranking(rows)
    assert data.propensity is not None
    assert data.propensity.tolist() == [1.0, 0.25]
    assert {name: values.tolist() for name, values in data.segments.items()} == {
        "user_id": ["u", "u"],
        "device": ["tv", "unknown"],
        "arm": ["1", "1"],
    }
    assert features.to_ranking(rows | {"propensity": [None, None]}).propensity is None
    with pytest.raises(BadInput, match="propensity must be above 0 and at most 1. Got nan at row 1"):
        features.to_ranking(rows | {"propensity": [0.5, None]})
