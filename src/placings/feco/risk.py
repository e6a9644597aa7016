"""Coverage at risk: how much of the ranking metric today's coverage costs, feature by feature and jointly.

This is the one number that the coverage paper wishes for in its conclusion: coverage told in NDCG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placings.arrays import Bools, Floats
from placings.data.ranking import RankingData
from placings.errors import BadInput, UnknownName
from placings.evaluation.scoring import is_lower_better
from placings.evaluation.significance import check_count, check_share, mean_known
from placings.feco.exposure import Case, Exposure, Part, Risk, find_cases
from placings.feco.masking import (
    Order,
    Rule,
    Units,
    check_seed,
    check_value,
    count_units,
    darken,
    draw_order,
    name_segments,
    score_each,
    split_units,
)
from placings.feco.relations import bound_known, resample_counts
from placings.feco.subjects import Subject
from placings.metrics.names import Metric
from placings.metrics.names import metric as find_metric

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

    >>> from placings.data.synthetic import make_ranking
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
    seed, fill, judge = check_seed(random_state), check_value(value, rule), find_metric(metric)
    units = count_units(reference, unit)
    columns = name_segments(by) if by is not None else _guess_segments(today, reference)
    segments = split_units(units, columns)
    cases, notes = find_cases(
        reference, units, segments, columns, today, usual, features, rule, skip_noise=skip_noise
    )
    bench = _Bench(Subject(ranker), reference, units, judge, fill, seed, draws, jointly == "together")
    struck = [case for case in cases if case.is_struck]
    losses: dict[str, Floats] = {}
    with _show(len(struck), progress) as advance:
        for case in struck:
            losses[case.feature] = bench.lose(case, case.parts)
            advance(None)
        joint = bench.lose_all(struck, losses)
        advance(None)
    replicates = _replicate(struck, losses, joint, bench, bootstrap, level)
    whole = float(mean_known(bench.full[:, None])[0])
    rows = []
    for case in cases:
        lost = losses.get(case.feature)
        ends = replicates.get(case.feature, (0.0, 0.0))
        rows.append(_expose(case.feature, lost, ends, whole, case.coverage, case.left))
    rows.sort(key=lambda row: -row.lost)
    total = _expose(TOTAL, joint, replicates.get(TOTAL, (0.0, 0.0)), whole, math.nan, math.nan)
    frame = _list_segments(cases, columns, losses, bench)
    settings = {
        "by": columns, "unit": unit, "rule": rule, "value": fill, "jointly": jointly, "draws": draws,
        "skip_noise": skip_noise, "bootstrap": bootstrap, "level": level, "random_state": seed,
        "queries": reference.n_queries, "reference": name, "usual": usual is not None,
    }  # fmt: skip
    return Risk(str(judge), whole, tuple(rows), total, frame, _assume(settings), tuple(notes), settings)


class _Bench:
    """The reference set under masks: losses of each query, averaged over the draws."""

    def __init__(
        self, subject: Subject, data: RankingData, units: Units, judge: Metric, value: float, seed: int,
        draws: int, together: bool,
    ) -> None:  # fmt: skip
        self.subject, self.data, self.units, self.judge = subject, data, units, judge
        self.value, self.seed, self.draws, self.together = value, seed, draws, together
        self.sign = -1.0 if is_lower_better(str(judge)) else 1.0
        self.full = judge(subject.predict(data), data.y, data.offsets)
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

    def _order(self, case: Case, part: Part, draw: int) -> Order:
        key = "/".join(map(str, part.key))
        if not self.together:
            return draw_order(part.covered, self.seed, f"{case.feature}/{key}", draw)
        common = draw_order(part.chosen, self.seed, f"/{key}", draw)
        return Order(common.units[part.covered[common.units]], common.extra)

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
            total += self.sign * (self.full - self.judge(scores, self.data.y, self.data.offsets))
        return total / self.draws


def _replicate(
    cases: Sequence[Case], losses: dict[str, Floats], joint: Floats | None, bench: _Bench, bootstrap: int,
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
    scored = ~np.isnan(bench.full)
    matrix = np.stack([*losses.values(), joint], axis=1)[scored]
    weights = np.maximum([float(mean_known(losses[case.feature][:, None])[0]) for case in cases], 0.0)
    rng = np.random.default_rng([bench.seed, 3])
    means: list[Floats] = []
    for counts in resample_counts(bench.data.n_queries, bootstrap, bench.seed):
        drawn = counts[:, scored]
        sums = drawn @ matrix / np.maximum(drawn.sum(axis=1, keepdims=True), 1.0)  # [draws, features + 1]
        factors = np.stack([case.rescale(counts, rng) for case in cases], axis=1)  # [draws, features]
        every = factors @ weights / weights.sum() if weights.sum() > 0.0 else np.ones(len(counts))
        means.append(sums * np.column_stack([factors, every]))
    found = np.concatenate(means)
    return {name: bound_known(found[:, place], level) for place, name in enumerate([*losses, TOTAL])}


def _expose(
    feature: str, lost: Floats | None, ends: tuple[float, float], whole: float, before: float, after: float
) -> Exposure:
    mean = 0.0 if lost is None else float(mean_known(lost[:, None])[0])
    return Exposure(feature, mean, *ends, 100.0 * mean / abs(whole) if whole else math.nan, before, after)


def _list_segments(
    cases: Sequence[Case], columns: Sequence[str], losses: dict[str, Floats], bench: _Bench
) -> list[dict[str, Any]]:
    """One record a feature and segment: coverages, the masked share, and its part of the loss."""
    scored = max(int((~np.isnan(bench.full)).sum()), 1)
    rows = []
    for case in cases:
        for part in case.parts:
            lost = 0.0
            if part.share > 0.0 and bench.units.kind == "event":
                lost = float(np.nansum(losses[case.feature][part.chosen])) / scored
            elif part.share > 0.0:  # a query may have rows of several segments: mask this one alone
                lost = float(np.nansum(bench.lose(case, [part]))) / scored
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


def _show(features: int, wanted: bool) -> Any:
    from placings.rankers.boosting import show_rounds

    return show_rounds("coverage at risk", features + 1, wanted)
