"""What `degrade` found: the metric with and without the feature, as the paper's tables, frames and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    Shown,
    adjust_holm,
    bootstrap_means,
    flip_signs,
    format_interval,
    format_mean,
    judge_replicates,
    mean_known,
    percentile_interval,
    render_grid,
)
from placings.data import Clusters
from placings.evaluation import BETTER, WORSE, Importance, is_lower_better

WHERE = {"test": "in test data", "train+test": "in train and test data"}


@dataclass(frozen=True, eq=False)
class Effect:
    """One feature, one drop: the metrics of each query, averaged over the mask draws.

    `values` maps a metric to `[queries]`; of a callable metric, which has no value of a query, to `[1]`, and
    then `replicates` holds its bootstrapped losses `[bootstrap]`. `spread` is the standard deviation of the
    mean from draw to draw; coverages are shares of the test data's units.
    """

    feature: str
    chosen: str
    where: str
    drop: float
    draws: int
    units: int
    coverage_before: float
    coverage_after: float
    values: Mapping[str, Floats]
    spread: Mapping[str, float]
    replicates: Mapping[str, Floats] = field(default_factory=dict)
    importance: Mapping[str, float] | None = None  # after retraining, mean over the draws

    @property
    def key(self) -> tuple[str, str, float]:
        return self.where, self.feature, self.drop


@dataclass(frozen=True)
class CoverageLoss:
    """One cell of the table: what one metric lost when one feature's coverage dropped."""

    feature: str
    chosen: str
    where: str
    drop: float
    coverage_before: float
    coverage_after: float
    metric: str
    full: float
    degraded: float
    lost: float  # above 0: worse than with the full data, whichever way the metric points
    percent: float  # lost, in percent of full
    low: float
    high: float
    spread: float
    pairs: int
    p: float
    p_holm: float
    mark: str  # ▼ significantly worse, † significantly better, "" neither


@dataclass(frozen=True, eq=False, repr=False)
class Degradation(Shown):
    """The losses of every feature, drop and metric; prints as the paper's Tables 1 and 2.

    `baseline[where][metric]` are the values with the full data `[queries]`, `effects` those without,
    `losses` one record a metric with interval and test, `importance` that of the ranker as it was given
    (None if it was not asked for), `settings` what was asked. `clusters` are the users or sessions of the
    queries, where the data know them: intervals and tests resample those.
    """

    baseline: Mapping[str, Mapping[str, Floats]]
    effects: tuple[Effect, ...]
    settings: Mapping[str, Any]
    importance: Importance | None = None
    clusters: Clusters | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(next(iter(self.baseline.values())))

    @cached_property
    def losses(self) -> tuple[CoverageLoss, ...]:
        """Holm's correction is over features × drops × metrics, for each `where` by itself."""
        found: list[CoverageLoss] = []
        for where in self.baseline:
            found += _judge(self, where, [each for each in self.effects if each.where == where])
        return tuple(found)

    def loss(
        self, feature: str, drop: float, metric: str | None = None, where: str | None = None
    ) -> CoverageLoss:
        """One entry of `losses`; the first metric and the first `where` unless named."""
        wanted = (feature, float(drop), metric or self.metrics[0], where or next(iter(self.baseline)))
        for each in self.losses:
            if (each.feature, each.drop, each.metric, each.where) == wanted:
                return each
        known = ", ".join(sorted({f"{each.feature!r} at {each.drop:g}" for each in self.losses}))
        raise BadInput(f"no loss of {wanted}. There are: {known}; metrics {', '.join(self.metrics)}.")

    def table(self, format: str = "text") -> str:
        """The paper's table: feature, drop in coverage, metric (% drop) with mark and interval."""
        header = ["feature", "drop in coverage"]
        for name in self.metrics:
            header += [f"{name} (% drop)", f"{self.settings['level']:.0%} interval of the loss"]
        rows = [row for where in self.baseline for row in self._list_rows(where)]
        return render_grid(Grid(tuple(header), tuple(rows), self.notes, left=2), format)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers mean, below every table."""
        asked = self.settings
        unit = {"event": "event (query)", "row": "row"}[asked["unit"]]
        whose = "that have the feature" if asked["of"] == "covered" else "of all, covered or not"
        value = "NaN" if math.isnan(asked["value"]) else f"{asked['value']:g}"
        draws = " and ".join(f"{asked['draws'][where]} draws {WHERE[where]}" for where in self.baseline)
        whole = "queries" if self.clusters is None else str(self.clusters)
        test = "bootstrap test" if asked["callable"] else f"randomisation test over {whole}"
        return (
            f"Masked unit: the {unit}; a drop of 5% takes the value ({value} stands in its place) from 5% of "
            f"the {asked['unit']}s {whose}. {draws}, averaged before pairing; covered means {asked['rule']}.",
            f"▼ worse, † better than with the full data: paired {test}, Holm over features × drops × "
            f"metrics, α = {asked['alpha']:g}. % drop is of the full data's value; below 0: it rose.",
        )

    def _list_rows(self, where: str) -> Iterable[tuple[Cell, ...]]:
        several = len(self.baseline) > 1
        full = [Cell("full data"), Cell(WHERE[where] if several else "")]
        for name in self.metrics:
            full += [Cell(format_mean(_mean(self.baseline[where][name]))), Cell("")]
        yield tuple(full)
        found = {(each.feature, each.drop, each.metric): each for each in self.losses if each.where == where}
        for effect in self.effects:
            if effect.where != where:
                continue
            named = effect.feature if effect.chosen == "named" else f"{effect.feature} ({effect.chosen})"
            cells = [Cell(named), Cell(f"{100 * effect.drop:g}% {WHERE[where]}")]
            for name in self.metrics:
                loss = found[effect.feature, effect.drop, name]
                share = f"{round(loss.percent, 2) + 0.0:.2f}%".replace("-", "−")
                cells.append(Cell(f"{format_mean(loss.degraded)} ({share})", loss.mark))
                cells.append(Cell(format_interval(loss.low, loss.high, signed=True)))
            yield tuple(cells)

    def to_pandas(self) -> Any:
        """One row a feature, drop and metric: the fields of `CoverageLoss`."""
        from placings.core import need_library

        pandas = need_library("pandas", "Degradation.to_pandas")
        return pandas.DataFrame([asdict(each) for each in self.losses])

    def importances(self) -> Any:
        """Importances before and after retraining on masked data (Figures 1 and 2), as a pandas frame.

        Columns: `masked` and `drop` (what was taken away), `feature`, `before`, `after` (in the kind's own
        units, mean over the draws), `before_share`, `after_share` (of the sum over features) and
        `rank_before`, `rank_after` from 1. Only what was retrained has such rows.
        """
        from placings.core import need_library

        pandas = need_library("pandas", "Degradation.importances")
        retrained = [each for each in self.effects if each.importance is not None]
        if not retrained or self.importance is None:
            raise BadInput(
                "importances before and after are those of retrained rankers. "
                "Pass where='train+test', and importance= for a ranker that is neither a tree nor linear."
            )
        before = {name: self.importance[name] for name in self.importance.names}
        ranks = _rank(before)
        rows = []
        for effect in retrained:
            after = dict(effect.importance or {})
            later = _rank(after)
            for name, value in before.items():
                rows.append(
                    (effect.feature, effect.drop, name, value, after[name], _share(value, before),
                     _share(after[name], after), ranks[name], later[name])
                )  # fmt: skip
        header = ["masked", "drop", "feature", "before", "after", "before_share", "after_share",
                  "rank_before", "rank_after"]  # fmt: skip
        return pandas.DataFrame(rows, columns=header)

    def to_dict(self) -> dict[str, Any]:
        """Means, losses, settings and importances as plain values."""
        return {
            "full": {
                where: {n: _mean(v) for n, v in values.items()} for where, values in self.baseline.items()
            },
            "losses": [asdict(each) for each in self.losses],
            "importance": None if self.importance is None else self.importance.to_dict(),
            "retrained": [
                {"masked": each.feature, "drop": each.drop, "importance": dict(each.importance)}
                for each in self.effects
                if each.importance is not None
            ],
            "settings": dict(self.settings),
            "notes": list(self.notes),
        }


def join_degradations(parts: Sequence[Degradation]) -> Degradation:
    """Degradations of several folds as one: their queries stand one after the other.

    Every part must have the same features, drops, metrics and places (`where`), asked with the same settings.
    Importances are averaged. Callable metrics, which have no value of a query, cannot be joined.
    """
    if not parts:
        raise BadInput("join_degradations needs at least one. Got none.")
    first = parts[0]
    if first.settings["callable"]:
        raise BadInput("a callable metric has no value of a query, so folds cannot be joined.")
    keys = [each.key for each in first.effects]
    for part in parts[1:]:
        if [each.key for each in part.effects] != keys or part.metrics != first.metrics:
            raise BadInput("the parts must have the same features, drops and metrics in the same order.")
        if {**part.settings} != {**first.settings}:
            raise BadInput("the parts must be made with the same settings.")
    baseline = {
        where: {
            name: np.concatenate([part.baseline[where][name] for part in parts]) for name in first.metrics
        }
        for where in first.baseline
    }
    effects = tuple(_join_effects([part.effects[place] for part in parts]) for place in range(len(keys)))
    importance = _join_importance([part.importance for part in parts])
    return Degradation(baseline, effects, first.settings, importance, _join_clusters(parts))


def _join_clusters(parts: Sequence[Degradation]) -> Clusters | None:
    """The clusters of all folds, whose queries are others: none is in two folds."""
    known = [part.clusters for part in parts if part.clusters is not None]
    if len(known) < len(parts):
        return None
    begins = np.cumsum([0, *(int(each.codes.max(initial=-1)) + 1 for each in known)])
    codes = np.concatenate([each.codes + begin for each, begin in zip(known, begins, strict=False)])
    return Clusters(known[0].by, codes)


def _join_effects(parts: Sequence[Effect]) -> Effect:
    weights = np.array([part.units for part in parts], dtype=np.float64)
    first = parts[0]
    maps = [part.importance for part in parts]
    return Effect(
        first.feature,
        first.chosen,
        first.where,
        first.drop,
        first.draws,
        int(weights.sum()),
        float(np.average([part.coverage_before for part in parts], weights=weights)),
        float(np.average([part.coverage_after for part in parts], weights=weights)),
        {name: np.concatenate([part.values[name] for part in parts]) for name in first.values},
        {name: _pool([part.spread[name] for part in parts], weights) for name in first.spread},
        importance=None
        if any(each is None for each in maps)
        else {name: float(np.mean([each[name] for each in maps if each])) for name in maps[0] or {}},
    )


def _join_importance(parts: Sequence[Importance | None]) -> Importance | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    means = {name: float(np.mean([part[name] for part in known])) for name in known[0].names}
    return sort_importance(known[0].kind, known[0].meaning, means)


def sort_importance(kind: str, meaning: str, values: Mapping[str, float]) -> Importance:
    """An Importance from a mapping, the largest first."""
    names = sorted(values, key=lambda name: -values[name])
    return Importance(kind, meaning, tuple(names), np.array([values[name] for name in names]))


def _pool(spreads: Sequence[float], weights: Floats) -> float:
    """The deviation of a mean over all folds, whose masks are drawn apart."""
    shares = weights / weights.sum()
    return float(np.sqrt(((shares * np.asarray(spreads)) ** 2).sum()))


# -- tests -----------------------------------------------------------------------------------------


def _judge(found: Degradation, where: str, effects: Sequence[Effect]) -> list[CoverageLoss]:
    if not effects:
        return []
    asked, names = found.settings, found.metrics
    signs = np.array([-1.0 if _is_loss(name, asked) else 1.0 for name in names])
    full = np.stack([found.baseline[where][name] for name in names], axis=1)  # [queries, metrics]
    parts = [signs * (full - np.stack([each.values[n] for n in names], axis=1)) for each in effects]
    pairs = np.concatenate(parts, axis=1)  # [queries, effects × metrics]
    if asked["callable"]:
        replicates = np.stack([each.replicates[n] for each in effects for n in names], axis=1)
        losses_drawn = np.tile(signs, len(effects)) * replicates
        low, high = percentile_interval(losses_drawn, asked["level"])
        p = judge_replicates(losses_drawn)
        counts = np.repeat([each.units for each in effects], len(names))
    else:
        resampling = {"draws": asked["bootstrap"], "random_state": asked["random_state"]}
        codes = None if found.clusters is None else found.clusters.codes
        low, high = bootstrap_means(pairs, level=asked["level"], clusters=codes, **resampling)
        p = flip_signs(
            pairs, permutations=asked["permutations"], random_state=asked["random_state"], clusters=codes
        )
        counts = (~np.isnan(pairs)).sum(axis=0)
    holm, lost, means = adjust_holm(p), mean_known(pairs), mean_known(full)
    losses = []
    for row, effect in enumerate(effects):
        for column, name in enumerate(names):
            i = row * len(names) + column
            sure = holm[i] <= asked["alpha"] and lost[i] != 0.0
            mark = (WORSE if lost[i] > 0.0 else BETTER)[0] if sure else ""
            whole = float(means[column])
            losses.append(
                CoverageLoss(
                    effect.feature, effect.chosen, where, effect.drop, effect.coverage_before,
                    effect.coverage_after, name, whole, _mean(effect.values[name]), float(lost[i]),
                    100.0 * float(lost[i]) / abs(whole) if whole else float("nan"), float(low[i]),
                    float(high[i]), effect.spread[name], int(counts[i]), float(p[i]), float(holm[i]), mark,
                )
            )  # fmt: skip
    return losses


def _is_loss(name: str, asked: Mapping[str, Any]) -> bool:
    return bool(asked["lower_is_better"]) if asked["callable"] else is_lower_better(name)


def _mean(values: Floats) -> float:
    return float(mean_known(np.asarray(values)[:, None])[0])


def _rank(values: Mapping[str, float]) -> dict[str, int]:
    return {name: place for place, name in enumerate(sorted(values, key=lambda name: -values[name]), 1)}


def _share(value: float, values: Mapping[str, float]) -> float:
    total = sum(abs(each) for each in values.values())
    return value / total if total else 0.0
