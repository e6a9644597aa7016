"""What users see of placings as plain data: commands with their flags, public names with their signatures,
and the import paths that the documentation shows.

Nothing here imports a file inside a room: files move, what is described here stays.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.main import get_command

import placings as pg
from placings.cli.main import app

ROOT = Path(__file__).parents[2]
Described = dict[str, Any]


# -- commands ----------------------------------------------------------------------------------------------


def describe_commands() -> dict[str, dict[str, Described]]:
    """Of each command by its words, its flags by their first long name and its arguments by theirs."""
    return {
        " ".join(words): dict(
            describe_parameter(parameter, read_hint(command.callback, parameter.name))
            for parameter in command.params
        )
        for words, command in walk_commands(get_command(app))
    }


def walk_commands(
    command: Any, words: tuple[str, ...] = ("placings",)
) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk_commands(inner, (*words, name))


def read_hint(function: Any, name: str) -> tuple[Any, Any]:
    """A parameter's type, without "or None", and what typer was told of it.

    Read from the function itself: what typer makes of it has other names in each of its versions.
    """
    hint = get_type_hints(function, include_extras=True).get(name, bool)  # typer brings some itself
    told = None
    if get_origin(hint) is Annotated:
        hint, told = hint.__origin__, hint.__metadata__[-1]
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if get_origin(hint) in (Union, UnionType) and len(kinds) == 1:
        hint = kinds[0]
    return hint, told


def describe_parameter(parameter: Any, hint: tuple[Any, Any]) -> tuple[str, Described]:
    """Its name, and what a script that uses it relies on. Help texts are prose and may change."""
    kind, told = hint
    if parameter.param_type_name == "argument":
        described = {"kind": "argument", "values": parameter.nargs}
        name = parameter.name
    else:
        spellings = sorted([*parameter.opts, *parameter.secondary_opts])
        described = {
            "kind": "flag" if parameter.is_flag else "option",
            "spellings": spellings,
            "repeatable": bool(parameter.multiple),
        }
        name = max(parameter.opts, key=len)
    described |= {"required": bool(parameter.required), "default": as_plain(parameter.default)}
    if inspect.isclass(kind) and issubclass(kind, Enum):
        described |= {"type": "choice", "choices": sorted(str(choice.value) for choice in kind)}
    else:
        described["type"] = kind.__name__ if inspect.isclass(kind) and not get_args(kind) else str(kind)
    bounds = {side: getattr(told, side, None) for side in ("min", "max")}
    return name, described | {side: bound for side, bound in bounds.items() if bound is not None}


def as_plain(value: Any) -> Any:
    """A default as JSON can hold it."""
    if isinstance(value, Enum):
        return as_plain(value.value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, list | tuple):
        return [
            as_plain(each) for each in value
        ] or None  # click says () or None for a list that is not given
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # click has a mark of its own for "no default", other in each of its versions
    return None if type(value).__name__ in ("Sentinel", "DefaultPlaceholder") else "<computed>"


def compare_commands(
    frozen: dict[str, dict[str, Described]], found: dict[str, dict[str, Described]]
) -> list[str]:
    """What was there and is gone or other, each in a line that names it. Additions are no fault."""
    faults = []
    for command, parameters in frozen.items():
        if command not in found:
            faults.append(f"{command}: the command is gone")
            continue
        for name, was in parameters.items():
            now = find_parameter(name, was, found[command])
            if now is None:
                faults.append(f"{command} {name}: the {was['kind']} is gone")
                continue
            faults += [f"{command} {name}: {fault}" for fault in compare_parameters(was, now)]
        faults += [
            f"{command} {name}: a new {now['kind']} is required; old scripts do not give it"
            for name, now in found[command].items()
            if now["required"] and find_parameter(name, now, parameters) is None
        ]
        order = [name for name, was in parameters.items() if was["kind"] == "argument"]
        kept = [name for name, now in found[command].items() if now["kind"] == "argument"]
        if kept[: len(order)] != order:
            faults.append(f"{command}: the arguments were {order}, now {kept}")
    return faults


def find_parameter(name: str, was: Described, parameters: dict[str, Described]) -> Described | None:
    """The parameter that answers to the name, also where it is but another spelling of a newer one."""
    if was["kind"] == "argument" or name in parameters:
        return parameters.get(name)
    return next((now for now in parameters.values() if name in now.get("spellings", ())), None)


def compare_parameters(was: Described, now: Described) -> Iterator[str]:
    if lost := sorted(set(was.get("spellings", ())) - set(now.get("spellings", ()))):
        yield f"no longer answers to {', '.join(lost)}"
    if now["required"] and not was["required"]:
        yield "was optional, now is required"
    if lost := sorted(set(was.get("choices", ())) - set(now.get("choices", was.get("choices", ())))):
        yield f"no longer takes {', '.join(lost)}"
    for side, narrower in (("min", lambda a, b: b > a), ("max", lambda a, b: b < a)):
        if side in now and (side not in was or narrower(was[side], now[side])):
            yield f"{side} was {was.get(side, 'open')}, now is {now[side]}"
    same = ("kind", "values", "repeatable", "type") + (() if was["required"] else ("default",))
    for key in same:
        if was.get(key) != now.get(key):
            yield f"{key} was {was.get(key)!r}, now is {now.get(key)!r}"


# -- public names ------------------------------------------------------------------------------------------


def describe_names() -> dict[str, list[Described] | None]:
    """Of each public function and method its parameters in order; None where a name is no function."""
    found: dict[str, list[Described] | None] = {}
    for name in pg.__all__:
        thing = getattr(pg, name)
        if inspect.isclass(thing):
            found[name] = describe_signature(thing)
            for member in sorted(set(dir(thing))):
                if member.startswith("_") or comes_from_elsewhere(thing, member):
                    continue
                found[f"{name}.{member}"] = describe_signature(inspect.getattr_static(thing, member))
        else:
            found[name] = describe_signature(thing)
    return found


def comes_from_elsewhere(owner: type, member: str) -> bool:
    """Whether another library gave it: scikit-learn's methods change with scikit-learn."""
    if re.fullmatch(r"set_\w+_request", member):  # scikit-learn writes these into each class
        return True
    home = next((base for base in owner.__mro__ if member in vars(base)), owner)
    return not home.__module__.startswith("placings")


def describe_signature(thing: Any) -> list[Described] | None:
    if isinstance(thing, staticmethod | classmethod):
        own = thing.__func__
        skipped = 1 if isinstance(thing, classmethod) else 0
    else:
        own, skipped = thing, 0
    if not callable(own):
        return None
    parameters = list(inspect.signature(own).parameters.values())[skipped:]
    return [
        {
            "name": parameter.name,
            "kind": parameter.kind.name,
            **({} if parameter.default is parameter.empty else {"default": write_default(parameter.default)}),
        }
        for parameter in parameters
        if parameter.name != "self"
    ]


def write_default(value: Any) -> str:
    """A default as text, without the place in memory or the module that a class or function has."""
    if isinstance(value, Enum):
        return repr(value.value)
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"<{value.__name__}>"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


BY_PLACE = {"POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"}
BY_NAME = {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"}


def compare_names(
    frozen: dict[str, list[Described] | None], found: dict[str, list[Described] | None]
) -> list[str]:
    """Calls that were fine and are no longer: each in a line that names it. Additions are no fault."""
    faults = []
    for name, was in frozen.items():
        if name not in found:
            faults.append(f"pg.{name} is gone")
        elif was is not None and (now := found[name]) is None:
            faults.append(f"pg.{name} can no longer be called")
        elif was is not None and now is not None:
            faults += [f"pg.{name}: {fault}" for fault in compare_signatures(was, now)]
    return faults


def compare_signatures(was: list[Described], now: list[Described]) -> Iterator[str]:
    after = {each["name"]: each for each in now}
    takes_rest = any(each["kind"] == "VAR_KEYWORD" for each in now)
    for old in was:
        new = after.get(old["name"])
        if old["kind"] in ("VAR_POSITIONAL", "VAR_KEYWORD"):
            if not any(each["kind"] == old["kind"] for each in now):
                yield f"no longer takes {'**' if old['kind'] == 'VAR_KEYWORD' else '*'}{old['name']}"
        elif new is None:
            if not (takes_rest and old["kind"] == "KEYWORD_ONLY"):
                yield f"the parameter {old['name']} is gone"
        else:
            if old["kind"] in BY_NAME and new["kind"] not in BY_NAME:
                yield f"{old['name']} can no longer be given by name"
            if "default" in old and "default" not in new:
                yield f"{old['name']} had the default {old['default']}, now must be given"
            elif "default" in old and old["default"] != new["default"]:
                yield f"{old['name']}={old['default']} became {new['default']}"
    placed, kept = ([each["name"] for each in side if each["kind"] in BY_PLACE] for side in (was, now))
    if kept[: len(placed)] != placed:
        yield f"the order of arguments was {', '.join(placed)}, now is {', '.join(kept)}"
    known = {each["name"] for each in was}
    for each in now:
        required = "default" not in each and each["kind"] in BY_PLACE | BY_NAME
        if required and each["name"] not in known:
            yield f"the new parameter {each['name']} has no default; old calls do not give it"


# -- import paths ------------------------------------------------------------------------------------------

IMPORT = re.compile(
    r"^[ >.$]*((?:from placings[.\w]* import|import placings[.\w]+)[^\n(]*(?:\([^)]*\))?)", re.M
)


def find_shown_imports() -> list[tuple[str, str]]:
    """(module, name) of all imports from inside placings in the README, docs/ and benchmarks/."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    scripts = [*(ROOT / "docs").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    found: set[tuple[str, str]] = set()
    for page in pages:
        if "_build" not in page.parts:
            for text in IMPORT.findall(page.read_text(encoding="utf-8")):
                found |= set(read_imports(re.sub(r"^[ >.]+", "", text, flags=re.M)))
    for script in scripts:
        if "_build" not in script.parts:
            found |= set(read_imports(script.read_text(encoding="utf-8")))
    return sorted(found)


def read_imports(source: str) -> Iterator[tuple[str, str]]:
    """Of an import of a module itself the name is empty.

    >>> list(read_imports("from placings.a.b import c, d as e; import placings.f; import placings"))
    [('placings.a.b', 'c'), ('placings.a.b', 'd'), ('placings.f', '')]
    """
    for node in ast.walk(ast.parse(source.strip())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "placings":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("placings."))
