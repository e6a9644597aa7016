"""Writers killed at any moment, while readers read: one whole version always stands under its name.

A writer writes two versions in turn, for ever, in a forked process. Meanwhile this process reads; then it
kills the writer with SIGKILL and reads again. What it reads must be one of the two versions, each time.

    python tests/fuzz/kills.py --kills 10      # of each writer
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import placings as pg

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS")


@dataclass(frozen=True)
class Writer:
    """How a version (0 or 1) is written to a path, and how a reader tells which one it reads."""

    write: Callable[[Path, int], object]
    read: Callable[[Path], Hashable]
    name: str = "thing"
    most: float = 0.08  # seconds until the kill, at most
    meanwhile: bool = True  # whether readers may read while it is replaced


@cache
def make_data(version: int) -> pg.RankingData:
    return pg.make_ranking(30, n_features=5, mean_size=8, random_state=version).data


@cache
def make_ranker(version: int, kind: str = "linear") -> Any:
    settings = {"rounds": 3} if kind == "lightgbm" else {}
    return pg.make_ranker(kind, **settings).fit(make_data(version))


@cache
def make_log() -> Any:
    pictures = pg.make_shop_log(8, searches=12, random_state=0)
    from placings.simulate import make_shop_actions

    folder = Path(tempfile.mkdtemp(prefix="placings-kills-"))
    make_shop_actions(pictures).write(folder)
    log = pg.join_logs(str(folder / "searches.parquet"), str(folder / "actions.parquet"))
    rows = log.rows
    shutil.rmtree(folder)
    return pg.ClickLog(rows)


@cache
def make_reranker(version: int) -> Any:
    return pg.Reranker(features="shop", ranker="ranksvm" if version else "ridge").fit(make_log())


def score(ranker: Any) -> Hashable:
    return tuple(np.round(ranker.predict(make_data(0).X[:5]), 9).tolist())


def score_request(reranker: Any) -> Hashable:
    from placings.rerank import list_requests

    answer = reranker.rerank(list_requests(make_log().rows[:200])[0])
    return tuple(np.round(answer.scores, 6).tolist())


def write_index(path: Path, version: int) -> None:
    from placings.places import Place, build_index

    places = [
        Place(
            id=str(at),
            name=f"Town {version} {at}",
            lat=48.0,
            lon=8.0 + at / 1000,
            type="locality",
            weight=1.0,
        )
        for at in range(50)
    ]
    build_index(places, path)


def read_index(path: Path) -> Hashable:
    from placings.places import SqliteEngine

    with SqliteEngine(path) as engine:
        names = {hit.name.split()[1] for hit in engine.search("town", k=50)}
        assert len(engine) == 50
        assert len(names) == 1
        return names.pop()


def write_cells(path: Path, version: int) -> None:
    from placings.core import write_facts

    write_facts(path, {"version": version, "filling": list(range(2000))})


def read_cells(path: Path) -> Hashable:
    facts = json.loads(path.read_text())
    assert facts["filling"] == list(range(2000))
    return int(facts["version"])


def write_array_file(path: Path, version: int) -> None:
    from placings.core import write_array

    write_array(path, np.full(20_000, float(version)))


def write_page(path: Path, version: int) -> None:
    from placings.report import write_result_page

    write_result_page(path, pg.evaluate(make_data(0).y * (1 - version), make_data(0), ["mrr"], bootstrap=0))


def read_page(path: Path) -> Hashable:
    text = path.read_text()
    assert text.rstrip().endswith("</html>")
    return text


def use_cache(path: Path, version: int) -> None:
    """Versions are two source files; a reading fills the cache, and a kill may tear an entry."""
    os.environ["PLACINGS_CACHE"] = str(path)
    for each in (0, 1):
        if not path.with_name(f"source{each}.txt").exists():
            pg.write(make_large(each), path.with_name(f"source{each}.txt"))
    for entry in path.glob("[!.]*/entry.json"):  # a leftover that is touched would look young
        entry.unlink(missing_ok=True)  # so that it is written again
    pg.read(path.with_name(f"source{version}.txt"), cache=True)


@cache
def make_large(version: int) -> pg.RankingData:
    return pg.make_ranking(2500, n_features=20, mean_size=8, random_state=version).data


def read_cached(path: Path) -> Hashable:
    os.environ["PLACINGS_CACHE"] = str(path)
    for version in (0, 1):
        found = pg.read(path.with_name(f"source{version}.txt"), cache=True)
        np.testing.assert_allclose(found.X, make_large(version).X, rtol=1e-6)
    return "both"


def write_checkpoints(path: Path, version: int) -> None:
    import torch

    from placings.training.checkpoints import Checkpoint, write_checkpoint
    from placings.training.plans import History

    tensors = {"w": torch.full((5000,), float(version))}
    write_checkpoint(path, Checkpoint(version, History(), 0.0, tensors, {}), {})


def read_checkpoints(path: Path) -> Hashable:
    from safetensors.numpy import load_file

    values = set(load_file(path)["w"].tolist())
    assert len(values) == 1
    return values.pop()


def save_in_two_steps(path: Path, version: int) -> None:
    """As on a file system that cannot exchange two folders in one step."""
    from placings.core import leftovers

    leftovers._exchange = lambda one, other: False
    make_ranker(version).save(path)


def save_beside_others(path: Path, version: int) -> None:
    """A re-ranker in a folder that holds another file and so cannot be replaced whole."""
    path.mkdir(exist_ok=True)
    (path / "notes.txt").write_text("mine")
    make_reranker(version).save(path)
    assert (path / "notes.txt").read_text() == "mine"


WRITERS: dict[str, Writer] = {
    "bundle": Writer(
        lambda path, version: make_ranker(version).save(path), lambda path: score(pg.load(path)), "model"
    ),
    "bundle in two steps": Writer(save_in_two_steps, lambda path: score(pg.load(path)), "model"),
    "trees": Writer(
        lambda path, version: make_ranker(version, "lightgbm").save(path),
        lambda path: score(pg.load(path)),
        "model",
    ),
    "reranker": Writer(
        lambda path, version: make_reranker(version).save(path),
        lambda path: score_request(pg.load(path)),
        "reranker",
        0.15,
    ),
    "reranker beside other files": Writer(
        save_beside_others, lambda path: score_request(pg.load(path)), "folder", 0.3
    ),
    "svmlight": Writer(
        lambda path, version: pg.write(make_data(version), path),
        lambda path: float(np.round(pg.read(path, cache=False).X.sum(), 2)),
        "data.txt",
    ),
    "parquet": Writer(
        lambda path, version: pg.write(make_data(version), path),
        lambda path: float(np.round(pg.read(path, cache=False).X.sum(), 2)),
        "data.parquet",
    ),
    "click log": Writer(
        lambda path, version: pg.ClickLog(make_log().rows[: 200 + 100 * version]).write(path),
        lambda path: len(pg.ClickLog.read(path).rows),
        "log.parquet",
        meanwhile=False,  # DuckDB opens a file twice: a reader of a log that is being replaced may be told so
    ),
    "place index": Writer(write_index, read_index, "places.db"),
    "cells": Writer(write_cells, read_cells, "cell.json"),
    "arrays": Writer(write_array_file, lambda path: tuple(np.unique(np.load(path)).tolist()), "scores.npy"),
    "page": Writer(write_page, read_page, "page.html"),
    "cache": Writer(use_cache, read_cached, "cache", 0.3),
    "checkpoint": Writer(write_checkpoints, read_checkpoints, "run.safetensors"),
}


def kill_writer(name: str, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill one writer so often; says how many readings there were, and every one that was not right."""
    warnings.simplefilter("ignore")
    writer, source = WRITERS[name], random.Random(f"{name} {seed}")
    bad: list[str] = []
    loads = 0
    with tempfile.TemporaryDirectory(prefix="placings-kills-") as home:
        path = Path(home) / writer.name
        versions = set()
        for version in (1, 0):  # both objects are made before the first fork
            writer.write(path, version)
            versions.add(writer.read(path))
        for kill in range(kills):
            child = os.fork()
            if child == 0:  # pragma: no cover
                _write_for_ever(writer, path)
            until = time.monotonic() + source.uniform(0.002, writer.most)
            while True:
                last = time.monotonic() >= until
                if last:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                if not last and not writer.meanwhile:
                    time.sleep(0.001)
                    continue
                try:
                    found = writer.read(path)
                    loads += 1
                    if found not in versions:
                        bad.append(f"kill {kill}: a third version, {str(found)[:100]}")
                except Exception as error:
                    bad.append(f"kill {kill}{' after it' if last else ''}: {type(error).__name__}: {error}")
                if last:
                    break
        left = _count_leftovers(Path(home), writer, path)
    return {"writer": name, "kills": kills, "loads": loads, "bad": bad, "left": left}


def _write_for_ever(writer: Writer, path: Path) -> None:  # pragma: no cover
    try:
        version = 1
        while True:
            writer.write(path, version)
            version = 1 - version
    except BaseException as error:
        (path.parent / "failed.txt").write_text(repr(error))
    finally:
        os._exit(1)


def _count_leftovers(home: Path, writer: Writer, path: Path) -> list[str]:
    """What is left a while later, once somebody has written again."""
    from placings.core import leftovers

    if (home / "failed.txt").exists():
        return [f"the writer failed: {(home / 'failed.txt').read_text()}"]
    before = time.time() - 3600
    for found in [*home.rglob(".*")]:
        os.utime(found, (before, before))
    leftovers._swept.clear()
    writer.write(path, 0)
    return sorted(str(found.relative_to(home)) for found in home.rglob(".*"))


def run_in_child(name: str, kills: int, seed: int = 0) -> dict[str, Any]:
    """`kill_writer` in a fresh process of one thread: a fork would lose the others."""
    words = [sys.executable, __file__, "--only", name, "--kills", str(kills), "--seed", str(seed)]
    alone = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
    told = subprocess.run(words, capture_output=True, text=True, timeout=600, env=alone)
    if told.returncode:
        raise RuntimeError(told.stderr[-3000:])
    result: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return result


def main() -> int:
    """All writers, one after the other; 1 if anything was read that was never written whole."""
    parser = argparse.ArgumentParser(description="Kill writers at any moment.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(WRITERS))
    chosen = parser.parse_args()
    if chosen.only:
        print(json.dumps(kill_writer(chosen.only, chosen.kills, chosen.seed)))
        return 0
    failed = False
    for name in WRITERS:
        told = run_in_child(name, chosen.kills, chosen.seed)
        print(
            f"{name}: {told['kills']} kills, {told['loads']:,} readings, {len(told['bad'])} bad", flush=True
        )
        for line in [*told["bad"][:5], *told["left"]]:
            print(f"  {line}")
        failed = failed or bool(told["bad"]) or bool(told["left"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
