"""What an experiment shows: arms against the control, interleaved orders, and whether to trust the numbers.

Every interval is a confidence sequence over people: anybody may look at any time. The analysis is by
intention to treat: a person counts for the arm they were dealt, also where the model fell back to the
engine's order, so a model that is late is not flattered by the lists that it managed.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import (
    Cell,
    Floats,
    Grid,
    UnknownName,
    format_difference,
    format_interval,
    format_mean,
    render_grid,
    write_json,
)
from placings.evaluation import LEAST, ConfidenceSequence, follow_difference, follow_mean, weigh_counts
from placings.serve.arms import ENGINE, Arm
from placings.serve.people import CountingRules, People, read_people

LEVEL = 0.95
RATIO_ALPHA = 0.001  # a false alarm in a thousand experiments, however often one looks
LOOKS = 200  # points of a curve
BETTER_IF_LOWER = frozenset({"failed sessions"})


@dataclass(frozen=True)
class SampleRatio:
    """Whether arms have the people that their shares say: all that came, and those left without bots."""

    dealt: Mapping[str, int]
    expected: Mapping[str, float]
    weight: float  # log of the ratio of likelihoods, the larger of the two
    worst: str  # which people it is of

    @property
    def p(self) -> float:
        """A p-value that holds at any time; doubled, for two counts are looked at."""
        return min(1.0, 2.0 * math.exp(-min(self.weight, 700.0)))

    @property
    def alarm(self) -> bool:
        """Whether the arms are not what they are said to be."""
        return self.p < RATIO_ALPHA


@dataclass(frozen=True)
class Experiment:
    """What an experiment shows so far; see `judge_experiment`."""

    people: People
    rules: CountingRules
    control: str | None
    ratio: SampleRatio | None
    level: float  # of each difference and preference, so that all hold together with 95 %
    means: Mapping[str, Mapping[str, ConfidenceSequence]]  # by arm and metric
    differences: Mapping[str, Mapping[str, ConfidenceSequence]]  # by arm and metric, less the control
    preferences: Mapping[str, ConfidenceSequence]  # by interleaved arm
    times: Mapping[str, Floats] = field(default_factory=dict)  # of the looks of each arm's differences

    # -- words -------------------------------------------------------------------------------------

    def say(self) -> list[str]:
        """What was shown, in sentences; a mismatch of shares comes first, for then nothing else counts."""
        said = []
        if self.ratio is not None and self.ratio.alarm:
            said.append(
                f"DO NOT TRUST THE NUMBERS BELOW: the arms do not have their shares of people "
                f"({_say_counts(self.ratio)}; p {_say_p(self.ratio.p)}). Find out why first."
            )
        for arm, metrics in self.differences.items():
            said.append(self._say_difference(arm, metrics))
        for arm, found in self.preferences.items():
            said.append(self._say_preference(arm, found))
        if not self.differences and not self.preferences:
            said.append(f"Nothing is compared: {', '.join(self.people.arms)} is the only arm.")
        return said

    def _say_difference(self, arm: str, metrics: Mapping[str, ConfidenceSequence]) -> str:
        shown = [
            f"{name} {'lower' if found.estimates[-1] < 0 else 'higher'} by {abs(found.estimates[-1]):.4f} "
            f"{format_interval(found.lows[-1], found.highs[-1], signed=True)}, "
            f"{'better' if (found.estimates[-1] < 0) == (name in BETTER_IF_LOWER) else 'WORSE'}"
            for name, found in metrics.items()
            if found.excludes_zero
        ]
        if shown:
            return f"Shown: {arm} differs from {self.control}: {'; '.join(shown)}."
        few = [name for name in (arm, str(self.control)) if np.isnan(self.means[name]["CTR"].lows[-1])]
        if few:
            return f"Nothing is shown yet: {' and '.join(few)} must have {LEAST} people who count, or more."
        wide = metrics["CTR"]
        return (
            f"Nothing is shown: {arm} does not differ from {self.control} so far; in CTR it is between "
            f"{format_difference(wide.lows[-1])} and {format_difference(wide.highs[-1])}."
        )

    def _say_preference(self, arm: str, found: ConfidenceSequence) -> str:
        one, other = self.people.arms[arm].shows
        if not found.counts[-1] or np.isnan(found.lows[-1]):
            return f"Nothing is shown yet of {other} against {one}: {LEAST} people who clicked are needed."
        ends = format_interval(found.lows[-1], found.highs[-1], signed=True)
        if not found.excludes_zero:
            return f"Nothing is shown: interleaved, neither {one} nor {other} is preferred {ends}."
        winner, loser = (other, one) if found.estimates[-1] > 0 else (one, other)
        value = format_difference(found.estimates[-1])
        return f"Shown: interleaved, people prefer {winner} to {loser}: {value} {ends} for {other}."

    def list_notes(self) -> list[str]:
        """How to read the tables, and what is not in them."""
        rules, people = self.rules, self.people
        window = f"their first {rules.hours:g} hours" if rules.hours else "everything they did so far"
        notes = [
            f"Each person counts once, by {window}, for the arm they were dealt (intention to treat: "
            "fallbacks to the engine's order count for the arm).",
            f"Intervals may be looked at any time. Those of differences and preferences hold together with "
            f"{LEVEL:.0%} (each has {self.level:.2%}); those of an arm's own mean with {LEVEL:.0%} each.",
        ]
        if not rules.hours:
            notes.append("With --hours 0 a person's value may still change: intervals are then approximate.")
        if self.preferences:
            notes.append("Interleaved lists are mixed: they have a preference, and no CTR of their own.")
        bots = sum(people.bots.values())
        notes.append(
            f"Bots, left out: {bots:,} people with more than {rules.most_lists:,} lists in an hour, or a "
            f"click within {rules.quickest_ms:g} ms ({_say_numbers(people.bots) or 'in no arm'})."
        )
        if self.ratio is not None and not self.ratio.alarm:
            notes.append(
                f"Shares of people are as stated: {_say_counts(self.ratio)}; p {_say_p(self.ratio.p)}."
            )
        left = {name: number for name, number in people.counts.items() if number}
        if left:
            notes.append("Not counted: " + _say_numbers(left) + ".")
        return notes

    # -- tables ------------------------------------------------------------------------------------

    def list_grids(self) -> list[Grid]:
        """The tables: arms, metrics, preferences, exploration; those that have rows."""
        grids = [self._lay_arms(), self._lay_metrics(), self._lay_preferences(), self._lay_swaps()]
        return [grid for grid in grids if grid.rows]

    def _lay_arms(self) -> Grid:
        people, rows = self.people, []
        for name, arm in people.arms.items():
            chosen = people.is_in(name)
            counts = (
                chosen.sum(), people.searches[chosen].sum(), people.sessions[chosen].sum(),
                people.lists[name], people.fallbacks[name], people.bots[name],
            )  # fmt: skip
            rows.append((name, "+".join(arm.shows), f"{arm.share:g}", *(f"{int(each):,}" for each in counts)))
        header = ("arm", "shows", "share", "people", "searches", "sessions", "lists", "fallbacks", "bots")
        return _make_grid(header, rows, left=2)

    def _lay_metrics(self) -> Grid:
        rows = []
        for metric in self.people.values:
            for arm, means in self.means.items():
                own, less = means[metric], self.differences.get(arm, {}).get(metric)
                compared = ("", "", "the control" if self.differences else "") if less is None else (
                    format_difference(less.estimates[-1]),
                    format_interval(less.lows[-1], less.highs[-1], signed=True),
                    _say_verdict(less, metric in BETTER_IF_LOWER),
                )  # fmt: skip
                ends = format_interval(own.lows[-1], own.highs[-1])
                rows.append((metric, arm, format_mean(own.estimates[-1]), ends, *compared))
        header = (
            "mean over people",
            "arm",
            "mean",
            "interval",
            f"difference to {self.control}",
            "interval",
            "",
        )
        return _make_grid(header, rows, left=2)

    def _lay_preferences(self) -> Grid:
        rows = []
        for arm, found in self.preferences.items():
            one, other = self.people.arms[arm].shows
            rows.append((
                arm, f"{other} over {one}", f"{int(found.counts[-1]):,}",
                format_difference(found.estimates[-1]),
                format_interval(found.lows[-1], found.highs[-1], signed=True),
            ))  # fmt: skip
        notes = (
            "A person's preference is the mean over their lists with a click: 1 if the second order's team "
            "got more clicks, −1 if fewer, 0 in a tie. People without a click have none.",
        )
        header = ("interleaved", "preference for", "people who clicked", "mean, −1 to 1", "interval")
        return _make_grid(header, rows, notes if rows else (), left=2)

    def _lay_swaps(self) -> Grid:
        swaps = self.people.swaps
        header = (
            "exploration",
            "lists",
            "swapped lists",
            "sessions",
            "swapped sessions",
            "due",
            "weight at 1",
            "weight due",
        )
        if not swaps.sessions:
            return _make_grid(header, [])
        mean = swaps.weights / swaps.sessions
        error = math.sqrt(max(swaps.squares / swaps.sessions - mean * mean, 0.0) / swaps.sessions)
        row = (
            "swaps", f"{swaps.lists:,}", f"{swaps.swapped:,}", f"{swaps.sessions:,}",
            f"{swaps.swapped_sessions:,}", f"{swaps.expected_sessions:,.1f}", f"{mean:.2f} ± {error:.2f}",
            f"{swaps.expected_weights / swaps.sessions:.2f}",
        )  # fmt: skip
        note = (
            "The weight at position 1 is the mean of 1/probability over sessions. Two items may stand there "
            "where neighbours are swapped, more where swaps reach further. So many are due, up to chance "
            "(± one standard error), if the probabilities written down are right."
        )
        return _make_grid(header, [row], (note,))

    def report(self, format: str = "text") -> str:
        """Everything: what was shown, then the tables, then how to read them."""
        said, notes = self.say(), self.list_notes()
        tables = [render_grid(grid, format) for grid in self.list_grids()]
        if format == "html":
            head = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in said)
            tail = "".join(f"<p>{html.escape(line)}</p>" for line in notes)
            return f"{head}{''.join(tables)}<div class='placings-table'>{tail}</div>"
        return "\n\n".join(["\n".join(said), *tables, "\n".join(notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values; intervals are those of the last look."""
        people = self.people
        return {
            "experiment": people.experiment,
            "said": self.say(),
            "control": self.control,
            "analysis": "intention to treat",
            "hours": self.rules.hours,
            "sample_ratio": None if self.ratio is None else {
                "alarm": self.ratio.alarm, "p": self.ratio.p, "people": dict(self.ratio.dealt),
                "expected": dict(self.ratio.expected), "of": self.ratio.worst,
            },
            "arms": {
                name: {
                    "shows": list(arm.shows), "share": arm.share, "people": int(people.is_in(name).sum()),
                    "searches": int(people.searches[people.is_in(name)].sum()), "lists": people.lists[name],
                    "fallbacks": people.fallbacks[name], "bots": people.bots[name],
                    **{metric: _as_dict(found) for metric, found in self.means.get(name, {}).items()},
                }
                for name, arm in people.arms.items()
            },
            "level": self.level,
            "differences": {
                arm: {metric: _as_dict(found) for metric, found in metrics.items()}
                for arm, metrics in self.differences.items()
            },
            "preferences": {
                arm: {"for": people.arms[arm].shows[1], "over": people.arms[arm].shows[0], **_as_dict(found)}
                for arm, found in self.preferences.items()
            },
            "exploration": vars(people.swaps),
            "not_counted": {name: number for name, number in people.counts.items() if number},
        }  # fmt: skip

    def to_json(self) -> str:
        """`to_dict` in full precision."""
        return write_json(self.to_dict())

    def draw(self) -> str:
        """The differences to the control over time, as SVG; empty if there are none."""
        from placings.report import draw_sequences

        metrics: dict[str, dict[str, tuple[Floats, ConfidenceSequence]]] = {}
        for arm, found in self.differences.items():
            for metric, sequence in found.items():
                metrics.setdefault(metric, {})[f"{arm} − {self.control}"] = (self.times[arm], sequence)
        return draw_sequences(metrics) if metrics else ""

    def write_page(self, path: str | Path) -> Path:
        """The report and its picture as one HTML file that loads nothing from elsewhere."""
        from placings.report import write_result_page

        title = f"Experiment {self.people.experiment}"
        return write_result_page(path, self, title=title, figure=self.draw())


def judge_experiment(
    folder: str | Path,
    *,
    experiment: str | None = None,
    control: str | None = None,
    rules: CountingRules | None = None,
    now: float | None = None,
) -> Experiment:
    """What an experiment shows, from the events of a service's folder.

    The control is the arm that shows the engine's order, else the first. Each of the D differences (arms × 3
    metrics) and preferences has the level 1 − 0.05/D, so that with 95 % all of them hold at all times.
    """
    found_rules = rules or CountingRules()
    people = read_people(folder, experiment=experiment, rules=found_rules, now=now)
    return judge_people(people, found_rules, control)


def judge_people(people: People, rules: CountingRules, control: str | None = None) -> Experiment:
    """What people show; see `judge_experiment`."""
    plain = [arm for arm in people.arms.values() if len(arm.shows) == 1]
    mixed = [arm for arm in people.arms.values() if len(arm.shows) == 2]
    base = _choose_control(plain, control)
    others = [arm.name for arm in plain if arm.name != base]
    level = 1.0 - (1.0 - LEVEL) / max(len(others) * len(people.values) + len(mixed), 1)
    means = {
        arm.name: {
            name: follow_mean(values[people.is_in(arm.name)]) for name, values in people.values.items()
        }
        for arm in plain
    }
    differences: dict[str, dict[str, ConfidenceSequence]] = {}
    times: dict[str, Floats] = {}
    for name in others:
        both = people.is_in(name) | people.is_in(str(base))
        looks = np.unique(np.linspace(0, int(both.sum()), LOOKS + 1).astype(np.int64)[1:])
        looks = looks[looks > 0] if looks.max(initial=0) > 0 else np.zeros(1, dtype=np.int64)
        times[name] = people.time[both][looks - 1] if both.any() else np.zeros(1)
        differences[name] = {
            metric: follow_difference(values[both], people.is_in(name)[both], looks, level=level)
            for metric, values in people.values.items()
        }
    preferences = {}
    for arm in mixed:
        told = people.preference[people.is_in(arm.name)]
        preferences[arm.name] = follow_mean(told[~np.isnan(told)], level=level, bounds=(-1.0, 1.0))
    return Experiment(people, rules, base, _test_ratio(people), level, means, differences, preferences, times)


def _choose_control(arms: list[Arm], told: str | None) -> str | None:
    names = [arm.name for arm in arms]
    if told is not None:
        if told not in names:
            raise UnknownName("arm", told, names)
        return told
    return next((arm.name for arm in arms if arm.shows == (ENGINE,)), names[0] if names else None)


def _test_ratio(people: People) -> SampleRatio | None:
    """The larger of two weights: of all people, and of those without bots, whose rules look at behaviour."""
    if len(people.arms) < 2:
        return None
    weights = {}
    for told, counted in (("all people", people.dealt), ("people without bots", people.kept)):
        weights[told] = sum(
            weigh_counts(counts, {arm.name: arm.share for arm in map(Arm.parse, arms.split())})
            for arms, counts in counted.items()
        )
    worst = max(weights, key=lambda told: weights[told])
    counted = people.dealt if worst == "all people" else people.kept
    dealt, expected = Counter[str](), Counter[str]()
    for arms, counts in counted.items():
        dealt.update(counts)
        for arm in map(Arm.parse, arms.split()):
            expected[arm.name] += arm.share * counts.total()  # type: ignore[assignment]
    return SampleRatio({name: dealt[name] for name in people.arms}, dict(expected), weights[worst], worst)


def _make_grid(header: tuple[str, ...], rows: list[Any], notes: tuple[str, ...] = (), left: int = 1) -> Grid:
    return Grid(header, tuple(tuple(map(Cell, row)) for row in rows), notes, left)


def _say_verdict(found: ConfidenceSequence, lower: bool) -> str:
    if np.isnan(found.lows[-1]):
        return "too few people"
    if not found.excludes_zero:
        return "not shown"
    return "better" if (found.estimates[-1] < 0) == lower else "WORSE"


def _say_counts(ratio: SampleRatio) -> str:
    told = "; ".join(f"{name} {ratio.dealt[name]:,}, due {ratio.expected[name]:,.0f}" for name in ratio.dealt)
    return f"{ratio.worst}: {told}"


def _say_p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


def _say_numbers(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{name}: {number:,}" for name, number in counts.items() if number)


def _as_dict(found: ConfidenceSequence) -> dict[str, Any]:
    return {
        "people": int(found.counts[-1]), "estimate": float(found.estimates[-1]), "low": float(found.lows[-1]),
        "high": float(found.highs[-1]), "excludes_zero": found.excludes_zero,
    }  # fmt: skip
