"""What users relied on before issue 13 stays: flags, exit codes, keys, numbers, names.

The expected values are in tests/fixtures/frozen; tests/fixtures/make_frozen.py wrote them, and is run again
only where a change is meant. Additions are no fault. Only what users see is used here: the terminal, and
the names that `placings` itself has.
"""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frozen_runs as runs
import frozen_surface as surface
import pytest

HOME = Path(__file__).parents[1] / "fixtures" / "frozen"


def read_frozen(name: str) -> Any:
    return json.loads((HOME / f"{name}.json").read_text(encoding="utf-8"))


def tell(faults: list[str]) -> str:
    return "\n".join(["", *faults, "(meant? see tests/fixtures/make_frozen.py)"])


# -- commands ----------------------------------------------------------------------------------------------


def test_every_command_flag_and_default_is_still_there() -> None:
    frozen = read_frozen("commands")
    assert len(frozen) == 38
    assert (faults := surface.compare_commands(frozen, surface.describe_commands())) == [], tell(faults)


def test_a_lost_or_changed_flag_is_named() -> None:
    frozen = read_frozen("commands")
    changed = copy.deepcopy(frozen)
    del changed["placings cache path"]
    del changed["placings fit"]["--ranker"]
    changed["placings demo"]["--seed"]["default"] = 1
    changed["placings places search"]["--hits"]["spellings"].remove("-k")
    changed["placings places study"]["--clicks"]["choices"].remove("trust")
    changed["placings places study"]["--k"]["min"] = 11
    changed["placings inspect"]["--new"] = {**changed["placings inspect"]["--fold"], "required": True}
    assert sorted(surface.compare_commands(frozen, changed)) == [
        "placings cache path: the command is gone",
        "placings demo --seed: default was 0, now is 1",
        "placings fit --ranker: the option is gone",
        "placings inspect --new: a new option is required; old scripts do not give it",
        "placings places search --hits: no longer answers to -k",
        "placings places study --clicks: no longer takes trust",
        "placings places study --k: min was 10, now is 11",
    ]


def test_a_renamed_flag_with_its_old_name_as_an_alias_and_a_new_flag_are_fine() -> None:
    frozen = read_frozen("commands")
    changed = copy.deepcopy(frozen)
    moved = changed["placings places search"].pop("--near")
    changed["placings places search"]["--focus"] = {**moved, "spellings": ["--focus", "--near"]}
    changed["placings inspect"]["--new"] = changed["placings inspect"]["--fold"]
    changed["placings rerank"] = {}
    assert surface.compare_commands(frozen, changed) == []


# -- what commands print and write -------------------------------------------------------------------------

# Linear models are solved and means are added in another order on another CPU: 1e-4 of a number, and 1e-6 of
# those that are zero but for rounding.
CLOSE = {"relative": 1e-4, "absolute": 1e-6}
# Trees and networks may split or step otherwise from such a difference on; the tables show three digits.
NEAR = {"relative": 0.0, "absolute": 1e-3}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with runs.stand_in(tmp_path):
        runs.make_files(tmp_path)
        yield tmp_path


def find_changes(chosen: tuple[runs.Run, ...], frozen: dict[str, Any], **tolerance: float) -> list[str]:
    assert [each.line for each in chosen] == list(frozen)
    faults = []
    for each in chosen:
        faults += runs.compare(frozen[each.line], runs.record(each), f"placings {each.line}", **tolerance)
    return faults


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_small_runs_exit_print_and_write_what_they_did() -> None:
    assert (faults := find_changes(runs.RUNS, read_frozen("runs"), **CLOSE)) == [], tell(faults)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_longer_runs_exit_print_and_write_what_they_did() -> None:
    assert (faults := find_changes(runs.LONG_RUNS, read_frozen("long_runs"), **NEAR)) == [], tell(faults)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, marks=pytest.mark.slow if each.slow else (), id=each.line.partition(" --")[0])
        for each in runs.STUDIES
    ],
)
def test_a_small_study_gives_the_numbers_that_it_gave(each: runs.Run) -> None:
    frozen, found = read_frozen("studies")[each.line], runs.record(each)
    if runs.probe_arithmetic() != read_frozen("machine")["arithmetic"]:
        frozen, found = runs.drop_values(frozen), runs.drop_values(found)
    faults = list(runs.compare(frozen, found, f"placings {each.line}", **NEAR))
    assert faults == [], tell(faults)


def test_on_a_machine_that_rounds_otherwise_only_keys_are_frozen() -> None:
    was = {"models": [{"name": "a", "mrr": 0.5}, {"name": "b", "mrr": 0.4}], "n": 3}
    now = {"models": [{"name": "b", "mrr": 0.6}, {"name": "a", "mrr": 0.5}], "n": 4}
    assert list(runs.compare(runs.drop_values(was), runs.drop_values(now), "run", **NEAR)) == []
    del now["models"][0]["mrr"]
    assert list(runs.compare(runs.drop_values(was), runs.drop_values(now), "run", **NEAR)) == [
        "run › models[0]: the key 'mrr' is gone"
    ]


def test_a_lost_key_and_a_changed_value_are_named() -> None:
    was = {"mrr": 0.5, "n": [1, 2], "name": "a", "kept": None, "rule": "<prose>"}
    now = {"mrr": 0.50001, "n": [1, 3], "rule": "<prose>", "kept": False, "more": 1}
    assert list(runs.compare(was, now, "run", **CLOSE)) == [
        "run › n[1]: was 2, now is 3",
        "run: the key 'name' is gone",
        "run › kept: was None, now is False",
    ]  # 0.50001 is 2e-5 of 0.5 away


def test_long_lists_are_frozen_by_their_ends_and_means() -> None:
    rows = [{"x": float(number), "name": "a"} for number in range(11)]
    short = runs.simplify(rows, "/tmp/here")
    assert (short["items"], short["last"], short["means"]) == (11, rows[-1], {"x": 55 / 11})
    own = {"seconds": 1.5, "path": "/tmp/here/a.txt", "used": 1794840155.8, "id": "Zoo"}
    assert runs.simplify(own, "/tmp/here") == {
        "seconds": "<its own>",
        "path": "<folder>/a.txt",
        "used": "<its own>",
        "id": "Zoo",
    }


def test_every_command_is_run_with_its_values_or_listed_here() -> None:
    lines = [each.line for each in (*runs.RUNS, *runs.LONG_RUNS, *runs.STUDIES) if each.code in (0, 3)]
    groups = {
        "placings",
        *(f"placings {name}" for name in ("log", "coverage", "places", "reproduce", "cache")),
    }
    never = {
        command
        for command in set(read_frozen("commands")) - groups
        if not any(f"placings {line} ".startswith(f"{command} ") for line in lines)
    }
    assert never == set()


# -- names and imports -------------------------------------------------------------------------------------


def test_every_public_name_still_takes_what_it_took() -> None:
    frozen = read_frozen("names")
    assert {"evaluate", "NeuralRanker", "NeuralRanker.fit", "RankingData.split"} <= set(frozen)
    assert (faults := surface.compare_names(frozen, surface.describe_names())) == [], tell(faults)


def test_a_lost_or_changed_parameter_is_named() -> None:
    def old(a, b=1, *, c=None, d="x", e=0): ...
    def new(b=1, a=0, *, c=2, e, f): ...
    def grown(a=0, b=1, f=None, *, c=None, d="x", e=0, g=3): ...

    was = surface.describe_signature(old)
    assert list(surface.compare_signatures(was, surface.describe_signature(grown))) == []
    assert list(surface.compare_signatures(was, surface.describe_signature(new))) == [
        "c=None became 2",
        "the parameter d is gone",
        "e had the default 0, now must be given",
        "the order of arguments was a, b, now is b, a",
        "the new parameter f has no default; old calls do not give it",
    ]
    assert surface.compare_names({"lost": was, "kept": None}, {"kept": None}) == ["pg.lost is gone"]


def test_every_import_path_that_was_documented_still_works() -> None:
    """One may warn that it moved; it must not fail."""
    frozen = read_frozen("imports")
    assert len(frozen) > 100
    assert (faults := find_lost_imports(frozen)) == [], tell(faults)


def find_lost_imports(pairs: list[tuple[str, str]]) -> list[str]:
    faults = []
    for module, name in pairs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                # as `from module import name` does it: an attribute, or a module of that name
                found = importlib.import_module(module)
                if name and not hasattr(found, name):
                    importlib.import_module(f"{module}.{name}")
            except ImportError as error:
                faults.append(
                    f"from {module} import {name}: {error}" if name else f"import {module}: {error}"
                )
    return faults


def test_a_lost_import_path_is_named() -> None:
    found = find_lost_imports([("placings", "read"), ("placings", "cli"), ("placings", "nowhere")])
    assert found == ["from placings import nowhere: No module named 'placings.nowhere'"]
