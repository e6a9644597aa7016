"""scikit-learn's cross-validation and searches, by query, with scorers from metric names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation.scoring import evaluate
from placings.evaluation.selection import QueryKFold, scorer
from placings.metrics import ndcg
from placings.rankers.estimator import Ranker
from placings.simulate.rankings import make_ranking


class OneColumn(Ranker):
    """Scores by one feature; remembers what `fit` was handed."""

    def __init__(self, column: int = 0) -> None:
        self.column = column

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        self.seen_ = train

    def _score(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)[:, self.column]


@pytest.fixture(autouse=True)
def _routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, qid with the rows of all queries mixed."""
    data = make_ranking(30, n_features=5, mean_size=10, random_state=0).data
    order = np.random.default_rng(0).permutation(data.n_rows)
    return np.asarray(data.X)[order], data.y[order], data.qid[order]


def score_by_hand(X, y, qid, column: int) -> float:
    data = RankingData.from_arrays(X, y, qid)
    return float(np.nanmean(ndcg(np.asarray(data.X)[:, column], data.y, data.offsets, k=10)))


def test_folds_hold_whole_queries_once_each(rows) -> None:
    X, y, qid = rows
    tested = []
    for train, test in QueryKFold(4).split(X, y, qid=qid):
        assert not set(qid[train]) & set(qid[test])
        assert len(train) + len(test) == len(qid)
        tested += test.tolist()
        assert len(set(qid[test])) in (7, 8)
    assert sorted(tested) == list(range(len(qid)))


def test_folds_repeat_by_seed_and_take_groups_too(rows) -> None:
    X, _, qid = rows

    def deal(**options) -> list[list[int]]:
        return [test.tolist() for _, test in QueryKFold(3, **options).split(X, groups=qid)]

    assert deal(shuffle=True, random_state=1) == deal(shuffle=True, random_state=1)
    assert deal(shuffle=True, random_state=1) != deal(shuffle=True, random_state=2)
    assert deal() != deal(shuffle=True, random_state=1)
    assert repr(QueryKFold(3)) == "QueryKFold(group='auto', n_splits=3, random_state=None, shuffle=False)"


def test_cross_val_score_is_the_metric_on_each_fold(rows) -> None:
    X, y, qid = rows
    found = cross_val_score(
        OneColumn(1),
        X,
        y,
        cv=QueryKFold(3),
        scoring=scorer("ndcg@10"),
        params={"qid": qid},
        error_score="raise",
    )
    parts = [test for _, test in QueryKFold(3).split(X, qid=qid)]
    assert found == pytest.approx([score_by_hand(X[part], y[part], qid[part], 1) for part in parts])


def test_a_search_finds_the_better_column_and_refits(rows) -> None:
    X, y, qid = rows
    search = GridSearchCV(
        OneColumn(), {"column": [0, 1, 2, 3, 4]}, cv=QueryKFold(3), scoring=scorer("mrr"), error_score="raise"
    )
    search.fit(X, y, qid=qid)
    by_hand = [np.mean(cross_val_score(OneColumn(column), X, y, cv=QueryKFold(3), scoring=scorer("mrr"),
                                       params={"qid": qid})) for column in range(5)]  # fmt: skip
    assert search.best_params_ == {"column": int(np.argmax(by_hand))}
    assert search.best_score_ == pytest.approx(max(by_hand))
    assert set(search.best_estimator_.seen_.qids.tolist()) == set(qid.tolist())


def test_pipelines_hand_qid_on(rows) -> None:
    X, y, qid = rows
    pipeline = make_pipeline(StandardScaler(), OneColumn(2))
    found = cross_val_score(
        pipeline, X, y, cv=QueryKFold(3), scoring=scorer("ndcg@10"), params={"qid": qid}, error_score="raise"
    )
    plain = cross_val_score(
        OneColumn(2),
        X,
        y,
        cv=QueryKFold(3),
        scoring=scorer("ndcg@10"),
        params={"qid": qid},
        error_score="raise",
    )
    assert found == pytest.approx(plain)
    grid = GridSearchCV(pipeline, {"onecolumn__column": [0, 2]}, cv=QueryKFold(2), scoring=scorer("ndcg@10"))
    assert set(grid.fit(X, y, qid=qid).best_estimator_[-1].seen_.qids.tolist()) == set(qid.tolist())


def test_several_scorers_at_once(rows) -> None:
    X, y, qid = rows
    found = cross_validate(
        OneColumn(), X, y, cv=QueryKFold(2), params={"qid": qid}, error_score="raise",
        scoring={"ndcg": scorer("ndcg@10"), "rank": scorer("rank")},
    )  # fmt: skip
    assert (found["test_rank"] <= -1.0).all()  # less is better, so the sign is turned
    assert (found["test_ndcg"] > 0.0).all()


def test_weights_reach_fit_and_score_when_asked(rows) -> None:
    X, y, qid = rows
    weight = 1.0 + (qid % 2)
    ranker = OneColumn().set_fit_request(sample_weight=True)
    judge = scorer("ndcg@10").set_score_request(sample_weight=True)
    search = GridSearchCV(ranker, {"column": [0]}, cv=QueryKFold(3), scoring=judge, error_score="raise")
    search.fit(X, y, qid=qid, sample_weight=weight)
    assert set(search.best_estimator_.seen_.weight.tolist()) == {1.0, 2.0}
    data = RankingData.from_arrays(X, y, qid, weight=weight)
    values = ndcg(np.asarray(data.X)[:, 0], data.y, data.offsets, k=10)
    known = ~np.isnan(values)
    expected = np.average(values[known], weights=data.weight[data.offsets[:-1]][known])
    assert judge(ranker.fit(X, y, qid=qid), X, y, qid=qid, sample_weight=weight) == pytest.approx(expected)
    with pytest.raises(BadInput, match="the same in all rows of a query"):
        judge(ranker, X, y, qid=qid, sample_weight=np.arange(len(qid)))


def test_weights_by_another_name_are_not_taken_for_weights(rows) -> None:
    X, y, qid = rows
    judge = scorer("mrr").set_score_request(sample_weight="importance")
    ranker = OneColumn().set_fit_request(sample_weight=False)
    found = cross_val_score(
        ranker, X, y, cv=QueryKFold(2), scoring=judge, error_score="raise",
        params={"qid": qid, "importance": np.ones(len(qid))},
    )  # fmt: skip
    assert len(found) == 2
    with pytest.raises(BadInput, match="may ask for qid, sample_weight and propensity"):
        judge.set_score_request(position=True)


def test_out_of_fold_predictions_can_be_evaluated(rows) -> None:
    X, y, qid = rows
    scores = cross_val_predict(OneColumn(1), X, y, cv=QueryKFold(3), params={"qid": qid})
    order = np.argsort(qid, kind="stable")
    data = RankingData.from_arrays(X[order], y[order], qid[order])
    assert evaluate(scores[order], data)["ndcg@10"] == pytest.approx(score_by_hand(X, y, qid, 1))


def test_a_scorer_reads_ranking_data_too() -> None:
    data = make_ranking(10, n_features=3, mean_size=6, random_state=1).data
    ranker = OneColumn(1).fit(data)
    assert scorer("ndcg@10")(ranker, data) == pytest.approx(ranker.score(data))
    assert len(list(QueryKFold(2).split(data))) == 2


def test_without_qid_the_error_says_how_to_pass_it(rows) -> None:
    X, y, _ = rows
    with pytest.raises(BadInput, match="enable_metadata_routing=True"):
        scorer("mrr")(OneColumn().fit(X, y, qid=rows[2]), X, y)
    with pytest.raises(BadInput, match="enable_metadata_routing=True"):
        next(QueryKFold(2).split(X, y))
    with sklearn.config_context(enable_metadata_routing=False):
        folds = list(QueryKFold(2).split(X, y, rows[2]))
    assert len(folds) == 2


def test_nothing_scored_is_nan() -> None:
    ranker = OneColumn().fit([[1.0], [2.0]], [0, 1], qid=[1, 1])
    assert np.isnan(scorer("ndcg@10")(ranker, [[1.0], [2.0]], [0, 0], qid=[1, 1]))


def test_a_scorer_is_a_value() -> None:
    assert scorer("NDCG@10") == scorer("ndcg@10")
    assert len({scorer("mrr"), scorer("mrr"), scorer("mrr", empty="zero")}) == 2
    assert clone(scorer("mrr"), safe=False) == scorer("mrr")
    with pytest.raises(UnknownName, match="did you mean"):
        scorer("ndgc")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: QueryKFold(1), "n_splits must be a whole number of 2 or more. Got 1"),
        (lambda: QueryKFold(3, random_state=0), "no effect without shuffle=True"),
        (lambda: list(QueryKFold(3).split([[0]] * 4, qid=[1, 1, 2, 2])), "2 queries are too few for 3 folds"),
        (lambda: list(QueryKFold(2).split([[0]] * 4, qid=[1, 2])), "one id for each of the 4 rows. Got 2"),
        (lambda: list(QueryKFold(2).split([[0]] * 2, groups=[1, 2], qid=[1, 2])), "qid or groups, not both"),
    ],
)
def test_bad_folds_are_named(call, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


class Centred(OneColumn):
    """Looks at the list: how far from its list's mean a row's feature lies."""

    def _score_lists(self, X: np.ndarray, offsets: np.ndarray | None) -> np.ndarray:
        borders = np.array([0, len(X)]) if offsets is None else offsets
        values = np.asarray(X, dtype=np.float64)[:, self.column]
        means = np.add.reduceat(values, borders[:-1]) / np.diff(borders)
        return np.abs(values - np.repeat(means, np.diff(borders)))

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self._score_lists(X, None)


def test_a_ranker_that_looks_at_the_list_is_told_the_lists(rows) -> None:
    X, y, qid = rows
    data = RankingData.from_arrays(X, y, qid)
    expected = 0.0
    for query in range(data.n_queries):
        part = data[[query]]
        values = np.asarray(part.X, dtype=np.float64)[:, 0]
        found = ndcg(np.abs(values - values.mean()), part.y, part.offsets, k=10)
        expected += np.nan_to_num(found[0]) / np.sum([data.y[a:b].any() for a, b in pairwise(data.offsets)])
    ranker = Centred().fit(X, y, qid=qid)
    judge = scorer("ndcg@10")
    assert judge(ranker, X, y, qid=qid) == pytest.approx(expected)
    assert judge(ranker, data) == pytest.approx(expected)
    piped = make_pipeline(StandardScaler(with_std=False), Centred().set_fit_request(qid=True)).fit(
        X, y, qid=qid
    )
    assert judge(piped, X, y, qid=qid) == pytest.approx(expected)  # a shift changes no distance from the mean
    assert evaluate(piped, data, "ndcg@10")["ndcg@10"] == pytest.approx(expected)


def test_folds_of_ranking_data_keep_sessions_whole() -> None:
    qid = np.repeat(np.arange(6), 2)
    sessions = {"session_id": np.array([f"s{q % 3}" for q in qid], dtype=object)}
    data = RankingData.from_arrays(np.zeros((12, 1)), np.zeros(12), qid, segments=sessions)
    for train, test in QueryKFold(3).split(data):
        assert set(data.segments["session_id"][train]).isdisjoint(data.segments["session_id"][test])
    first = next(iter(QueryKFold(3, group="query").split(data)))[1]
    assert set(data.qid[first].tolist()) == {0, 1}
