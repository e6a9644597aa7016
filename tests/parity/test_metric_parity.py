"""Equal to the libraries people use today, to 1e-9, wherever a keyword says their rule.

LightGBM and XGBoost take scores and labels as float32, so the scores here are such numbers; what they
return is float64, as it is for the others. gdeval, behind ir_measures' ERR, prints five digits.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from metric_peers import PEERS, ask_ir_measures, ask_sklearn

from placings.metrics import average_precision, dcg, metric, ndcg

LINEAR = {"gain": "linear"}
MIN = {"denominator": "min(k,R)"}
GRADED, BINARY = 5, 2
TREC_KS = (None, 1, 5, 20)

# (peer, its metric, ours, our keywords, cutoffs, grades)
RULES = [
    ("ir_measures", "ndcg", "ndcg", LINEAR, TREC_KS, GRADED),
    ("ir_measures", "map", "map", {}, TREC_KS, GRADED),
    ("ir_measures", "mrr", "mrr", {}, TREC_KS, GRADED),
    ("ir_measures", "p", "p", {}, (1, 5, 20, 50), GRADED),
    ("ir_measures", "recall", "recall", {}, (1, 5, 20, 50), GRADED),
    ("ir_measures", "hit", "hit", {}, (1, 5), GRADED),
    ("pytrec_eval", "ndcg", "ndcg", LINEAR, TREC_KS, GRADED),
    ("pytrec_eval", "map", "map", {}, TREC_KS, GRADED),
    ("pytrec_eval", "mrr", "mrr", {}, (None,), GRADED),
    ("pytrec_eval", "p", "p", {}, (1, 5, 20, 50), GRADED),
    ("pytrec_eval", "recall", "recall", {}, (1, 5, 20, 50), GRADED),
    ("pytrec_eval", "hit", "hit", {}, (1, 5), GRADED),
    ("ranx", "ndcg", "ndcg", LINEAR, (None, 1, 5), GRADED),
    ("ranx", "ndcg exp2", "ndcg", {}, (None, 1, 5), GRADED),
    ("ranx", "dcg", "dcg", {}, (None, 5), GRADED),
    ("ranx", "map", "map", {}, (None, 1, 5), GRADED),
    ("ranx", "mrr", "mrr", {}, (None, 1, 5), GRADED),
    ("ranx", "recall", "recall", {}, (1, 5), GRADED),
    ("ranx", "hit", "hit", {}, (1, 5), GRADED),
    ("scikit-learn", "ndcg", "ndcg", LINEAR | {"ties": "average"}, (None, 1, 5), GRADED),
    ("scikit-learn", "ndcg stable", "ndcg", LINEAR, (None, 1, 5), GRADED),
    ("scikit-learn", "dcg", "dcg", {"ties": "average"}, (None, 1, 5), GRADED),
    ("scikit-learn", "map", "map", {}, (None,), GRADED),
    ("LightGBM", "ndcg", "ndcg", {"empty": "one"}, (None, 1, 5, 50), GRADED),
    ("LightGBM", "map", "map", MIN | {"empty": "one"}, (None, 1, 5, 50), GRADED),
    ("XGBoost", "ndcg", "ndcg", {"empty": "one"}, (None, 1, 5, 50), GRADED),
    ("XGBoost", "map", "map", MIN | {"empty": "one"}, (None, 1, 5, 50), BINARY),
    ("XGBoost", "p", "p", {}, (1, 5), BINARY),
    ("CatBoost", "ndcg", "ndcg", LINEAR | {"empty": "one"}, (None, 1, 5, 50), GRADED),
    ("CatBoost", "ndcg exp2", "ndcg", {"empty": "one"}, (None, 1, 5, 50), GRADED),
    ("CatBoost", "map", "map", MIN | {"empty": "zero"}, (None, 1, 5), BINARY),
    ("CatBoost", "mrr", "mrr", {"empty": "zero"}, (None, 1, 5), BINARY),
    ("CatBoost", "recall", "recall", {}, (1, 5), BINARY),
]
COMPILES = pytest.mark.slow  # ranx compiles itself for half a minute where nothing is cached yet


def make_queries(grades, sizes=(30, 1, 2, 7, 40, 17, 16), *, seed=0):
    """Lists with distinct scores; each has something relevant."""
    rng = np.random.default_rng(seed)
    queries = []
    for size in sizes:
        labels = rng.integers(0, grades, size) * (rng.random(size) < 0.6)
        labels[rng.integers(size)] = grades - 1
        queries.append(((rng.permutation(size) / 8.0 - 1.0).tolist(), labels.tolist()))
    return queries


@pytest.mark.parametrize(
    ("peer", "theirs", "ours", "keywords", "cutoffs", "grades"),
    [pytest.param(*rule, marks=COMPILES) if rule[0] == "ranx" else rule for rule in RULES],
    ids=[f"{peer}-{theirs}" for peer, theirs, *_ in RULES],
)
def test_query_by_query(peer, theirs, ours, keywords, cutoffs, grades):
    module, ask = PEERS[peer]
    pytest.importorskip(module, exc_type=ImportError)
    sizes = (30, 7, 40, 17, 16)
    if peer != "scikit-learn":  # which refuses a list of one
        sizes += (1, 2)
    if (peer, theirs) == ("XGBoost", "p"):  # which divides by n where a list is shorter than k
        sizes = sizes[:5]
    for k in cutoffs:
        mine = metric(ours if k is None else f"{ours}@{k}", **keywords)
        for scores, labels in make_queries(grades, sizes):
            expected = ask(theirs, [(scores, labels)], k)
            assert mine(scores, labels)[0] == pytest.approx(expected, abs=1e-9), (k, labels)


@pytest.mark.parametrize(
    ("peer", "name", "keywords"),
    [
        ("ir_measures", "ndcg", LINEAR | {"empty": "zero"}),
        ("ir_measures", "map", {"empty": "zero"}),
        pytest.param("ranx", "ndcg", LINEAR | {"empty": "zero"}, marks=COMPILES),
        ("LightGBM", "ndcg", {"empty": "one"}),
        ("LightGBM", "map", MIN | {"empty": "one"}),
        ("XGBoost", "ndcg", {"empty": "one"}),
        ("XGBoost", "map", MIN | {"empty": "one"}),
        ("CatBoost", "ndcg", LINEAR | {"empty": "one"}),
    ],
)
def test_the_mean_over_queries_some_of_them_empty(peer, name, keywords):
    module, ask = PEERS[peer]
    pytest.importorskip(module, exc_type=ImportError)
    queries = make_queries(BINARY, seed=1)
    queries[1] = (queries[1][0], [0] * len(queries[1][0]))
    queries[4] = (queries[4][0], [0] * len(queries[4][0]))
    scores = np.concatenate([scores for scores, _ in queries])
    labels = np.concatenate([labels for _, labels in queries])
    offsets = np.concatenate([[0], np.cumsum([len(labels) for _, labels in queries])])
    mine = metric(f"{name}@5", **keywords)(scores, labels, offsets)
    assert mine.mean() == pytest.approx(ask(name, queries, 5), abs=1e-9)


@pytest.mark.parametrize("k", [None, 1, 3, 10])
def test_scikit_learn_averages_over_ties_as_we_do(k):
    rng = np.random.default_rng(2)
    for _ in range(20):
        scores, labels = rng.integers(0, 4, 25) * 1.0, rng.integers(0, 5, 25)
        expected = ask_sklearn("ndcg", [(scores, labels)], k)
        mine = ndcg(scores, labels, k=k, gain="linear", ties="average")
        assert mine[0] == pytest.approx(expected, abs=1e-9)
        expected = ask_sklearn("dcg", [(scores, labels)], k)
        assert dcg(scores, labels, k=k, ties="average")[0] == pytest.approx(expected, abs=1e-9)


def test_scikit_learns_average_precision_of_one_query():
    from sklearn.metrics import average_precision_score

    for scores, labels in make_queries(GRADED):
        expected = average_precision_score(np.array(labels) > 0, scores)
        assert average_precision(scores, labels)[0] == pytest.approx(expected, abs=1e-9)


def test_lightgbm_breaks_ties_by_row_and_catboost_by_the_worst():
    rng = np.random.default_rng(3)
    scores, labels = (rng.integers(0, 4, 40) * 1.0).tolist(), rng.integers(0, 5, 40).tolist()
    expected = PEERS["LightGBM"][1]("ndcg", [(scores, labels)], 10)
    assert ndcg(scores, labels, k=10)[0] == pytest.approx(expected, abs=1e-9)
    pytest.importorskip("catboost", exc_type=ImportError)
    expected = PEERS["CatBoost"][1]("ndcg exp2", [(scores, labels)], 10)
    assert ndcg(scores, labels, k=10, ties="worst")[0] == pytest.approx(expected, abs=1e-9)


def test_trec_eval_breaks_ties_by_the_falling_document_id():
    scores, labels = [1.0, 1.0, 2.0, 1.0], [1, 0, 0, 2]
    expected = ask_ir_measures("ndcg", [(scores, labels)], None)
    assert ndcg(scores[::-1], labels[::-1], gain="linear")[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a Perl program")
@pytest.mark.parametrize("k", [1, 5, 20])
def test_err_is_gdevals_to_the_five_digits_it_prints(k):
    for scores, labels in make_queries(GRADED):
        expected = ask_ir_measures("err", [(scores, labels)], k)
        mine = metric(f"err@{k}", max_label=4)(scores, labels)[0]
        assert mine == pytest.approx(expected, abs=0.5001e-5)


def test_xgboost_without_a_cutoff_looks_at_32_ranks():
    import xgboost

    scores, labels = make_queries(GRADED, (40,))[0]
    data = xgboost.DMatrix(np.zeros((40, 1)), label=labels, base_margin=scores)
    data.set_group([40])
    booster = xgboost.train({"objective": "rank:ndcg", "eval_metric": "ndcg", "verbosity": 0}, data, 0)
    expected = float(booster.eval(data).rsplit(":", 1)[1])
    assert ndcg(scores, labels, k=32)[0] == pytest.approx(expected, abs=1e-9)
    assert ndcg(scores, labels)[0] != pytest.approx(expected, abs=1e-3)


def test_xgboosts_minus_scores_an_empty_query_zero_and_its_precision_divides_by_a_short_list():
    import xgboost

    scores, labels = [3.0, 2.0, 2.5, 1.0, 4.0], [0, 1, 0, 0, 0]  # two rows, then three with nothing relevant
    data = xgboost.DMatrix(np.zeros((5, 1)), label=labels, base_margin=scores)
    data.set_group([2, 3])
    asked = {"objective": "rank:ndcg", "eval_metric": ["ndcg@5-", "pre@5"], "verbosity": 0}
    minus, shared = (
        float(part.rsplit(":", 1)[1]) for part in xgboost.train(asked, data, 0).eval(data).split("\t")[1:]
    )
    assert ndcg(scores, labels, [0, 2, 5], k=5, empty="zero").mean() == pytest.approx(minus, abs=1e-9)
    assert shared == pytest.approx((1 / 2 + 0 / 3) / 2, abs=1e-9)
