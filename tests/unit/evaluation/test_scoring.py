"""`evaluate`: means, intervals, counts, rules and slices."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from placings.core.errors import BadInput, UnknownName
from placings.core.statistics import FEW, bootstrap_means, t_interval
from placings.data.ranking import RankingData
from placings.evaluation.comparison import compare
from placings.evaluation.contest import compare_trained
from placings.evaluation.scoring import evaluate, give_scores, rank_distribution
from placings.metrics import Metric, measure, ndcg


@pytest.fixture
def data() -> RankingData:
    """Query a: relevant at rank 2 of 3; b: nothing relevant; c: one row; d: perfect."""
    qid = ["a", "a", "a", "b", "b", "c", "d", "d"]
    return RankingData.from_arrays(
        [[3.0], [2.0], [1.0], [2.0], [1.0], [1.0], [5.0], [1.0]], [0, 1, 0, 0, 0, 1, 2, 0], qid
    )


def scores(data: RankingData) -> np.ndarray:
    return np.asarray(data.X)[:, 0]


def test_the_mean_is_the_metrics_own_over_scored_queries(data: RankingData) -> None:
    result = evaluate(scores(data), data, ["ndcg@5", "mrr"], bootstrap=50)
    assert result["mrr"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    mean = np.nanmean(ndcg(scores(data), data.y, data.offsets, k=5))
    assert result["ndcg@5"] == pytest.approx(mean, rel=1e-12)
    low, high = result.interval("mrr")
    ends = t_interval(result.per_query["mrr"][:, None])  # three queries: they say next to nothing
    assert ends[0][0] < 0.0 < 1.0 < ends[1][0]
    assert (low, high) == (0.0, 1.0)  # as far as a reciprocal rank goes
    assert list(result) == ["ndcg@5", "mrr"]
    assert "mrr" in result
    assert np.isnan(result.per_query["mrr"][1])
    assert result.qids.tolist() == ["a", "b", "c", "d"]


def test_a_rule_that_no_query_met_is_not_told() -> None:
    data = RankingData.from_arrays([[2.0], [1.0]], [1, 0], [1, 1])
    assert evaluate(scores(data), data, "mrr", min_items=2, bootstrap=0).rule == "Means over 1 of 1 queries."


@pytest.mark.parametrize(
    ("empty", "mean", "sentence"),
    [
        ("drop", 2.5 / 3, 'Means over 3 of 4 queries; 1 with nothing relevant is left out (empty="drop").'),
        ("zero", 2.5 / 4, 'Means over 4 of 4 queries; 1 with nothing relevant counts as 0 (empty="zero").'),
        ("one", 3.5 / 4, 'Means over 4 of 4 queries; 1 with nothing relevant counts as 1 (empty="one").'),
    ],
)
def test_the_rule_says_what_an_empty_query_counts(
    data: RankingData, empty: str, mean: float, sentence: str
) -> None:
    result = evaluate(scores(data), data, "mrr", empty=empty)
    assert result["mrr"] == pytest.approx(mean)
    assert result.rule == sentence
    for format in ("text", "markdown", "latex", "html"):
        assert "of 4 queries" in result.table(format)


def test_short_lists_are_counted_apart(data: RankingData) -> None:
    result = evaluate(scores(data), data, "mrr", min_items=2)
    assert dict(result.counts) == {"queries": 4, "scored": 2, "nothing_relevant": 1, "too_short": 1}
    assert "1 with fewer than 2 items is left out (min_items=2)" in result.rule


def test_a_metric_with_its_own_idea_of_scored_says_so(data: RankingData) -> None:
    assert "rank@1 is over 2 queries." in evaluate(scores(data), data, ["mrr", "rank@1"]).rule


def test_nothing_to_score_is_nan_with_a_note_and_no_warning() -> None:
    barren = RankingData.from_arrays([[1.0], [2.0]], [0, 0], [1, 1])
    result = evaluate([1.0, 2.0], barren, slices="list_size")
    assert np.isnan(result["ndcg@10"])
    assert np.isnan(result.interval("ndcg@10")).all()
    assert "ndcg@10: no query could be scored." in result.rule
    assert json.loads(result.to_json())["metrics"]["ndcg@10"]["mean"] is None


def test_no_bootstrap_no_interval(data: RankingData) -> None:
    result = evaluate(scores(data), data, "mrr", bootstrap=0)
    assert np.isnan(result.interval("mrr")).all()
    assert "bootstrap" not in result.table()


def test_the_same_seed_gives_the_same_interval(data: RankingData) -> None:
    one, two = (evaluate(scores(data), data, "mrr", random_state=5) for _ in range(2))
    assert one.to_json() == two.to_json()


def test_options_reach_the_metrics(data: RankingData) -> None:
    assert evaluate(scores(data), data, "mrr", relevant_from=2)["mrr"] == 1.0
    assert evaluate(scores(data), data, "mrr", relevant_from=2).counts["nothing_relevant"] == 3
    with pytest.raises(UnknownName, match="no option"):
        evaluate(scores(data), data, "mrr", gian="linear")


class Doubled:
    def predict(self, data: RankingData) -> np.ndarray:
        assert isinstance(data, RankingData)
        return 2.0 * np.asarray(data.X)[:, 0]


def test_anything_with_predict_is_judged_and_plain_estimators_get_the_matrix(data: RankingData) -> None:
    assert evaluate(Doubled(), data, "mrr")["mrr"] == evaluate(scores(data), data, "mrr")["mrr"]
    ridge = Ridge().fit(data.X, np.asarray(data.X)[:, 0])
    assert evaluate(ridge, data, "mrr")["mrr"] == evaluate(scores(data), data, "mrr")["mrr"]


def test_wrong_scores_are_refused_by_name(data: RankingData) -> None:
    with pytest.raises(BadInput, match="one number for each of the 8 rows. Got 3"):
        evaluate([1.0, 2.0, 3.0], data)
    with pytest.raises(BadInput, match="scores must not be NaN"):
        evaluate(np.full(8, np.nan), data)
    with pytest.raises(BadInput, match="the scores of 'A': scores must not be NaN"):
        give_scores(np.full(8, np.nan), data, "the scores of 'A'")
    with pytest.raises(BadInput, match="at least one"):
        evaluate(scores(data), data, [])
    with pytest.raises(UnknownName, match="did you mean 'mrr'"):
        evaluate(scores(data), data, "mrr")["mr"]


def test_it_prints_as_its_table_and_as_html(data: RankingData) -> None:
    result = evaluate(scores(data), data, "mrr", slices="list_size")
    assert repr(result).startswith("metric")
    assert "list_size: 3" in repr(result)
    assert result._repr_html_().count("<table>") == 2


def test_ranks_of_the_first_relevant_item_are_counted(data: RankingData) -> None:
    found = rank_distribution(scores(data), data, deepest=1)
    assert found.counts.tolist() == [2, 1]  # c and d at rank 1, a below it, b nowhere
    assert found.shares == pytest.approx([2 / 3, 1 / 3])
    assert found.reached == pytest.approx([2 / 3])
    barren = RankingData.from_arrays([[1.0]], [0])
    assert np.isnan(rank_distribution([1.0], barren).shares).all()
    with pytest.raises(BadInput, match="deepest"):
        rank_distribution(scores(data), data, deepest=0)


@pytest.mark.parametrize("given", [3, None, [], ["ndcg@10", 3]])
def test_what_is_no_metric_is_refused_with_what_one_is(given: Any) -> None:
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1])
    scores = data.X[:, 0]
    for call in (
        lambda: evaluate(scores, data, given),
        lambda: compare({"a": scores, "b": -scores}, data, given),
        lambda: compare_trained([(data, data, data)], {"never fitted": Unfit()}, metrics=given),  # type: ignore[dict-item]
        lambda: measure(given if given != [] else None, scores, data.y, data.offsets),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadInput, match=r"metrics? must .*such as 'ndcg@10'"):
            call()


class Unfit:
    """A ranker whose training would be work for nothing."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("metrics are checked before anything is trained")


def test_a_metric_that_would_be_measured_as_another_is_refused() -> None:
    class Halved(Metric):
        def __call__(self, *arguments: Any) -> Any:
            return super().__call__(*arguments) / 2

    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1])
    with pytest.raises(BadInput, match="what Halved adds to it would be passed over"):
        evaluate(data.X[:, 0], data, Halved("ndcg", 10))


@pytest.mark.parametrize("data", [np.zeros((3, 2)), None, 3])
def test_data_that_know_no_queries_are_refused(data: Any) -> None:
    with pytest.raises(BadInput, match="data must be a RankingData"):
        evaluate(np.zeros(3), data)
    with pytest.raises(BadInput, match="data must be a RankingData"):
        compare({"a": np.zeros(3)}, data)


def test_users_are_resampled_before_sessions_and_the_table_says_so() -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(24), 5)
    segments = {
        "session_id": np.array([f"s{q // 2}" for q in qid], dtype=object),
        "user_id": np.array([f"u{q // 4}" for q in qid], dtype=object),
    }
    log = RankingData.from_arrays(rng.random((120, 1)), rng.integers(0, 2, 120), qid, segments=segments)
    scores = rng.random(120)
    found = evaluate(scores, log, "mrr")
    low, high = t_interval(found.per_query["mrr"][:, None], clusters=np.arange(24) // 4)  # of 6 users
    assert found.interval("mrr") == pytest.approx((low[0], high[0]), rel=1e-12)
    assert "Intervals resample 6 users, 24 queries." in found.table()
    assert (
        "Intervals resample 12 sessions, 24 queries."
        in evaluate(scores, log, "mrr", cluster="session_id").table()
    )
    plain = evaluate(scores, log.replace(segments={}), "mrr")
    assert evaluate(scores, log, "mrr", cluster="query").to_json() == plain.to_json()
    assert found["mrr"] == plain["mrr"]


def test_few_sessions_have_a_t_interval_and_many_a_bootstrap_and_the_table_says_which() -> None:
    rng = np.random.default_rng(0)
    few, many = (
        RankingData.from_arrays(
            rng.random((3 * queries, 1)),
            np.tile([0, 1, 0], queries),
            np.repeat(np.arange(queries), 3),
            propensity=np.tile([1.0, 0.5, 0.2], queries),
        )
        for queries in (FEW, FEW + 1)
    )
    short, long = (evaluate(rng.random(each.n_rows), each, ["mrr"]) for each in (few, many))
    for found, how, words in (
        (short, t_interval, "Student's t over queries, longer on the side to which values are skewed."),
        (long, bootstrap_means, "percentile bootstrap over queries, 1,000 draws, seed 0."),
    ):
        low, high = how(found.per_query["mrr"][:, None])
        assert found.interval("mrr") == pytest.approx((low[0], high[0]), rel=1e-12)
        assert f"Intervals: 95%, {words}" in found.table()
    both = evaluate(
        rng.random(many.n_rows), many, ["mrr", "dcg@3:ips"], slices={"half": np.arange(FEW + 1) < 60}
    )
    assert "draws, seed 0. Of dcg@3:ips: Student's t" in both.table()
    assert (
        "Intervals of slices with 100 or fewer units that are resampled: Student's t." in both.slice_table()
    )
    alone = evaluate(rng.random(many.n_rows), many, "dcg@3:ips")
    assert "percentile" not in alone.table()


def test_an_interval_of_a_debiased_metric_is_no_shorter_than_chance_makes_it() -> None:
    """Ten lists, clicks at the first place alone: what stands at the last could have been clicked too."""
    lists, seen = 10, np.tile([1.0, 0.05], 10)
    clicks = np.tile([1.0, 0.0], lists)
    clicks[0] = 0.0
    data = RankingData.from_arrays(
        np.tile([[0.0], [1.0]], (lists, 1)), clicks, np.repeat(np.arange(lists), 2), propensity=seen
    )
    found = evaluate(data.X[:, 0], data, "clicks:ips")
    plain = t_interval(found.per_query["clicks:ips"][:, None])
    rate = 9 / (lists * 1.05)  # clicks over expected looks
    chance = lists * rate * (1.0 * 1.0**2 + 0.05 * 20.0**2) / lists**2
    own = np.var(found.per_query["clicks:ips"], ddof=1) / lists
    error = np.sqrt((100 * chance + 9 * own) / 109)
    low, high = found.interval("clicks:ips")
    assert high - low > 3 * (plain[1][0] - plain[0][0])
    assert low == 0.0  # 0.9 − 2.262 · 1.17 and less is cut
    assert high == pytest.approx(0.9 + 2.2621571627982053 * error, rel=1e-9)  # skewed to the left


def test_one_query_has_no_interval() -> None:
    data = RankingData.from_arrays([[0.9], [0.8]], [0, 1], [1, 1])
    assert np.isnan(evaluate(data.X[:, 0], data, "mrr").interval("mrr")).all()
