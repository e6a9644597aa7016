"""scikit-learn's model selection, by query: scorers from metric names, and folds of whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.metadata_routing import MetadataRequest

from placings.core import BadInput, Floats, Ints, as_same_length, as_vector
from placings.data import RankingData, as_ids, check_weight, find_clusters, number_ids, order_by_query
from placings.evaluation.scoring import predict_lists
from placings.metrics import AnyMetric, Metric, metric

ROUTING = (
    "Call sklearn.set_config(enable_metadata_routing=True) once, and pass params={'qid': qid} to "
    "cross_val_score, or qid=qid to a search's fit."
)


class QueryScorer:
    """A scikit-learn scorer: the mean of a metric over queries, with `qid` by metadata routing.

    Made by `scorer`. It asks for `qid` by itself; `set_score_request(sample_weight=True)` gives one that asks
    for weights too. It never changes; requests give a new one.
    """

    def __init__(self, chosen: Metric, requests: tuple[tuple[str, bool | str | None], ...]) -> None:
        self.metric = chosen
        self._requests = requests

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: Any = None,
        sample_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
    ) -> float:
        """The mean over scored queries, its sign turned where less is better; NaN if none was scored."""
        if isinstance(X, RankingData):
            y, qid = X.y if y is None else y, X.qid if qid is None else qid
            propensity = X.propensity if propensity is None else propensity
        self.metric.check_propensity(propensity)
        if qid is None:
            raise BadInput(f"scoring by query needs qid, one id a row. Got none. {ROUTING}")
        given = estimator.predict(X) if isinstance(X, RankingData) else predict_lists(estimator, X, qid)
        scores = as_vector(given, "scores")
        labels = as_vector(y if y is not None else [], "y")
        values, order, offsets = self._measure(scores, labels, qid, propensity)
        known = ~np.isnan(values)
        if not known.any():
            return float("nan")
        weights = _weigh(sample_weight, order, offsets)[known]
        if weights.sum() == 0.0:
            return float("nan")
        mean = float(np.average(values[known], weights=weights))
        return -mean if self.metric.lower_is_better else mean

    def _measure(
        self, scores: Floats, labels: Floats, qid: Any, propensity: ArrayLike | None
    ) -> tuple[Floats, Ints, Ints]:
        ids = as_ids(qid, "qid")
        if not len(scores) == len(labels) == len(ids):
            raise BadInput(
                "scores, y and qid must have one value for each row. "
                f"Got {len(scores)}, {len(labels)} and {len(ids)}."
            )
        codes, distinct = number_ids(ids)
        found, offsets = order_by_query(codes, len(distinct))
        order = np.arange(len(ids)) if found is None else found
        seen = None if propensity is None else as_vector(propensity, "propensity")
        if seen is not None:
            as_same_length(scores, seen, "scores and propensity")
            seen = seen[order]
        return self.metric(scores[order], labels[order], offsets, propensity=seen), order, offsets

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """A scorer that asks for `qid`, `sample_weight`, `propensity` (True) or not, or by another name."""
        for name in requests:
            if name not in ("qid", "sample_weight", "propensity"):
                raise BadInput(f"a scorer may ask for qid, sample_weight and propensity. Got {name!r}.")
        return type(self)(self.metric, tuple({**dict(self._requests), **requests}.items()))

    def get_metadata_routing(self) -> MetadataRequest:
        """What this scorer asks scikit-learn to hand on."""
        request = MetadataRequest(owner=self)
        for name, alias in self._requests:
            request.score.add_request(param=name, alias=alias)
        return request

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.metric.options)
        return f"scorer({str(self.metric)!r}{options})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueryScorer):
            return NotImplemented
        return (self.metric, self._requests) == (other.metric, other._requests)

    def __hash__(self) -> int:
        return hash((self.metric, self._requests))


def scorer(name: AnyMetric, **options: Any) -> QueryScorer:
    """A scikit-learn scorer from a metric's name: `cross_val_score(…, scoring=scorer("ndcg@10"))`.

    It calls `predict`, groups the rows by `qid` (in any order) and gives the mean over queries; `options`
    (`empty=`, `ties=`, `min_items=`, …) are the metric's. Where less is better (`arp`, `rank`) the sign is
    turned, as scikit-learn wants more to be better. Queries that are not scored are left out; if none is,
    the score is NaN. `sample_weight`, when routed, must be the same in all rows of a query and weighs it. A
    metric that ends in `:ips` asks for `propensity` too, one number a row.

    >>> scorer("ndcg@10", empty="zero")
    scorer('ndcg@10', empty='zero')
    """
    chosen = metric(name, **options)
    more = (("propensity", True),) if chosen.ips else ()
    return QueryScorer(chosen, (("qid", True), ("sample_weight", None), *more))


class QueryKFold(BaseCrossValidator):  # type: ignore[misc]
    """K folds of whole queries: no query is ever split between training and test.

    Takes `qid` by metadata routing, or `groups` where routing is off; rows may come in any order. Queries
    are dealt out in the order in which they first appear, or shuffled by `random_state`; folds differ by at
    most one query. Of a RankingData that knows its users or sessions (segments `user_id`, `session_id`) these
    are dealt out whole; `group` names another segment, "query" deals out single queries. For arrays, pass
    `groups` in place of `qid`.

    >>> for train, test in QueryKFold(2).split([[0]] * 5, qid=["a", "b", "a", "c", "b"]):
    ...     print(train, test)
    [3] [0 1 2 4]
    [0 1 2 4] [3]
    """

    __metadata_request__split: ClassVar[dict[str, Any]] = {"qid": True, "groups": True}

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: int | None = None,
        group: str | None = "auto",
    ) -> None:
        if isinstance(n_splits, bool) or not isinstance(n_splits, int | np.integer) or n_splits < 2:
            raise BadInput(f"n_splits must be a whole number of 2 or more. Got {n_splits!r}.")
        if random_state is not None and not shuffle:
            raise BadInput(f"random_state={random_state!r} has no effect without shuffle=True.")
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.group = group

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, qid: Any = None) -> int:
        """How many folds there are."""
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, qid: Any = None
    ) -> Iterator[tuple[Ints, Ints]]:
        """Rows to train on and rows to test on, `n_splits` times, each in row order."""
        if isinstance(X, RankingData) and qid is None and groups is None:
            clusters = find_clusters(X, self.group)
            qid = X.qid if clusters is None else np.repeat(clusters.codes, X.sizes)
        if qid is not None and groups is not None:
            raise BadInput("pass qid or groups, not both.")
        given = groups if qid is None else qid
        if given is None:
            raise BadInput(f"QueryKFold needs qid, one id a row. Got none. {ROUTING}")
        codes, distinct = number_ids(as_ids(given, "qid"))
        rows = X.n_rows if isinstance(X, RankingData) else _count_rows(X)
        if len(codes) != rows:
            raise BadInput(f"qid must have one id for each of the {rows} rows. Got {len(codes)}.")
        if len(distinct) < self.n_splits:
            raise BadInput(f"{len(distinct)} queries are too few for {self.n_splits} folds.")
        queries = np.arange(len(distinct))
        if self.shuffle:
            queries = np.random.default_rng(self.random_state).permutation(queries)
        for part in np.array_split(queries, self.n_splits):
            held = np.zeros(len(distinct), dtype=np.bool_)
            held[part] = True
            yield np.flatnonzero(~held[codes]), np.flatnonzero(held[codes])


def _count_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _weigh(sample_weight: ArrayLike | None, order: Ints, offsets: Ints) -> Floats:
    """One weight a query."""
    weight = check_weight(sample_weight, "sample_weight")
    if weight is None:
        return np.ones(len(offsets) - 1)
    if len(weight) != len(order):
        raise BadInput(
            f"sample_weight must have one value for each of the {len(order)} rows. Got {len(weight)}."
        )
    ordered = weight[order]
    first: Floats = ordered[offsets[:-1]]
    if (ordered != np.repeat(first, np.diff(offsets))).any():
        raise BadInput(
            "to weigh a mean over queries, sample_weight must be the same in all rows of a query. Weigh the "
            "fit alone: leave set_score_request(sample_weight=…) out."
        )
    return first
