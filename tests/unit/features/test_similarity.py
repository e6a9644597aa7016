"""Query and name, measure by measure."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from placings.core.errors import BadInput, MissingExtra, UnknownName
from placings.features.similarity import MEASURES, Similarity
from placings.features.spec import FeatureSet


def measure(name: str, query: str | None, *texts: str | None) -> list[float]:
    rows = {"query": [query] * len(texts), "name": list(texts)}
    return FeatureSet([Similarity(measures=(name,))]).fit_transform(rows)[:, 0].tolist()


def test_exact_prefix_and_word_prefix() -> None:
    names = ("Markt", "Marktplatz", "Alter Markt", "Supermarkt")
    assert measure("exact", "MARKT", *names) == [1, 0, 0, 0]
    assert measure("prefix", "markt", *names) == [1, 1, 0, 0]
    assert measure("word_prefix", "markt", *names) == [1, 1, 1, 0]
    assert measure("word_prefix", "bad he", "Kurpark Bad Herrenalb") == [1]


def test_word_overlap_is_shared_words_over_all_words() -> None:
    assert measure("word_overlap", "bad ems", "Bad Ems", "Bad Bergzabern", "Ulm") == [1, np.float32(1 / 3), 0]


def test_words_begun_asks_for_the_beginning_of_any_word() -> None:
    assert measure("words_begun", "karls haupt", "Hauptbahnhof, Karlsruhe", "Karlsruhe", "Ulm") == [1, 0.5, 0]


def test_digits_are_the_house_numbers_asked_for() -> None:
    assert measure("digits", "Kaiserstr. 12", "Kaiserstraße 12", "Kaiserstraße 1", "Weg 12a") == [1, 0, 1]
    assert np.isnan(measure("digits", "Kaiserstraße", "Kaiserstraße 12")).all()


def test_edit_distance_is_divided_by_the_longer_text() -> None:
    assert measure("edit_distance", "Ulm", "Ulm", "Ull", "Ulmen") == [0, np.float32(1 / 3), np.float32(2 / 5)]


def test_a_typo_in_a_prefix_costs_one_edit_however_long_the_name() -> None:
    assert measure("prefix_edit", "Haubt", "Hauptbahnhof Karlsruhe", "Durlach") == [np.float32(1 / 5), 1]
    assert measure("prefix_edit", "Karlsruhe", "Karl") == [np.float32(5 / 9)]


def test_ratios_run_from_0_to_1() -> None:
    assert measure("partial_ratio", "bahnhof", "Hauptbahnhof", "qqqqqqq") == [1, 0]
    assert measure("token_set_ratio", "ems bad", "Bad Ems West") == [1]


def test_length_gap_is_signed() -> None:
    assert measure("length_gap", "Ulm!", "Ulm Ost", "U") == [4, -2]


def test_the_best_of_all_spellings_counts() -> None:
    assert measure("exact", "koeln hauptbahnhof", "Köln Hbf", "Köln") == [1, 0]
    assert measure("edit_distance", "koeln", "Köln") == [0]
    assert measure("prefix", "frankfurt hbf", "Frankfurt(Main)Hbf") == [1]
    assert measure("prefix", "karlsruhe hb", "Karlsruhe Hbf") == [1]


def test_only_the_single_exact_match_of_a_list_is_the_only_one() -> None:
    rows = {
        "search_id": [1, 1, 2, 2, 3],
        "query": ["ulm", "ulm", "ulm", "ulm", "ulm"],
        "name": ["Ulm", "Ulmen", "Ulm", "ULM", None],
    }
    found = FeatureSet([Similarity(measures=("only_exact",))]).fit_transform(rows)[:, 0]
    np.testing.assert_array_equal(found, [1, 0, 0, 0, np.nan])


def test_ranks_and_gaps_are_those_of_the_list() -> None:
    rows = {"search_id": [1, 1, 1, 2], "query": ["ulm"] * 4, "name": ["Ulmen", "Ulm", "Rom", "Rom"]}
    found = FeatureSet([Similarity(measures=("edit_rank", "prefix_edit_gap"))]).fit_transform(rows)
    # distances 2/5, 0, 2/3 in list 1; edits of the first three letters 0, 0, 2/3
    np.testing.assert_array_equal(found, np.float32([[2, 0], [1, 0], [3, 2 / 3], [1, 0]]))


@pytest.mark.parametrize("name", MEASURES)
def test_nothing_to_compare_is_missing(name: str) -> None:
    assert np.isnan(measure(name, None, "Ulm", "?")).all()
    assert np.isnan(measure(name, "Ulm 1", None, "", "…")).all()


def test_unknown_measures_are_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'prefix'"):
        Similarity(measures=("prefx",))
    with pytest.raises(BadInput, match="at least one"):
        Similarity(measures=())


def test_without_rapidfuzz_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    assert measure("prefix", "u", "Ulm") == [1]
    for name in ("edit_distance", "prefix_edit", "partial_ratio"):
        with pytest.raises(MissingExtra, match=r"placings\[places\]"):
            measure(name, "u", "Ulm")
