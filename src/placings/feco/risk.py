"""Coverage at risk: how much of the ranking metric today's coverage costs, feature by feature and jointly.

This is the one number that the coverage paper wishes for in its conclusion: coverage told in NDCG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from placings.core import (
    BadInput,
    Bools,
    Cell,
    Floats,
    Grid,
    Shown,
    UnknownName,
    adjust_holm,
    check_count,
    check_share,
    draw_counts,
    format_difference,
    format_interval,
    format_mean,
    mean_known,
    option,
    percentile_interval,
    render_grid,
    show_progress,
)
from placings.data import RankingData, check_seed, find_clusters
from placings.evaluation import is_lower_better
from placings.feco.masking import (
    DarkOrder,
    Rule,
    Segment,
    Units,
    check_value,
    count_events,
    count_units,
    darken,
    draw_order,
    name_segments,
    score_each,
    split_units,
    take_column,
)
from placings.feco.relations import STREAM
from placings.feco.subjects import Subject
from placings.metrics import Metric, count_by_query
from placings.metrics import metric as find_metric

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
        affected = [row for row in self.features if row.coverage_after < row.coverage_before]
        rows += [self._list_cells(row) for row in affected[:top]]
        header = (
            "feature", "coverage", f"{self.metric} lost", f"{self.settings['level']:.0%} interval", "% of it",
        )  # fmt: skip
        quiet = len(self.features) - len(affected)
        more = [f"{quiet} of {len(self.features)} features did not fall."] if quiet else []
        hidden = len(affected) - len(affected[:top])
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
        from placings.core import need_library

        rows = [asdict(row) for row in (*self.features, self.total)]
        return need_library("pandas", "Risk.to_pandas").DataFrame(rows)

    def by_segment(self) -> Any:
        """One row a feature and segment: reference, usual, today (coverages), masked (share), units, lost."""
        from placings.core import need_library

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
    def is_affected(self) -> bool:
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
    names = _choose_names(data, known, features, notes)
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


def _choose_names(
    data: RankingData, known: Sequence[str], features: Sequence[str] | None, notes: list[str]
) -> list[str]:
    """The features to judge: those asked for, else those that today's coverage and the reference share."""
    if features is not None:
        for name in features:
            if name not in known:
                raise UnknownName("feature in today's coverage", str(name), known)
            data._place(name)
        names = list(features)
    else:
        names = [name for name in known if name in data.feature_names]
        foreign = [name for name in known if name not in data.feature_names]
        if foreign:
            notes.append(
                f"Not in the reference, so not judged: {', '.join(foreign[:5])}{' …' * (len(foreign) > 5)}."
            )
    if not names:
        raise BadInput("no feature of today's coverage is in the reference. Are they named alike?")
    return names


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


JOINTLY = ("independent", "together")
TOTAL = "all jointly"


def estimate_risk(
    ranker: Any,
    reference: RankingData,
    today: Any,
    *,
    by: str | Sequence[str] | None = None,
    usual: Any = None,
    features: Sequence[str] | None = None,
    metric: str | Metric = "ndcg@10",
    unit: str = "event",
    rule: Rule = "non_zero",
    value: float = 0.0,
    jointly: str = "independent",
    skip_noise: bool = True,
    name: str = "the reference",
    draws: int = 20,
    bootstrap: int = 1000,
    level: float = 0.95,
    progress: bool = False,
    random_state: int = 0,
) -> Risk:
    """How much of the metric is lost at today's coverage, measured on a labelled reference set.

    In each segment s of `by`, a feature is taken away from the share `1 − today_s / usual_s` of the
    reference's events that have it, in `draws` seeded draws; what the mean metric loses is the feature's
    risk. Masking all features in the same draws gives the total, which is no sum: features stand in for each
    other.

    - `today` is a coverage frame (feature, the columns of `by`, coverage, and where known low, high, events),
      or what has `to_pandas()` giving one. With several windows the latest counts. Without `by`, the columns
      of `today` that are segments of the reference.
    - `usual` is such a frame of healthy days; without it, it is the reference's own coverage. A segment whose
      coverage did not fall, has no events today or is not in the reference costs nothing and is noted.
    - `unit` and `rule` must be those by which today's coverage was counted: "event" or "row".
    - `jointly="together"`: in a segment features go dark in the same events first, as in one broken lookup;
      "independent": each by itself.
    - `skip_noise` leaves alone what fell by no more than chance explains (one-sided, Holm over features ×
      segments, 5 %): of hundreds of healthy ones half lie a little below their usual, and together they would
      cost something. False masks every drop, however small.

    The interval takes all that is random together: it resamples the reference's queries (over which the
    masks' draws differ too), the reference's coverage with them, and today's coverage by its own interval. It
    assumes that what goes dark does so at random within a segment; the result says so (`assumption`).

    >>> from placings.simulate.rankings import make_ranking
    >>> import pandas as pd
    >>> data = make_ranking(60, n_features=2, mean_size=20, random_state=0).data
    >>> class First:
    ...     def predict(self, data):
    ...         return data.X[:, 0]
    >>> today = pd.DataFrame({"feature": data.feature_names, "coverage": [0.5, 1.0], "events": 1000})
    >>> risk = estimate_risk(First(), data, today)
    >>> [row.feature for row in risk.features], risk.total.lost > 0, risk.total.low <= risk.total.lost
    (['click_count_log_1', 'quality_ratio_rank_2'], True, True)

    Gope, Sugandharaju, Kotalwar and Salaka, Measuring feature quality for improved ranking performance,
    SIGIR eCom 2023, §6.
    """
    if jointly not in JOINTLY:
        raise UnknownName("way to go dark (jointly=)", str(jointly), JOINTLY)
    check_count("draws", draws, least=1)
    check_count("bootstrap", bootstrap)
    check_share("level", level)
    seed, fill, judge = check_seed(random_state, drawn=False), check_value(value, rule), find_metric(metric)
    units = count_units(reference, unit)
    columns = name_segments(by) if by is not None else _guess_segments(today, reference)
    segments = split_units(units, columns)
    cases, notes = find_cases(
        reference, units, segments, columns, today, usual, features, rule, skip_noise=skip_noise
    )
    meter = _LossMeter(Subject(ranker), reference, units, judge, fill, seed, draws, jointly == "together")
    affected = [case for case in cases if case.is_affected]
    losses: dict[str, Floats] = {}
    with show_progress("coverage at risk", len(affected) + 1, wanted=progress, keep=True) as bar:
        for case in affected:
            losses[case.feature] = meter.lose(case, case.parts)
            bar.advance()
        joint = meter.lose_all(affected, losses)
        bar.advance()
    replicates = _replicate(affected, losses, joint, meter, bootstrap, level)
    whole = float(mean_known(meter.full[:, None])[0])
    rows = []
    for case in cases:
        lost = losses.get(case.feature)
        ends = replicates.get(case.feature, (0.0, 0.0))
        rows.append(_expose(case.feature, lost, ends, whole, case.coverage, case.left))
    rows.sort(key=lambda row: -row.lost)
    total = _expose(TOTAL, joint, replicates.get(TOTAL, (0.0, 0.0)), whole, math.nan, math.nan)
    frame = _list_segments(cases, columns, losses, meter)
    settings = {
        "by": columns, "unit": unit, "rule": rule, "value": fill, "jointly": jointly, "draws": draws,
        "skip_noise": skip_noise, "bootstrap": bootstrap, "level": level, "random_state": seed,
        "queries": reference.n_queries, "reference": name, "usual": usual is not None,
    }  # fmt: skip
    return Risk(str(judge), whole, tuple(rows), total, frame, _assume(settings), tuple(notes), settings)


class _LossMeter:
    """The reference set under masks: losses of each query, averaged over the draws."""

    def __init__(
        self, subject: Subject, data: RankingData, units: Units, judge: Metric, value: float, seed: int,
        draws: int, together: bool,
    ) -> None:  # fmt: skip
        self.subject, self.data, self.units, self.judge = subject, data, units, judge
        self.value, self.seed, self.draws, self.together = value, seed, draws, together
        self.sign = -1.0 if is_lower_better(str(judge)) else 1.0
        self.full = judge(subject.predict(data), data.y, data.offsets, propensity=data.propensity)
        if np.isnan(self.full).all():
            raise BadInput(
                f"no query of the reference has a {judge}: nothing is relevant. Give labelled data."
            )

    def mask(self, case: Case, parts: Sequence[Part], draw: int) -> Bools:
        """The rows that are dark in one draw."""
        gone = np.zeros(self.units.count, dtype=np.bool_)
        for part in parts:
            if part.share > 0.0:
                gone[self._order(case, part, draw).first(part.share)] = True
        return np.asarray(gone[self.units.of_row])

    def _order(self, case: Case, part: Part, draw: int) -> DarkOrder:
        key = "/".join(map(str, part.key))
        if not self.together:
            return draw_order(part.covered, self.seed, f"{case.feature}/{key}", draw)
        common = draw_order(part.chosen, self.seed, f"/{key}", draw)
        return DarkOrder(common.units[part.covered[common.units]], common.extra)

    def lose(self, case: Case, parts: Sequence[Part]) -> Floats:
        """What each query loses `[queries]` when these parts of one feature go dark."""
        masks = [self.mask(case, parts, draw) for draw in range(self.draws)]
        scored = score_each(
            self.subject.predict, self.data, case.feature, masks, self.value, reach=self.subject.reach
        )
        return self._average(scored)

    def lose_all(self, cases: Sequence[Case], losses: dict[str, Floats]) -> Floats | None:
        """What each query loses when all features go dark at once."""
        if not cases:
            return None
        if len(cases) == 1:
            return losses[cases[0].feature]
        return self._average(
            self.subject.predict(
                darken(self.data, {c.feature: self.mask(c, c.parts, draw) for c in cases}, self.value)
            )
            for draw in range(self.draws)
        )

    def _average(self, scored: Any) -> Floats:
        total = np.zeros(self.data.n_queries)
        for scores in scored:
            value = self.judge(scores, self.data.y, self.data.offsets, propensity=self.data.propensity)
            total += self.sign * (self.full - value)
        return total / self.draws


def _replicate(
    cases: Sequence[Case], losses: dict[str, Floats], joint: Floats | None, meter: _LossMeter, bootstrap: int,
    level: float,
) -> dict[str, tuple[float, float]]:  # fmt: skip
    """Ends of the intervals, of each feature and the total.

    A replicate is the mean loss over resampled queries, times how many more (or fewer) units would have been
    masked had coverage been the resampled one: the loss is close to proportional to the masked share.
    """
    if joint is None:
        return {}
    if not bootstrap:
        return dict.fromkeys([*losses, TOTAL], (math.nan, math.nan))
    scored = ~np.isnan(meter.full)
    matrix = np.stack([*losses.values(), joint], axis=1)[scored]
    weights = np.maximum([float(mean_known(losses[case.feature][:, None])[0]) for case in cases], 0.0)
    rng = np.random.default_rng([meter.seed, 3])
    means: list[Floats] = []
    clusters = find_clusters(meter.data)
    codes = np.arange(meter.data.n_queries) if clusters is None else clusters.codes
    for picked in draw_counts(int(codes.max()) + 1, bootstrap, [meter.seed, STREAM]):
        counts = picked[:, codes]  # a session is drawn with all its queries
        drawn = counts[:, scored]
        sums = drawn @ matrix / np.maximum(drawn.sum(axis=1, keepdims=True), 1.0)  # [draws, features + 1]
        factors = np.stack([case.rescale(counts, rng) for case in cases], axis=1)  # [draws, features]
        every = factors @ weights / weights.sum() if weights.sum() > 0.0 else np.ones(len(counts))
        means.append(sums * np.column_stack([factors, every]))
    found = np.concatenate(means)
    low, high = percentile_interval(found, level)
    return dict(zip([*losses, TOTAL], zip(low.tolist(), high.tolist(), strict=True), strict=True))


def _expose(
    feature: str, lost: Floats | None, ends: tuple[float, float], whole: float, before: float, after: float
) -> Exposure:
    mean = 0.0 if lost is None else float(mean_known(lost[:, None])[0])
    return Exposure(feature, mean, *ends, 100.0 * mean / abs(whole) if whole else math.nan, before, after)


def _list_segments(
    cases: Sequence[Case], columns: Sequence[str], losses: dict[str, Floats], meter: _LossMeter
) -> list[dict[str, Any]]:
    """One record a feature and segment: coverages, the masked share, and its part of the loss."""
    scored = max(int((~np.isnan(meter.full)).sum()), 1)
    rows = []
    for case in cases:
        for part in case.parts:
            lost = 0.0
            if part.share > 0.0 and meter.units.kind == "event":
                lost = float(np.nansum(losses[case.feature][part.chosen])) / scored
            elif part.share > 0.0:  # a query may have rows of several segments: mask this one alone
                lost = float(np.nansum(meter.lose(case, [part]))) / scored
            rows.append(
                {
                    "feature": case.feature,
                    **dict(zip(columns, part.key, strict=True)),
                    "reference": part.own,
                    "usual": part.usual,
                    "today": part.today,
                    "masked": part.share,
                    "units": int(part.chosen.sum()),
                    "lost": lost,
                }
            )
    return rows


def _guess_segments(today: Any, reference: RankingData) -> list[str]:
    frame = today.to_pandas() if hasattr(today, "to_pandas") else today
    return [str(name) for name in getattr(frame, "columns", ()) if str(name) in reference.segments]


def _assume(settings: dict[str, Any]) -> str:
    inside = " × ".join(settings["by"])
    where = f"within each segment ({inside})" if inside else "over all events (no segments were given)"
    together = {
        "independent": "features go dark independently of each other",
        "together": "features go dark in the same events first",
    }[settings["jointly"]]
    value = "NaN" if math.isnan(settings["value"]) else f"{settings['value']:g}"
    return (
        f"Assumed: what goes dark does so at random {where}; {together}; a lost value reaches the ranker as "
        f"{value}; and the {settings['queries']:,} queries of {settings['reference']} stand for today's, "
        "their mix of segments included."
    )
