"""Of a text the first 512 characters count, in a table and in a live request alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.features.columns import Rows
from placings.features.ngrams import HashedNgrams
from placings.features.spec import FeatureSet
from placings.places.presets import place_features
from placings.rerank.search_kinds import describe_searches

LONG = ("strasse köln hbf " * 40)[:512]


def make_rows(query: str) -> dict[str, list[Any]]:
    names = ["Köln Hbf", "Köln, Straße " + "x" * 2000, LONG + "tail"]
    return {
        "search_id": ["s"] * 3, "query": [query] * 3, "name": names, "locality": ["Köln", "", LONG * 3],
        "street": ["Domstr. 1", None, LONG * 9], "lat": [50.9] * 3, "lon": [6.9] * 3,
        "weight": [1.0, 2.0, 3.0], "position": [1, 2, 3],
    }  # fmt: skip


def test_what_stands_behind_the_limit_changes_no_feature() -> None:
    features = place_features().fit(make_rows("köln"))
    cut = features.transform(make_rows(LONG))
    for more in ("z", "hbf " * 100_000):
        np.testing.assert_array_equal(features.transform(make_rows(LONG + more)), cut)
    assert cut[0, features.names.index("query_length")] == 512.0


def test_a_long_query_has_the_same_features_live_as_in_a_table() -> None:
    rows = make_rows(LONG + "hbf " * 50_000)
    features = FeatureSet([*place_features().features, HashedNgrams("query", buckets=64)]).fit(
        make_rows("köln")
    )
    items = [
        {name: values[row] for name, values in rows.items() if name not in ("query", "search_id")}
        for row in range(3)
    ]
    live = features.transform_request({"query": rows["query"][0]}, items)
    np.testing.assert_array_equal(live.toarray(), features.transform(rows).toarray())


def test_the_kind_of_a_search_looks_no_further_either() -> None:
    rows = {"query": [LONG + "y" * 400_000], "name": [LONG]}
    assert describe_searches(rows, [0, 1])["match"].tolist() == ["full name"]


def test_names_of_groups_are_not_cut_so_that_two_never_become_one() -> None:
    first, second = "s" * 600 + "1", "s" * 600 + "2"
    rows = {"session_id": [first, second], "query": ["a", "b"], "label": [0.0, 1.0], "search_id": [1, 2]}
    data = FeatureSet([*place_features().features]).fit(rows).to_ranking(rows)
    assert data.segments["session_id"].tolist() == [first, second]
    assert len(Rows(rows).texts("session_id").values) == 1


def test_words_of_a_query_are_counted_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"query": ["a b c"], "name": ["a"]}
    cover = FeatureSet([each for each in place_features().features if each.family == "query cover"])
    assert cover.fit_transform(rows).tolist() == [[pytest.approx(1 / 3), 2.0]]
    monkeypatch.setenv("PLACINGS_LIMIT_WORDS", "2")
    rows = {"query": ["a b d"], "name": ["a"]}
    assert cover.fit_transform(rows).tolist() == [[0.5, 1.0]]


def test_a_whole_number_beyond_float64_counts_as_missing() -> None:
    assert np.isnan(Rows({"weight": [10**400]}).floats("weight")).all()
