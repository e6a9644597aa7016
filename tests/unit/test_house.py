"""benchmarks/house.py counts a small made house right: doors are looked through, repeats are found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "house.py"
SIX = "\n".join(f"value_{number} = {number}" for number in range(6)) + "\n"
FILES = {
    "__init__.py": "",
    "low/__init__.py": "__all__ = ['make', 'Thing']\n",  # names come late, as the stub says
    "low/__init__.pyi": "from placings.low.making import make as make\nfrom .things import Thing as Thing\n",
    "low/making.py": '"""A docstring."""\n\n\ndef make() -> int:\n    """Another."""\n    return 1\n' + SIX,
    "low/things.py": f"class Thing:\n    pass\n\n\n# a comment\n{SIX}",
    "low/idle.py": "class Thing:\n    pass\n",
    "high/__init__.py": "",
    "high/one.py": "from placings.low import Thing, make\n",
    "high/two.py": "import placings.low as low\n\n\ndef use() -> int:\n    return low.make()\n",
    "high/three.py": "HOMES = {'idle': 'placings.low.idle'}\nfrom placings.low.idle import Thing\n",
}


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # its dataclass looks there for its annotations
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def house(script: Any, tmp_path: Path) -> Any:
    for name, text in FILES.items():
        path = tmp_path / "src" / "placings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return script.House(tmp_path)


def test_an_import_through_a_door_counts_for_the_file_behind_it(house: Any) -> None:
    assert house.importers["placings.low.making"] == {"placings.high.one", "placings.high.two"}
    assert house.importers["placings.low.things"] == {"placings.high.one"}


def test_a_module_with_one_importer_is_found_however_often_it_is_named(script: Any, house: Any) -> None:
    found = script.count_importers(house)["one_importer_list"]
    assert found == {"placings.low.things": "placings.high.one", "placings.low.idle": "placings.high.three"}


def test_only_paths_past_a_door_are_deep(script: Any, house: Any) -> None:
    found = script.count_crossings(house)
    assert found["deep_paths_across_rooms"] == 1  # placings.low.idle, by high/three.py
    assert found["names_across_rooms"] == 3  # making.make, things.Thing, idle.Thing


def test_docstrings_are_no_statements(script: Any, house: Any) -> None:
    # __all__; def, return, 6 values; class, pass, 6 values; class, pass; import; import, def, return; 2 more
    assert script.count_sizes(house)["statements"] == 1 + 8 + 8 + 2 + 1 + 3 + 2


def test_six_equal_lines_in_two_files_are_one_run(script: Any, house: Any) -> None:
    found = script.count_repeats(house)
    assert (found["repeated_windows"], found["repeated_runs"]) == (1, 1)
    assert found["repeated_runs_list"] == [
        {"lines": 6, "at": ["placings.low.making:7", "placings.low.things:6"]}
    ]


def test_a_class_name_in_two_modules_is_bound_twice(script: Any, house: Any) -> None:
    assert script.count_twins(house)["classes_bound_twice_list"] == {
        "Thing": ["placings.low.idle", "placings.low.things"]
    }
