"""The gate: today's coverage against limits, feature by feature; says yes or no, and why.

How limits come about, and what each verdict means, is in docs/coverage_gate.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from placings.core import BadInput, Cell, Grid, Shown, UnknownName, render_grid, wilson_interval
from placings.data import RankingData
from placings.feco.alerts import name_segment, name_some, say_time
from placings.feco.limits import (
    Limit,
    Limits,
    count_frame,
    count_ranking,
    find_by,
    find_finished,
    pool_segments,
    take_limits,
)
from placings.feco.score import draw_bar

if TYPE_CHECKING:
    import pandas as pd

State = Literal["absent", "below", "no data", "low", "few events", "ok"]
STATES: tuple[State, ...] = ("absent", "below", "no data", "low", "few events", "ok")  # the worst first
NO_DATA = ("fail", "warn", "ignore")
NO_DATA_SHARE = 0.05  # of the usual events: below it a window has no data


@dataclass(frozen=True)
class Finding:
    """One limit held against one window (`window` None: everything together).

    `state`: "absent", no column of the data, so that its coverage is 0; "below" its limit, surely (the whole
    interval lies below); "low", measured below, but it may be chance; "ok"; "no data"; "few events", below
    `min_events`, so not judged.
    """

    limit: Limit
    window: datetime | None
    state: State
    coverage: float
    low: float
    high: float
    events: int

    @property
    def where(self) -> str:
        """Segment and window in words."""
        day = "" if self.window is None else f" on {say_time(self.window)}"
        return f"{name_segment(self.limit.segment)}{day}"

    @property
    def reason(self) -> str:
        """One line that a person can act on."""
        limit = f"limit {_percent(self.limit.limit)}"
        if self.limit.reference is not None:
            limit += f", reference {_percent(self.limit.reference)}"
        if self.state == "absent":
            return f"{self.limit.feature}: absent, no such column ({self.events:,} events; {limit})"
        if self.state == "no data":
            return f"{self.limit.feature} in {self.where}: no data ({self.events:,} events; {limit})"
        seen = f"{_percent(self.coverage)} ({_percent(self.low)} – {_percent(self.high)})"
        return f"{self.limit.feature} in {self.where}: {seen} of {self.events:,} events; {limit}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is not known is None."""
        return {
            "feature": self.limit.feature, "segment": dict(self.limit.segment),
            "window": None if self.window is None else self.window.isoformat(), "state": self.state,
            "coverage": self.coverage, "low": self.low, "high": self.high, "events": self.events,
            "limit": self.limit.limit, "reference": self.limit.reference,
            "min_events": self.limit.min_events, "importance": self.limit.importance,
            "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Shown):
    """What the gate says: `passed`, and a finding for each limit and finished window, the worst first.

    `no_data` says what a feature without data means: "fail", "warn" (told, but it passes) or "ignore".
    `unfinished` are the windows that ended after the watermark; they were not judged.
    """

    findings: tuple[Finding, ...]
    limits: Limits = field(repr=False)
    no_data: str = "fail"
    unfinished: tuple[datetime, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> int:
        """How many findings are a judgement: neither without data nor with too few events."""
        return sum(finding.state in ("ok", "low", "below", "absent") for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that close the gate."""
        states = ("absent", "below", "no data") if self.no_data == "fail" else ("absent", "below")
        return tuple(finding for finding in self.findings if finding.state in states)

    @property
    def passed(self) -> bool:
        """True if nothing closes the gate. A gate that could judge nothing is closed, unless all that it saw
        was unfinished, or `no_data` is not "fail"."""
        blind = bool(self.findings) and not self.judged and self.no_data == "fail"
        return not self.failures and not blind

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass, one line each, the worst first; empty if it passed."""
        if self.failures:
            return tuple(finding.reason for finding in self.failures)
        return () if self.passed else ("nothing could be judged: every feature has too few events",)

    @property
    def summary(self) -> str:
        """One line: passed or not, and how many of what."""
        counts = Counter(finding.state for finding in self.findings)
        told = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
        features = sorted({finding.limit.feature for finding in self.failures})
        if not self.findings:
            return "passed: nothing was judged, no window is finished"
        if self.passed:
            return f"passed: {told}"
        return f"failed: {name_some(features) or 'nothing could be judged'} ({told})"

    def table(self, format: str = "text", *, top: int | None = 40) -> str:
        """The findings, worst first; `top` keeps this many lines of the table (None: all)."""
        timed = any(finding.window is not None for finding in self.findings)
        rows = []
        for finding in self.findings[:top]:
            known = finding.coverage == finding.coverage
            ends = f"{_percent(finding.low)} – {_percent(finding.high)}" if known else ""
            cells = [finding.state, finding.limit.feature, name_segment(finding.limit.segment)]
            if timed:
                cells.append("" if finding.window is None else say_time(finding.window))
            cells += [draw_bar(finding.coverage, 10), _percent(finding.coverage), ends]
            cells.append(_percent(finding.limit.limit))
            reference = finding.limit.reference
            cells += ["" if reference is None else _percent(reference), f"{finding.events:,}"]
            rows.append(tuple(map(Cell, cells)))
        window = ("window",) if timed else ()
        seen = ("coverage", "95 % interval", "limit", "reference", "events")
        header = ("", "feature", "where", *window, "", *seen)
        hidden = len(self.findings) - len(rows)
        more = (f"And {hidden:,} lines more.",) if hidden else ()
        grid = Grid(header, tuple(rows), (*more, self.summary, *self.notes), left=4 + timed)
        return render_grid(grid, format)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "passed": self.passed,
            "summary": self.summary,
            "reasons": list(self.reasons),
            "no_data": self.no_data,
            "judged": self.judged,
            "unfinished": [window.isoformat() for window in self.unfinished],
            "notes": list(self.notes),
            "limits": self.limits.source,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def check_coverage(
    table: Any,
    limits: Any,
    *,
    margin: float | None = None,
    min_events: int | None = None,
    no_data: str = "fail",
    watermark: Any = None,
    **settings: Any,
) -> Verdict:
    """Hold coverage against limits: does any feature lie below its limit, surely?

    - `table`: anything that `coverage` reads, counted as the limits say (`settings` win over them); a
      Coverage or coverage frame that was counted so; or a RankingData, as a whole, its queries the events.
    - `limits`: a YAML file (`read_limits`), Limits, a saved ranker's folder, or a ranker: its coverage in
      training less `margin` (10 points), over rows.
    - A feature fails when the whole interval of its coverage lies below its limit, in at least `min_events`
      events (the limits' own, 50 unless said). Every finished window is judged by itself, in every segment
      that has a limit and all together.
    - `no_data`: what it means if there is nothing where the reference had enough (no event; with windows,
      fewer than 5 % of the usual): "fail", for a gate that saw nothing vouches for nothing, "warn", "ignore".
    - `watermark`: up to when the log is complete. A window that ends after it is not judged.

    A feature that is no column of the table is "absent": its coverage is 0 everywhere, which closes the gate
    whatever `no_data` says. A table that has no column of those named is an error; in a coverage
    frame, a feature that was not counted is "no data". Segments without a limit are noted.

    >>> log = {"search": range(200), "price": [0.0] * 100 + [1.0] * 100}
    >>> verdict = check_coverage(log, {"features": {"price": {"limit": 0.8}}})
    >>> verdict.passed, verdict.findings[0].state
    (False, 'below')
    >>> print(verdict.reasons[0])
    price in all: 50.0 % (43.1 % – 56.9 %) of 200 events; limit 80.0 %
    """
    if no_data not in NO_DATA:
        raise UnknownName("meaning of no data", str(no_data), NO_DATA)
    held = take_limits(limits, margin=margin, min_events=min_events)
    counting = {**held.counting, **settings}
    if counting.get("time") is None:
        counting.pop("window", None)
        counting.pop("zone", None)
    if _is_ranker(held) and counting.get("within") not in ("rows", None):
        raise BadInput(
            f"a saved ranker knows the coverage of rows, so within must be 'rows'. "
            f"Got {counting['within']!r}."
        )
    counting.setdefault("rule", held.rules)
    notes = list(held.notes)
    if isinstance(table, RankingData):
        (frame, absent), found = count_ranking(table, held), None
    else:
        frame, found = count_frame(table, list(held.features), {"absent": "dark", **counting})
        absent = () if found is None else found.absent
    by = find_by(frame)
    if held.by and not by and isinstance(table, RankingData):
        whole = tuple(entry for entry in held.entries if not entry.segment)
        held = replace(held, entries=whole, counting={})
        notes.append("The data have no such segments: only everything together was judged.")
    if held.by and by != held.by:
        raise BadInput(
            f"{held.source} has limits by {list(held.by)}; coverage must be counted by them. Got {list(by)}."
        )
    done = find_finished(frame, watermark, found, counting.get("window"))
    late = _list_windows(frame[~done])
    windows: list[Any] = [*_list_windows(frame[done])] or ([] if late else [None])
    rows = _index_rows(frame[done], by, held)
    findings = [
        _judge(entry, window, rows.get((*entry.key, window)), timed=windows != [None])
        for window in windows
        for entry in held.entries
        if entry.feature not in absent
    ]
    findings += _tell_absent(frame, absent, held)
    findings.sort(key=_rank)
    if late:
        notes.append(f"Not finished by the watermark, so not judged: {name_some(list(map(say_time, late)))}.")
    new = sorted({key[1] for key in rows if held.by and key[1]} - {entry.key[1] for entry in held.entries})
    if new:
        notes.append(f"Segments without a limit: {name_some(['/'.join(values) for values in new])}.")
    notes += found.notes if found is not None else ()
    return Verdict(tuple(findings), held, no_data, tuple(late), tuple(notes))


# -- judging ------------------------------------------------------------------------------------------------

Row = tuple[float, float, float, int]  # coverage, low, high, events


def _tell_absent(frame: pd.DataFrame, absent: Sequence[str], held: Limits) -> list[Finding]:
    """One finding for each feature that is not a column, whatever segments and windows there are."""
    found = []
    for name in absent:
        entries = [entry for entry in held.entries if entry.feature == name]
        entry = next((entry for entry in entries if not entry.segment), entries[0])
        events = int(frame.loc[frame["feature"] == name, "events"].sum())
        high = float(wilson_interval(0, events)[1]) if events else float("nan")
        found.append(Finding(replace(entry, segment={}), None, "absent", 0.0, 0.0, high, events))
    return found


def _judge(entry: Limit, window: Any, row: Row | None, *, timed: bool) -> Finding:
    coverage, low, high, events = row or (float("nan"), float("nan"), float("nan"), 0)
    state: State
    if _lacks_data(entry, events, timed):
        state = "no data"
    elif events < max(entry.min_events, 1):
        state = "few events"
    elif high < entry.limit:
        state = "below"
    else:
        state = "low" if coverage < entry.limit else "ok"
    return Finding(entry, window, state, coverage, low, high, events)


def _lacks_data(entry: Limit, events: int, timed: bool) -> bool:
    """No events where there should be some; in windows, hardly any of the usual."""
    if not timed or entry.reference is None:
        return events == 0
    if not entry.windows or not entry.events:
        return False  # in the reference most windows had too few events as well
    return events < NO_DATA_SHARE * entry.events / entry.windows


def _index_rows(frame: pd.DataFrame, by: Sequence[str], held: Limits) -> dict[tuple[Any, ...], Row]:
    """Coverage by feature, segment and window, everything together (segment ()) included."""
    found: dict[tuple[Any, ...], Row] = {}
    wanted = set(held.features)
    for feature, part in frame.groupby("feature", sort=False):
        if str(feature) not in wanted:
            continue
        parts = [(part, by), (pool_segments(part, by), ())] if by else [(part, ())]
        for rows, names in parts:
            for row in rows.to_dict("records"):
                key = (str(feature), tuple(str(row[name]) for name in names), _as_window(row))
                found[key] = (row["coverage"], row["low"], row["high"], int(row["events"]))
    return found


def _as_window(row: Mapping[Any, Any]) -> datetime | None:
    stamp = row.get("window")
    return None if stamp is None else stamp.to_pydatetime()


def _list_windows(frame: pd.DataFrame) -> list[datetime]:
    if "window" not in frame:
        return []
    return [stamp.to_pydatetime() for stamp in sorted(frame["window"].unique())]


def _rank(finding: Finding) -> tuple[Any, ...]:
    """The worst state first; in it the most important feature, the largest shortfall, the latest window."""
    short = finding.limit.limit - finding.coverage
    day = 0.0 if finding.window is None else -finding.window.timestamp()
    weight = finding.limit.importance or 0.0
    return STATES.index(finding.state), -weight, -short if short == short else 0.0, day


def _is_ranker(held: Limits) -> bool:
    return "queries" in held.made


def _percent(share: float) -> str:
    return "-" if share != share else f"{100 * share:.1f} %"
