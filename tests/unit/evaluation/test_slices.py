"""Groups of queries: where they come from, how numbers are cut, and who comes first."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation.comparison import compare
from placings.evaluation.scoring import evaluate
from placings.evaluation.slices import find_groups


def make_data(sizes: list[int], **segments: list[object]) -> RankingData:
    qid = np.repeat(np.arange(len(sizes)), sizes)
    spread = {name: np.repeat(np.array(values, dtype=object), sizes) for name, values in segments.items()}
    labels = np.tile([1, 0], len(qid))[: len(qid)]
    return RankingData.from_arrays(np.arange(len(qid))[:, None], labels, qid, segments=spread)


def sketch(slices, *folds: RankingData) -> dict[str, list[int]]:
    return {group.value: np.flatnonzero(group.chosen).tolist() for group in find_groups(slices, folds)}


def test_a_segment_gives_one_group_a_value() -> None:
    data = make_data([2, 1, 2], country=["de", "fr", "de"])
    assert sketch("country", data) == {"de": [0, 2], "fr": [1]}


def test_folds_stand_one_after_the_other() -> None:
    one, two = make_data([2, 2], country=["de", "fr"]), make_data([1], country=["de"])
    assert sketch("country", one, two) == {"de": [0, 2], "fr": [1]}


def test_what_is_missing_is_a_group() -> None:
    data = make_data([2, 1, 2], country=["de", None, "de"])
    assert sketch("country", data) == {"de": [0, 2], "missing": [1]}
    assert sketch({"age": np.array([1.0, np.nan, 1.0])}, data) == {"1": [0, 2], "missing": [1]}


def test_a_segment_that_changes_within_a_query_is_refused() -> None:
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], ["a", "a"], segments={"kind": ["x", "y"]})
    with pytest.raises(BadInput, match="Query 'a' has 'kind' 'x' and 'y'"):
        find_groups("kind", [data])


def test_few_numbers_are_groups_and_many_are_cut_into_bands_of_like_size() -> None:
    assert sketch("list_size", make_data([2, 3, 2])) == {"2": [0, 2], "3": [1]}
    bands = sketch("list_size", make_data(list(range(1, 41))))
    assert list(bands) == ["1 to 10", "11 to 20", "21 to 30", "31 to 40"]
    assert [len(queries) for queries in bands.values()] == [10, 10, 10, 10]


def test_a_value_stands_in_one_band_only() -> None:
    values = np.array([1] * 30 + [2, 3, 4, 5, 6, 7, 8])
    groups = find_groups({"n": values}, [make_data([1] * 37)])
    assert sum(int(group.chosen.sum()) for group in groups) == 37
    assert groups[0].value == "1"


def test_truth_is_yes_and_no() -> None:
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], ["a", "b"])
    assert sketch("has_relevant", data) == {"no": [0], "yes": [1]}
    assert sketch("relevant_items", data) == {"0": [0], "1": [1]}


def test_a_function_sees_the_whole_data_and_gives_a_value_a_query() -> None:
    def parity(data: RankingData) -> np.ndarray:
        return np.where(data.sizes % 2 == 0, "even", "odd")

    data = make_data([2, 1, 4])
    assert sketch(parity, data) == {"even": [0, 2], "odd": [1]}
    assert find_groups(parity, [data])[0].by == "parity"
    assert find_groups(lambda data: data.sizes, [data])[0].by == "function"
    with pytest.raises(BadInput, match="one value for each of the 3 queries. Got shape \\(2,\\)"):
        find_groups(lambda data: [1, 2], [data])


def test_several_slicings_at_once_and_wrong_ones_named() -> None:
    data = make_data([2, 1], country=["de", "fr"])
    assert {group.by for group in find_groups(["country", "list_size", {"x": [1, 2]}], [data])} == {
        "country", "list_size", "x",
    }  # fmt: skip
    with pytest.raises(UnknownName, match="did you mean 'country'"):
        find_groups("contry", [data])
    with pytest.raises(BadInput, match="one value for each of the 2 queries"):
        find_groups({"x": [1, 2, 3]}, [data])
    with pytest.raises(BadInput, match="slices must be"):
        find_groups([7], [data])


def test_the_worst_slice_comes_first_with_its_count_and_interval() -> None:
    data = make_data([2] * 50, half=["good"] * 25 + ["bad"] * 25)
    scores = np.where(data.query_index < 25, data.y, -data.y)
    result = evaluate(scores, data, ["mrr", "rank"], slices="half")
    first = result.slices[0]
    assert (first.value, first.metric, first.queries, first.scored, first.mean) == ("bad", "mrr", 25, 25, 0.5)
    assert not first.small
    assert first.interval == (0.5, 0.5)
    assert [each.value for each in result.slices] == ["bad", "bad", "good", "good"]
    turned = evaluate(scores, data, "rank", slices="half")  # less is better: the higher rank is worse
    assert turned.slices[0].value == "bad"


def test_small_slices_are_flagged() -> None:
    data = make_data([2] * 25, half=["big"] * 20 + ["small"] * 5)
    result = evaluate(data.y, data, "mrr", slices="half")
    assert {each.value: each.small for each in result.slices} == {"big": False, "small": True}
    assert "! fewer than 20 scored queries" in result.slice_table()


def test_a_comparison_orders_slices_by_the_difference() -> None:
    data = make_data([2] * 60, half=["a"] * 30 + ["b"] * 30)
    good, bad = data.y, -data.y
    mixed = np.where(data.query_index < 30, good, bad)
    result = compare({"base": good, "mixed": mixed}, data, "mrr", baseline="base", slices="half")
    mine = [each for each in result.slices if each.method == "mixed"]
    assert [(each.value, each.difference) for each in mine] == [("b", -0.5), ("a", 0.0)]
    assert mine[0].difference_interval == (-0.5, -0.5)
    assert "− base" in result.slice_table()


def test_a_long_list_of_slices_is_cut_in_print_only() -> None:
    data = make_data([2] * 60, name=[f"q{number}" for number in range(60)])
    result = evaluate(data.y, data, "mrr", slices="name", bootstrap=0)
    assert "40 of 60 rows are shown" in result.slice_table()
    assert len(result.to_dict()["slices"]) == 60


def test_frequency_parts_queries_into_head_torso_and_tail() -> None:
    texts = ["lamp"] * 6 + ["rug", "Rug ", "RUG"] + ["sofa"] * 3 + list("abcdef")
    data = RankingData.from_arrays(
        np.zeros((18, 1)), np.ones(18), np.arange(18), segments={"query": np.array(texts)}
    )
    found = {group.value: int(group.chosen.sum()) for group in find_groups("frequency", [data])}
    assert found == {
        "head (asked 6 times)": 6, "torso (asked 3 times)": 6, "tail (asked once)": 6
    }  # fmt: skip
    halves = [data[:9], data[9:]]  # counted over all folds together
    assert {group.value: int(group.chosen.sum()) for group in find_groups("frequency", halves)} == found
    alone = RankingData.from_arrays(np.zeros((2, 1)), [1, 1], [1, 2], segments={"query": ["x", "y"]})
    assert [group.value for group in find_groups("frequency", [alone])] == ["tail (asked once)"]


def test_frequency_needs_what_was_asked() -> None:
    data = RankingData.from_arrays(np.zeros((2, 1)), [1, 1], [1, 2], segments={"device": ["x", "y"]})
    with pytest.raises(BadInput, match="without a segment 'query' .segments: device"):
        find_groups("frequency", [data])
