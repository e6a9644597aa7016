"""What a drop in coverage costs: planted effects, tables, tests, retraining, any ranker and any metric."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from placings.core.arrays import Floats
from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation.scoring import evaluate
from placings.feco.degradation import degrade
from placings.feco.effects import Degradation, join_degradations
from placings.feco.relations import correlate_coverage, relate_importance
from placings.rankers.lgbm import LightGBMRanker
from placings.rankers.linear import LinearRanker
from placings.rankers.original import OriginalOrder
from placings.simulate.rankings import make_ranking

NAN = float("nan")
QUICK: dict[str, Any] = {"bootstrap": 200, "permutations": 999}


class Plain:
    """No estimator at all: one weight a feature."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def predict(self, data: RankingData) -> Floats:
        return np.nan_to_num(np.asarray(data.X, dtype=np.float64)) @ self.weights


@pytest.fixture(scope="module")
def tiny() -> RankingData:
    """40 queries of two rows; "good" orders each rightly, "noise" is 1 for all, labels stand wrong first."""
    queries = 40
    good = np.tile([1.0, 2.0], queries)
    y = np.tile([0, 1], queries)
    qid = np.repeat(np.arange(queries), 2)
    X = np.column_stack([good, np.ones(2 * queries)])
    return RankingData.from_arrays(X, y, qid, feature_names=["good", "noise"])


@pytest.fixture(scope="module")
def parts() -> tuple[RankingData, RankingData]:
    data = make_ranking(120, n_features=5, mean_size=20, random_state=0).data
    train, test = data.split(0.5, 0.5, random_state=0)
    return train, test


def test_a_masked_event_loses_exactly_what_its_order_does(tiny: RankingData) -> None:
    """Dark, both rows tie and the wrong one stands first: NDCG falls from 1 to 1/log2(3)."""
    found = degrade(Plain(1, 0), None, tiny, ["good", "noise"], drops=(0.25, 0.5), metrics="ndcg@4", **QUICK)
    step = 1 - 1 / np.log2(3)
    for drop in (0.25, 0.5):
        loss = found.loss("good", drop)
        assert loss.lost == pytest.approx(drop * step)
        assert loss.percent == pytest.approx(100 * drop * step)
        assert (loss.coverage_before, loss.coverage_after) == (1.0, pytest.approx(1 - drop))
        assert loss.low < loss.lost < loss.high
        assert loss.mark == "▼"
        assert loss.spread == pytest.approx(0.0, abs=1e-12)  # just as many events in every draw
    noise = found.loss("noise", 0.5)
    assert (noise.lost, noise.mark, noise.p) == (0.0, "", 1.0)


def test_rows_can_be_masked_in_place_of_events(tiny: RankingData) -> None:
    found = degrade(Plain(1, 0), None, tiny, "good", drops=(0.5,), metrics="ndcg@4", unit="row", **QUICK)
    loss = found.loss("good", 0.5)
    # the pair is wrong when the right row is dark, whatever the other: half of them, 40 of 80 rows at random
    assert loss.lost == pytest.approx(0.5 * (1 - 1 / np.log2(3)), rel=0.1)
    assert loss.spread > 0


def test_a_share_of_all_events_hits_uncovered_ones_too() -> None:
    X = np.zeros((200, 1))
    X[::4] = 1.0  # rows 0, 4, …: every other event has the feature
    data = RankingData.from_arrays(X, np.tile([1, 0], 100), np.repeat(np.arange(100), 2))
    ask: dict[str, Any] = {"drops": (0.5,), "metrics": "ndcg@4", **QUICK}
    of_covered = degrade(Plain(1), None, data, "f1", **ask).losses[0]
    of_all = degrade(Plain(1), None, data, "f1", of="all", **ask).losses[0]
    assert (of_covered.coverage_before, of_covered.coverage_after) == (0.5, pytest.approx(0.25))
    assert of_all.coverage_after == pytest.approx(0.25, abs=0.02)
    assert of_all.coverage_after != of_covered.coverage_after


def test_nan_takes_another_way_through_a_ranker_than_zero(parts: tuple[RankingData, RankingData]) -> None:
    train, test = parts
    ranker = LinearRanker("ridge", missing="mean").fit(train)
    name = train.feature_names[0]
    zero = degrade(ranker, None, test, name, drops=(1.0,), draws=1, unit="row", **QUICK).losses[0]
    gone = degrade(ranker, None, test, name, drops=(0.5,), draws=1, unit="row", **QUICK).losses[0]
    filled = degrade(ranker, None, test, name, drops=(0.5,), draws=1, unit="row", value=NAN, **QUICK).losses[
        0
    ]
    assert zero.coverage_after == 0.0
    assert gone.lost != filled.lost
    dark = test.replace(X=np.where(np.arange(5) == 0, 0.0, np.asarray(test.X)))
    full, without = (evaluate(ranker, data, "ndcg@4", bootstrap=0)["ndcg@4"] for data in (test, dark))
    assert zero.lost == pytest.approx(full - without)


def test_the_table_reads_as_the_papers(tiny: RankingData) -> None:
    found = degrade(Plain(1, 0), None, tiny, "good", drops=(0.25,), **QUICK)
    text = found.table()
    assert "feature" in text.splitlines()[0]
    assert "drop in coverage" in text.splitlines()[0]
    assert "ndcg@4 (% drop)" in text.splitlines()[0]
    assert "full data" in text
    assert "25% in test data" in text
    assert f"{1 - 0.25 * (1 - 1 / np.log2(3)):.4f} (9.23%)▼" in text  # 0.25 · (1 − 0.6309)
    assert "the event (query)" in text
    assert "20 draws" in text
    assert "<table>" in found.table("html")
    assert repr(found) == text
    frame = found.to_pandas()
    assert len(frame) == 2
    assert {"feature", "drop", "metric", "lost", "percent", "low", "high", "p_holm", "mark"} <= set(frame)
    facts = json.loads(found.to_json())
    assert facts["losses"][0]["lost"] == pytest.approx(found.losses[0].lost)
    assert facts["settings"]["drops"] == [0.25]


def test_top_features_come_from_the_rankers_importance(parts: tuple[RankingData, RankingData]) -> None:
    train, test = parts
    ranker = LightGBMRanker(rounds=10, random_state=0).fit(train)
    ranked = list(ranker.feature_importances())
    found = degrade(ranker, train, test, ["top:2", "random:top:5"], drops=(0.5,), draws=2, **QUICK)
    chosen = list(dict.fromkeys((each.feature, each.chosen) for each in found.losses))
    assert chosen[:2] == [(ranked[0], "top 1"), (ranked[1], "top 2")]
    assert all(how == "random of top 5" for _, how in chosen[2:])
    assert "(top 1)" in found.table()
    assert [e.chosen for e in degrade(ranker, None, test, 0, drops=(0.5,), draws=1, **QUICK).effects] == [
        "named"
    ]


def test_any_ranker_can_be_asked_for_its_top_features(parts: tuple[RankingData, RankingData]) -> None:
    train, test = parts
    ask: dict[str, Any] = {"drops": (0.5,), "draws": 1, **QUICK}
    assert (
        degrade(LinearRanker("ridge").fit(train), train, test, "top:1", **ask).importance.kind
        == "contributions"
    )
    weights = dict.fromkeys(train.feature_names, 0.0) | {train.feature_names[3]: 1.0}
    given = degrade(Plain(1, 1, 1, 1, 1), train, test, "top:1", importance=weights, **ask)
    assert given.effects[0].feature == train.feature_names[3]
    found = degrade(Plain(0, 0, 1, 0, 0), train, test, "top:1", **ask)
    assert found.effects[0].feature == train.feature_names[2]  # by permutation


def test_a_ranker_that_looks_at_no_feature_loses_nothing(parts: tuple[RankingData, RankingData]) -> None:
    found = degrade(OriginalOrder(), None, parts[1], 0, drops=(1.0,), draws=1, **QUICK)
    assert [each.lost for each in found.losses] == [0.0, 0.0]


def test_retraining_pairs_clones_with_clones_and_keeps_importances(
    parts: tuple[RankingData, RankingData],
) -> None:
    train, test = parts
    ranker = LightGBMRanker(rounds=10, random_state=7).fit(train)
    top = next(iter(ranker.feature_importances()))
    found = degrade(ranker, train, test, top, where=["test", "train+test"], drops=(0.9,), draws=2, **QUICK)
    assert found.settings["draws"] == {"test": 2, "train+test": 2}
    refits = [LightGBMRanker(rounds=10, random_state=seed).fit(train) for seed in (0, 1)]
    full = np.mean([evaluate(each, test, "ndcg@4", bootstrap=0)["ndcg@4"] for each in refits])
    assert found.loss(top, 0.9, "ndcg@4", "train+test").full == pytest.approx(full)
    frame = found.importances().set_index("feature")
    gains = np.mean([each.feature_importances()[top] for each in refits])
    assert frame.loc[top, "before"] == pytest.approx(gains)
    assert frame.loc[top, "after"] < 0.5 * frame.loc[top, "before"]  # nine tenths of its events are dark
    assert frame["after_share"].sum() == pytest.approx(1.0)
    assert "90% in train and test data" in found.table()
    assert ranker.get_params()["random_state"] == 7  # the given ranker is left as it was


def test_a_retrained_ranker_loses_less_than_one_that_trusts_a_dark_feature() -> None:
    data = make_ranking(200, n_features=3, mean_size=20, noise=0.3, random_state=1).data
    train, test = data.split(0.5, 0.5, random_state=0)
    ranker = LightGBMRanker(rounds=20, random_state=0).fit(train)
    found = degrade(ranker, train, test, "top:1", where=("test", "train+test"), drops=(1.0,), unit="row",
                    draws={"test": 1, "train+test": 1}, **QUICK)  # fmt: skip
    name = found.effects[0].feature
    kept, retrained = (found.loss(name, 1.0, where=where).lost for where in ("test", "train+test"))
    assert kept > 0.02
    assert retrained <= kept + 0.01


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(
    parts: tuple[RankingData, RankingData],
) -> None:
    _, test = parts
    ranker, name = Plain(1, 2, 1, 1, 1), test.feature_names[1]
    one, two, other = (
        degrade(ranker, None, test, name, drops=(0.25,), draws=3, random_state=seed, **QUICK).losses
        for seed in (0, 0, 1)
    )
    assert one == two
    assert one != other


def test_holm_counts_every_feature_drop_and_metric(tiny: RankingData) -> None:
    found = degrade(Plain(1, 0), None, tiny, ["good", "noise"], drops=(0.25, 0.5), **QUICK)
    best = min(each.p for each in found.losses)
    assert len(found.losses) == 8  # 2 features × 2 drops × 2 metrics
    assert min(each.p_holm for each in found.losses) == pytest.approx(8 * best)


def test_folds_join_to_what_all_queries_say(tiny: RankingData) -> None:
    ask: dict[str, Any] = {"drops": (1.0,), "metrics": "ndcg@4", "draws": 1, **QUICK}
    halves = [degrade(Plain(1, 0), None, part, "good", **ask) for part in (tiny[:20], tiny[20:])]
    whole = degrade(Plain(1, 0), None, tiny, "good", **ask)
    joined = join_degradations(halves)
    assert joined.loss("good", 1.0) == whole.loss("good", 1.0)
    other = degrade(Plain(1, 0), None, tiny, "noise", **ask)
    with pytest.raises(BadInput, match="same features"):
        join_degradations([whole, other])


# -- other metrics -----------------------------------------------------------------------------------


def test_a_regression_is_judged_by_a_callable() -> None:
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import mean_squared_error

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + 5.0
    y = 3.0 * X[:, 0] - 20.0  # targets below 0 are fine
    model = LinearRegression().fit(X, y)
    found = degrade(model, (X, y), (X, y), [0, 1], drops=(0.5,), where=["test", "train+test"],
                    metric=mean_squared_error, lower_is_better=True, draws=2, bootstrap=100)  # fmt: skip
    loss = found.loss("f1", 0.5, where="test")
    assert loss.metric == "mean_squared_error"
    assert loss.degraded == pytest.approx(0.5 * 9 * np.mean(X[:, 0] ** 2), rel=0.1)  # half: (3x)²
    assert loss.lost == pytest.approx(loss.degraded - loss.full)
    assert 0 < loss.low < loss.lost < loss.high
    assert loss.mark == "▼"
    assert abs(found.loss("f2", 0.5, where="test").lost) < 1e-9
    assert found.loss("f1", 0.5, where="train+test").lost > 0


def test_a_classification_is_judged_by_its_probabilities_on_a_pandas_table() -> None:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    y = (X["a"] > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    found = degrade(model, None, (X, y, np.arange(300) // 3), ["a", "b"], drops=(0.5,), draws=3,
                    metric=roc_auc_score, response_method="predict_proba", bootstrap=50)  # fmt: skip
    assert found.loss("a", 0.5).full == pytest.approx(1.0, abs=0.01)
    assert found.loss("a", 0.5).lost > 0.1
    assert abs(found.loss("b", 0.5).lost) < 0.05
    with pytest.raises(BadInput, match="callable metric"):
        join_degradations([found])


# -- two questions ------------------------------------------------------------------------------------


def test_coverage_and_ndcg_go_together_where_the_feature_matters(tiny: RankingData) -> None:
    found = correlate_coverage(Plain(1, 0), tiny, ["good", "noise"], draws=3, bootstrap=50)
    good = found["good"]
    assert good.pearson == pytest.approx(1.0)  # every event loses the same
    assert good.slope == pytest.approx(0.01 * (1 - 1 / np.log2(3)))
    assert np.isnan(found["noise"].pearson)
    assert len(found.points) == 2 * 3 * 11
    assert found.points["coverage"].min() == 0.0
    assert "noise" in found.table("markdown")
    with pytest.raises(BadInput, match="at least three"):
        correlate_coverage(Plain(1, 0), tiny, "good", grid=(0, 1))


def test_importance_against_impact_is_a_rank_correlation_over_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4)) + 10.0
    weights = np.array([4.0, 2.0, 1.0, 0.25])
    y = np.digitize((X - 10) @ weights, [-2, 2, 6]).astype(float)
    data = RankingData.from_arrays(X, y, np.arange(1200) // 12)
    found = degrade(Plain(*weights), None, data, [0, 1, 2, 3], drops=(1.0,), draws=1, unit="row",
                    importance={f"f{i + 1}": w for i, w in enumerate(weights)}, **QUICK)  # fmt: skip
    relation = relate_importance(found)
    assert relation.spearman == pytest.approx(1.0)
    assert relation.low <= relation.spearman
    assert relation.pairs["lost"].is_monotonic_decreasing
    upside_down = relate_importance(Degradation(found.baseline, found.effects, found.settings, flip(found)))
    assert upside_down.spearman == pytest.approx(-1.0)


def flip(found: Degradation) -> Any:
    from placings.feco.effects import sort_importance

    assert found.importance is not None
    return sort_importance("flipped", "", {name: -found.importance[name] for name in found.importance.names})


# -- what cannot be done ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"where": "train"}, UnknownName, "place to take coverage away"),
        ({"where": ["test", "test"]}, BadInput, "where must be"),
        ({"where": "train+test"}, BadInput, "needs train"),
        ({"unit": "list"}, UnknownName, "unit"),
        ({"of": "some"}, UnknownName, "share's whole"),
        ({"features": "godo"}, UnknownName, "did you mean 'good'"),
        ({"features": 2}, BadInput, "place from 0 to 1"),
        ({"features": []}, BadInput, "at least one"),
        ({"draws": 0}, BadInput, "draws must be"),
        ({"random_state": None}, BadInput, "random_state must be"),
        ({"value": 1.0}, BadInput, "counts as covered"),
        ({"test": np.ones(3)}, BadInput, "test must be a RankingData"),
        ({"ranker": 3}, BadInput, "must have predict"),
        ({"metrics": "ndgc@4"}, UnknownName, "did you mean 'ndcg'"),
        ({"metric": min, "ties": "worst"}, BadInput, "takes no options"),
    ],
)
def test_bad_questions_get_clear_answers(
    tiny: RankingData, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    asked: dict[str, Any] = {"ranker": Plain(1, 0), "train": None, "test": tiny, "features": "good"} | given
    with pytest.raises(error, match=message):
        degrade(**asked)


def test_what_cannot_be_cloned_is_not_retrained(tiny: RankingData) -> None:
    with pytest.raises(BadInput, match="no get_params and fit"):
        degrade(Plain(1, 0), tiny, tiny, "good", where="train+test")


def test_data_with_nothing_relevant_are_refused(tiny: RankingData) -> None:
    with pytest.raises(BadInput, match="nothing is relevant"):
        degrade(Plain(1, 0), None, tiny.replace(y=np.zeros(tiny.n_rows)), "good")


def test_importances_need_retraining(tiny: RankingData) -> None:
    with pytest.raises(BadInput, match="where='train\\+test'"):
        degrade(Plain(1, 0), None, tiny, "good", **QUICK).importances()


def test_sessions_are_resampled_whole_and_no_mean_changes(parts: tuple[RankingData, RankingData]) -> None:
    """Six copies of each query are one session: they say as much as one, so intervals are √6 as wide."""
    train, test = parts
    copies = 6
    X = np.tile(np.asarray(test.X), (copies, 1))
    qid = np.concatenate([test.qid + copy * 10_000 for copy in range(copies)])
    known = {"session_id": np.tile(test.qid.astype(str), copies)}
    plain = RankingData.from_arrays(X, np.tile(test.y, copies), qid, feature_names=test.feature_names)
    sessions = RankingData.from_arrays(
        X, np.tile(test.y, copies), qid, feature_names=test.feature_names, segments=known
    )
    ranker = LinearRanker("ridge").fit(train)
    ask: dict[str, Any] = {"features": [0, 1, 2], "drops": (1.0,), "draws": 1, **QUICK}
    alone, together = (degrade(ranker, None, data, **ask) for data in (plain, sessions))
    one, other = alone.losses[0], together.losses[0]
    assert one.lost == pytest.approx(other.lost, rel=1e-9)
    assert other.high - other.low > 1.8 * (one.high - one.low)
    assert other.p >= one.p
    assert f"randomisation test over {len(test)} sessions" in " ".join(together.notes)
    assert "randomisation test over queries" in " ".join(alone.notes)
    name = test.feature_names[0]
    first, second = (correlate_coverage(ranker, data, [0], bootstrap=200)[name] for data in (plain, sessions))
    assert first.pearson == pytest.approx(second.pearson, rel=1e-9)
    assert (first.low, first.high) != (second.low, second.high)
    joined = join_degradations([together, together])
    assert joined.clusters is not None
    assert joined.clusters.count == 2 * len(test)  # folds have queries of their own
