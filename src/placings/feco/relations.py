"""Two questions of the paper: does coverage go with NDCG, and does importance tell the impact of a loss?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    check_count,
    check_share,
    format_difference,
    format_interval,
    percentile_interval,
    render_grid,
    resample_means,
    write_json,
)
from placings.data import RankingData, check_seed, find_clusters
from placings.evaluation import is_lower_better
from placings.feco.effects import Degradation
from placings.feco.masking import (
    Rule,
    check_value,
    choose_candidates,
    count_units,
    draw_order,
    score_each,
    take_column,
)
from placings.feco.subjects import Subject, resolve_features, weigh_features
from placings.metrics import metric as find_metric

GRID = tuple(step / 10 for step in range(11))
STREAM = 2  # of the seed: other draws than those of masks and of a callable metric


@dataclass(frozen=True)
class Correlation:
    """How one feature's coverage and the metric go together over masked copies of the test data."""

    feature: str
    metric: str
    pearson: float
    low: float
    high: float
    spearman: float
    slope: float  # what the metric gains for one point (0.01) of coverage


@dataclass(frozen=True, eq=False, repr=False)
class Correlations:
    """One `Correlation` a feature; `points` has coverage and metric of each masked copy."""

    found: tuple[Correlation, ...]
    points: Any  # pandas: feature, drop, draw, coverage, value
    note: str

    def __getitem__(self, feature: str) -> Correlation:
        for each in self.found:
            if each.feature == feature:
                return each
        raise BadInput(f"no correlation of {feature!r}; there are {[each.feature for each in self.found]}.")

    def table(self, format: str = "text") -> str:
        """Feature, correlation with interval, Spearman's, slope."""
        rows = tuple(
            (Cell(each.feature), Cell(format_difference(each.pearson)),
             Cell(format_interval(each.low, each.high, signed=True)), Cell(format_difference(each.spearman)),
             Cell(f"{each.slope:+.6f}".replace("-", "−")))
            for each in self.found
        )  # fmt: skip
        header = ("feature", "Pearson", "95% interval", "Spearman", "per point of coverage")
        return render_grid(Grid(header, rows, (self.note,)), format)

    def to_pandas(self) -> Any:
        from placings.core import need_library

        return need_library("pandas", "Correlations.to_pandas").DataFrame([asdict(e) for e in self.found])

    def to_dict(self) -> dict[str, Any]:
        return {"correlations": [asdict(each) for each in self.found], "note": self.note}

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def __repr__(self) -> str:
        return self.table()


def correlate_coverage(
    ranker: Any,
    test: RankingData,
    features: str | int | Sequence[str | int],
    *,
    grid: Sequence[float] = GRID,
    draws: int = 20,
    metric: str = "ndcg@8",
    unit: str = "event",
    of: str = "covered",
    value: float = 0.0,
    rule: Rule = "non_zero",
    importance: Any = None,
    bootstrap: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> Correlations:
    """Correlate a feature's coverage with the metric over a grid of drops and draws of masks.

    Each drop of `grid` (0 is the full data) and each draw is a masked copy of `test` with its coverage c and
    mean metric m; the correlation is over these copies, not over their averages, which would lie on a line
    whatever the noise. The interval resamples queries and takes all copies' means anew; fewer different
    queries make single copies noisier, so it lies rather low. A feature without a covered unit, or whose loss
    changes nothing, has NaN and a slope of 0.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(30, n_features=2, mean_size=20, random_state=0).data
    >>> class First:
    ...     def predict(self, data):
    ...         return data.X[:, 0]
    >>> found = correlate_coverage(First(), data, ["click_count_log_1"], draws=5, bootstrap=0)
    >>> abs(found.found[0].pearson) > 0.5
    True
    """
    from placings.core import need_library

    pandas = need_library("pandas", "correlate_coverage")
    seed = check_seed(random_state, drawn=False)
    check_count("draws", draws, least=1)
    check_share("level", level)
    steps = [float(step) for step in grid]
    if len(set(steps)) < 3 or not all(0.0 <= step <= 1.0 for step in steps):
        raise BadInput(f"grid must be at least three different shares from 0 to 1. Got {grid!r}.")
    subject = Subject(ranker)
    chosen = resolve_features(features, test.feature_names, weigh_features(subject, importance, test), seed)
    judge = find_metric(metric)
    units = count_units(test, unit)
    clusters = find_clusters(test)
    fill = check_value(value, rule)
    found, points = [], []
    for name, _ in chosen:
        covered = units.cover(take_column(test.X, test._place(name)), rule)
        candidates = choose_candidates(covered, of)
        masks, coverages, keys = [], [], []
        for draw in range(draws):
            order = draw_order(candidates, seed, name, draw)
            for step in steps:
                left = covered.copy()
                left[order.first(step) if step else order.units[:0]] = False
                masks.append(units.spread(order.first(step) if step else order.units[:0]))
                coverages.append(float(left.mean()))
                keys.append((step, draw))
        scored = score_each(subject.predict, test, name, masks, fill, reach=subject.reach)
        values = np.stack(
            [judge(scores, test.y, test.offsets, propensity=test.propensity) for scores in scored], axis=1
        )
        known = ~np.isnan(values).any(axis=1)
        values = values[known]  # [queries, copies]
        if not len(values):
            raise BadInput(f"no query of the test data has a {judge}: nothing is relevant.")
        share = np.array(coverages)
        means = values.mean(axis=0)
        codes = None if clusters is None else clusters.codes[known]
        means_drawn = resample_means(values, bootstrap, [seed, STREAM], clusters=codes)
        resampled = correlate_rows(share, means_drawn)
        low, high = (float(end) for end in percentile_interval(resampled, level))
        both = correlate(share, means)
        slope = 0.0 if np.isnan(both) else 0.01 * float(np.polyfit(share, means, 1)[0])
        found.append(Correlation(name, str(judge), both, low, high, correlate_ranks(share, means), slope))
        points += [(name, *key, c, m) for key, c, m in zip(keys, coverages, means.tolist(), strict=True)]
    frame = pandas.DataFrame(points, columns=["feature", "drop", "draw", "coverage", "value"])
    note = (
        f"{judge} against coverage over {len(steps)} drops × {draws} draws of masked {unit}s, each a copy of "
        f"the {test.n_queries:,} test queries; intervals resample queries."
    )
    return Correlations(tuple(found), frame, note)


# -- importance against impact ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Relation:
    """Importance against impact: Spearman's correlation over features, and the pairs behind it."""

    spearman: float
    low: float
    high: float
    kind: str
    metric: str
    drop: float
    where: str
    pairs: Any  # pandas: feature, importance, lost, low, high

    def to_dict(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("spearman", "low", "high", "kind", "metric", "drop")}
        return {**facts, "where": self.where, "pairs": self.pairs.to_dict("records")}

    def __repr__(self) -> str:
        return (
            f"Spearman {self.spearman:+.2f} [{self.low:+.2f}, {self.high:+.2f}] between importance by "
            f"{self.kind} and the loss of {self.metric} at a drop of {self.drop:.0%} ({self.where}), over "
            f"{len(self.pairs)} features"
        )


def relate_importance(
    found: Degradation, metric: str | None = None, *, drop: float | None = None, where: str | None = None
) -> Relation:
    """Does a more important feature cost more when it goes dark? The rank correlation over features.

    Importances are those of `found.importance`, impacts the losses of `metric` (the first) at `drop` (the
    largest) and `where` (the first). The interval resamples queries, so it holds for these features and this
    ranker: it says how sure the impacts are, not what other features would do. At least three features.
    """
    if found.importance is None:
        raise BadInput("the importance is not known. Ask for it: degrade(…, importance='permutation').")
    if found.settings["callable"]:
        raise BadInput("importance against impact needs a metric that has a value for each query.")
    name = metric or found.metrics[0]
    place = where or next(iter(found.baseline))
    share = max(found.settings["drops"]) if drop is None else float(drop)
    losses = [e for e in found.losses if (e.metric, e.where, e.drop) == (name, place, share)]
    if len(losses) < 3:
        raise BadInput(
            f"a rank correlation needs at least three features. Got {len(losses)} with {name} at {share:g}, "
            f"{place}. Pass features='top:20' to degrade."
        )
    sign = -1.0 if is_lower_better(name) else 1.0
    effects = [e for e in found.effects if (e.where, e.drop) == (place, share)]
    columns = np.stack([sign * (found.baseline[place][name] - e.values[name]) for e in effects], axis=1)
    known = ~np.isnan(columns).any(axis=1)
    columns = columns[known]
    codes = None if found.clusters is None else found.clusters.codes[known]
    weights = np.array([found.importance[each.feature] for each in losses])
    lost = np.array([each.lost for each in losses])
    settings = found.settings
    draws, seed = settings["bootstrap"], [settings["random_state"], STREAM]
    means = resample_means(columns, draws, seed, clusters=codes)
    resampled = correlate_rows(rank_values(weights), rank_values(means))
    low, high = (float(end) for end in percentile_interval(resampled, settings["level"]))
    from placings.core import need_library

    pairs = need_library("pandas", "relate_importance").DataFrame(
        {
            "feature": [each.feature for each in losses],
            "importance": weights,
            "lost": lost,
            "low": [each.low for each in losses],
            "high": [each.high for each in losses],
        }
    )
    rho = correlate_ranks(weights, lost)
    return Relation(rho, low, high, found.importance.kind, name, share, place, pairs)


# -- numbers ------------------------------------------------------------------------------------------


def correlate(first: Floats, second: Floats) -> float:
    """Pearson's correlation; NaN where one of the two does not vary.

    >>> round(correlate(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])), 6)
    1.0
    """
    return float(correlate_rows(first, second[None, :])[0])


def correlate_rows(first: Floats, rows: Floats) -> Floats:
    """Pearson's correlation of a vector with each row of a matrix."""
    a = first - first.mean()
    b = rows - rows.mean(axis=1, keepdims=True)
    size = np.sqrt((a @ a) * (b * b).sum(axis=1))
    varies = size > 1e-15 * len(a)
    return np.where(varies, (b @ a) / np.where(varies, size, 1.0), np.nan)


def correlate_ranks(first: Floats, second: Floats) -> float:
    """Spearman's correlation, ties at their average rank.

    >>> round(correlate_ranks(np.array([1.0, 2.0, 9.0]), np.array([3.0, 4.0, 5.0])), 6)
    1.0
    """
    return correlate(rank_values(first), rank_values(second))


def rank_values(values: Floats) -> Floats:
    """Ranks along the last axis, ties at their average."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=-1), dtype=np.float64)
