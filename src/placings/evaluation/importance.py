"""What each feature is worth: gain, splits, contributions, and what is lost when its values are shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Cell,
    Floats,
    Grid,
    Ints,
    Shown,
    UnknownName,
    bootstrap_means,
    format_interval,
    format_number,
    mean_known,
    render_grid,
)
from placings.data import Matrix, RankingData, find_clusters
from placings.evaluation.debiasing import check_propensity
from placings.evaluation.scoring import give_scores, is_lower_better
from placings.metrics import Metric, sum_by_query
from placings.metrics import metric as find_metric

SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Shown):
    """How much each feature matters, the most important first.

    `values` `[features]` belong to `names`; `low` and `high` are the ends of the interval over queries,
    and `per_query` `[features, queries]` what was averaged (NaN for a query that was not scored). The last
    three are None for kinds that look at the trees alone. `meaning` says what a value is.
    """

    kind: str
    meaning: str
    names: tuple[str, ...]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    per_query: Floats | None = None

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise UnknownName("feature", str(name), self.names)
        return float(self.values[self.names.index(name)])

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def table(self, format: str = "text", *, top: int | None = SHOWN) -> str:
        """The first `top` features (None: all) as "text", "markdown", "latex" or "html"."""
        rows = []
        for place, name in enumerate(self.names[:top]):
            cells = [Cell(name), Cell(format_number(self.values[place]))]
            if self.low is not None and self.high is not None:
                cells.append(Cell(format_interval(self.low[place], self.high[place])))
            rows.append(tuple(cells))
        header = ("feature", self.kind, *(("95% interval",) if self.low is not None else ()))
        left_out = len(self.names) - len(rows)
        more = (f"And {left_out} more, of less importance.",) if left_out else ()
        notes = (self.meaning, *more)
        return render_grid(Grid(header, tuple(rows), notes), format)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values of each query, as plain values."""
        features = [
            {"feature": name, "value": float(self.values[place])}
            | ({} if self.low is None else {"low": float(self.low[place])})
            | ({} if self.high is None else {"high": float(self.high[place])})
            for place, name in enumerate(self.names)
        ]
        return {"kind": self.kind, "meaning": self.meaning, "features": features}


def rank_importance(
    ranker: Any, kind: str = "gain", data: RankingData | None = None, **options: Any
) -> Importance:
    """The importance of each feature, of any kind, the most important first.

    - "gain", "split": what the trees of a tree ranker say (`ranker.feature_importances`); no data needed
    - "contributions": the mean size of its contribution to the score, over rows of a query, then queries;
      for rankers with `contributions` (trees, linear)
    - "permutation": `permute_importance` with `options`, for any ranker

    >>> from placings.simulate.rankings import make_ranking
    >>> from placings.rankers.lgbm import LightGBMRanker
    >>> data = make_ranking(20, n_features=3, random_state=0).data
    >>> found = rank_importance(LightGBMRanker(rounds=5).fit(data), "split")
    >>> len(found), found.values[0] >= found.values[-1]
    (3, np.True_)
    """
    if kind not in KINDS:
        raise UnknownName("kind of importance", str(kind), KINDS)
    if kind in ("gain", "split"):
        _refuse_options(kind, options)
        return _ask_trees(ranker, kind)
    if data is None:
        raise BadInput(
            f"importance by {kind} is measured on data. Pass data=, best such as was not trained on."
        )
    if kind == "permutation":
        return permute_importance(ranker, data, **options)
    _refuse_options(kind, options)
    return _weigh_contributions(ranker, data)


def permute_importance(
    ranker: Any,
    data: RankingData,
    metric: str | Metric = "ndcg@10",
    *,
    repeats: int = 5,
    within: str = "query",
    features: Sequence[str | int] | None = None,
    random_state: int = 0,
) -> Importance:
    """How much worse the ranking of `data` gets when one feature's values are shuffled.

    With m the metric of a query and m′ the same after shuffling one column, a query's value is the mean of
    `m − m′` over `repeats` shuffles (`m′ − m` for metrics of which less is better), and a feature's
    is the mean over queries that have an m, with a bootstrap interval over queries, or over users
    or sessions where the data know them. Below 0: shuffling helped.

    - `within="query"`: values change places among the rows of each query. A query keeps its values, and
      only who has which is lost: what the feature does for the order. A feature that is constant within
      every query gets exactly 0, also if the ranker uses it to read other features.
    - `within="all"`: values change places among all rows, so that lists also get values foreign to them.

    Every feature and every ranker meets the same `repeats` permutations (from `random_state`), so they can
    be compared, and asking for some `features` only (names or places) gives the same numbers. Features
    that stand in for each other each look unimportant. NaN moves like any value; a feature whose values
    are all equal gets 0.

    >>> from placings.rankers.lgbm import LightGBMRanker
    >>> X, y = [[i % 7, 1.0] for i in range(70)], [i % 7 > 5 for i in range(70)]
    >>> data = RankingData.from_arrays(X, y, qid=[0] * 70)
    >>> found = permute_importance(LightGBMRanker(rounds=5).fit(data), data)
    >>> found.names, found["f1"] > 0.1, found["f2"]
    (('f1', 'f2'), True, 0.0)
    """
    if within not in ("query", "all"):
        raise UnknownName("way to permute", str(within), ("query", "all"))
    if isinstance(repeats, bool) or not isinstance(repeats, int | np.integer) or repeats < 1:
        raise BadInput(f"repeats must be a whole number of 1 or more. Got {repeats!r}.")
    chosen = find_metric(metric)
    check_propensity([chosen], data)
    sign = -1.0 if is_lower_better(chosen.name) else 1.0
    places = range(data.n_features) if features is None else [data._place(feature) for feature in features]
    orders = [_shuffle(data, within, seed) for seed in np.random.SeedSequence(random_state).spawn(repeats)]

    def judge(given: RankingData) -> Floats:
        return chosen(give_scores(ranker, given), given.y, given.offsets, propensity=given.propensity)

    before = judge(data)
    if np.isnan(before).all():
        raise BadInput(f"no query of the data has a {chosen}: nothing is relevant. Give data with labels.")
    drops = np.zeros((len(places), data.n_queries))
    put_column = _make_editor(data)
    for row, place in enumerate(places):
        column = _take_column(data.X, place)
        drops[row, np.isnan(before)] = np.nan
        for order in orders:
            shuffled = column[order]
            if not np.array_equal(shuffled, column, equal_nan=True):
                drops[row] += sign * (before - judge(put_column(place, shuffled))) / repeats
        put_column(place, column)
    names = tuple(data.feature_names[place] for place in places)
    whom = "the rows of each query" if within == "query" else "all rows"
    meaning = (
        f"Loss of {chosen} when the feature's values are shuffled among {whom}, mean of {repeats} shuffles."
    )
    return _with_intervals("permutation", meaning, names, drops, data)


KINDS = ("gain", "split", "contributions", "permutation")


# -- inside ----------------------------------------------------------------------------------------


def _ask_trees(ranker: Any, kind: str) -> Importance:
    if not hasattr(ranker, "feature_importances"):
        raise BadInput(
            f"importance by {kind} is for trees, and {type(ranker).__name__} has none. "
            'Use kind="permutation" with data.'
        )
    found = ranker.feature_importances(kind)
    values = np.array(list(found.values()), dtype=np.float64)
    meaning = {"gain": "What splits on the feature gained in training.", "split": "Splits on the feature."}
    return Importance(kind, meaning[kind], tuple(found), values)


def _weigh_contributions(ranker: Any, data: RankingData) -> Importance:
    if not hasattr(ranker, "contributions"):
        raise BadInput(
            f"{type(ranker).__name__} has no contributions. "
            'Use kind="permutation", which works for any ranker.'
        )
    names = ranker.feature_names_
    per_query = np.full((len(names), data.n_queries), np.nan)
    filled = np.flatnonzero(data.sizes > 0)
    for start in range(0, len(filled), 512):  # queries together: contributions are rows × features
        part = data[filled[start : start + 512]]
        found = ranker.contributions(part)[:, :-1]
        dense = np.abs(found.toarray() if hasattr(found, "toarray") else found)
        sums = np.stack([sum_by_query(column, part.offsets) for column in dense.T])
        per_query[:, filled[start : start + 512]] = sums / part.sizes
    meaning = "Mean of |contribution to the score| over the rows of a query, then over queries."
    return _with_intervals("contributions", meaning, tuple(names), per_query, data)


def _with_intervals(
    kind: str, meaning: str, names: tuple[str, ...], per_query: Floats, data: RankingData
) -> Importance:
    """Means over queries and their intervals, over users or sessions where the data know them."""
    means = mean_known(per_query.T)
    order = np.argsort(-means, kind="stable")
    clusters = find_clusters(data)
    codes = None if clusters is None else clusters.codes
    low, high = bootstrap_means(per_query.T, draws=1000, level=0.95, random_state=0, clusters=codes)
    if clusters is not None:
        meaning += f" Intervals resample {clusters}, {data.n_queries:,} queries."
    return Importance(
        kind, meaning, tuple(names[place] for place in order), means[order], low[order], high[order],
        per_query[order],
    )  # fmt: skip


def _shuffle(data: RankingData, within: str, seed: np.random.SeedSequence) -> Ints:
    rng = np.random.default_rng(seed)
    if within == "all":
        return rng.permutation(data.n_rows)
    return np.lexsort((rng.random(data.n_rows), data.query_index))


def _take_column(X: Matrix, place: int) -> AnyArray:
    column: Any = X[:, [place]]
    return np.array(column if isinstance(column, np.ndarray) else column.toarray()).ravel()


def _make_editor(data: RankingData) -> Callable[[int, AnyArray], RankingData]:
    """A function that gives the data with one column exchanged; dense data are copied once, not each time."""
    if not isinstance(data.X, np.ndarray):
        return lambda place, column: data.replace(X=_exchange_sparse(data.X, place, column))
    scratch = data.X.copy()

    def put(place: int, column: AnyArray) -> RankingData:
        scratch[:, place] = column
        return data.replace(X=scratch)

    return put


def _exchange_sparse(X: Any, place: int, column: AnyArray) -> Any:
    stored = X.tocoo()
    keep = stored.col != place
    rows = np.flatnonzero((column != 0) | np.isnan(column))
    values = np.concatenate([stored.data[keep], column[rows]])
    where = (
        np.concatenate([stored.row[keep], rows]),
        np.concatenate([stored.col[keep], np.full(len(rows), place)]),
    )
    return type(X)((values, where), shape=X.shape, dtype=np.float32)


def _refuse_options(kind: str, options: dict[str, Any]) -> None:
    if options:
        raise BadInput(f"importance by {kind} takes no options. Got {', '.join(sorted(options))}.")
