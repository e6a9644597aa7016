"""The rule of the doors, proved over syntax trees; `make lint` runs it.

    python tools/check_doors.py            the whole of it; exit 1 and a line for each breach

1. In `src`, code outside a room imports from the room (`from placings.data import read`), never from a file
   in it, and only what the room's `__init__.pyi` offers.
2. Docs, tutorials, benchmarks and the README import from `placings` and from rooms alone, and only what
   these offer: so the public surface is complete.
3. No door offers what nobody outside its room uses.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "placings"
FENCE = re.compile(r"^```(?:python|pycon)\n(.*?)^```", re.M | re.S)
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def list_rooms() -> dict[str, set[str]]:
    """Each room and what its door offers; the package itself is the room ''."""
    rooms = {"": read_stub(PACKAGE / "__init__.pyi") | {"__version__"}}
    for path in sorted(PACKAGE.glob("*/__init__.pyi")):
        rooms[path.parent.name] = read_stub(path)
    return rooms


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file; each is looked at for several rules."""
    return ast.parse(path.read_text(encoding="utf-8"))


def read_stub(path: Path) -> set[str]:
    """The names that a stub offers."""
    tree = parse(path)
    return {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}


def find_imports(tree: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    """Line, module and name of every import of ours, anywhere in the tree."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] == "placings"
        ):
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "placings":
                    yield node.lineno, alias.name, None


def find_breaches(where: str, tree: ast.AST, own: str | None, rooms: dict[str, set[str]]) -> Iterator[str]:
    """Imports that go past a door; `own` is the room that the code stands in."""
    for line, module, name in find_imports(tree):
        parts = module.split(".")
        room = parts[1] if len(parts) > 1 else ""
        if own is not None and room == own:
            continue
        if len(parts) > 2 or room not in rooms:
            yield f"{where}:{line}: {module} is a file in a room. Import from placings.{room}."
        elif name is not None and name not in rooms[room] and not (room == "" and name in rooms):
            yield f"{where}:{line}: {module} does not offer {name}. Does it belong in its __init__.pyi?"


def check_source(rooms: dict[str, set[str]]) -> Iterator[str]:
    """Rule 1."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "__init__.py":  # doors are hung here
            continue
        room = path.relative_to(PACKAGE).parts[0]
        yield from find_breaches(str(path.relative_to(ROOT)), parse(path), room, rooms)


def check_outside(rooms: dict[str, set[str]]) -> Iterator[str]:
    """Rule 2."""
    for path, tree in list_outside():
        yield from find_breaches(path, tree, None, rooms)


@cache
def list_outside() -> tuple[tuple[str, ast.AST], ...]:
    """Docs' and README's examples, tutorials and benchmarks, as syntax trees."""
    return tuple(parse_outside())


def parse_outside() -> Iterator[tuple[str, ast.AST]]:
    """The same, one after the other."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in pages:
        if "_build" in path.parts:
            continue
        for number, block in enumerate(FENCE.findall(path.read_text(encoding="utf-8")), 1):
            code = strip_prompts(block)
            try:
                tree = ast.parse(code)
            except SyntaxError:  # output stands between the lines
                lines = [line for line in code.splitlines() if line.startswith(("from ", "import "))]
                tree = ast.parse("\n".join(lines))
            yield f"{path.relative_to(ROOT)} (example {number})", tree
    for path in [*sorted((ROOT / "benchmarks").glob("*.py")), *sorted((ROOT / "docs").rglob("*.py"))]:
        if "_build" not in path.parts:
            yield str(path.relative_to(ROOT)), parse(path)


def strip_prompts(block: str) -> str:
    """A doctest's statements, or the block as it is."""
    lines = block.splitlines()
    if not any(line.startswith(">>>") for line in lines):
        return block
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))


def check_idle(rooms: dict[str, set[str]]) -> Iterator[str]:
    """Rule 3: a name is used if code outside of its room imports it, or a page names it."""
    used: dict[str, set[str]] = {room: set() for room in rooms}
    trees = [(path.relative_to(PACKAGE).parts[0], parse(path))
             for path in PACKAGE.rglob("*.py*") if path.suffix in (".py", ".pyi")]  # fmt: skip
    for own, tree in [*trees, *(("", tree) for _, tree in list_outside())]:
        for _, module, name in find_imports(tree):
            room = module.partition(".")[2]
            if room in used and room != own and name is not None:
                used[room].add(name)
    late = set(re.findall(r'"placings\.(\w+):(\w+)"', (PACKAGE / "core" / "late.py").read_text()))
    told = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        told |= set(WORD.findall(page.read_text(encoding="utf-8")))
    for room, names in rooms.items():
        for name in sorted(names - used[room] - told if room else ()):
            if (room, name) not in late:
                yield f"src/placings/{room}/__init__.pyi: nobody outside uses {name}. Drop it."


def check() -> list[str]:
    """All breaches."""
    rooms = list_rooms()
    return [*check_source(rooms), *check_outside(rooms), *check_idle(rooms)]


if __name__ == "__main__":
    found = check()
    print("\n".join(found) or "every import goes through a door")
    sys.exit(1 if found else 0)
