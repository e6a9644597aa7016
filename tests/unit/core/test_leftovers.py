from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from placings.core import leftovers
from placings.core.leftovers import OLD, PART, find_old, hold_part, swap_folder, sweep_leftovers

LONG_AGO = time.time() - 2 * 86_400


def list_names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def make_leftover(folder: Path, name: str, *, is_folder: bool = False) -> Path:
    found = folder / name
    if is_folder:
        found.mkdir()
        (found / "inside").write_text("old")
    else:
        found.write_text("half")
    os.utime(found, (LONG_AGO, LONG_AGO))
    return found


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_a_dead_writer_left_is_swept_by_the_next_one(tmp_path: Path, is_folder: bool) -> None:
    left = make_leftover(tmp_path, f".model.0123456789ab{PART}", is_folder=is_folder)
    sweep_leftovers(tmp_path / "other", again=True)
    assert not left.exists()


def test_what_a_living_writer_of_another_process_holds_is_not_swept(tmp_path: Path) -> None:
    words = (
        "import sys, pathlib\n"
        "from placings.core.leftovers import hold_part\n"
        "with hold_part(pathlib.Path(sys.argv[1])) as part:\n"
        "    print(part, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", words, str(tmp_path / "a.txt")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    part = Path(writer.stdout.readline().strip())
    os.utime(part, (LONG_AGO, LONG_AGO))
    sweep_leftovers(tmp_path / "a.txt", again=True)
    alive = part.exists()
    writer.kill()
    writer.communicate()
    sweep_leftovers(tmp_path / "a.txt", again=True)
    assert alive
    assert not part.exists()


def test_a_young_part_is_left_alone_since_its_writer_may_not_have_locked_it_yet(tmp_path: Path) -> None:
    part = tmp_path / f".a.0123456789ab{PART}"
    part.write_text("new")
    sweep_leftovers(tmp_path / "a", again=True)
    assert part.exists()


def test_other_programs_parts_are_never_swept(tmp_path: Path) -> None:
    others = [make_leftover(tmp_path, name) for name in (".film.part", "film.placings.part", ".a.b.old")]
    sweep_leftovers(tmp_path / "model", again=True)
    assert all(other.exists() for other in others)


def test_leftovers_of_version_0_1_are_swept_once_a_day_old(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    left = [
        make_leftover(tmp_path, ".model.abc.part", is_folder=True),
        make_leftover(tmp_path, ".model.abc.old", is_folder=True),
    ]
    sweep_leftovers(tmp_path / "model", again=True)
    assert not any(each.exists() for each in left)


def test_an_old_folder_stays_while_nothing_stands_in_its_place(tmp_path: Path) -> None:
    old = make_leftover(tmp_path, f".model.0123456789ab{OLD}", is_folder=True)
    sweep_leftovers(tmp_path / "model", again=True)
    assert find_old(tmp_path / "model") == old
    (tmp_path / "model").mkdir()
    sweep_leftovers(tmp_path / "model", again=True)
    assert find_old(tmp_path / "model") is None


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_replaces_another_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(leftovers, "_exchange", lambda one, other: False)
    path = tmp_path / "model"
    for text in ("first", "second", "third"):
        with hold_part(path, folder=True) as part:
            (part / "file").write_text(text)
            swap_folder(part, path)
        assert (path / "file").read_text() == text
        assert list_names(tmp_path) == ["model"]


def test_on_this_system_two_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    if sys.platform not in ("linux", "darwin"):
        pytest.skip("the exchange is known on Linux and macOS only")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert leftovers._exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "file").read_text() == "b"
    assert (tmp_path / "b" / "file").read_text() == "a"


def test_a_name_of_255_bytes_has_a_part_too(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127 + "b")
    with hold_part(path) as part:
        part.replace(path)
    assert path.exists()


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_parts_have_the_permissions_that_the_process_gives_to_new_files(
    tmp_path: Path, mask: int, file: int, folder: int
) -> None:
    words = (
        "import os, sys, pathlib\n"
        "from placings.core.leftovers import hold_part\n"
        f"os.umask({mask})\n"
        "for kind in (False, True):\n"
        "    with hold_part(pathlib.Path(sys.argv[1]) / 'a', folder=kind) as part:\n"
        "        print(part.stat().st_mode & 0o777)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", words, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert list(map(int, told.stdout.split())) == [file, folder]
