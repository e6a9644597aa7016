"""`compare`: pairing by query, seeds averaged first, folds pooled, marks, Holm, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from placings.core.errors import BadInput, UnknownName
from placings.core.statistics import adjust_holm, compare_pairs, flip_signs, t_interval
from placings.data.ranking import RankingData
from placings.evaluation.comparison import compare
from placings.metrics import measure


def make_data(queries: int, seed: int = 0, first: int = 0) -> RankingData:
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(first, first + queries), 6)
    return RankingData.from_arrays(rng.random((len(qid), 2)), rng.integers(0, 3, len(qid)), qid)


def noisy(data: RankingData, noise: float, seed: int) -> np.ndarray:
    return data.y + noise * np.random.default_rng(seed).normal(size=data.n_rows)


def test_differences_intervals_and_tests_are_of_paired_queries() -> None:
    data = make_data(80)
    good, poor = noisy(data, 0.5, 1), noisy(data, 2.0, 2)
    result = compare({"poor": poor, "good": good}, data, ["ndcg@5", "mrr"], baseline="poor")
    values = {
        name: measure(["ndcg@5", "mrr"], s, data.y, data.offsets) for name, s in [("g", good), ("p", poor)]
    }
    found = result.difference("good", "ndcg@5")
    pairs = values["g"]["ndcg@5"] - values["p"]["ndcg@5"]
    assert found.difference == pytest.approx(np.nanmean(pairs))
    assert found.low < found.difference < found.high
    known = ~np.isnan(pairs)
    assert found.pairs == known.sum()
    first, second = values["g"]["ndcg@5"][known], values["p"]["ndcg@5"][known]
    assert found.p_t == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-9)
    assert found.effect == pytest.approx(np.nanmean(pairs) / np.nanstd(pairs, ddof=1))
    assert found.p_randomisation == pytest.approx(1 / 10_001)
    assert found.mark == "†"
    assert result["good"]["mrr"] == pytest.approx(np.nanmean(values["g"]["mrr"]))


def test_holm_runs_over_methods_and_metrics_of_each_baseline() -> None:
    data = make_data(60)
    methods = {
        name: noisy(data, noise, seed)
        for seed, (name, noise) in enumerate([("a", 1.5), ("b", 1.3), ("c", 1.1)])
    }
    result = compare(methods, data, ["ndcg@1", "ndcg@5"], baseline=("a", "b"), test="t")
    for baseline in ("a", "b"):
        family = [each for each in result.differences if each.baseline == baseline]
        assert len(family) == 4
        assert [each.p_holm for each in family] == pytest.approx(adjust_holm([each.p_t for each in family]))


def test_the_unit_is_the_query_and_seeds_are_averaged_first() -> None:
    data = make_data(12)
    base = noisy(data, 1.0, 0)
    run = noisy(data, 0.9, 1)
    once = compare({"base": base, "new": run}, data, "ndcg@5", baseline="base")
    often = compare({"base": base, "new": [run] * 50}, data, "ndcg@5", baseline="base")
    # fifty copies of a run are no evidence: pooled seeds × queries would make any difference significant
    one, many = once.difference("new", "ndcg@5"), often.difference("new", "ndcg@5")
    assert one.pairs == many.pairs
    assert many.p_t == pytest.approx(one.p_t)
    assert many.p_randomisation == pytest.approx(one.p_randomisation)
    assert (many.low, many.high) == pytest.approx((one.low, one.high))
    assert often.settings["seeds"] == {"base": 1, "new": 50}
    assert "Seeds: 1 of base, 50 of new" in often.table()


def test_seeds_give_the_mean_of_their_values_for_each_query() -> None:
    data = make_data(15)
    runs = [noisy(data, 1.0, seed) for seed in range(3)]
    result = compare({"m": runs}, data, "ndcg@5")
    each = [measure("ndcg@5", run, data.y, data.offsets)["ndcg@5"] for run in runs]
    assert result.per_query["m"]["ndcg@5"] == pytest.approx(np.mean(each, axis=0), nan_ok=True)
    stacked = compare({"m": np.stack(runs)}, data, "ndcg@5")
    assert stacked["m"] == pytest.approx(result["m"], rel=1e-12)


def test_queries_of_folds_are_pooled_and_may_have_seeds() -> None:
    folds = [make_data(10, seed=1), make_data(14, seed=2, first=10)]
    base = [noisy(fold, 2.0, 0) for fold in folds]
    new = [[noisy(fold, 0.5, 1), noisy(fold, 0.5, 2)] for fold in folds]
    result = compare({"base": base, "new": new}, folds, "ndcg@5", baseline="base")
    whole = np.concatenate(
        [measure("ndcg@5", s, f.y, f.offsets)["ndcg@5"] for s, f in zip(base, folds, strict=True)]
    )
    assert result["base"]["ndcg@5"] == pytest.approx(np.nanmean(whole))  # of queries, not of fold means
    assert result.counts["queries"] == 24
    assert result.fold.tolist() == [1] * 10 + [2] * 14
    assert "queries of 2 folds" in result.rule
    assert result.settings["folds"] == 2
    assert result.settings["seeds"] == {"base": 1, "new": 2}


def test_query_ids_in_several_folds_are_said() -> None:
    folds = [make_data(5), make_data(5)]
    table = compare({"m": [fold.y for fold in folds]}, folds, "mrr").table()
    assert "5 query ids stand in several folds" in table


def test_marks_say_better_and_worse_than_the_first_and_the_second_baseline() -> None:
    data = make_data(100)
    methods = {"middle": noisy(data, 1.2, 0), "bad": -data.y, "best": data.y}
    result = compare(methods, data, ["ndcg@5", "rank"], baseline="middle", second_baseline="best")
    marks = {(each.method, each.baseline, each.metric): each.mark for each in result.differences}
    assert marks["best", "middle", "ndcg@5"] == "†"
    assert marks["bad", "middle", "ndcg@5"] == "▼"
    assert marks["middle", "best", "ndcg@5"] == marks["bad", "best", "ndcg@5"] == "▽"
    assert marks["best", "middle", "rank"] == "†"  # less is better, and it is less
    assert result.difference("best", "rank").difference < 0
    assert marks["bad", "middle", "rank"] == "▼"
    turned = compare(methods, data, "ndcg@5", baseline=("middle", "bad"))
    assert turned.difference("best", "ndcg@5", "bad").mark == "‡"
    row = next(line for line in turned.table().splitlines() if line.startswith("best"))
    assert row.split()[1].endswith("†‡*")


def test_the_best_is_the_lowest_where_less_is_better() -> None:
    data = make_data(20)
    lines = compare({"best": data.y, "bad": -data.y}, data, "rank").table().splitlines()
    assert next(line for line in lines if line.startswith("best")).endswith("*")


def test_equal_methods_are_not_significant() -> None:
    data = make_data(20)
    found = compare({"a": data.y, "b": data.y}, data, "mrr", baseline="a").difference("b", "mrr")
    assert (found.difference, found.p_t, found.p_randomisation, found.effect, found.mark) == (0, 1, 1, 0, "")


def test_a_query_that_one_of_a_pair_did_not_score_is_left_out_of_their_difference_only() -> None:
    data = RankingData.from_arrays([[0.0]] * 6, [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3])
    base = np.array([1.0, 0, 1, 0, 1, 0])  # first relevant at rank 1 everywhere
    new = np.array([1.0, 0, 1, 0, 0, 1])  # at rank 2 in the third query: not within 1
    result = compare({"base": base, "new": new}, data, "rank@1", baseline="base")
    found = result.difference("new", "rank@1")
    assert (found.pairs, found.difference) == (2, 0.0)
    assert np.isnan(result.per_query["new"]["rank@1"][2])
    assert "rank@1 is over 2 to 3 queries" in result.rule
    seeds = compare({"m": [base, new]}, data, "rank@1")  # one seed did not score it: it is not scored
    assert np.isnan(seeds.per_query["m"]["rank@1"][2])


def test_the_same_seed_gives_the_same_numbers_and_another_does_not() -> None:
    data = make_data(40)
    methods = {"a": noisy(data, 1.0, 0), "b": noisy(data, 1.0, 1)}

    def run(seed: int) -> str:
        return compare(methods, data, baseline="a", random_state=seed, permutations=200).to_json()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_without_a_baseline_nothing_is_tested() -> None:
    data = make_data(10)
    result = compare({"a": data.y, "b": -data.y}, data, "mrr")
    assert result.differences == ()
    assert result.difference_table() == ""
    assert "Nothing was tested" in result.table()


def test_one_list_of_numbers_is_scores_and_not_seeds() -> None:
    data = make_data(3)
    result = compare({"a": data.y.tolist()}, data, "mrr")
    assert result.settings["seeds"] == {"a": 1}


@pytest.mark.parametrize(
    ("methods", "options", "error", "message"),
    [
        ({}, {}, BadInput, "at least one method"),
        ({"a": 1}, {"baseline": "b"}, UnknownName, "no method to take as baseline 'b'"),
        ({"a": 1}, {"second_baseline": "a"}, BadInput, "pass baseline="),
        ({"a": 1}, {"baseline": ("a", "a")}, BadInput, "two different ones"),
        ({"a": 1}, {"alpha": 0}, BadInput, "alpha must be a number between 0 and 1"),
        ({"a": 1}, {"test": "wilcoxon"}, UnknownName, "no test 'wilcoxon'"),
        ({"a": [0.0]}, {}, BadInput, "the scores of 'a' must be one number for each of the 12 rows"),
    ],
)
def test_what_cannot_be_compared_is_named(methods, options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        compare(methods, make_data(2), "mrr", **options)


def test_each_method_needs_an_entry_for_each_fold() -> None:
    folds = [make_data(2), make_data(3)]
    with pytest.raises(BadInput, match="'a' must have one entry for each of the 2 folds. Got 1"):
        compare({"a": [folds[0].y]}, folds)
    with pytest.raises(BadInput, match="'a' must be a list with one entry"):
        compare({"a": folds[0].y}, folds)
    with pytest.raises(BadInput, match="the scores of 'a' in fold 2"):
        compare({"a": [folds[0].y, folds[0].y]}, folds)
    with pytest.raises(UnknownName, match="no method in this comparison 'b'"):
        compare({"a": folds[0].y}, folds[0])["b"]


# -- clusters ----------------------------------------------------------------------------------------------


def with_sessions(data: RankingData, each: int, name: str = "session_id") -> RankingData:
    """The same data in sessions of so many queries."""
    ids = np.array([f"s{place // each}" for place in range(len(data))], dtype=object)
    return data.replace(segments={**data.segments, name: np.repeat(ids, data.sizes)})


def test_sessions_are_resampled_where_the_data_know_them() -> None:
    data = make_data(80)
    log = with_sessions(data, 4)
    good, poor = noisy(data, 0.5, 1), noisy(data, 2.0, 2)
    result = compare({"poor": poor, "good": good}, log, ["ndcg@5"], baseline="poor")
    values = result.per_query["good"]["ndcg@5"] - result.per_query["poor"]["ndcg@5"]
    codes = np.arange(80) // 4
    found = result.difference("good", "ndcg@5")
    assert found.p_t == compare_pairs(values[:, None], clusters=codes)[0]
    assert found.p_randomisation == flip_signs(values[:, None], clusters=codes)[0]
    ends = t_interval(values[:, None], clusters=codes)  # of 20 sessions
    assert (found.low, found.high) == pytest.approx((ends[0][0], ends[1][0]), rel=1e-12)
    assert "Intervals and tests resample 20 sessions, 80 queries." in result.notes
    assert (result.settings["cluster"], result.settings["clusters"]) == ("session_id", 20)


def test_single_queries_are_resampled_where_asked_and_where_there_are_no_sessions() -> None:
    data = make_data(40)
    methods = {"poor": noisy(data, 2.0, 1), "good": noisy(data, 0.5, 2)}
    plain = compare(methods, data, baseline="poor").to_json()
    log = with_sessions(data, 4)
    assert compare(methods, log, baseline="poor", cluster=None).to_json() == plain
    assert compare(methods, log, baseline="poor", cluster="query").to_json() == plain
    assert "cluster" not in plain


def test_sessions_of_one_query_each_give_the_same_numbers() -> None:
    data = make_data(40)
    methods = {"poor": noisy(data, 2.0, 1), "good": noisy(data, 0.5, 2)}
    one, other = (compare(methods, each, baseline="poor") for each in (data, with_sessions(data, 1)))
    assert one.differences == other.differences
    assert one.intervals == other.intervals


def test_a_slice_resamples_its_own_sessions() -> None:
    data = with_sessions(make_data(40), 4)
    half = {"half": np.arange(40) < 20}
    result = compare({"a": noisy(data, 1.0, 1)}, data, ["ndcg@5"], slices=half)
    first = next(each for each in result.slices if each.value == "yes")
    values = result.per_query["a"]["ndcg@5"][:20, None]
    low, high = t_interval(values, clusters=np.arange(20) // 4)
    assert high[0] > 1.0  # which no NDCG is
    assert first.interval == pytest.approx((low[0], 1.0), rel=1e-12)


def test_a_session_in_two_folds_is_one_session() -> None:
    folds = [with_sessions(make_data(8, seed=seed, first=8 * seed), 4) for seed in range(2)]
    result = compare({"a": [noisy(fold, 1.0, 1) for fold in folds]}, folds, ["mrr"])
    assert result.settings["clusters"] == 2  # s0 and s1, in both
