"""One trial: fit with these values, judge on held-out queries; here, or in a worker process.

A worker is this module run as a program. It gets plain text on its stdin (JSON lines) and the data as
memory-mapped arrays in a folder; nothing is pickled, and no model travels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from placings.core import BadInput, Floats, PlacingsError, PlacingsWarning, count_threads, escape_line
from placings.data import RankingData, find_clusters, load_arrays, save_arrays
from placings.evaluation.spaces import apply_values
from placings.metrics import measure, metric
from placings.rankers import POSITIVE_WEIGHT, Ranker, Value


class WorkerDied(PlacingsError):
    """A worker process ended in the middle of a trial."""


class TrialFailed(PlacingsError):
    """What a worker says of a trial that raised an error."""


class TrialJudge(Protocol):
    """What runs a trial."""

    def judge(self, values: Mapping[str, Value]) -> Generator[float, None, None]:
        """The mean over the queries judged so far, after each fold."""
        ...


@dataclass(frozen=True)
class Task:
    """What every trial of a study has in common: the ranker, the data, and how it is judged."""

    ranker: Ranker
    train: RankingData
    valid: RankingData | None
    folds: int
    metric: str
    empty: str
    seed: int
    group: str | None = "auto"

    def judge(self, values: Mapping[str, Value]) -> Generator[float, None, None]:
        """Fit on each fold's training part and give the mean over all held-out queries so far.

        With `valid` there is one step: fit on all of `train`, judge on `valid`. Queries with nothing
        relevant count as `empty` says; where no query counts there is no mean, which is an error.
        Warnings of placings are silent here; the ranker that is fitted in the end gives its own.
        """
        weight = values.get(POSITIVE_WEIGHT, 1.0)
        known: list[Floats] = []
        for learned, held in self._parts():
            ranker = apply_values(self.ranker, values)
            seen = weigh_positives(learned, float(weight or 0.0)) if weight != 1.0 else learned
            stops = self.valid is not None and "early_stopping" in ranker.get_params(deep=False)
            with warnings.catch_warnings():  # a search tries poor values on purpose
                warnings.simplefilter("ignore", PlacingsWarning)
                ranker.fit(seen, valid=held) if stops else ranker.fit(seen)
            scores = ranker.predict(held)
            result = measure(
                self.metric, scores, held.y, held.offsets, propensity=held.propensity, empty=self.empty
            )
            known.extend(each[~np.isnan(each)] for each in result.values())
            judged = np.concatenate(known)
            if not len(judged):
                raise BadInput("no held-out query has anything relevant, so there is no mean to judge by.")
            yield float(judged.mean())

    @property
    def steps(self) -> int:
        """How many means a whole trial gives."""
        return self.folds if self.valid is None else 1

    def _parts(self) -> Iterator[tuple[RankingData, ...]]:
        if self.valid is not None:
            return iter([(self.train, self.valid)])
        clusters = find_clusters(self.train, self.group)
        together = None if clusters is None else clusters.codes
        return self.train.folds(self.folds, random_state=self.seed, group=together)


def weigh_positives(data: RankingData, weight: float) -> RankingData:
    """The same data, with rows of a label above 0 weighing `weight` times as much as they did.

    >>> data = RankingData.from_arrays([[1.0], [2.0]], [0, 3], [1, 1])
    >>> weigh_positives(data, 10.0).weight
    array([ 1., 10.])
    """
    if not weight > 0.0:
        raise BadInput(f"{POSITIVE_WEIGHT} must be above 0. Got {weight!r}.")
    before = np.ones(data.n_rows) if data.weight is None else data.weight
    return data.replace(weight=np.where(data.y > 0, weight * before, before))


# -- worker processes -------------------------------------------------------------------------------


class Workers:
    """Some worker processes with one copy of the data on disk; use as a context manager."""

    def __init__(self, task: Task, count: int) -> None:
        self.task, self.count = task, count
        self._keep = ExitStack()
        self.judges: list[TrialProcess] = []

    def __enter__(self) -> list[TrialProcess]:
        setting = describe_task(self.task)
        with ExitStack() as stack:  # what is made here goes if anything here fails
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placings-tune-")))
            write_part(folder / "train", self.task.train)
            if self.task.valid is not None:
                write_part(folder / "valid", self.task.valid)
            (folder / "task.json").write_text(json.dumps(setting))
            self._keep = stack.pop_all()
        self.judges = [TrialProcess(folder, max(1, count_threads() // self.count)) for _ in range(self.count)]
        return self.judges

    def __exit__(self, *_: object) -> None:
        for worker in self.judges:
            worker.stop()
        self._keep.close()


class TrialProcess:
    """One process that runs trials, started when first needed and again if it dies."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads
        self._process: subprocess.Popen[str] | None = None

    def judge(self, values: Mapping[str, Value]) -> Generator[float, None, None]:
        """As `Task.judge`, in the process; leaving early tells it to leave too."""
        process = self._start()
        self._say(process, dict(values))
        done = False
        try:
            while True:
                answer = self._hear(process)
                if "error" in answer:
                    done = True
                    raise TrialFailed(answer["error"])
                if "end" in answer:
                    done = True
                    return
                yield float(answer["mean"])
                self._say(process, "go")
        finally:
            if not done and process.poll() is None:
                self._say(process, "stop")

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process.wait()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        few = str(self._threads)
        env = {**os.environ, "PLACINGS_THREADS": few, "OMP_NUM_THREADS": few}
        # a session of its own: Ctrl-C reaches the parent, which then ends its workers
        self._process = subprocess.Popen(
            [sys.executable, "-m", "placings.evaluation.trials", str(self._folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env,
            start_new_session=True,
        )  # fmt: skip
        return self._process

    def _say(self, process: subprocess.Popen[str], message: Any) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return  # it is dead, which the next reading says with its exit code

    def _hear(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise WorkerDied(f"the worker process ended with code {process.wait()} in this trial")
        answer: dict[str, Any] = json.loads(line)
        return answer


def describe_task(task: Task) -> dict[str, Any]:
    """A task without its data, as plain values for another process."""
    kind = type(task.ranker)
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise BadInput(
            f"workers need a ranker class that a module defines. Got {kind.__qualname__} of "
            f"{kind.__module__}. Move it into a module, or use workers=1."
        )
    if metric(task.metric).own:
        raise BadInput(
            f"the metric {task.metric!r} is a function of this process, which other processes do not have. "
            "Use workers=1."
        )
    settings = task.ranker.get_params(deep=False)
    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"workers need a ranker whose parameters are plain values ({error}). Got {settings!r}. "
            "Use workers=1."
        ) from None
    return {
        "path": sys.path, "module": kind.__module__, "class": kind.__qualname__, "settings": settings,
        "folds": task.folds, "metric": task.metric, "empty": task.empty, "seed": task.seed,
        "group": task.group,
    }  # fmt: skip


def write_part(folder: Path, data: RankingData) -> None:
    """The data as arrays that another process maps."""
    folder.mkdir()
    (folder / "entry.json").write_text(json.dumps(save_arrays(folder, data)))


def read_part(folder: Path) -> RankingData | None:
    """The data that `write_part` wrote; None if there are none."""
    if not folder.exists():
        return None
    return load_arrays(folder, json.loads((folder / "entry.json").read_text()))


def serve_trials(folder: Path) -> None:
    """What a worker does until its stdin ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print do not disturb the answers
    setting = json.loads((folder / "task.json").read_text())
    sys.path[:] = setting["path"]
    kind = getattr(import_module(setting["module"]), setting["class"])
    train = read_part(folder / "train")
    assert train is not None
    how = {name: setting[name] for name in ("folds", "metric", "empty", "seed", "group")}
    task = Task(kind(**setting["settings"]), train, read_part(folder / "valid"), **how)
    for line in iter(sys.stdin.readline, ""):
        try:
            for mean in task.judge(json.loads(line)):
                print(json.dumps({"mean": mean}), file=replies)
                if json.loads(sys.stdin.readline() or '"stop"') == "stop":
                    break
            else:
                print(json.dumps({"end": True}), file=replies)
        except Exception as error:
            print(json.dumps({"error": describe_error(error)}), file=replies)


def describe_error(error: BaseException) -> str:
    """The kind of an error and its first line; what a worker said already is handed on."""
    if isinstance(error, TrialFailed | WorkerDied):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


if __name__ == "__main__":
    try:
        serve_trials(Path(sys.argv[1]))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
    except Exception as error:  # one line: the process that waits says what it was doing
        print(escape_line(f"a worker ended: {describe_error(error)}"), file=sys.stderr, flush=True)
        os._exit(1)
