"""What `compare` found: means, differences and tests, and how they are put into words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Cell,
    Floats,
    Grid,
    Ints,
    UnknownName,
    format_difference,
    format_interval,
    format_mean,
    format_p,
    render_grid,
    write_json,
)
from placings.data import RankingData
from placings.evaluation.scoring import is_lower_better, say_bootstrap, say_clusters, say_rule
from placings.evaluation.slices import Slice, describe_slice, render_slices

BETTER, WORSE = ("†", "‡"), ("▼", "▽")  # than the first baseline, than the second


@dataclass(frozen=True)
class Difference:
    """One method against one baseline in one metric, over the queries that both scored."""

    method: str
    baseline: str
    metric: str
    pairs: int
    difference: float
    low: float
    high: float
    effect: float  # Cohen's d of the paired differences
    p_t: float
    p_randomisation: float
    p_holm: float  # of the chosen test, corrected over methods × metrics
    mark: str  # † ‡ better, ▼ ▽ worse, "" neither


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Means, intervals and tests of several methods; prints as a table, renders in five formats.

    `means[method][metric]`, `intervals[method][metric]`, `per_query[method][metric]` (seeds averaged, folds
    one after the other, in the order of `qids` and `fold`), `differences`, `counts`, `rule`, `slices`.
    """

    per_query: Mapping[str, Mapping[str, Floats]]
    means: Mapping[str, Mapping[str, float]]
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    differences: tuple[Difference, ...]
    counts: Mapping[str, int]
    rule: str
    notes: tuple[str, ...]
    settings: Mapping[str, Any]
    qids: AnyArray
    fold: Ints
    slices: tuple[Slice, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(next(iter(self.means.values())))

    def __getitem__(self, method: str) -> Mapping[str, float]:
        if method not in self.means:
            raise UnknownName("method in this comparison", str(method), self.means)
        return self.means[method]

    def difference(self, method: str, metric: str, baseline: str | None = None) -> Difference:
        """One entry of `differences`; the first baseline unless named."""
        against = self.settings["baselines"][0] if baseline is None else baseline
        for each in self.differences:
            if (each.method, each.metric, each.baseline) == (method, metric, against):
                return each
        raise BadInput(f"{method!r} was not compared with {against!r} in {metric!r}.")

    def table(self, format: str = "text", *, intervals: bool = False) -> str:
        """Methods × metrics with their marks, as in a paper: "text", "markdown", "latex", "html", "json".

        `intervals=True` puts the interval of each mean beside it.
        """
        if format == "json":
            return self.to_json()
        marks: dict[tuple[str, str], str] = {}
        for each in self.differences:
            marks[each.method, each.metric] = marks.get((each.method, each.metric), "") + each.mark
        best = {name: self._find_best(name) for name in self.metrics}
        rows = []
        for method, means in self.means.items():
            cells = [Cell(method)]
            for name, mean in means.items():
                cells.append(Cell(format_mean(mean), marks.get((method, name), ""), mean == best[name]))
                cells += [Cell(format_interval(*self.intervals[method][name]))] if intervals else []
            rows.append(tuple(cells))
        columns = [[name, "interval"] if intervals else [name] for name in self.metrics]
        header = ("method", *(name for column in columns for name in column))
        return render_grid(Grid(header, tuple(rows), (self.rule, *self.notes)), format)

    def difference_table(self, format: str = "text") -> str:
        """Every difference with its interval, effect size and p-values; "" without a baseline."""
        if not self.differences:
            return ""
        rows = tuple(
            (
                Cell(each.method),
                Cell(each.baseline),
                Cell(each.metric),
                Cell(format_difference(each.difference), each.mark),
                Cell(format_interval(each.low, each.high, signed=True)),
                Cell("-" if np.isnan(each.effect) else f"{each.effect:+.2f}".replace("-", "−")),
                Cell(format_p(each.p_t)),
                Cell(format_p(each.p_randomisation)),
                Cell(format_p(each.p_holm)),
                Cell(f"{each.pairs:,}"),
            )
            for each in self.differences
        )
        header = ("method", "against", "metric", "difference", "interval", "d", "p (t)", "p (rand.)")
        note = f"p (Holm) is of the {name_test(self.settings)}; d is Cohen's, of the paired differences."
        return render_grid(Grid((*header, "p (Holm)", "pairs"), rows, (note, self.rule), left=3), format)

    def slice_table(self, format: str = "text") -> str:
        """The slices, the worst difference first; "" when none were asked for."""
        if not self.slices:
            return ""
        baselines = self.settings["baselines"]
        return render_slices(self.slices, self.rule, format, baseline=baselines[0] if baselines else None)

    def report(self, format: str = "text") -> str:
        """All tables one below the other."""
        if format == "json":
            return self.to_json()
        parts = (self.table(format), self.difference_table(format), self.slice_table(format))
        return "\n\n".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the per-query values, as plain values."""
        methods: dict[str, Any] = {}
        for method, means in self.means.items():
            ends = self.intervals[method]
            methods[method] = {
                name: {"mean": mean, "low": ends[name][0], "high": ends[name][1]}
                for name, mean in means.items()
            }
        return {
            "methods": methods,
            "differences": [asdict(each) for each in self.differences],
            "counts": dict(self.counts),
            "rule": self.rule,
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "slices": [describe_slice(each) for each in self.slices],
        }

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return self.report("html")

    def _find_best(self, name: str) -> float:
        known = [means[name] for means in self.means.values() if not np.isnan(means[name])]
        if not known:
            return float("inf")
        return min(known) if is_lower_better(name) else max(known)


def name_test(settings: Mapping[str, Any]) -> str:
    """The test that the marks stand on, in words."""
    if settings["test"] == "t":
        return "paired t-test"
    return f"randomisation test ({settings['permutations']:,} sign flips, seed {settings['random_state']})"


def say_counts(
    counts: Mapping[str, int],
    per_query: Mapping[str, Mapping[str, Floats]],
    folds: Sequence[RankingData],
    empty: str,
    min_items: int,
) -> str:
    alike = dict(next(iter(per_query.values())))
    odd = ""
    for name in alike:
        known = {int((~np.isnan(values[name])).sum()) for values in per_query.values()}
        if len(known) > 1:
            odd += (
                f" {name} is over {min(known):,} to {max(known):,} queries, differences over those in both."
            )
            alike[name] = np.zeros(counts["scored"])  # said here, not once more below
    text = say_rule(counts, alike, empty, min_items) + odd
    return text if len(folds) == 1 else text.replace(" queries", f" queries of {len(folds)} folds", 1)


def list_notes(
    settings: Mapping[str, Any],
    differences: Sequence[Difference],
    folds: Sequence[RankingData],
    counts: Mapping[str, int],
) -> list[str]:
    notes = []
    seeds = settings["seeds"]
    if max(seeds.values()) > 1:
        same = set(seeds.values())
        shown = str(same.pop()) if len(same) == 1 else ", ".join(f"{n} of {m}" for m, n in seeds.items())
        notes.append(f"Seeds: {shown}, averaged for each query before anything is compared.")
    repeated = sum(len(fold) for fold in folds) - len({qid for fold in folds for qid in fold.qids.tolist()})
    if repeated:
        notes.append(f"{repeated} query ids stand in several folds; they are counted as different queries.")
    if settings["bootstrap"]:
        notes.append(say_bootstrap(settings))
    if settings["bootstrap"] or differences:
        what = " and ".join(["Intervals"] * bool(settings["bootstrap"]) + ["tests"] * bool(differences))
        notes += say_clusters(settings, counts, what[0].upper() + what[1:])
    for place, baseline in enumerate(settings["baselines"]):
        notes.append(
            f"{BETTER[place]} significantly better than {baseline}, {WORSE[place]} significantly worse."
        )
    if differences:
        methods = len({each.method for each in differences if each.baseline == settings["baselines"][0]})
        metrics = len({each.metric for each in differences})
        family = f"{methods} method{'s' * (methods != 1)} × {metrics} metric{'s' * (metrics != 1)}"
        notes.append(
            f"Significant: two-sided {name_test(settings)}, paired by query, Holm over {family} for each "
            f"baseline, α = {settings['alpha']:g}."
        )
    elif len(settings["seeds"]) > 1:
        notes.append("Nothing was tested: name a baseline.")
    return notes
