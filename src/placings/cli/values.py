"""The values of options, checked in one place: those of flags, and those of configurations alike.

What an option may be is read from the command that declares it: its type, `min` and `max`. A few names
have bounds of their own everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from placings.core import BadFile, BadInput, check_limit, escape_line

SEEDS = 2**32 - 1  # what NumPy, LightGBM and XGBoost all take
LARGEST = 2**63 - 1
LIMITED = {
    "k": "k", "workers": "jobs", "jobs": "jobs", "bootstrap": "draws", "permutations": "draws",
    "draws": "draws", "retrained": "draws", "seeds": "draws",
    "searches": "count", "days": "count", "queries": "count", "trials": "count", "steps": "count",
    "shown": "k", "pool": "k",
}  # fmt: skip
LISTED = (
    "metrics",
    "features",
    "ignore",
    "rankers",
    "by",
    "missing",
)  # text with commas as a flag, perhaps a list in a file
SHOWN = 80  # letters of a value in a message


@dataclass(frozen=True)
class Kind:
    """What an option may be: a type, from `low` to `high`; or several of these."""

    type: Any
    low: float | None = None
    high: float | None = None
    several: bool = False


EXTRA = {"positive_weight": Kind(float, 0.0)}  # in configurations, for commands without that flag


def find_kinds(command: Callable[..., Any]) -> dict[str, Kind]:
    """The kinds of a command's options and arguments, by the names that a configuration has for them."""
    kinds: dict[str, Kind] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name == "return":
            continue
        told = None
        if get_origin(hint) is Annotated:
            hint, told = hint.__origin__, hint.__metadata__[-1]
        inner = [kind for kind in get_args(hint) if kind is not NoneType]
        if get_origin(hint) in (Union, UnionType) and len(inner) == 1:
            hint = inner[0]
        several = get_origin(hint) is list
        kind = get_args(hint)[0] if several else hint
        low, high = getattr(told, "min", None), getattr(told, "max", None)
        flags = [flag for flag in getattr(told, "param_decls", None) or () if flag.startswith("--")]
        for called in {name, *(flag.split("/")[0][2:].replace("-", "_") for flag in flags)}:
            kinds[called] = _bound(called, Kind(kind, low, high, several))
    return kinds


def _bound(name: str, kind: Kind) -> Kind:
    if kind.type is not int:
        return kind
    low, high = (0, SEEDS) if name == "seed" else (-LARGEST - 1, LARGEST)
    return Kind(
        int, low if kind.low is None else kind.low, high if kind.high is None else kind.high, kind.several
    )


def check_value(name: str, value: Any, kind: Kind, said: str | None = None) -> Any:
    """The value as its kind has it, or an error that says what it must be; `said` names the option.

    >>> check_value("seed", "7", Kind(int, 0, SEEDS))
    7
    """
    said = name if said is None else said
    if isinstance(kind.type, type) and issubclass(kind.type, Enum):
        choices: Any = kind.type
        known = [str(each.value) for each in choices]
        if str(getattr(value, "value", value)) not in known:
            raise BadInput(f"{said} must be one of {', '.join(known)}. Got {_show(value)}.")
        return str(getattr(value, "value", value))
    checks: dict[Any, Callable[..., Any]] = {int: _check_whole, float: _check_number, bool: _check_flag}
    check: Callable[..., Any] = checks.get(kind.type, _check_text)
    return check(name, value, kind, said)


def _check_whole(name: str, value: Any, kind: Kind, said: str) -> int:
    number = _as_number(value, int)
    if number is not None and name in LIMITED:
        check_limit(LIMITED[name], int(number), said)
    if number is None or not _is_within(number, kind):
        raise BadInput(f"{said} must be a whole number{_say_range(kind, number)}. Got {_show(value)}.")
    return int(number)


def _check_number(name: str, value: Any, kind: Kind, said: str) -> float:
    number = _as_number(value, float)
    if number is None or not math.isfinite(number) or not _is_within(number, kind):
        raise BadInput(f"{said} must be a number{_say_range(kind, number)}. Got {_show(value)}.")
    return value if isinstance(value, int) else float(number)


def _check_flag(name: str, value: Any, kind: Kind, said: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{said} must be true or false. Got {_show(value)}.")
    return value


def _check_text(name: str, value: Any, kind: Kind, said: str) -> Any:
    """Text, which a path is too; a number in a configuration is the text that it was written as."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | PurePath):
        raise BadInput(f"{said} must be text. Got {_show(value)}; put text that looks otherwise in quotes.")
    text = str(value)
    if "\0" in text:
        raise BadInput(f"{said} must be text without a zero byte. Got {_show(value)}.")
    if kind.type is not Path and not _is_utf8(text):
        raise BadInput(f"{said} must be UTF-8 text. Got {_show(value)}.")
    return value if isinstance(value, PurePath | str) else text


def _as_number(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if kind is int and isinstance(value, float):
        return int(value) if value.is_integer() else None
    try:
        return kind(value)
    except (ValueError, OverflowError):
        return None


def _is_within(number: float, kind: Kind) -> bool:
    return (kind.low is None or number >= kind.low) and (kind.high is None or number <= kind.high)


def _say_range(kind: Kind, number: float | None) -> str:
    """The bounds in words; those that every whole number has are said only if they were passed."""
    far = number is not None and abs(number) > LARGEST
    low = None if kind.low == -LARGEST - 1 and not far else kind.low
    high = None if kind.high == LARGEST and not far else kind.high
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    if low is not None:
        return f" of {low:,} or more"
    return "" if high is None else f" of at most {high:,}"


def _show(value: Any) -> str:
    try:
        text = escape_line(repr(value))
    except ValueError:  # a number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- flags -----------------------------------------------------------------------------------------------


def check_flags(command: Any) -> Any:
    """The command, which from now on checks what it was given before it does anything."""
    inner = getattr(command, "callback", None)
    if inner is None or getattr(inner, "checks_values", False):
        return command
    kinds = find_kinds(inner)
    parameters = {parameter.name: parameter for parameter in command.params}

    @wraps(inner)
    def checked(*args: Any, **given: Any) -> Any:
        for name, value in given.items():
            kind, parameter = kinds.get(name), parameters.get(name)
            if value is None or kind is None or parameter is None:
                continue
            flag = max(parameter.opts, key=len)
            said = flag if flag.startswith("-") else flag.upper()
            for one in value if isinstance(value, list | tuple) else [value]:
                try:
                    check_value(name, one, kind, said)
                except BadInput as error:
                    raise typer.BadParameter(str(error)) from None
        return inner(*args, **given)

    checked.checks_values = True  # type: ignore[attr-defined]
    command.callback = checked
    return command


# -- configurations --------------------------------------------------------------------------------------


def check_config(path: Path, options: Mapping[str, Any], command: Callable[..., Any]) -> dict[str, Any]:
    """A configuration's options as the command's flags would be; one without a value was not given."""
    kinds = {**EXTRA, **find_kinds(command)}
    checked = {}
    for name, value in options.items():
        if value is None:
            continue
        try:
            checked[name] = _check_entry(name, value, kinds.get(name, Kind(str)))
        except BadInput as error:
            raise BadFile(path, error.marked) from None
    return checked


def _check_entry(name: str, value: Any, kind: Kind) -> Any:
    if name == "set":
        if not isinstance(value, Mapping):
            raise BadInput(f"set must hold settings as `name: value`. Got {_show(value)}.")
        return dict(value)
    if name == "space" and isinstance(value, Mapping):
        return dict(value)
    if kind.several and isinstance(value, Mapping):  # models and scores by their names
        return {
            _check_text(name, key, kind, f"a name in {name}"): _check_text(
                name, place, kind, f"{name}: {key}"
            )
            for key, place in value.items()
        }
    if isinstance(value, list) and (kind.several or name in LISTED):
        return [check_value(name, each, Kind(kind.type, kind.low, kind.high), name) for each in value]
    if kind.several and name not in LISTED:
        raise BadInput(f"{name} must be a list, or `name: value`. Got {_show(value)}.")
    return check_value(name, value, kind)
