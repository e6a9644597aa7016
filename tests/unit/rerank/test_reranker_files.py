"""A re-ranker's folder is one thing: replaced in one step, pinned by one digest."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import call_placings

import placings as pg
from placings.core import BadBundle, BadInput, swap_folder
from placings.features import FeatureSet, TextShape
from placings.rankers import LinearRanker
from placings.rerank import Request, Reranker, load_reranker

SAVER = """
import sys
from pathlib import Path
import placings as pg
one, other, out, ready = map(Path, sys.argv[1:])
both = [pg.load(one), pg.load(other)]
ready.touch()
while ready.exists():
    for each in both:
        each.save(out)
"""


def make_reranker(weight: float) -> Reranker:
    rows = {"search_id": ["s"] * 2, "query": ["ab", "ab"], "name": ["a", "abc"], "label": [0, 1]}
    features = FeatureSet([TextShape("name", ("length",)), TextShape("query", ("length",))]).fit(rows)
    ranker = LinearRanker().fit(features.to_ranking(rows))
    ranker.coef_ = np.array([weight, 0.0])
    # the features are of the weight too, so that a mixture of two re-rankers could be told
    return Reranker(features, ranker, clicks={"item": int(abs(weight))}, pool=2 + int(weight > 0))


def describe(found: Reranker) -> tuple[int, int, float]:
    return found.pool, found.clicks_["item"], float(found.ranker_.coef_[0])  # type: ignore[attr-defined]


def load_while_saved(tmp_path: Path, loads: int) -> set[tuple[int, int, float]]:
    for weight, name in ((1.0, "one"), (-5.0, "other")):
        make_reranker(weight).save(tmp_path / name)
    out, ready = tmp_path / "out", tmp_path / "ready"
    make_reranker(1.0).save(out)
    words = [sys.executable, "-c", SAVER, tmp_path / "one", tmp_path / "other", out, ready]
    seen = set()
    with subprocess.Popen(list(map(str, words))) as saver:
        try:
            while not ready.exists():
                assert saver.poll() is None
            for _ in range(loads):
                seen.add(describe(pg.load(out)))
            assert saver.poll() is None
        finally:
            ready.unlink(missing_ok=True)
            saver.wait(60)
    return seen


BOTH = {(3, 1, 1.0), (2, 5, -5.0)}


def test_a_load_while_another_thread_saves_finds_one_of_both_whole(tmp_path: Path) -> None:
    both, done = [make_reranker(1.0), make_reranker(-5.0)], threading.Event()
    both[0].save(tmp_path / "out")

    def save() -> None:
        while not done.is_set():
            for each in both:
                each.save(tmp_path / "out")

    saver = threading.Thread(target=save)
    saver.start()
    try:
        assert {describe(pg.load(tmp_path / "out")) for _ in range(30)} <= BOTH
    finally:
        done.set()
        saver.join()


@pytest.mark.slow
def test_of_a_thousand_loads_while_another_process_saves_none_fails_or_is_mixed(tmp_path: Path) -> None:
    assert load_while_saved(tmp_path, 1000) == BOTH


def test_a_folder_of_its_own_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    first = make_reranker(1.0).save(tmp_path / "out")
    before = (tmp_path / "out").stat().st_ino
    second = make_reranker(2.0).save(tmp_path / "out")
    assert (tmp_path / "out").stat().st_ino != before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert load_reranker(tmp_path / "out", digest=second).ranker_.coef_[0] == 2.0
    with pytest.raises(BadBundle, match="pinned"):
        load_reranker(tmp_path / "out", digest=first)


def test_what_else_is_in_the_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for weight in (1.0, 2.0):
        make_reranker(weight).save(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "notes.txt", "reranker"]
    assert pg.load(tmp_path).ranker_.coef_[0] == 2.0
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for weight in (1.0, 3.0):  # the folder that one stands in is not pulled away
        make_reranker(weight).save(".")
    assert pg.load(".").ranker_.coef_[0] == 3.0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("steps", range(4))
def test_a_save_beside_other_files_that_ends_between_two_steps_leaves_one_whole_re_ranker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    make_reranker(1.0).save(tmp_path)
    swap, left = swap_folder, list(range(steps))

    def swap_until_killed(part: Path, path: Path) -> None:
        if not left:
            raise Killed
        left.pop()
        swap(part, path)

    with monkeypatch.context() as patched:
        patched.setattr("placings.rerank.reranker.swap_folder", swap_until_killed)
        patched.setattr("placings.rerank.reranker._remove_model", lambda path: swap_until_killed(path, path))
        with pytest.raises(Killed):
            make_reranker(2.0).save(tmp_path)
    # the second of the three swaps, that of `reranker`, is the one that counts
    assert pg.load(tmp_path).ranker_.coef_[0] == (1.0 if steps < 2 else 2.0)
    make_reranker(3.0).save(tmp_path)
    assert pg.load(tmp_path).ranker_.coef_[0] == 3.0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "notes.txt", "reranker"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    make_reranker(1.0).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert pg.load(tmp_path / "kept").ranker_.coef_[0] == 1.0


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(BadInput, match="is a file"):
        make_reranker(1.0).save(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_features_of_another_width_than_the_model_are_refused(tmp_path: Path) -> None:
    made = make_reranker(1.0)
    made.features_ = FeatureSet([TextShape("name", ("length",))]).fit({"name": ["a"]})
    made.save(tmp_path / "out")
    with pytest.raises(BadBundle, match="gives 1 features, but the model has 2"):
        pg.load(tmp_path / "out")


@pytest.mark.parametrize("right", [True, False])
def test_the_commands_that_load_a_reranker_take_a_digest(tmp_path: Path, right: bool) -> None:
    made = make_reranker(1.0)
    digest = made.save(tmp_path / "out")
    hits = tmp_path / "hits.jsonl"
    found = [{"item_id": name, "name": name} for name in ("a", "abc")]
    hits.write_text(json.dumps({"query": "ab", "hits": found}))
    told: tuple[Any, ...] = ("--digest", digest if right else "0" * 64)
    ended = call_placings("rerank", "search", tmp_path / "out", "ab", "--hits", hits, *told)
    assert ended.returncode == (0 if right else 1)
    assert ("pinned" in ended.stderr) == (not right)
    assert made.rerank(Request({"query": "ab"}, [{"name": "a"}, {"name": "abc"}])).order.tolist() == [1, 0]
    if not right:
        (tmp_path / "log.parquet").write_bytes(b"")
        ended = call_placings("rerank", "evaluate", tmp_path / "out", tmp_path / "log.parquet", *told)
        assert ended.returncode == 1
        assert "pinned" in ended.stderr
