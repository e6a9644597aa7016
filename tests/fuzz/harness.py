"""Fuzzing in child processes: a case is accepted, refused by an error of ours, or ends badly.

A fuzzer is a module beside this one, with

    make(random, folder) -> Path    write one case, a file or a folder, below `folder`
    check(path) -> None             do what users do with it; AssertionError: a wrong value passed as right

and, where it has some, known cases in `corpus/NAME`, which run first. A child works through a part of the
cases; if it dies, hangs or takes too much memory, the case is known, and the next child goes on after it.
The case is kept, so that it can be looked at.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
BATCH = 250  # cases of one child
LONGEST_CASE = 30.0  # seconds; a case that takes longer hangs
BAD = ("wrong", "traceback", "crash", "hang", "memory")
MEMORY = 1 << 30  # bytes that a child may grow by while it works


@dataclass
class Tally:
    """How the cases of one fuzzer ended; `bad` holds how, which case, and what was said."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[str, str, str]] = field(default_factory=list)
    grown: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        ends = ", ".join(f"{self.counts[end]:,} {end}" for end in ("accepted", "refused", *BAD))
        grown = f"memory grew by {self.grown >> 20:,} MiB at most"
        return f"{self.name}: {sum(self.counts.values()):,} cases: {ends}; {grown}; {self.seconds:.0f} s"


def list_fuzzers() -> list[str]:
    """The fuzzers: modules named fuzz_NAME.py."""
    return sorted(file.stem.removeprefix("fuzz_") for file in HERE.glob("fuzz_*.py"))


def fuzz(name: str, count: int, seed: int = 0, keep: Path | None = None) -> Tally:
    """Run the corpus and `count` made cases; bad cases are copied to `keep`."""
    tally, start = Tally(name), time.monotonic()
    corpus = len(list_corpus(name))
    at = -corpus
    while at < count:
        stop = min(at + BATCH, count)
        at = _run_child(tally, name, at, stop, seed, keep)
    tally.seconds = time.monotonic() - start
    return tally


def list_corpus(name: str) -> list[Path]:
    """The known cases of a fuzzer."""
    return sorted((HERE / "corpus" / name).glob("*"))


def _run_child(tally: Tally, name: str, start: int, stop: int, seed: int, keep: Path | None) -> int:
    """Cases start … stop−1 in one process; returns the case to go on with."""
    with tempfile.TemporaryDirectory(prefix="placings-fuzz-") as home:
        words = [sys.executable, __file__, "child", name, str(start), str(stop), str(seed), home]
        errors = Path(home) / "errors.txt"
        with open(errors, "w") as stream:
            child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=stream)
        log = Path(home) / "log.jsonl"
        seen, last, hung = 0, time.monotonic(), False
        while child.poll() is None:
            time.sleep(0.05)
            lines = log.read_text().count("\n") if log.exists() else 0
            if lines != seen:
                seen, last = lines, time.monotonic()
            elif time.monotonic() - last > LONGEST_CASE + 60 * (seen == 0):  # the first one imports
                hung = True
                child.kill()
                child.wait()
        said = errors.read_text(errors="replace")[-2000:]
        done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        for case in done:
            _count(tally, name, case["end"], case["case"], case["said"], Path(home), keep)
            tally.grown = max(tally.grown, case["grown"])
        reached = start + len(done)
        if reached < stop and (child.returncode or hung):
            end = "hang" if hung else "crash"
            _count(tally, name, end, reached, f"exit {child.returncode}: {said}", Path(home), keep)
            return reached + 1
        return stop


def _count(tally: Tally, name: str, end: str, case: int, said: str, home: Path, keep: Path | None) -> None:
    tally.counts[end] += 1
    if end in BAD:
        tally.bad.append((end, str(case), said))
        folder = home / f"case{case}"
        if keep is not None and folder.exists():
            target = keep / name / f"{end}-{case}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target)
            (target / "said.txt").write_text(said)


def _work(name: str, start: int, stop: int, seed: int, home: Path) -> None:
    """What a child does: one line of the log for each case."""
    import warnings

    from placings.core import PlacingsError

    warnings.simplefilter("ignore")
    fuzzer = importlib.import_module(f"fuzz_{name}")
    corpus = list_corpus(name)
    before = 0
    with open(home / "log.jsonl", "w", buffering=1) as log:
        for case in range(start, stop):
            folder = home / f"case{case}"
            folder.mkdir()
            if case < 0:
                known = corpus[case + len(corpus)]
                path = folder / known.name
                (shutil.copytree if known.is_dir() else shutil.copy)(known, path)
            else:
                path = fuzzer.make(random.Random(f"{name} {seed} {case}"), folder)
            end, said = "accepted", ""
            try:
                fuzzer.check(path)
            except PlacingsError as error:
                end, said = "refused", str(error)
            except AssertionError as error:
                end, said = "wrong", f"{error}\n{traceback.format_exc()[-1500:]}"
            except BaseException:
                end, said = "traceback", traceback.format_exc()[-1500:]
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            before = before or most  # the first case brings the libraries along
            grown = most - before
            if grown > MEMORY and end in ("accepted", "refused"):
                end, said = "memory", f"{grown >> 20} MiB; {said}"
                before = most  # said once
            log.write(json.dumps({"case": case, "end": end, "said": said, "grown": grown}) + "\n")
            if end in ("accepted", "refused"):
                shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run fuzzers for longer, by hand; 1 if a case ended badly."""
    parser = argparse.ArgumentParser(description="Fuzz what placings reads.")
    parser.add_argument("names", nargs="*", default=list_fuzzers(), help=", ".join(list_fuzzers()))
    parser.add_argument("--count", type=int, default=1000, help="cases of each fuzzer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="where bad cases go")
    chosen = parser.parse_args()
    failed = False
    for name in chosen.names:
        tally = fuzz(name, chosen.count, chosen.seed, chosen.keep)
        print(tally, flush=True)
        for end, case, said in tally.bad[:20]:
            print(f"  {end} in case {case} ({chosen.keep / name}/{end}-{case}):\n    {said[-600:]}")
        failed = failed or bool(tally.bad)
    return int(failed)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    if sys.argv[1:2] == ["child"]:
        _, _, which, first, end_, number, where = sys.argv
        _work(which, int(first), int(end_), int(number), Path(where))
    else:
        sys.exit(main())
