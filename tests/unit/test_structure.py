"""The project's own rules, held by tests: names, files, imports that stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import placings

SOURCE = Path(placings.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py"))


def public_functions() -> dict[str, Path]:
    found = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[node.name] = path
    return found


def test_no_public_function_shares_a_name_with_a_module() -> None:
    modules = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert {name: str(path) for name, path in public_functions().items() if name in modules} == {}


def test_every_file_says_what_it_is() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))] == []


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
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "joblib", "dill", "cloudpickle", "marshal"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile"}, path
