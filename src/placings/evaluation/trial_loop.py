"""The loop over trials: claim one, have it judged, tell the study; from one thread or several."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placings.errors import MissingExtra
from placings.evaluation.spaces import Value
from placings.evaluation.storage import ERROR, Planner, claim_trial, drop_trial, list_counted
from placings.evaluation.trials import Judge, Worker, describe_error

if TYPE_CHECKING:
    from optuna.study import Study


@dataclass(frozen=True)
class TrialRow:
    """One trial: its place, what came out, what was tried, how it ended and how long it took."""

    number: int
    value: float | None
    params: Mapping[str, Value]
    state: str  # complete, pruned or failed
    seconds: float
    error: str = ""


class Search:
    """Claims trials, has them judged and tells the study, from one thread or several."""

    def __init__(
        self, study: Study, planner: Planner, wanted: int, steps: int, timeout: float | None
    ) -> None:
        self.study, self.planner, self.wanted, self.steps = study, planner, wanted, steps
        self.until = None if timeout is None else time.monotonic() + timeout
        self.say: Callable[[float | None], None] = lambda value: None
        self.lock = threading.Lock()
        self.halted = threading.Event()
        self.fatal: BaseException | None = None

    def run(self, judge: Judge) -> None:
        """Trials one after the other until enough are there or time is up."""
        while not self.halted.is_set() and not (self.until is not None and time.monotonic() > self.until):
            with self.lock:
                claimed = claim_trial(self.study, self.planner, self.wanted)
            if claimed is None:
                return
            trial, _, values = claimed
            try:
                self._judge(judge, trial, values)
            except BaseException:  # Ctrl-C, or a library that is not there: the place is given back
                with self.lock:
                    drop_trial(self.study, trial)
                raise

    def run_together(self, judges: Sequence[Worker]) -> None:
        """The same with one thread for each worker process."""
        threads = [threading.Thread(target=self._run_thread, args=(j,), daemon=True) for j in judges]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except BaseException:
            self.halted.set()
            for judge in judges:
                judge.stop()
            for thread in threads:
                thread.join(10.0)
            raise
        if self.fatal is not None:
            raise self.fatal

    def _run_thread(self, judge: Judge) -> None:
        try:
            self.run(judge)
        except BaseException as error:
            self.fatal = error
            self.halted.set()

    def _judge(self, judge: Judge, trial: Any, values: Mapping[str, Value]) -> None:
        from optuna.trial import TrialState

        means = judge.judge(values)
        mean: float | None = None
        state, step = TrialState.COMPLETE, 0
        try:
            for step, mean in enumerate(means):
                with self.lock:
                    trial.report(mean, step)
                    if step + 1 < self.steps and trial.should_prune():
                        state = TrialState.PRUNED
                        break
        except MissingExtra:
            raise
        except Exception as error:
            if self.halted.is_set():
                raise KeyboardInterrupt from error
            with self.lock:
                trial.set_user_attr(ERROR, describe_error(error))
            state, mean = TrialState.FAIL, None
        finally:
            means.close()
        with self.lock:
            self.study.tell(trial, mean if state == TrialState.COMPLETE else None, state)
            self.say(mean if state == TrialState.COMPLETE else None)


class Bar:
    """A progress bar on stderr, if that is a terminal: trials done and the best so far."""

    def __init__(self, total: int, done: int, name: str, lower: bool) -> None:
        self.total, self.done, self.name, self.lower = total, done, name, lower
        self.best: float | None = None
        self.bar: Any = None

    def __enter__(self) -> Callable[[float | None], None]:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("tuning"), BarColumn(), MofNCompleteColumn(),
                TextColumn("{task.description}", markup=False), TimeRemainingColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self.bar.start()
            self.bar.add_task("", total=self.total, completed=self.done)
        return self.advance

    def advance(self, value: float | None) -> None:
        better = min if self.lower else max
        if value is not None:
            self.best = value if self.best is None else better(self.best, value)
        if self.bar is not None:
            text = "" if self.best is None else f"best {self.name} {self.best:.4f}"
            self.bar.update(self.bar.task_ids[0], advance=1, description=text)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def collect_rows(study: Study) -> tuple[TrialRow, ...]:
    """The finished trials of a study, by place."""
    words = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
    rows = []
    for place, trial in enumerate(list_counted(study)):
        if trial.state.name in words:
            lasted = trial.duration.total_seconds() if trial.duration is not None else 0.0
            reported = trial.intermediate_values
            value = {"COMPLETE": trial.value, "PRUNED": reported[max(reported)] if reported else None}
            state, error = words[trial.state.name], str(trial.user_attrs.get(ERROR, ""))
            params = dict(trial.params)
            rows.append(TrialRow(place, value.get(trial.state.name), params, state, round(lasted, 3), error))
    return tuple(rows)
