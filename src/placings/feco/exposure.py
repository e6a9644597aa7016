"""What is exposed: which features fell in which segments, by how much, and the risk as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from placings.arrays import Bools, Floats
from placings.data.ranking import RankingData
from placings.errors import BadInput, UnknownName, option
from placings.evaluation.rendering import (
    Cell,
    Grid,
    Shown,
    format_difference,
    format_interval,
    format_mean,
    render_grid,
)
from placings.evaluation.significance import adjust_holm
from placings.feco.masking import Rule, Segment, Units, count_events, take_column
from placings.metrics.order import count_by_query

Z = 1.959964
ALPHA = 0.05


@dataclass(frozen=True)
class Exposure:
    """A feature's risk (or the total): the metric lost, its interval, percent of the whole, coverages."""

    feature: str
    lost: float
    low: float
    high: float
    percent: float
    coverage_before: float
    coverage_after: float


@dataclass(frozen=True, eq=False, repr=False)
class Risk(Shown):
    """Coverage at risk: `features` (the largest loss first), `total`, `segments`, and what is assumed."""

    metric: str
    full: float
    features: tuple[Exposure, ...]
    total: Exposure
    segments: list[dict[str, Any]]
    assumption: str
    notes: tuple[str, ...]
    settings: dict[str, Any]

    def __getitem__(self, feature: str) -> Exposure:
        for row in (*self.features, self.total):
            if row.feature == feature:
                return row
        raise UnknownName("feature at risk", str(feature), [row.feature for row in self.features])

    def table(self, format: str = "text", *, top: int | None = 20) -> str:
        """The total and the first `top` features (None: all), with the assumption and the notes below."""
        rows = [self._list_cells(self.total)]
        struck = [row for row in self.features if row.coverage_after < row.coverage_before]
        rows += [self._list_cells(row) for row in struck[:top]]
        header = (
            "feature", "coverage", f"{self.metric} lost", f"{self.settings['level']:.0%} interval", "% of it",
        )  # fmt: skip
        quiet = len(self.features) - len(struck)
        more = [f"{quiet} of {len(self.features)} features did not fall."] if quiet else []
        hidden = len(struck) - len(struck[:top])
        more += [f"And {hidden} more, of less loss."] if hidden else []
        whole = f"{self.metric} of {self.settings['reference']} with full coverage: {format_mean(self.full)}."
        return render_grid(Grid(header, tuple(rows), (whole, *more, self.assumption, *self.notes)), format)

    def _list_cells(self, row: Exposure) -> tuple[Cell, ...]:
        before, after = row.coverage_before, row.coverage_after
        return (
            Cell(row.feature),
            Cell("" if math.isnan(before) else f"{before:.1%} → {after:.1%}"),
            Cell(format_difference(row.lost)),
            Cell(format_interval(row.low, row.high, signed=True)),
            Cell("-" if math.isnan(row.percent) else f"{round(row.percent, 2) + 0.0:.2f}%".replace("-", "−")),
        )

    def to_pandas(self) -> Any:
        """One row a feature, the largest loss first, and the total as the last one."""
        from placings.data.tables import need_library

        rows = [asdict(row) for row in (*self.features, self.total)]
        return need_library("pandas", "Risk.to_pandas").DataFrame(rows)

    def by_segment(self) -> Any:
        """One row a feature and segment: reference, usual, today (coverages), masked (share), units, lost."""
        from placings.data.tables import need_library

        return need_library("pandas", "Risk.by_segment").DataFrame(self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "metric": self.metric,
            "full": self.full,
            "total": asdict(self.total),
            "features": [asdict(row) for row in self.features],
            "segments": self.segments,
            "assumption": self.assumption,
            "notes": list(self.notes),
            "settings": self.settings,
        }


@dataclass(frozen=True, eq=False)
class Part:
    """One feature in one segment: who has it, what is usual, what is today, and what share goes dark."""

    key: tuple[Any, ...]
    chosen: Bools  # [units] of the segment
    covered: Bools  # [units] of the segment that have the feature
    own: float  # the reference's coverage
    usual: float
    usual_error: float  # standard error of a usual that was given; NaN: it is the reference's own
    today: float
    today_error: float
    share: float
    p: float  # of a drop as large as this by chance, one-sided; NaN where nothing is known
    by_query: Floats  # [queries, 2]: covered and all units of the segment in each query


@dataclass(frozen=True, eq=False)
class Case:
    """One feature over all segments."""

    feature: str
    parts: tuple[Part, ...]

    @property
    def is_struck(self) -> bool:
        return any(part.share > 0.0 and part.covered.any() for part in self.parts)

    @property
    def coverage(self) -> float:
        """The reference's, over all segments."""
        units = sum(int(part.chosen.sum()) for part in self.parts)
        return sum(int(part.covered.sum()) for part in self.parts) / units if units else math.nan

    @property
    def left(self) -> float:
        """What is left of it under today's masks, on average."""
        units = sum(int(part.chosen.sum()) for part in self.parts)
        kept = sum(int(part.covered.sum()) * (1.0 - part.share) for part in self.parts)
        return kept / units if units else math.nan

    def rescale(self, counts: Floats, rng: np.random.Generator) -> Floats:
        """Masked units under resampled coverages over those that were masked `[draws]`.

        `counts` `[draws, queries]` says how often each query is drawn; today's coverage (and a usual one that
        was given) is drawn from a normal with its standard error.
        """
        before, after = 0.0, np.zeros(len(counts))
        for part in self.parts:
            size = float(part.covered.sum())
            if part.share == 0.0 or size == 0.0:
                continue
            today = part.today + part.today_error * rng.standard_normal(len(counts))
            if math.isnan(part.usual_error):
                sums = counts @ part.by_query
                usual = sums[:, 0] / np.maximum(sums[:, 1], 1.0)
            else:
                usual = part.usual + part.usual_error * rng.standard_normal(len(counts))
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(usual > 0.0, 1.0 - today / usual, 0.0)
            before += size * part.share
            after += size * np.clip(share, 0.0, 1.0)
        return after / before if before else np.ones(len(counts))


def find_cases(
    data: RankingData,
    units: Units,
    segments: Sequence[Segment],
    columns: Sequence[str],
    today: Any,
    usual: Any,
    features: Sequence[str] | None,
    rule: Rule,
    *,
    skip_noise: bool,
) -> tuple[list[Case], list[str]]:
    """Each feature's parts, and what must be said of windows, segments and features that do not fit."""
    notes: list[str] = []
    now, known = _read_frame(today, columns, "today", notes)
    then = None if usual is None else _read_frame(usual, columns, "usual", notes)[0]
    names = [name for name in known if name in data.feature_names]
    if features is not None:
        for name in features:
            if name not in known:
                raise UnknownName("feature in today's coverage", str(name), known)
            data._place(name)
        names = list(features)
    foreign = [name for name in known if name not in data.feature_names]
    if foreign and features is None:
        notes.append(
            f"Not in the reference, so not judged: {', '.join(foreign[:5])}{' …' * (len(foreign) > 5)}."
        )
    if not names:
        raise BadInput("no feature of today's coverage is in the reference. Are they named alike?")
    keys = {_text(segment.key) for segment in segments}
    new = sorted({"/".join(key) for _, key in now if key not in keys})
    if new:
        notes.append(f"Segments not in the reference, so not judged: {', '.join(new[:5])}.")
    cases, silent, risen = [], set(), 0
    for name in names:
        covered = units.cover(take_column(data.X, data._place(name)), rule)
        parts = []
        for segment in segments:
            part = _make_part(name, segment, covered, units, now, then)
            parts.append(part)
            if math.isnan(part.today):
                silent.add("/".join(_text(part.key)) or "all")
            risen += part.today > part.usual
        cases.append(Case(name, tuple(parts)))
    if skip_noise:
        cases = _keep_certain(cases)
    if silent:
        notes.append(f"No coverage known today, so nothing masked there: {', '.join(sorted(silent)[:5])}.")
    if risen:
        notes.append(
            f"In {risen} of {len(names) * len(segments)} places coverage rose; no gain is estimated."
        )
    return cases, notes


def _keep_certain(cases: Sequence[Case]) -> list[Case]:
    """Without the drops that chance explains: Holm's correction over features × segments, at 5 %."""
    sure = iter(adjust_holm([part.p for case in cases for part in case.parts]) <= ALPHA)
    return [
        replace(case, parts=tuple(part if next(sure) else replace(part, share=0.0) for part in case.parts))
        for case in cases
    ]


def _pool_error(own: float, size: int, today: float, today_error: float) -> float:
    """The standard error of the reference's coverage if both days had the same, estimated from both."""
    if not size or math.isnan(today):
        return 0.0
    spread = today * (1.0 - today)
    other = spread / today_error**2 if today_error > 0.0 and spread > 0.0 else 1e9  # as good as its events
    same = (size * own + other * today) / (size + other)
    return math.sqrt(same * (1.0 - same) / size)


def _find_p(drop: float, error: float) -> float:
    """How often chance makes coverage fall this much, by a normal with this standard error.

    >>> round(_find_p(1.96, 1.0), 3), _find_p(0.1, 0.0), _find_p(0.0, 0.0)
    (0.025, 0.0, 1.0)
    """
    if math.isnan(drop):
        return math.nan
    if error == 0.0:
        return 0.0 if drop > 0.0 else 1.0
    return 0.5 * math.erfc(drop / error / math.sqrt(2.0))


Frame = dict[tuple[str, tuple[str, ...]], tuple[float, float]]  # feature and segment → coverage and its error


def _make_part(
    name: str, segment: Segment, covered: Bools, units: Units, now: Frame, then: Frame | None
) -> Part:
    inside = covered & segment.chosen
    count = int(segment.chosen.sum())
    own = float(inside.sum()) / count if count else math.nan
    key = (name, _text(segment.key))
    today, today_error = now.get(key, (math.nan, 0.0))
    usual, usual_error = (own, math.nan) if then is None else then.get(key, (math.nan, 0.0))
    share = 0.0
    if not math.isnan(today) and usual > 0.0:
        share = min(1.0, max(0.0, 1.0 - today / usual))
    error = usual_error
    if then is None:
        size = count if units.kind == "event" else count_events(units.data, segment.chosen)
        error = _pool_error(own, size, today, today_error)
    p = _find_p(usual - today, math.hypot(error, today_error))
    if units.kind == "event":
        by_query = np.stack([inside, segment.chosen], axis=1).astype(np.float64)
    else:
        offsets = units.data.offsets
        pair = [count_by_query(inside, offsets), count_by_query(segment.chosen, offsets)]
        by_query = np.stack(pair, axis=1).astype(np.float64)
    return Part(
        segment.key, segment.chosen, inside, own, usual, usual_error, today, today_error, share, p, by_query
    )


def _read_frame(given: Any, columns: Sequence[str], what: str, notes: list[str]) -> tuple[Frame, list[str]]:
    """Coverage and its standard error by feature and segment, and the features in their order."""
    frame = given.to_pandas() if hasattr(given, "to_pandas") else given
    if not hasattr(frame, "columns"):
        raise BadInput(
            f"{what} must be a coverage frame (pandas) or have to_pandas. Got {type(given).__name__}."
        )
    for column in ("feature", *columns, "coverage"):
        if column not in frame.columns:
            raise BadInput(
                f"{what} has no column {column!r}; it has {', '.join(map(str, frame.columns))}. "
                "Count coverage by the same segments."
            )
    if "window" in frame.columns and frame["window"].nunique() > 1:
        last = frame["window"].max()
        frame = frame[frame["window"] == last]
        notes.append(f"Of several windows the latest is taken as {what}: {last}.")
    found: Frame = {}
    for row in frame.to_dict("records"):
        key = (str(row["feature"]), _text(tuple(row[column] for column in columns)))
        if key in found:
            raise BadInput(
                f"{what} has several rows of feature {key[0]!r} in {'/'.join(key[1]) or 'all'}. "
                f"Name all its segment columns in {option('by')}."
            )
        share = float(row["coverage"])
        if not math.isnan(share) and not 0.0 <= share <= 1.0:
            raise BadInput(f"coverage must be a share from 0 to 1. Got {share:g} of {key[0]!r} in {what}.")
        found[key] = (share, _find_error(row, share))
    return found, list(dict.fromkeys(name for name, _ in found))


def _find_error(row: dict[Any, Any], share: float) -> float:
    """The standard error of a coverage: from its 95 % interval, else from its events, else 0."""
    low, high = (float(row.get(end, math.nan)) for end in ("low", "high"))
    if not math.isnan(low) and not math.isnan(high):
        return (high - low) / (2 * Z)
    events = float(row.get("events", math.nan))
    if math.isnan(events) or events <= 0.0 or math.isnan(share):
        return 0.0
    return math.sqrt(share * (1.0 - share) / events)


def _text(key: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(str(value) for value in key)
