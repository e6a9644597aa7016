"""How far coverage may fall: limits made from reference data, kept in a YAML file that people edit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    Cell,
    Floats,
    Grid,
    PlacingsWarning,
    UnknownName,
    parse_json,
    read_yaml,
    render_grid,
    wilson_interval,
)
from placings.data import RankingData
from placings.feco.alerts import name_segment, name_some
from placings.feco.rules import LEARNED, NON_ZERO, Rule, check_rule
from placings.feco.score import Coverage, draw_bar

if TYPE_CHECKING:
    pass
    import pandas as pd

VERSION = 1
MIN_EVENTS = 50
COUNTING = ("event", "within", "by", "time", "window", "zone", "position")  # how coverage is counted
NUMBERS = ("limit", "reference", "low", "high", "events", "windows", "spread", "importance", "min_events")
HEADER = """\
# How far each feature's coverage may fall before `placings coverage check` says no (exit code 3).
# limit: fails when the whole 95 % interval of coverage lies below it. Edit these; the rest explains them.
# reference: the coverage in the data that this file was made from, with its interval and events;
# spread: how much it differs from window to window.
"""


@dataclass(frozen=True)
class Limit:
    """The least coverage of one feature, in one segment (or everywhere: `segment` is empty).

    `reference` is the coverage it was derived from with its interval, `spread` the standard deviation from
    window to window, where windows were many enough to know it.
    """

    feature: str
    limit: float
    segment: Mapping[str, Any] = field(default_factory=dict)
    reference: float | None = None
    low: float | None = None
    high: float | None = None
    events: int | None = None
    windows: int | None = None
    spread: float | None = None
    rule: Rule = NON_ZERO
    min_events: int = MIN_EVENTS
    importance: float | None = None

    def __post_init__(self) -> None:
        where = f"{self.feature!r}" + (f" in {name_segment(self.segment)}" if self.segment else "")
        for name in ("limit", "reference", "low", "high"):
            value = getattr(self, name)
            if value is None and name != "limit":
                continue
            if not is_number(value) or not 0.0 <= value <= 1.0:
                raise BadInput(f"the {name} of {where} must be a share from 0 to 1. Got {value!r}.")
        for name in ("min_events", "events", "windows"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and 0 <= value < 2**63 and value == int(value)):
                raise BadInput(f"{name} of {where} must be a whole number of 0 or more. Got {value!r}.")
        for name in ("spread", "importance"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and abs(value) < math.inf):
                raise BadInput(f"{name} of {where} must be a number. Got {value!r}.")
        check_rule(self.rule, f"the rule of {where}")

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """Feature and segment values, as text."""
        return self.feature, tuple(str(value) for value in self.segment.values())


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of features, everywhere and by segment, and how coverage must be counted to be held to them."""

    entries: tuple[Limit, ...]
    counting: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    source: str = "the limits"

    def __post_init__(self) -> None:
        keys = [entry.key for entry in self.entries]
        if not keys:
            raise BadInput(f"{self.source} must name at least one feature. Got none.")
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise BadInput(f"{self.source} has two limits for {twice[0]!r} in one segment. Keep one.")
        for name in self.counting:
            if name not in COUNTING:
                raise UnknownName(f"entry of counting in {self.source}", str(name), COUNTING)
        for entry in self.entries:
            if entry.segment and tuple(entry.segment) != self.by:
                raise BadInput(
                    f"the segments of {entry.feature!r} in {self.source} must name the columns of by, "
                    f"{list(self.by)}. Got {list(entry.segment)}."
                )

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.feature for entry in self.entries))

    @property
    def rules(self) -> dict[str, Rule]:
        return {entry.feature: entry.rule for entry in self.entries}

    @property
    def by(self) -> tuple[str, ...]:
        """The segment columns."""
        by = self.counting.get("by")
        return () if by is None else (by,) if isinstance(by, str) else tuple(map(str, by))

    def table(self, format: str = "text", *, top: int | None = 40) -> str:
        """One line a feature and segment: the reference, its interval, the limit."""
        rows = []
        for entry in self.entries[:top]:
            ends = "" if entry.low is None or entry.high is None else f"{entry.low:.1%} – {entry.high:.1%}"
            cells = [entry.feature, name_segment(entry.segment)]
            cells += [draw_bar(entry.limit), f"{entry.limit:.1%}"]
            cells += ["" if entry.reference is None else f"{entry.reference:.1%}", ends]
            cells += ["" if entry.spread is None else f"{entry.spread:.1%}"]
            cells += ["" if entry.events is None else f"{entry.events:,}"]
            rows.append(tuple(map(Cell, cells)))
        header = ("feature", "where", "", "limit", "reference", "95 % interval", "spread", "events")
        hidden = len(self.entries) - len(rows)
        more = (f"And {hidden:,} lines more.",) if hidden else ()
        return render_grid(Grid(header, tuple(rows), (*more, *self.notes), left=3), format)

    def to_dict(self) -> dict[str, Any]:
        """What the file holds."""
        features: dict[str, Any] = {}
        least = {entry.min_events for entry in self.entries}
        said = [name for name in NUMBERS if name != "min_events" or len(least) > 1]
        for entry in self.entries:
            facts = {name: getattr(entry, name) for name in said if getattr(entry, name) is not None}
            if entry.segment:
                facts.pop("importance", None)
                one = {"segment": dict(entry.segment), **facts}
                features.setdefault(entry.feature, {"rule": entry.rule}).setdefault("segments", []).append(
                    one
                )
            else:
                rest = features.get(entry.feature, {})
                features[entry.feature] = {"rule": entry.rule, **facts, **rest}
        head = {"version": VERSION, "made": dict(self.made), "counting": dict(self.counting)}
        common = {"min_events": least.pop()} if len(least) == 1 else {}
        return {**head, **common, "features": features}

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the YAML file, whole or not at all; `read_limits` reads it back."""
        from placings.core import write_text

        write_text(Path(path), render_limits(self))
        return Path(path)


# -- the file ---------------------------------------------------------------------------------------------


def read_limits(path: str | PathLike[str]) -> Limits:
    """The limits of a YAML file; a key, name or number that cannot be meant is an error that says which."""
    path = Path(path)
    if not path.is_file():
        raise BadFile(path, "there is no such file of limits. Make one with `placings coverage init`.")
    read = read_yaml(path)
    if not isinstance(read, Mapping):
        raise BadFile(path, "must hold limits, as `placings coverage init` writes them.")
    try:
        return parse_limits(read, path.name)
    except BadInput as error:
        raise BadFile(path, str(error)) from None


def parse_limits(read: Mapping[Any, Any], where: str) -> Limits:
    """Limits from plain values, every one checked."""
    _check_keys(read, ("version", "made", "counting", "min_events", "rule", "features"), where)
    if read.get("version", VERSION) != VERSION:
        raise BadInput(f"version must be {VERSION}. Got {read['version']!r}. Update placings.")
    for name in ("made", "counting", "features"):
        if not isinstance(read.get(name, {}), Mapping):
            raise BadInput(f"{name} must hold entries as `name: value`. Got {read[name]!r}.")
    least, usual = read.get("min_events", MIN_EVENTS), read.get("rule", NON_ZERO)
    entries: list[Limit] = []
    for name, given in read.get("features", {}).items():
        entries += _parse_feature(name, given, least, usual)
    limits = Limits(tuple(entries), dict(read.get("counting", {})), dict(read.get("made", {})), (), where)
    above = [
        entry for entry in entries if entry.reference is not None and entry.limit > entry.reference + 1e-9
    ]
    if above:
        named = name_some([f"{entry.feature} in {name_segment(entry.segment)}" for entry in above])
        warnings.warn(
            f"{where}: above their own reference, so the reference itself would fail: {named}.",
            PlacingsWarning,
            stacklevel=3,
        )
    return limits


def _parse_feature(name: Any, given: Any, least: Any, usual: Any) -> list[Limit]:
    """The limits of one feature: everywhere, and in its segments."""
    if isinstance(name, bool) or name is None:
        raise BadInput(f"a feature's name must be text. Got {name!r}: write it in quotes.")
    facts = {"limit": given} if is_number(given) else given
    if not isinstance(facts, Mapping):
        raise BadInput(f"feature {name!r} must have a limit, such as `limit: 0.8`. Got {given!r}.")
    _check_keys(facts, ("rule", *NUMBERS, "segments"), f"feature {name!r}")
    common = {"feature": str(name), "rule": facts.get("rule", usual)}
    parts = facts.get("segments", [])
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise BadInput(f"the segments of {name!r} must be a list. Got {parts!r}.")
    own = {key: facts[key] for key in NUMBERS if key in facts}
    entries: list[Limit] = []
    if "limit" in own:
        entries.append(Limit(**common, **{"min_events": least, **own}))
    elif not parts:
        raise BadInput(f"feature {name!r} has no limit. Write `limit: 0.8`, or take it out.")
    shared = {key: own[key] for key in ("min_events", "importance") if key in own}
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("segment"), Mapping):
            raise BadInput(
                f"a segment of {name!r} must be {{segment: {{column: value}}, limit: 0.8}}. Got {part!r}."
            )
        _check_keys(part, ("segment", *NUMBERS), f"a segment of {name!r}")
        if "limit" not in part:
            raise BadInput(f"{name!r} in {name_segment(part['segment'])} has no limit.")
        entries.append(Limit(**common, **{"min_events": least, **shared, **part}))
    return entries


def render_limits(limits: Limits) -> str:
    """The YAML text: one line a segment, explained at the top."""
    import yaml

    def flow(value: Any) -> str:
        text = yaml.safe_dump(
            value, default_flow_style=True, sort_keys=False, width=10**9, allow_unicode=True
        )
        return str(text).removesuffix("...\n").strip()

    whole = limits.to_dict()
    lines = [HEADER.rstrip(), f"version: {whole['version']}"]
    for name in ("made", "counting"):
        lines += [f"{name}:"] if whole[name] else [f"{name}: {{}}"]
        lines += [f"  {flow(key)}: {flow(value)}" for key, value in whole[name].items()]
    lines += [f"min_events: {whole['min_events']}"] if "min_events" in whole else []
    lines.append("features:")
    for name, facts in whole["features"].items():
        lines.append(f"  {flow(name)}:")
        for key, value in facts.items():
            if key == "segments":
                lines.append("    segments:")
                lines += [f"    - {flow(_round(part))}" for part in value]
            else:
                lines.append(f"    {key}: {flow(_round(value))}")
    return "\n".join(lines) + "\n"


# -- values -------------------------------------------------------------------------------------------------


def _check_keys(given: Mapping[Any, Any], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise UnknownName(f"entry of {where}", str(name), known)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _round(value: Any) -> Any:
    """Numbers with five digits: a limit needs no more, and a person reads it."""
    if isinstance(value, Mapping):
        return {key: _round(part) for key, part in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


MARGIN = 0.10  # below what is usual in the reference; alerts, not the gate, look for less
SPREADS = 3.0
RARE = 0.4  # below this coverage the margin shrinks with it
MANY = 7  # windows from which on the reference is the middle one, and days are known to differ


def make_limits(
    table: Any,
    features: str | Sequence[str] | None = None,
    *,
    margin: float = MARGIN,
    spreads: float = SPREADS,
    min_events: int = MIN_EVENTS,
    importances: Mapping[str, float] | None = None,
    watermark: Any = None,
    made: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Limits:
    """Limits below what is usual in reference data, for each feature and, with `by`, for each segment.

    `table` is anything that `coverage` reads, with its `settings`; or a Coverage or coverage frame, of which
    the settings then say how it was counted. With c the coverage of the reference:

    - seven finished windows or more (`time=`): c is the middle window's (windows below `min_events` left
      out), or that of the later half if it is higher: growth is taken along, a decline is not. s is the
      spread from window to window (1.4826 · the median distance from the median of the seven windows
      around), and the limit is `c − spreads · s − m`. A few broken windows in the reference move neither;
    - fewer, or none: c is the share over everything, and the limit is `low − m`, low being the lower end of
      its interval.

    m is `margin · min(1, c / 0.4)`: smaller for rare features, so that they have a limit above 0. A limit
    never lies above c nor below 0. A segment with fewer than `min_events` events gets none, and that is
    noted. Rules "mean" and "median" become the number that they came to. `importances` are kept: in a
    verdict, the most important failure comes first.

    >>> log = {"search": range(200), "price": [0.0] * 20 + [1.0] * 180}
    >>> entry = make_limits(log, "price", event="search").entries[0]
    >>> entry.reference, round(entry.low, 3), round(entry.limit, 3)
    (0.9, 0.851, 0.751)
    """
    _check_settings(margin, spreads, min_events)
    frame, found = count_frame(table, features, settings)
    frame = frame[find_finished(frame, watermark, found, settings.get("window"))]
    if not len(frame):
        raise BadInput(f"no window of the reference ended by the watermark {watermark}. Give a later one.")
    by = find_by(frame)
    rules = _name_rules(frame, found, settings.get("rule", NON_ZERO))
    entries: list[Limit] = []
    lacking: list[str] = []
    for feature, part in frame.groupby("feature", sort=False):
        named = str(feature)
        common: dict[str, Any] = {"feature": named, "rule": rules[named], "min_events": int(min_events)}
        common["importance"] = None if importances is None else float(importances.get(named, 0.0))
        for segment, own in _list_segments(part, by):
            facts = _derive(own, margin, spreads, min_events)
            if facts is None:
                lacking.append(f"{named} in {name_segment(segment)}")
            else:
                entries.append(Limit(segment=segment, **common, **facts))
    if not entries:
        raise BadInput(
            f"the reference has fewer than {min_events} events for every feature: nothing to make limits of."
        )
    idle = [f"{entry.feature} in {name_segment(entry.segment)}" for entry in entries if entry.limit == 0.0]
    steady = entries[0].spread is not None
    usual = f"the middle window − {spreads:g} spreads" if steady else "the interval's lower end"
    notes = [f"Limit: {usual} − {100 * margin:g} points (less for features covered below 40 %)."]
    if lacking:
        notes.append(f"Too few events for a limit: {name_some(lacking)}.")
    if idle:
        notes.append(
            f"With a limit of 0, which nothing falls below (too rare or unsteady): {name_some(idle)}."
        )
    counting = {name: settings[name] for name in COUNTING if settings.get(name) is not None}
    if "time" in counting:
        counting.setdefault("window", "1d")
    if by:
        counting["by"] = list(by)
    return Limits(tuple(entries), counting, made or {}, tuple(notes))


def _check_settings(margin: Any, spreads: Any, min_events: Any) -> None:
    for name, value, most in (("margin", margin, 1.0), ("spreads", spreads, math.inf)):
        if not is_number(value) or not 0.0 <= value < most:
            raise BadInput(
                f"{name} must be a number of 0 or more{' and below 1' * (most == 1)}. Got {value!r}."
            )
    if not is_number(min_events) or min_events < 1:
        raise BadInput(f"min_events must be a whole number of at least 1. Got {min_events!r}.")


def _list_segments(part: pd.DataFrame, by: Sequence[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """A feature's windows over everything, then those of each segment."""
    groups: list[tuple[dict[str, Any], pd.DataFrame]] = [({}, pool_segments(part, by))]
    if by:
        for values, own in part.groupby(list(by), sort=False, dropna=False):
            groups.append((dict(zip(by, map(_plain, values), strict=True)), own))
    return groups


def take_limits(given: Any, *, margin: float | None = None, min_events: int | None = None) -> Limits:
    """Limits from anything that knows some: Limits, a mapping, a YAML file, a saved ranker or a ranker.

    A ranker's are its coverage in training (share of rows that are present and not zero) less a margin of 10
    points, from the lower end of an interval over its training queries.
    """
    from placings.core import MANIFEST

    if isinstance(given, Limits):
        found = given
    elif isinstance(given, Mapping):
        found = parse_limits(given, "the limits")
    elif isinstance(given, str | PathLike):
        path = Path(given)
        if path.is_dir() or (path / MANIFEST).is_file():
            return _take_bundle(path, margin, min_events)
        found = read_limits(path)
    elif hasattr(given, "coverage_") and hasattr(given, "feature_names_"):
        facts = {"rows": given.training_["rows"], "queries": given.training_["queries"]}
        return _hold_ranker(
            given.feature_names_, given.coverage_, given.coverage_rules_, facts, type(given).__name__, margin,
            min_events,
        )  # fmt: skip
    else:
        raise BadInput(
            "limits must be a YAML file, a saved ranker's folder, a fitted ranker or Limits. "
            f"Got {type(given).__name__}."
        )
    if margin is not None:
        raise BadInput("margin is for a ranker's coverage; limits in a file have theirs. Leave it out.")
    if min_events is not None:
        entries = tuple(replace(entry, min_events=min_events) for entry in found.entries)
        found = replace(found, entries=entries)
    return found


def adopt_rules(ranker: Any, train: RankingData, rules: Mapping[str, Any]) -> None:
    """Let a fitted ranker say of these features what covered means, and count its training data so.

    Its bundle keeps both: `coverage(…, rule="model/")` and the gate with `--reference model/` then mean the
    same. "mean" and "median" become the number that they came to in training.
    """
    from placings.feco.masking import find_border, find_covered

    for name, rule in rules.items():
        if name not in ranker.feature_names_:
            raise UnknownName("feature of the ranker", str(name), ranker.feature_names_)
        place = ranker.feature_names_.index(name)
        column = train.X[:, [place]]
        values = np.asarray(column if isinstance(column, np.ndarray) else column.toarray())[:, 0]
        border = find_border(values, rule)
        ranker.coverage_rules_[name] = float(border) if rule in LEARNED and border is not None else rule
        ranker.coverage_[place] = find_covered(values, rule).mean() if len(values) else np.nan


# -- counting -----------------------------------------------------------------------------------------------


def count_frame(
    table: Any, features: Any, settings: Mapping[str, Any]
) -> tuple[pd.DataFrame, Coverage | None]:
    """The coverage frame of a table, counted now; or the one that was given, with the Coverage it is of."""
    from placings.feco.score import coverage

    if isinstance(table, Coverage):
        return table.to_pandas(), table
    columns = getattr(table, "columns", ())
    if type(table).__module__.startswith("pandas") and {"feature", "coverage", "events"} <= set(columns):
        frame = table.reset_index(drop=True)
        if "covered" not in frame:
            frame = frame.assign(covered=(frame["coverage"] * frame["events"]).fillna(0.0))
        if not {"low", "high"} <= set(columns):
            low, high = wilson_interval(frame["covered"], frame["events"])
            frame = frame.assign(low=low, high=high)
        return frame, None
    found = coverage(table, features, **settings)
    return found.to_pandas(), found


def count_ranking(data: RankingData, limits: Limits) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The coverage frame of ranking data, counted as the limits say, and the features that they lack.

    Queries are the events. A feature that the data lack is covered nowhere; if they lack all, it is an error.

    Segments that the data lack are left out, and so is the time: training data are judged as a whole.
    """
    import pandas as pd

    from placings.feco.masking import summarise_coverage

    within, event = limits.counting.get("within", "any"), limits.counting.get("event")
    if within not in ("any", "rows"):
        raise BadInput(f"limits with within={within!r} are for logs. Training data need 'any' or 'rows'.")
    absent = [name for name in limits.features if name not in data.feature_names]
    if len(absent) == len(limits.features):
        raise UnknownName(f"feature of {limits.source} in the data named", absent[0], data.feature_names)
    by = list(limits.by) if set(limits.by) <= set(data.segments) else None
    unit = "row" if within == "rows" or event is None else "event"
    parts: dict[Rule, list[str]] = {}
    for name, rule in limits.rules.items():
        if name not in absent:
            parts.setdefault(rule, []).append(name)
    counted = [summarise_coverage(data, names, by=by, unit=unit, rule=rule) for rule, names in parts.items()]
    some = counted[0][counted[0]["feature"] == counted[0]["feature"].iloc[0]]
    _, high = wilson_interval(0 * some["events"], some["events"])
    nothing = some.assign(coverage=0.0, low=0.0, high=high, covered=0)
    counted += [nothing.assign(feature=name) for name in absent]
    whole: pd.DataFrame = pd.concat(counted, ignore_index=True)
    return whole, tuple(absent)


def find_by(frame: pd.DataFrame) -> tuple[str, ...]:
    """The segment columns of a coverage frame."""
    from placings.feco.baselines import find_segment_columns

    return find_segment_columns(frame)


def find_finished(frame: pd.DataFrame, watermark: Any, found: Coverage | None, window: str | None) -> Any:
    """Which rows are of windows that ended by the watermark `[rows]`; all of them without one."""
    import pandas as pd

    from placings.feco.baselines import find_step, parse_time
    from placings.feco.windows import DAY, parse_window

    if watermark is None or "window" not in frame:
        return np.ones(len(frame), dtype=np.bool_)
    length = window if found is None else found.window
    seconds = int(find_step(frame["window"]).total_seconds()) if length is None else parse_window(length)
    starts = pd.DatetimeIndex(frame["window"])
    if found is not None and found.zone != "UTC" and seconds >= DAY:  # days of 23 and 25 hours
        local = starts.tz_localize("UTC").tz_convert(found.zone).tz_localize(None)
        ends = local.normalize() + pd.Timedelta(seconds=seconds)
        ends = ends.tz_localize(found.zone, ambiguous=False, nonexistent="shift_forward")
        ends = ends.tz_convert("UTC").tz_localize(None)
    else:
        ends = starts + pd.Timedelta(seconds=seconds)
    return np.asarray(ends <= parse_time(watermark, "watermark"))


def pool_segments(part: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One feature's rows with all segments of a window together; intervals are Wilson's over events."""
    if not by:
        return part
    timed = "window" in part
    sums = part.groupby("window" if timed else "feature", sort=timed)[["events", "covered"]].sum()
    sums = sums.reset_index()
    low, high = wilson_interval(sums["covered"], sums["events"])
    share = sums["covered"] / sums["events"].where(sums["events"] > 0)
    return sums.assign(coverage=share, low=low, high=high)


def _derive(part: pd.DataFrame, margin: float, spreads: float, min_events: int) -> dict[str, Any] | None:
    """The reference and the limit of one feature in one segment; None where there are too few events."""
    events, covered = float(part["events"].sum()), float(part["covered"].sum())
    if events < min_events:
        return None
    known = part[part["events"] >= min_events] if "window" in part else part[:0]
    facts: dict[str, Any] = {"events": int(events)}
    if len(known) >= MANY:
        shares = known.sort_values("window")["coverage"].to_numpy(dtype=np.float64)
        usual = max(shares, shares[len(shares) // 2 :], key=np.median)  # growth is taken along, decline not
        middle, ends = float(np.median(usual)), np.sort(usual)
        rank = max(int(len(usual) / 2 - 0.98 * math.sqrt(len(usual))), 0)  # a median's interval, 95 %
        spread = 1.4826 * float(np.median(np.abs(shares - smooth_median(shares))))
        facts |= {"windows": len(shares), "spread": spread, "reference": middle}
        facts |= {"low": float(ends[rank]), "high": float(ends[-1 - rank])}
        least = middle - spreads * spread
    else:
        middle = covered / events
        if len(part) == 1:
            low, high = float(part["low"].iloc[0]), float(part["high"].iloc[0])
        else:
            low, high = (float(end) for end in wilson_interval(covered, events))
        facts |= {"reference": middle, "low": low, "high": high}
        least = low
    facts["limit"] = max(0.0, min(least - _scale(margin, middle), middle))
    return facts


def _scale(margin: float, share: float) -> float:
    return margin * min(1.0, share / RARE)


def smooth_median(shares: Floats, length: int = MANY) -> Floats:
    """The median of the `length` windows around each one; at the ends, of the first and last `length`.

    >>> smooth_median(np.array([1.0, 1.0, 9.0, 2.0, 2.0]), 3)
    array([1., 1., 2., 2., 2.])
    """
    last = len(shares) - length
    starts = np.clip(np.arange(len(shares)) - length // 2, 0, max(last, 0))
    return np.array([np.median(shares[start : start + length]) for start in starts])


def _name_rules(frame: pd.DataFrame, found: Coverage | None, rule: Any) -> dict[str, Rule]:
    """The rule of each feature; what data decided ("mean") is the number it came to, fixed from now on."""
    if found is None:
        from placings.feco.rules import find_rules

        names = [str(name) for name in dict.fromkeys(frame["feature"])]
        rules, thresholds = find_rules(rule, names), {}
    else:
        rules, thresholds = dict(found.rules), dict(found.thresholds)
    for name, one in rules.items():
        if one in LEARNED:
            if math.isnan(thresholds.get(name, math.nan)):
                raise BadInput(
                    f"the rule {one!r} of {name!r} came to no number: it has no value in the reference."
                )
            rules[name] = float(thresholds[name])
    return rules


# -- saved rankers ------------------------------------------------------------------------------------------


def _take_bundle(path: Path, margin: float | None, min_events: int | None) -> Limits:
    from placings.core import read_bundle
    from placings.data import name_features
    from placings.rankers import FEATURES

    bundle = read_bundle(path)
    contract = parse_json(bundle.files[FEATURES])
    names = contract["names"] or name_features(int(bundle.manifest["features"]))
    shares = [math.nan if share is None else float(share) for share in contract["coverage"]]
    rules = contract.get("rules", {})
    return _hold_ranker(names, shares, rules, bundle.manifest["training"], str(path), margin, min_events)


def _hold_ranker(
    names: Sequence[str],
    shares: Any,
    rules: Mapping[str, Any],
    training: Mapping[str, Any],
    source: str,
    margin: float | None,
    min_events: int | None,
) -> Limits:
    away = MARGIN if margin is None else margin
    if not is_number(away) or not 0.0 <= away < 1.0:
        raise BadInput(f"margin must be a share from 0 to below 1. Got {margin!r}.")
    queries = int(training["queries"])
    entries = []
    for name, share in zip(names, shares, strict=True):
        if math.isnan(float(share)):
            continue
        low, high = (float(end) for end in wilson_interval(float(share) * queries, queries))
        limit = max(0.0, low - _scale(away, float(share)))
        entries.append(
            Limit(
                str(name), limit, rule=rules.get(name, NON_ZERO), reference=float(share), low=low, high=high,
                events=queries, min_events=MIN_EVENTS if min_events is None else min_events,
            )
        )  # fmt: skip
    made = {"from": source, "rows": int(training["rows"]), "queries": queries}
    notes = (
        f"Limit: {100 * away:g} points (less for features covered below 40 %) below the lower end of the "
        f"share of rows in training, over {queries:,} queries.",
    )
    return Limits(tuple(entries), {"within": "rows"}, made, notes, source)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str | int | float | bool) else str(value)
