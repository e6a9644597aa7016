"""How far coverage may fall: limits made from reference data, kept in a YAML file that people edit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.errors import BadFile, BadInput, PlacingsWarning, UnknownName
from placings.evaluation.rendering import Cell, Grid, render_grid
from placings.feco.incidents import name_segment, name_some
from placings.feco.results import draw_bar
from placings.feco.rules import NON_ZERO, Rule, check_rule

if TYPE_CHECKING:
    pass

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
            if value is not None and (not is_number(value) or value != int(value) or value < 0):
                raise BadInput(f"{name} of {where} must be a whole number of 0 or more. Got {value!r}.")
        for name in ("spread", "importance"):
            value = getattr(self, name)
            if value is not None and (not is_number(value) or not math.isfinite(value)):
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
        from placings.evaluation.runs import write_text

        write_text(Path(path), render_limits(self))
        return Path(path)


# -- the file ---------------------------------------------------------------------------------------------


def read_limits(path: str | PathLike[str]) -> Limits:
    """The limits of a YAML file; a key, name or number that cannot be meant is an error that says which."""
    import yaml

    path = Path(path)
    if not path.is_file():
        raise BadFile(path, "there is no such file of limits. Make one with `placings coverage init`.")
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadFile(path, f"is not YAML: {' '.join(str(error).split())}.") from None
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
