"""Metrics of clicks over propensities, wherever something is judged: the data's propensities are taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.data import concat
from placings.data.ranking import RankingData
from placings.evaluation import (
    compare,
    compare_trained,
    evaluate,
    fingerprint,
    permute_importance,
    scorer,
    tune,
)
from placings.feco import degrade
from placings.metrics import metric
from placings.rankers import LinearRanker, Ranker

NEEDS = "divides each click by its propensity, and the data has no propensity"


def make_clicks(queries: int = 40, seed: int = 0) -> RankingData:
    """Lists of four, looked at with 1, 1/2, 1/3, 1/4; the feature knows what is wanted. Two to a session."""
    rng = np.random.default_rng(seed)
    rows = 4 * queries
    seen = np.tile(1.0 / np.arange(1.0, 5.0), queries)
    wanted = rng.random(rows)
    clicks = (rng.random(rows) < wanted * seen) * 1.0
    X = np.stack([wanted, rng.random(rows)], axis=1)
    session = np.repeat(np.arange(queries) // 2, 4)
    return RankingData.from_arrays(
        X, clicks, np.repeat(np.arange(queries), 4), propensity=seen, segments={"session_id": session}
    )


THREE = RankingData.from_arrays(
    [[3.0], [2.0], [1.0], [0.0], [5.0]],
    [0, 1, 0, 0, 1],
    ["a", "a", "b", "b", "c"],
    propensity=[1.0, 0.5, 1.0, 0.5, 0.001],
)


def test_evaluate_takes_the_propensities_of_the_data():
    found = evaluate(THREE.X[:, 0], THREE, ["dcg@10:ips", "clicks@1:ips"], bootstrap=0)
    np.testing.assert_allclose(found.per_query["dcg@10:ips"], [2 / math.log2(3), 0.0, 100.0])
    assert found["dcg@10:ips"] == pytest.approx((2 / math.log2(3) + 100.0) / 3)
    assert found["clicks@1:ips"] == pytest.approx(100.0 / 3)
    assert found.counts["scored"] == 3


def test_the_rule_says_what_a_click_weighs_and_that_a_query_without_one_counts_as_zero():
    found = evaluate(THREE.X[:, 0], THREE, "dcg@10:ips", bootstrap=0)
    assert found.rule == (
        "Means over 3 of 3 queries; 1 without a click counts as 0. dcg@10:ips: each click weighs 1 over its "
        "propensity, at most 100, which holds back 1 of 2 clicks."
    )
    assert found.rule in found.table()
    free = evaluate(THREE.X[:, 0], THREE, "dcg@10:ips", bootstrap=0, clip=None)
    assert free.rule.endswith("dcg@10:ips: each click weighs 1 over its propensity.")
    assert free["dcg@10:ips"] == pytest.approx((2 / math.log2(3) + 1000.0) / 3)
    short = evaluate(THREE.X[:, 0], THREE, "dcg@10:ips", bootstrap=0, min_items=2)
    assert short.rule.startswith("Means over 2 of 3 queries; 1 without a click counts as 0; 1 with fewer")


def test_beside_a_plain_metric_each_keeps_its_own_rule():
    found = evaluate(THREE.X[:, 0], THREE, ["mrr", "mrr:ips"], bootstrap=0)
    assert found["mrr"] == pytest.approx((1 / 2 + 1) / 2)  # b has nothing relevant and is left out
    assert found["mrr:ips"] == pytest.approx((2 / 2 + 0 + 100) / 3)
    assert found.rule.startswith(
        'Means over 2 of 3 queries; 1 with nothing relevant is left out (empty="drop"). mrr:ips is over 3 '
        "queries: one without a click counts as 0."
    )


def test_mrr_says_what_it_assumes():
    said = "mrr@5:ips: a mean reciprocal rank only if each search wants one item."
    assert said in evaluate(THREE.X[:, 0], THREE, "mrr@5:ips").table()
    assert said in compare({"a": THREE.X[:, 0]}, THREE, "mrr@5:ips").table()
    assert "wants one item" not in evaluate(THREE.X[:, 0], THREE, "dcg@5:ips").table()


def test_no_rule_for_empty_queries_changes_a_debiased_metric():
    values = [evaluate(THREE.X[:, 0], THREE, "dcg@10:ips", empty=empty) for empty in ("drop", "zero", "one")]
    assert len({each["dcg@10:ips"] for each in values}) == 1
    assert len({each.rule for each in values}) == 1


def test_compare_pairs_all_queries_and_folds():
    data = make_clicks()
    methods = {"wanted": data.X[:, 0], "noise": data.X[:, 1]}
    whole = compare(methods, data, ["dcg@3:ips", "mrr"], baseline="noise", slices="list_size")
    found = whole.difference("wanted", "dcg@3:ips")
    assert found.pairs == 40  # queries without a click too
    assert whole.difference("wanted", "mrr").pairs < 40
    assert "each click weighs 1 over its propensity" in whole.rule
    assert whole.slices[0].scored == 40
    parts = [data[:20], data[20:]]
    cut = {name: [scores[:80], scores[80:]] for name, scores in methods.items()}
    folded = compare(cut, parts, ["dcg@3:ips"], baseline="noise", bootstrap=0)
    assert folded.difference("wanted", "dcg@3:ips").difference == pytest.approx(found.difference)
    assert folded.rule.startswith("Means over 40 of 40 queries of 2 folds;")


def test_slices_of_a_debiased_metric_add_up_to_the_whole():
    data = make_clicks()
    found = evaluate(data.X[:, 0], data, "clicks@2:ips", slices="has_relevant", bootstrap=0)
    by_value = {each.value: each for each in found.slices}
    assert by_value["no"].mean == 0.0
    whole = sum(each.mean * each.scored for each in found.slices) / 40
    assert whole == pytest.approx(found["clicks@2:ips"])


def test_without_propensities_nothing_is_scored_or_trained():
    bare = make_clicks().replace(propensity=None)

    class Never(Ranker):
        def predict(self, X: Any, qid: Any = None) -> Any:
            raise AssertionError("scored before it was checked")

    for call in (
        lambda: evaluate(Never(), bare, "dcg@10:ips"),
        lambda: compare({"a": Never()}, bare, "dcg@10:ips"),
        lambda: tune("ridge", bare, trials=1, metric="dcg@10:ips"),
        lambda: compare_trained(bare, ["ridge"], folds=3, metrics=["dcg@10:ips"]),
        lambda: compare_trained(bare, ["ridge"], folds=3, metrics=["mrr"], tune=1, tuning_metric="mrr:ips"),
        lambda: permute_importance(Never(), bare, metric="dcg@10:ips"),
        lambda: scorer("dcg@10:ips")(Never(), bare),
    ):
        with pytest.raises(BadInput, match=NEEDS):
            call()


def test_tuning_judges_by_it():
    data = make_clicks()
    found = tune("ridge", data, trials=2, metric="dcg@3:ips", random_state=0)
    assert "queries without a click count as 0" in found.summary()
    train, held = data[:20], data[20:]
    on_held = tune("ridge", train, held, trials=1, metric="dcg@3:ips", random_state=0)
    ranker = on_held.fit(train)
    expected = metric("dcg@3:ips")(ranker.predict(held), held.y, held.offsets, propensity=held.propensity)
    assert on_held.best_value == pytest.approx(expected.mean())


@pytest.mark.slow
def test_a_tuning_by_worker_processes_hands_propensities_on():
    data = make_clicks(12)
    alone = tune("ridge", data, trials=2, method="random", metric="dcg@3:ips", random_state=0, prune=False)
    spread = tune(
        "ridge", data, trials=2, method="random", metric="dcg@3:ips", random_state=0, prune=False, workers=2
    )
    assert [row.value for row in spread.trials] == pytest.approx([row.value for row in alone.trials])


def test_rankers_trained_on_folds_are_compared_by_it():
    contest = compare_trained(
        make_clicks(), ["ridge", "ranksvm"], folds=3, metrics=["dcg@3:ips"], baseline="ridge"
    )
    assert contest.comparison.counts["scored"] == 40


def test_importance_and_degradation_measure_by_it():
    data = make_clicks()
    ranker = LinearRanker("ridge").fit(data)
    found = permute_importance(ranker, data, metric="dcg@2:ips", repeats=2)
    assert found.names[0] == "f1"  # what is wanted
    lost = degrade(
        ranker, None, data, "f1", drops=(0.5,), draws=2, metrics="dcg@2:ips", importance="permutation"
    )
    assert lost.losses[0].metric == "dcg@2:ips"


def test_a_scorer_takes_propensities_by_routing_and_in_any_order():
    data = make_clicks(10)
    ranker = LinearRanker("ridge").fit(data)
    expected = evaluate(ranker, data, "dcg@3:ips")["dcg@3:ips"]
    judge = scorer("dcg@3:ips")
    assert judge(ranker, data) == pytest.approx(expected)
    order = np.random.default_rng(0).permutation(data.n_rows)
    moved = judge(
        ranker, data.X[order], data.y[order], qid=data.qid[order], propensity=data.propensity[order]
    )
    assert moved == pytest.approx(expected)
    assert judge.get_metadata_routing().score.requests["propensity"] is True
    assert "propensity" not in scorer("ndcg@3").get_metadata_routing().score.requests


def test_parts_of_data_keep_their_propensities():
    data = make_clicks()
    marked = data.replace(propensity=np.linspace(0.01, 1.0, data.n_rows))
    by_row = dict(
        zip(zip(marked.X[:, 0].tolist(), marked.qid.tolist(), strict=True), marked.propensity, strict=True)
    )

    def check(part: RankingData) -> None:
        keys = zip(part.X[:, 0].tolist(), part.qid.tolist(), strict=True)
        np.testing.assert_array_equal(part.propensity, [by_row[key] for key in keys])

    for part in (marked[3:9], marked[[5, 1]], marked[0], *marked.split(0.5, 0.5, random_state=0)):
        check(part)
    for parts in marked.folds(3, random_state=0, valid=True, group="session_id"):
        for part in parts:
            check(part)
    check(concat([marked[:10], marked[10:]]))
    check(marked.select(["f1"]))


def test_a_fingerprint_knows_propensities_and_is_what_it_was_without_any():
    data = make_clicks()
    bare = data.replace(propensity=None)
    other = data.replace(propensity=data.propensity * 0.5)
    assert len({fingerprint(data), fingerprint(bare), fingerprint(other)}) == 3
