"""The project's own rules, held by tests: names, files, imports that stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

import placings

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import check_doors

SOURCE = Path(placings.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))


def public_functions() -> dict[str, Path]:
    found = {}
    for path in MODULES:
        for node in check_doors.parse(path).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = path
    return found


def test_no_public_function_shares_a_name_with_a_module() -> None:
    modules = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert {name: str(path) for name, path in public_functions().items() if name in modules} == {}


def test_every_file_says_what_it_is() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(check_doors.parse(path))] == []


def test_no_vague_module_names() -> None:
    assert not {"utils", "common", "helpers", "base", "impl", "v2"} & {path.stem for path in MODULES}


def test_every_public_name_is_there_and_listed() -> None:
    for name in placings.__all__:
        assert getattr(placings, name) is not None
    assert set(placings.__all__) == set(dir(placings))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        placings.nothing  # noqa: B018


@pytest.mark.parametrize("statement", ["import placings", "import placings.cli.main"])
def test_what_is_heavy_loads_only_when_used(statement: str) -> None:
    heavy = ("numba", "sklearn", "scipy", "pyarrow", "pandas", "polars", "torch", "lightgbm", "matplotlib")
    script = f"{statement}; import sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_nothing_here_pickles_or_evaluates() -> None:
    for path in MODULES:
        for node in ast.walk(check_doors.parse(path)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "joblib", "dill", "cloudpickle", "marshal"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile"}, path


def test_every_import_goes_through_a_door_and_every_door_is_used() -> None:
    assert check_doors.check() == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from placings.data.reading import read", "placings.data.reading is a file in a room"),
        ("def f():\n    from placings.data import no_such_thing", "does not offer no_such_thing"),
        ("import placings.data.reading", "is a file in a room"),
        ("from placings import no_such_thing", "placings does not offer no_such_thing"),
    ],
)
def test_an_import_past_a_door_is_told(code: str, said: str) -> None:
    (found,) = check_doors.find_breaches("here.py", ast.parse(code), "rankers", check_doors.list_rooms())
    assert found.startswith("here.py:")
    assert said in found


def test_a_room_may_import_its_own_files_and_anyone_what_a_door_offers() -> None:
    tree = ast.parse(
        "from placings.data.reading import read\nfrom placings.core import BadInput\nimport placings"
    )
    assert list(check_doors.find_breaches("here.py", tree, "data", check_doors.list_rooms())) == []


def test_a_door_offers_names_lazily_and_lists_them() -> None:
    import placings.data

    assert set(dir(placings.data)) == set(placings.data.__all__)
    assert placings.data.read is placings.read
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        placings.data.nothing  # noqa: B018


def test_a_module_of_version_0_1_imports_under_its_old_name_and_says_so() -> None:
    from placings.core.moved import MOVED

    for name in [name for name in sys.modules if name.startswith("placings.clicks")]:
        del sys.modules[name]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        from placings.clicks.histories import count_clicks
    assert "placings.clicks.histories is now placings.logs.histories" in str(said[-1].message)
    from placings.logs import count_clicks as today

    assert count_clicks is today
    for home in MOVED.values():  # every old name leads somewhere
        place = SOURCE.joinpath(*home.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), home


def test_a_renamed_keyword_is_still_taken() -> None:
    import placings as pg

    table = {"price": [1.0, 0.0]}
    with pytest.warns(DeprecationWarning, match=r"coverage\(engine=…\) is now backend=…"):
        old = pg.coverage(table, ["price"], engine="duckdb")
    assert old["price"] == pg.coverage(table, ["price"], backend="duckdb")["price"] == 0.5


@cache
def calls(path: Path) -> set[str]:
    """The functions that a file calls, as they are written: `yaml.safe_load`, `print`."""
    tree = check_doors.parse(path)
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_what_commands_print_goes_through_one_place() -> None:
    for path in sorted((SOURCE / "cli").glob("*.py")):
        found = calls(path) & {"typer.echo", "typer.secho", "print", "click.echo"}
        found |= {call for call in calls(path) if call.startswith(("sys.stdout.write", "sys.stderr.write"))}
        assert not found or path.name == "printing.py", f"{path}: {found}. Use placings.cli.printing."


def test_yaml_is_parsed_in_one_place() -> None:
    for path in MODULES:
        found = {call for call in calls(path) if call.startswith("yaml.") and "load" in call}
        assert not found or path == SOURCE / "core" / "texts.py", f"{path}: {found}. Use read_yaml."


# what the same process wrote for its own workers, and the cache, which checks its entries itself
OWN_JSON = {"core/texts.py", "data/cache.py", "evaluation/trials.py"}


def test_json_files_of_others_are_read_with_bounds() -> None:
    """A `json.loads` of a file's text has no limit on depth and size; `read_json` and `parse_json` have."""
    for path in MODULES:
        for node in ast.walk(check_doors.parse(path)):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr
            if named in ("load", "loads") and ast.unparse(node.func) in ("json.loads", "json.load"):
                reads = any(f".{name}(" in ast.unparse(node) for name in ("read_text", "read_bytes", "read"))
                assert not reads or str(path.relative_to(SOURCE)) in OWN_JSON, f"{path}:{node.lineno}"
