"""`evaluate`: how good a ranker is on data, with intervals, counts and the rule that was followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placings.core import (
    FEW,
    AnyArray,
    BadInput,
    Cell,
    Floats,
    Grid,
    Ints,
    UnknownName,
    as_scores,
    format_interval,
    format_mean,
    interval_means,
    mean_known,
    render_grid,
    write_json,
)
from placings.data import Clusters, RankingData, find_clusters, name_units
from placings.evaluation.debiasing import (
    all_debiased,
    check_propensity,
    find_bounds,
    say_debiased,
    vary_by_chance,
    weigh_rows,
)
from placings.evaluation.slices import (
    SMALL,
    QueryGroup,
    Slice,
    Slicings,
    describe_slice,
    find_groups,
    order_worst_first,
    render_slices,
)
from placings.metrics import (
    AnyMetrics,
    Metric,
    count_by_query,
    is_relevant,
    list_metrics,
    measure,
    metric,
    rank_of_first_relevant,
)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The means of some metrics and what stands behind them.

    `result["ndcg@10"]` is a mean, `result.interval("ndcg@10")` its interval, `result.per_query` the value of
    each query in the order of `qids` (NaN where it was not scored), `result.counts` how many queries there
    are, were scored, have nothing relevant and are too short, `result.rule` the sentence that says so.
    """

    per_query: Mapping[str, Floats]
    intervals: Mapping[str, tuple[float, float]]
    counts: Mapping[str, int]
    qids: AnyArray
    rule: str
    settings: Mapping[str, Any]
    slices: tuple[Slice, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.means[self._find(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.means

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def interval(self, name: str) -> tuple[float, float]:
        """Low and high end of the mean's bootstrap interval; (NaN, NaN) with `bootstrap=0`."""
        return self.intervals[self._find(name)]

    def table(self, format: str = "text") -> str:
        """The means as "text", "markdown", "latex" or "html", the rule below them."""
        rows = tuple(
            (Cell(name), Cell(format_mean(mean)), Cell(format_interval(*self.intervals[name])))
            for name, mean in self.means.items()
        )
        header = ("metric", "mean", f"{self.settings['level']:.0%} interval")
        return render_grid(Grid(header, rows, (self.rule, *self._say_bootstrap())), format)

    def slice_table(self, format: str = "text") -> str:
        """The slices, the worst in the first metric first; "" when none were asked for."""
        return render_slices(self.slices, self.rule, format) if self.slices else ""

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-query values, as plain values."""
        return {
            "metrics": {
                name: {
                    "mean": mean,
                    "low": self.intervals[name][0],
                    "high": self.intervals[name][1],
                    "scored": int(np.isfinite(self.per_query[name]).sum()),
                }
                for name, mean in self.means.items()
            },
            "counts": dict(self.counts),
            "rule": self.rule,
            "settings": dict(self.settings),
            "slices": [describe_slice(each) for each in self.slices],
        }

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def __repr__(self) -> str:
        return "\n\n".join(part for part in (self.table(), self.slice_table()) if part)

    def _repr_html_(self) -> str:
        return self.table("html") + (self.slice_table("html") if self.slices else "")

    def _say_bootstrap(self) -> tuple[str, ...]:
        if not self.settings["bootstrap"]:
            return ()
        return (
            say_bootstrap(self.settings),
            *say_clusters(self.settings, self.counts, "Intervals"),
        )

    def _find(self, name: str) -> str:
        if name not in self.means:
            raise UnknownName("metric in this evaluation", str(name), self.means)
        return name


def evaluate(
    ranker_or_scores: Any,
    data: RankingData,
    metrics: AnyMetrics = ("ndcg@10",),
    *,
    bootstrap: int = 1000,
    level: float = 0.95,
    empty: str = "drop",
    min_items: int = 1,
    slices: Slicings = None,
    random_state: int = 0,
    cluster: str | None = "auto",
    **options: Any,
) -> Evaluation:
    """Judge a ranker, or scores, on data: the mean of each metric over queries, with its interval.

    `ranker_or_scores` has a `predict`, or is an array with one score for each row of `data`. A ranker gets
    the data, any other scikit-learn estimator `data.X`. All metrics come from one ranking pass; `options`
    (`ties=`, `gain=`, `relevant_from=`, …) go to the metrics that know them. A metric may be a function of
    your own, of one query's scores and labels (see `placings.metric`).

    The interval is a percentile bootstrap over queries, `bootstrap` draws that all metrics share; 0 skips
    it. Of 100 queries (users, sessions) or fewer, where a bootstrap is too narrow, it is Student's t, as
    `placings.core.interval_means` has it. A query with nothing relevant is left out (`empty="drop"`), 0
    (`"zero"`) or 1 (`"one"`); one with fewer than `min_items` rows is left out. If no query is left a mean is
    NaN, and the rule says why.
    `slices` asks for groups of queries as well (see `placings.evaluation.slices.find_groups`).

    Metrics that end in `:ips` (`dcg@10:ips`) divide each click by `data.propensity`; a query without a click
    counts as 0 there, whatever `empty` says.

    Queries of one user or one session are alike, and intervals that take them as independent are too narrow.
    `cluster` says what is drawn: "auto" (users where the data have a segment `user_id`, else sessions where
    they have `session_id`, else queries), a segment's name, or None or "query" for single queries.

    >>> data = RankingData.from_arrays([[0.9], [0.8], [0.3]], [0, 1, 0], [1, 1, 2])
    >>> result = evaluate(data.X[:, 0], data, ["mrr", "ndcg@10"])
    >>> result["mrr"], result.counts["scored"]
    (0.5, 1)
    >>> print(result.rule)
    Means over 1 of 2 queries; 1 with nothing relevant is left out (empty="drop").
    """
    wanted = name_metrics(metrics)
    refuse_other_data(data)
    check_propensity(wanted, data)
    scores = give_scores(ranker_or_scores, data)
    settings = {"empty": empty, "min_items": min_items}
    values = measure(wanted, scores, data.y, data.offsets, propensity=data.propensity, **settings, **options)
    matrix = stack_columns(values)
    clusters = find_clusters(data, cluster)
    codes = None if clusters is None else clusters.codes
    worth = weigh_rows(wanted, scores, data, options)
    unknown = np.full(len(data), np.nan)
    chance = stack_columns(
        {name: vary_by_chance(worth[name], data, options) if name in worth else unknown for name in values}
    )
    resampling: dict[str, Any] = {"draws": bootstrap, "level": level, "random_state": random_state}
    resampling["bounds"] = find_bounds(values, empty)
    low, high = interval_means(matrix, clusters=codes, chance=chance, **resampling)
    counted = "zero" if all_debiased(wanted) else empty
    counts = count_queries([data], counted, min_items, options.get("relevant_from"))
    asked = {"bootstrap": bootstrap, "level": level, **settings, "random_state": random_state, **options}
    asked |= describe_clusters(clusters) | name_students(matrix, codes, values)
    first = next(iter(values))
    found = [
        each
        for group in find_groups(slices, [data])
        for each in _judge_group(group, values, chance, codes, resampling)
    ]
    return Evaluation(
        per_query=values,
        intervals={name: (float(low[i]), float(high[i])) for i, name in enumerate(values)},
        counts=counts,
        qids=data.qids,
        rule=say_rule(counts, values, empty, min_items) + say_debiased(wanted, [data], options),
        settings=asked,
        slices=tuple(order_worst_first(found, first, is_lower_better(first))),
        means=dict(zip(values, mean_known(matrix).tolist(), strict=True)),
    )


@dataclass(frozen=True, eq=False)
class RankDistribution:
    """Where the first relevant item stands: `ranks` `[queries]`, NaN for a query with nothing relevant."""

    ranks: Floats
    deepest: int

    @property
    def counts(self) -> Ints:
        """Queries whose first relevant item stands at rank 1, 2, …, `deepest`, and (last) below it."""
        known = self.ranks[~np.isnan(self.ranks)].astype(np.int64)
        return np.bincount(np.minimum(known, self.deepest + 1), minlength=self.deepest + 2)[1:]

    @property
    def shares(self) -> Floats:
        """`counts` as shares of the queries with something relevant; NaN if there are none."""
        total = int(self.counts.sum())
        return self.counts / total if total else np.full(self.deepest + 1, np.nan)

    @property
    def reached(self) -> Floats:
        """The share of queries that are served by rank 1, 2, …, `deepest`."""
        return np.cumsum(self.shares[:-1])


def rank_distribution(
    ranker_or_scores: Any,
    data: RankingData,
    *,
    deepest: int = 20,
    relevant_from: float | None = None,
    ties: str = "stable",
    min_items: int = 1,
) -> RankDistribution:
    """How many queries have their first relevant item at rank 1, 2, …, and below `deepest`.

    Queries with nothing relevant (or fewer than `min_items` rows) are NaN in `ranks` and counted nowhere.
    Draw it with `placings.report.figures.draw_rank_distribution`.

    >>> data = RankingData.from_arrays([[3.0], [2.0], [1.0]], [0, 1, 1], [1, 1, 2])
    >>> rank_distribution(data.X[:, 0], data, deepest=3).counts.tolist()
    [1, 1, 0, 0]
    """
    if isinstance(deepest, bool) or not isinstance(deepest, int) or deepest < 1:
        raise BadInput(f"deepest must be a whole number of 1 or more. Got {deepest!r}.")
    scores = give_scores(ranker_or_scores, data)
    ranks = rank_of_first_relevant(
        scores, data.y, data.offsets, relevant_from=relevant_from, ties=ties, min_items=min_items
    )
    return RankDistribution(ranks, deepest)


# -- shared with comparison ------------------------------------------------------------------------


def give_scores(ranker_or_scores: Any, data: RankingData, what: str = "scores") -> Floats:
    """One finite-or-infinite score a row, from a ranker or as given; `what` names it in errors."""
    refuse_other_data(data)
    given = ranker_or_scores
    if hasattr(given, "predict"):
        from sklearn.base import BaseEstimator

        from placings.rankers import Ranker

        plain = isinstance(given, BaseEstimator) and not isinstance(given, Ranker)
        given = predict_lists(given, data.X, data.qid) if plain else given.predict(data)
    try:
        scores = as_scores(given)
    except BadInput as error:
        raise BadInput(f"{what}: {error}" if what != "scores" else str(error)) from None
    if len(scores) != data.n_rows:
        raise BadInput(f"{what} must be one number for each of the {data.n_rows} rows. Got {len(scores)}.")
    return scores


def predict_lists(estimator: Any, X: Any, qid: Any) -> Any:
    """What an estimator predicts for rows of several lists; a ranker, also behind a pipeline, learns which.

    scikit-learn hands `qid` on to no `predict`, and without it a ranker that looks at the list takes all
    rows for one.
    """
    from sklearn.pipeline import Pipeline

    from placings.rankers import Ranker

    if isinstance(estimator, Ranker):
        return estimator.predict(X, qid)
    if isinstance(estimator, Pipeline) and len(estimator) > 1 and isinstance(estimator[-1], Ranker):
        return estimator[-1].predict(estimator[:-1].transform(X), qid)
    return estimator.predict(X)


def name_metrics(metrics: AnyMetrics) -> list[str | Metric]:
    """At least one metric, as a list."""
    wanted = list_metrics(metrics)
    if not wanted:
        raise BadInput("metrics must name at least one, such as 'ndcg@10'. Got none.")
    return wanted


def refuse_other_data(data: object) -> None:
    """What is judged on must know its labels and its queries."""
    if not isinstance(data, RankingData):
        raise BadInput(
            f"data must be a RankingData, which knows its labels and queries. Got {type(data).__name__}. "
            "Build one with RankingData.from_arrays(X, y, qid)."
        )


def is_lower_better(name: str) -> bool:
    """Whether less is better: of ranks, as `arp` and `rank` are."""
    return metric(name).lower_is_better


def stack_columns(values: Mapping[str, Floats]) -> Floats:
    """`[queries, metrics]`."""
    return np.stack(list(values.values()), axis=1)


def count_queries(
    folds: Sequence[RankingData], empty: str, min_items: int, relevant_from: float | None = None
) -> dict[str, int]:
    """How many queries there are, are scored, have nothing relevant, and have too few rows."""
    queries = nothing = short = 0
    for data in folds:
        few = data.sizes < min_items
        without_relevant = count_by_query(is_relevant(data.y, relevant_from), data.offsets) == 0
        queries += len(data)
        short += int(few.sum())
        nothing += int((without_relevant & ~few).sum())
    scored = queries - short - (nothing if empty == "drop" else 0)
    return {"queries": queries, "scored": scored, "nothing_relevant": nothing, "too_short": short}


def say_rule(counts: Mapping[str, int], values: Mapping[str, Floats], empty: str, min_items: int) -> str:
    """The sentence below every table: how many queries, which rule, and who was left out."""
    nothing, short = counts["nothing_relevant"], counts["too_short"]
    debiased = [name for name in values if metric(name).ips]
    only = len(debiased) == len(values)
    if empty == "drop" and not only:
        fate = "is left out" if nothing == 1 else "are left out"
    else:
        fate = ("counts" if nothing == 1 else "count") + (" as 1" if empty == "one" and not only else " as 0")
    parts = []  # a rule that no query met is not told
    if nothing:
        parts.append(
            f"{nothing} without a click {fate}"
            if only
            else f'{nothing} with nothing relevant {fate} (empty="{empty}")'
        )
    if short:
        verb = "is" if short == 1 else "are"
        parts.append(f"{short} with fewer than {min_items} items {verb} left out (min_items={min_items})")
    over = f"Means over {counts['scored']:,} of {counts['queries']:,} queries"
    text = f"{'; '.join([over, *parts])}."
    for name, each in values.items():
        scored = int((~np.isnan(each)).sum())
        if scored == 0:
            text += f" {name}: no query could be scored."
        elif name in debiased and not only:
            text += f" {name} is over {scored:,} queries: one without a click counts as 0."
        elif scored != counts["scored"]:
            text += f" {name} is over {scored:,} queries."
    return text


def say_bootstrap(settings: Mapping[str, Any]) -> str:
    """How the intervals came about."""
    over = name_units(settings.get("cluster"))
    level, students = f"{settings['level']:.0%}", settings.get("student", [])
    if students == "all":
        return f"Intervals: {level}, Student's t over {over}, longer on the side to which values are skewed."
    drawn = f"Intervals: {level}, percentile bootstrap over {over}, {settings['bootstrap']:,} draws, "
    drawn += f"seed {settings['random_state']}."
    if not students:
        return drawn
    return f"{drawn} Of {', '.join(students)}: Student's t, longer on the side to which values are skewed."


def name_students(matrix: Floats, codes: Ints | None, names: Iterable[str]) -> dict[str, str | list[str]]:
    """Which metrics have Student's t intervals, as a setting: "all" where units are few; {} for none."""
    scored = ~np.isnan(matrix).all(axis=1)
    units = int(scored.sum()) if codes is None else len(np.unique(codes[scored]))
    if units <= FEW:
        return {"student": "all"}
    debiased = [name for name in names if metric(name).ips]
    if not debiased:
        return {}
    return {"student": "all" if len(debiased) == len(list(names)) else debiased}


def describe_clusters(clusters: Clusters | None) -> dict[str, Any]:
    """What was resampled, as settings: the segment and its number of clusters; nothing for single queries."""
    return {} if clusters is None else {"cluster": clusters.by, "clusters": clusters.count}


def say_clusters(settings: Mapping[str, Any], counts: Mapping[str, int], what: str) -> tuple[str, ...]:
    """Which unit was resampled, where it is not the query."""
    if "cluster" not in settings:
        return ()
    count, units = settings["clusters"], name_units(settings["cluster"])
    few = f" Fewer than {SMALL} {units}: look, but do not conclude." if count < SMALL else ""
    return (f"{what} resample {count:,} {units}, {counts['queries']:,} queries.{few}",)


def _judge_group(
    group: QueryGroup,
    values: Mapping[str, Floats],
    chance: Floats,
    codes: Ints | None,
    resampling: Mapping[str, Any],
) -> list[Slice]:
    matrix = stack_columns(values)[group.chosen]
    own = None if codes is None else codes[group.chosen]
    low, high = interval_means(matrix, clusters=own, chance=chance[group.chosen], **resampling)
    means = mean_known(matrix)
    scored = (~np.isnan(matrix)).sum(axis=0)
    return [
        Slice(
            by=group.by,
            value=group.value,
            metric=name,
            queries=len(matrix),
            scored=int(scored[place]),
            mean=float(means[place]),
            interval=(float(low[place]), float(high[place])),
        )
        for place, name in enumerate(values)
    ]
