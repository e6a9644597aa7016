"""The house in numbers: how large the source is, how its rooms hang together, how far a click travels.

.venv/bin/python benchmarks/house.py                        # the tree this file stands in, as a table
.venv/bin/python benchmarks/house.py --root ../older        # another checkout, an older commit for instance
.venv/bin/python benchmarks/house.py --tests --verbose --json house.json

What is counted, and how:

- **Statements** are the `ast.stmt` nodes of the syntax tree, docstrings left out. Functions include methods
  and nested ones.
- **Public names** are those in `placings.__all__` and in the `__all__` of each room, a package directly
  below `placings`. A room without `__all__` has no door. Re-exported names count at every door that offers
  them.
- **Names across rooms**: an import from another room, also inside a function or under TYPE_CHECKING, counts
  as the pair (module that defines the name, name). A door is looked through: `from placings.room import
  name` means the file that the room's `__init__.pyi`, or else its `__init__.py`, takes the name from. So
  does `pg.name` after `import placings as pg`. A deep path is a module two or more levels below `placings`
  (`placings.room.file`) as it is written.
- **One importer**: modules that exactly one other module of the source imports, looked up in the same way.
  A module named in a string (`"placings.room.file"`, a registry that imports late) counts as imported.
  Doors, which only pass names on, are no importers and are not counted; the door of `placings` counts as
  one importer, since users stand behind it.
- **Names bound twice**: public classes, and public functions, that two or more modules define at their top
  level.
- **Repeated runs**: of each file the stripped lines that are not blank, no comment and no import. A window
  is six of them in a row; it is repeated if the same six occur anywhere else in the source. A run is a
  longest stretch of a file in which each window is repeated; stretches of equal text are one run.
- **The way of a click**: a small made log of place searches is written to two files. One process joins
  them, splits the rows and fits the default re-ranker; another loads it and re-orders one request. Counted
  are the functions of `placings` that Python entered in each (comprehensions, lambdas and module bodies are
  not functions; compiled kernels, and what runs at import, are not seen), and the modules
  that hold them. An old checkout without `pg.Reranker` goes by its deep paths; these are the only ones in
  this file, which leaves itself out when it counts those of `benchmarks`.

Needs nothing but the development install; the way of a click trains small models, some two minutes
(`--no-way` leaves it out).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "placings"
WINDOW = 6  # lines
LITERAL = "search_id"
TRAIN, SERVE = "train", "serve"
TEXTS = ("*.md", "*.py", "*.rst", "*.txt")  # of docs

Facts = dict[str, Any]
Target = tuple[str, str | None]  # a module and a name in it; None is the module itself


# -- the source ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """One file of the source: its dotted name, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_door(self) -> bool:
        """Whether this is the `__init__` of a package."""
        return self.path.stem == "__init__"

    @property
    def room(self) -> str:
        """The package or file directly below `placings` that this belongs to; `placings` for its own door."""
        parts = self.name.split(".")
        return ".".join(parts[:2])


class House:
    """The source of one checkout and its imports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "src" / PACKAGE
        if not self.folder.is_dir():
            raise SystemExit(f"{root} holds no src/{PACKAGE}. Give the root of a checkout with --root.")
        self.modules = {
            name: _parse(name, path)
            for path in sorted(self.folder.rglob("*.py"))
            for name in [_name_module(self.folder, path)]
        }

    @cached_property
    def rooms(self) -> list[str]:
        """The packages directly below `placings`."""
        return sorted(
            name for name, module in self.modules.items() if name.count(".") == 1 and module.is_door
        )

    @cached_property
    def doors(self) -> dict[str, dict[str, Target]]:
        """package → name → where its `__init__.pyi`, or else its `__init__.py`, takes the name from."""
        found = {}
        for name, module in self.modules.items():
            if module.is_door:
                stub = module.path.with_suffix(".pyi")
                tree = ast.parse(stub.read_text(encoding="utf-8")) if stub.exists() else module.tree
                found[name] = {local: target for local, target in _list_imports(tree, name, True) if local}
        return found

    def resolve(self, module: str, name: str | None) -> Target:
        """Where a name really lives: submodules and doors are looked through."""
        for _ in range(10):  # doors behind doors; a circle ends here
            if name is None:
                break
            if f"{module}.{name}" in self.modules:
                return f"{module}.{name}", None
            if name not in self.doors.get(module, {}):
                break
            module, name = self.doors[module][name]
        return module, name

    @cached_property
    def uses(self) -> dict[str, set[Target]]:
        """module → every (module, name) of the source that it imports, doors looked through."""
        return {name: set(self._find_uses(module)) for name, module in self.modules.items()}

    def _find_uses(self, module: Module) -> Iterator[Target]:
        local: dict[str, str] = {}  # names that stand for modules
        for name, target in _list_imports(module.tree, module.name, module.is_door):
            found = self.resolve(*target)
            if found[0] in self.modules:
                yield found
            if name and found[1] is None:
                local[name] = found[0]
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and (chain := _read_chain(node)) and chain[0] in local:
                found = (local[chain[0]], None)
                for part in chain[1:]:
                    if found[1] is None:
                        found = self.resolve(found[0], part)
                yield found
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                written = node.value.replace(":", ".")
                if written in self.modules:
                    yield written, None
                elif written.rpartition(".")[0] in self.modules:
                    yield self.resolve(*_cut(written))

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """module → the modules that import it; of the doors only that of `placings` is an importer."""
        found: dict[str, set[str]] = {
            name: set() for name, module in self.modules.items() if not module.is_door
        }
        for name, used in self.uses.items():
            if name == PACKAGE or not self.modules[name].is_door:
                for target, _ in used:
                    if target in found and target != name:
                        found[target].add(name)
        return found

    def list_deep(self, imports: Iterable[tuple[str, Target]]) -> set[str]:
        """The modules two or more levels below `placings` that imports, as written, name."""
        found = set()
        for _, (module, name) in imports:
            whole = f"{module}.{name}"
            path = whole if name and whole in self.modules else module
            if path.startswith(f"{PACKAGE}.") and path.count(".") >= 2:
                found.add(path)
        return found


def _parse(name: str, path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(name, path, text, ast.parse(text))


def _name_module(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _list_imports(tree: ast.AST, name: str, is_door: bool) -> Iterator[tuple[str, Target]]:
    """Every import of `placings`: the local name and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield alias.asname or PACKAGE, (alias.name if alias.asname else PACKAGE, None)
                    if not alias.asname:
                        yield "", (alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = name.split(".")
                above = parts[: len(parts) - node.level + is_door]
                module = ".".join([*above, *filter(None, [module])])
            if module.split(".")[0] == PACKAGE:
                for alias in node.names:
                    yield alias.asname or alias.name, (module, alias.name)


def _read_chain(node: ast.expr) -> list[str]:
    """`a.b.c` as its names; nothing if it does not begin with a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (above := _read_chain(node.value)):
        return [*above, node.attr]
    return []


def _cut(path: str) -> Target:
    module, _, name = path.rpartition(".")
    return module, name


# -- what is counted ---------------------------------------------------------------------------------------


def count_sizes(house: House) -> Facts:
    """Files, lines, statements, functions and classes."""
    found: Counter[str] = Counter(files=len(house.modules))
    for module in house.modules.values():
        found["lines"] += module.text.count("\n")
        docstrings = set(map(id, _find_docstrings(module.tree)))
        for node in ast.walk(module.tree):
            found["statements"] += isinstance(node, ast.stmt) and id(node) not in docstrings
            found["functions"] += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            found["classes"] += isinstance(node, ast.ClassDef)
    return {name: found[name] for name in ("files", "lines", "statements", "functions", "classes")}


def _find_docstrings(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield first


def count_names(house: House) -> Facts:
    """Public names of `placings` and of each room, as Python finds them; None where a room has no door."""
    script = (
        "import importlib, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    names = getattr(importlib.import_module(name), '__all__', None)\n"
        "    found[name] = None if names is None else len(set(names) - {'__version__'})\n"
        "print(json.dumps(found))\n"
    )
    told = _ask_python(house.root, ["-c", script, PACKAGE, *house.rooms])
    doors: dict[str, int | None] = json.loads(told.splitlines()[-1])
    return {
        "public_names": sum(count or 0 for count in doors.values()),
        "doors": doors,
        "rooms_without_door": [name for name, count in doors.items() if count is None],
    }


def count_crossings(house: House) -> Facts:
    """What rooms import of each other, and the deep paths in source, documents, benchmarks and studies."""
    pairs, paths = set(), set()
    for name, module in house.modules.items():
        if name == PACKAGE:
            continue
        pairs |= {use for use in house.uses[name] if use[1] and house.modules[use[0]].room != module.room}
        written = house.list_deep(_list_imports(module.tree, name, module.is_door))
        paths |= {path for path in written if house.modules[path].room != module.room}
    deep = {where: sorted(found) for where, found in _find_deep(house).items()}
    whole = sorted(set().union(*deep.values()))
    return {
        "names_across_rooms": len(pairs),
        "deep_paths_across_rooms": len(paths),
        "deep_paths": {where: len(found) for where, found in deep.items()},
        "deep_paths_named_in_docs": len(_find_named(house)),
        "deep_paths_outside": len(whole),
        "deep_paths_outside_list": whole,
    }


def _find_deep(house: House) -> dict[str, set[str]]:
    files = {
        "docs": _list_docs(house.root),
        "README.md": [house.root / "README.md"],
        "benchmarks": [path for path in (house.root / "benchmarks").glob("*.py") if path.name != "house.py"],
        "studies": sorted((house.folder / "studies").rglob("*.py"))
        + sorted(house.root.glob("studies/**/*.py")),
    }
    own = f"{PACKAGE}.studies."
    return {
        where: {
            path
            for file in paths
            if file.exists()
            for path in house.list_deep(_read_imports(file))
            if where != "studies" or not path.startswith(own)
        }
        for where, paths in files.items()
    }


def _find_named(house: House) -> set[str]:
    """The deep paths that docs and README name anywhere: imports, directives of the API page, prose."""
    found = set()
    for path in [*_list_docs(house.root), house.root / "README.md"]:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for named in re.findall(rf"\b{PACKAGE}(?:\.\w+){{2,}}", text):
            while named.count(".") >= 2 and named not in house.modules:
                named = named.rpartition(".")[0]
            if named.count(".") >= 2:
                found.add(named)
    return found


def _list_docs(root: Path) -> list[Path]:
    paths = (path for form in TEXTS for path in sorted((root / "docs").rglob(form)))
    return [path for path in paths if "_build" not in path.parts]


def _read_imports(path: Path) -> list[tuple[str, Target]]:
    """The imports of a file; of a text those in its examples, prompts or not."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(_list_imports(ast.parse(text), "", False))
    found: list[tuple[str, Target]] = []
    for line in text.splitlines():
        statement = re.sub(r"^\s*(>>>|\.\.\.)?\s*", "", line)
        if match := re.match(rf"from ({PACKAGE}[\w.]*) import (.*)", statement):
            names = re.findall(r"\b[A-Za-z_]\w*", match[2].partition("#")[0]) or [""]
            found += [(name, (match[1], name)) for name in names]
        elif match := re.match(rf"import ({PACKAGE}\.[\w.]+)", statement):
            found.append((match[1], (match[1], None)))
    return found


def count_twins(house: House) -> Facts:
    """Public classes and functions that two or more modules define."""
    classes: dict[str, list[str]] = defaultdict(list)
    functions: dict[str, list[str]] = defaultdict(list)
    for name, module in house.modules.items():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                functions[node.name].append(name)
    twice = {name: homes for name, homes in sorted(classes.items()) if len(homes) > 1}
    again = {name: homes for name, homes in sorted(functions.items()) if len(homes) > 1}
    return {
        "classes_bound_twice": len(twice),
        "classes_bound_twice_list": twice,
        "functions_bound_twice": len(again),
        "functions_bound_twice_list": again,
    }


def count_importers(house: House) -> Facts:
    """Modules with exactly one importer, and with none."""
    alone = {name: min(found) for name, found in house.importers.items() if len(found) == 1}
    none = sorted(name for name, found in house.importers.items() if not found)
    return {
        "one_importer": len(alone),
        "one_importer_list": alone,
        "no_importer": len(none),
        "no_importer_list": none,
    }


def count_repeats(house: House) -> Facts:
    """Runs of six or more lines that stand in the source more than once."""
    files = {name: _strip_lines(module) for name, module in house.modules.items()}
    windows = Counter(window for lines in files.values() for window in _slide([text for _, text in lines]))
    runs: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, lines in files.items():
        texts = [text for _, text in lines]
        start = None
        marks = [windows[window] > 1 for window in _slide(texts)]
        for place, repeated in enumerate([*marks, False]):
            if repeated and start is None:
                start = place
            elif not repeated and start is not None:
                runs[tuple(texts[start : place + WINDOW - 1])].append(f"{name}:{lines[start][0]}")
                start = None
    listed: list[Facts] = sorted(
        ({"lines": len(run), "at": at} for run, at in runs.items()), key=lambda run: -run["lines"]
    )
    return {
        "repeated_windows": sum(count > 1 for count in windows.values()),
        "repeated_runs": len(runs),
        "repeated_runs_list": listed,
    }


def _strip_lines(module: Module) -> list[tuple[int, str]]:
    """Line number and stripped text of what is not blank, no comment and no import."""
    imports = {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = ((number, line.strip()) for number, line in enumerate(module.text.splitlines(), 1))
    return [
        (number, line)
        for number, line in lines
        if line and not line.startswith("#") and number not in imports
    ]


def _slide(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(lines[start : start + WINDOW]) for start in range(len(lines) - WINDOW + 1))


def count_literal(house: House) -> Facts:
    """Files in which a string is just `search_id`."""
    found = [
        name
        for name, module in house.modules.items()
        if any(isinstance(node, ast.Constant) and node.value == LITERAL for node in ast.walk(module.tree))
    ]
    return {"search_id_files": len(found), "search_id_files_list": found}


def count_tests(root: Path) -> Facts:
    """Test functions of the syntax trees, and the cases that pytest collects."""
    functions = sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for path in sorted((root / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    asked = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    told = _ask_python(root, asked)
    cases = sum("::" in line for line in told.splitlines())
    return {"test_functions": functions, "test_cases": cases}


def _ask_python(root: Path, arguments: Sequence[str]) -> str:
    """What this Python prints, with the source of `root` first on its path."""
    known = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=known, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr)[-4000:]
        raise SystemExit(f"python {' '.join(arguments)[:200]} failed in {root}:\n{said}")
    return done.stdout


# -- the way of a click ------------------------------------------------------------------------------------


def count_way(root: Path) -> Facts:
    """Modules and functions entered from two log files to a saved re-ranker, and from that to a new order."""
    found: Facts = {}
    with tempfile.TemporaryDirectory() as folder:
        request = write_log(Path(folder))
        Path(folder, "request.json").write_text(json.dumps(request), encoding="utf-8")
        for step in (TRAIN, SERVE):
            told = _ask_python(root, [str(Path(__file__).resolve()), "--walk", step, folder])
            found[step] = json.loads(told.splitlines()[-1])
    both = [set(found[step]["entered"]) for step in (TRAIN, SERVE)]
    return {
        "way": {
            **{
                step: {
                    "api": told["api"],
                    "functions": len(told["entered"]),
                    "modules": len({each.partition(":")[0] for each in told["entered"]}),
                }
                for step, told in found.items()
            },
            "modules_of_both": len({each.partition(":")[0] for each in both[0] | both[1]}),
        },
        "way_list": {
            step: sorted({each.partition(":")[0] for each in told["entered"]}) for step, told in found.items()
        },
    }


def write_log(folder: Path, sessions: int = 200, size: int = 10) -> Facts:
    """Write `searches.jsonl` and `actions.jsonl`, a made log of place searches; gives one request like them.

    People look for a place near them by the beginning of its name, see places whose names begin in the
    same way in the order of their weight, and mostly click the nearest.
    """
    draw = random.Random(0)
    stems, ends = ("Markt", "Haupt", "Rhein", "Wald", "Schul"), ("platz", "straße", "weg", "bahnhof")
    places: list[Facts] = [
        {
            "item_id": f"p{number}",
            "name": f"{stems[number % 5]}{ends[number // 5 % 4]} {number // 20 + 1}",
            "locality": ("Karlsruhe", "Ettlingen")[number % 2],
            "type": ("stop", "poi")[number % 2],
            "lat": 49.0 + draw.random() / 10,
            "lon": 8.4 + draw.random() / 10,
            "weight": draw.lognormvariate(3.0, 1.0),
        }
        for number in range(200)
    ]
    places.sort(key=lambda place: -place["weight"])
    began = datetime(2026, 1, 5, 6)
    searches, actions = [], []
    for session in range(sessions):
        lat, lon = 49.0 + draw.random() / 10, 8.4 + draw.random() / 10
        text = draw.choice(stems)
        shown = [place for place in places if place["name"].startswith(text)][:size]
        nearest = min(shown, key=lambda place: (place["lat"] - lat) ** 2 + (place["lon"] - lon) ** 2)
        for part, length in enumerate((2, len(text))):  # two searches: the first letters, then the stem
            name, time = f"s{session:05d}-{part}", began + timedelta(hours=session, seconds=10 * part)
            results = [
                {"position": rank, "score": float(size + 1 - rank), **place}
                for rank, place in enumerate(shown, 1)
            ]
            searches.append(
                {
                    "search_id": name,
                    "session_id": f"v{session:05d}",
                    "user_id": f"u{session % 60:03d}",
                    "time": f"{time.isoformat()}Z",
                    "query": text[:length].lower(),
                    "focus_lat": lat,
                    "focus_lon": lon,
                    "target": ("origin", "destination")[session % 2],
                    "platform": ("ios", "android", "web")[session % 3],
                    "results": results,
                }
            )
            if part and draw.random() < 0.9:
                chosen = nearest if draw.random() < 0.8 else shown[0]
                click = f"{(time + timedelta(seconds=4)).isoformat()}Z"
                actions.append(
                    {"search_id": name, "item_id": chosen["item_id"], "time": click, "action": "click"}
                )
    for name, events in (("searches", searches), ("actions", actions)):
        lines = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)
        Path(folder, f"{name}.jsonl").write_text(lines, encoding="utf-8")
    last = dict(searches[-1])
    items = last.pop("results")
    for unknown in ("search_id", "session_id"):
        last.pop(unknown)
    return {"context": last, "items": items}


def walk(step: str, folder: Path) -> Facts:
    """Go one half of the way; which API was there, and every function that was entered.

    Everything is imported before, so that what runs at import is not counted.
    """
    import placings

    if not hasattr(placings, "Reranker"):
        raise SystemExit("this checkout is older than pg.Reranker: count it with --no-way")
    go = {TRAIN: train_by_names, SERVE: serve_by_names}[step]
    for _, name, _ in pkgutil.walk_packages(placings.__path__, f"{PACKAGE}."):
        with contextlib.suppress(ImportError):  # what needs an extra that is not installed
            importlib.import_module(name)
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        go(folder)
    finally:
        sys.setprofile(None)
    home = Path(placings.__file__).parent
    entered = {
        f"{_name_module(home, Path(code.co_filename))}:{code.co_qualname}"
        for code in seen
        if code.co_filename.startswith(f"{home}{os.sep}")
        and code.co_flags & inspect.CO_OPTIMIZED  # the bodies of modules and classes are not
        and not code.co_name.startswith("<")
    }
    return {"api": "public names", "entered": sorted(entered)}


def train_by_names(folder: Path) -> None:
    """Two logs → a saved re-ranker, by public names."""
    import placings as pg

    log = pg.join_logs(folder / "searches.jsonl", folder / "actions.jsonl")
    train, valid, _ = log.split(0.6, 0.2, 0.2, by="time")
    pg.Reranker(features="places").fit(train, valid=valid).save(folder / "reranker")


def serve_by_names(folder: Path) -> None:
    """A saved re-ranker → one request in a new order, by public names."""
    import placings as pg

    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    if hasattr(pg, "Request"):
        request = pg.Request(**request)
    pg.load(folder / "reranker").rerank(request)


# -- printing ----------------------------------------------------------------------------------------------


def count_house(root: Path, *, tests: bool = False, way: bool = True) -> Facts:
    """Everything, by name; what ends in `_list` says which."""
    house = House(root)
    found: Facts = {"commit": _find_commit(root)}
    counts = (
        count_sizes,
        count_names,
        count_crossings,
        count_twins,
        count_importers,
        count_repeats,
        count_literal,
    )
    for count in counts:
        found |= count(house)
    if way:
        found |= count_way(root)
    if tests:
        found |= count_tests(root)
    return found


def _find_commit(root: Path) -> str:
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no git"


def render(found: Facts, *, verbose: bool = False) -> str:
    """The counts as a table; with `verbose` what they count."""
    doors = found["doors"]
    rows: list[tuple[str, object]] = [("commit", found["commit"])]
    rows += [(name, found[name]) for name in ("files", "lines", "statements", "functions", "classes")]
    rows.append(("public names, all doors", found["public_names"]))
    rows += [(f"  {name}", "no door" if count is None else count) for name, count in doors.items()]
    rows += [
        ("names imported across rooms", found["names_across_rooms"]),
        ("deep paths imported across rooms", found["deep_paths_across_rooms"]),
        ("deep paths imported outside, distinct", found["deep_paths_outside"]),
        *((f"  by {where}", count) for where, count in found["deep_paths"].items()),
        ("deep paths named anywhere in docs", found["deep_paths_named_in_docs"]),
        ("class names bound in two modules or more", found["classes_bound_twice"]),
        ("public function names bound in two or more", found["functions_bound_twice"]),
        ("modules with exactly one importer", found["one_importer"]),
        ("modules with no importer", found["no_importer"]),
        (f"runs of {WINDOW} or more repeated lines", found["repeated_runs"]),
        (f"repeated windows of {WINDOW} lines", found["repeated_windows"]),
        (f'files with the literal "{LITERAL}"', found["search_id_files"]),
    ]
    for step, words in ((TRAIN, "two logs → saved re-ranker"), (SERVE, "load → one request")):
        if "way" in found:
            told = found["way"][step]
            rows.append((f"{words}: modules", told["modules"]))
            rows.append((f"{words}: functions ({told['api']})", told["functions"]))
    if "way" in found:
        rows.append(("modules on the whole way", found["way"]["modules_of_both"]))
    if "test_functions" in found:
        rows += [("test functions", found["test_functions"]), ("test cases collected", found["test_cases"])]
    width = max(len(name) for name, _ in rows)
    lines = [
        f"{name:<{width}}  {f'{value:,}' if isinstance(value, int) else value:>12}" for name, value in rows
    ]
    twins = (f"{name} ×{len(homes)}" for name, homes in found["classes_bound_twice_list"].items())
    lines += ["", "class names bound twice: " + (", ".join(twins) or "none")]
    if verbose:
        for name in (each for each in found if each.endswith("_list")):
            lines += ["", name.removesuffix("_list").replace("_", " ") + ":", *_list_lines(found[name])]
    return "\n".join(lines)


def _list_lines(found: Any) -> list[str]:
    if isinstance(found, dict):
        told = (
            (name, value if isinstance(value, str) else ", ".join(value)) for name, value in found.items()
        )
        return [f"  {name}  ← {value}" for name, value in told]
    return [
        f"  {each['lines']} lines: {', '.join(each['at'])}" if isinstance(each, dict) else f"  {each}"
        for each in found
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here, help="the root of the checkout to count")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there too")
    parser.add_argument("--verbose", action="store_true", help="say which, not only how many")
    parser.add_argument("--tests", action="store_true", help="count tests too (pytest collects them; slow)")
    parser.add_argument("--no-way", action="store_true", help="train and serve nothing: no way of a click")
    parser.add_argument("--walk", nargs=2, metavar=("STEP", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.walk:
        print(json.dumps(walk(asked.walk[0], Path(asked.walk[1]))))
        return 0
    found = count_house(asked.root.resolve(), tests=asked.tests, way=not asked.no_way)
    print(render(found, verbose=asked.verbose))
    if asked.json:
        asked.json.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
