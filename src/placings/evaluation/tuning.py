"""`tune`: the best parameters of a ranker, searched over query folds or on validation data."""

from __future__ import annotations

import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import (
    BadInput,
    MissingExtra,
    PlacingsError,
    UnknownName,
    check_count,
    check_limit,
    show_progress,
    write_text,
)
from placings.data import RankingData, find_clusters, name_units
from placings.evaluation.debiasing import check_propensity
from placings.evaluation.runs import fingerprint
from placings.evaluation.spaces import (
    apply_values,
    count_grid,
    describe_space,
    find_space,
    own_values,
    widen_space,
)
from placings.evaluation.storage import (
    ERROR,
    Planner,
    claim_trial,
    drop_dead,
    drop_trial,
    list_counted,
    open_study,
    quiet_optuna,
)
from placings.evaluation.trials import (
    Task,
    TrialJudge,
    TrialProcess,
    Workers,
    describe_error,
    weigh_positives,
)
from placings.metrics import AnyMetric
from placings.metrics import metric as as_metric
from placings.rankers import CLASSES, POSITIVE_WEIGHT, Ranker, Space, Value, find_choice, make_ranker

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

    def run(self, judge: TrialJudge) -> None:
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

    def run_together(self, judges: Sequence[TrialProcess]) -> None:
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

    def _run_thread(self, judge: TrialJudge) -> None:
        try:
            self.run(judge)
        except BaseException as error:
            self.fatal = error
            self.halted.set()

    def _judge(self, judge: TrialJudge, trial: Any, values: Mapping[str, Value]) -> None:
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


@contextmanager
def _show_trials(total: int, done: int, name: str, lower: bool) -> Iterator[Callable[[float | None], None]]:
    """A bar on stderr: trials done and the best so far; tell it each trial's value, None if it has none."""
    known: list[float] = []
    with show_progress("tuning", total) as bar:
        bar.begin(done)

        def advance(value: float | None) -> None:
            known.extend([] if value is None else [value])
            best = (min if lower else max)(known, default=None)
            bar.advance(note="" if best is None else f"best {name} {best:.4f}")

        yield advance


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


METHODS = ("tpe", "random", "grid")
UNCOUNTED = ("n_jobs", "random_state", "verbose")  # parameters that may differ when a study is resumed


class AllTrialsFailed(PlacingsError):
    """No trial of a search could be judged."""


@dataclass(frozen=True, repr=False)
class Tuning:
    """What a search found; `best_ranker()` is the ranker to fit, `trials` are its rows."""

    ranker: Ranker
    metric: str
    maximize: bool
    empty: str
    method: str
    space: Space
    seed: int
    study: str
    trials: tuple[TrialRow, ...] = field(default=())
    group: str | None = None  # the segment whose users or sessions the folds keep whole

    @property
    def best(self) -> TrialRow:
        """The best complete trial, the first of equals."""
        done = [row for row in self.trials if row.state == "complete" and row.value is not None]
        sign = 1.0 if self.maximize else -1.0
        return max(done, key=lambda row: (sign * float(row.value or 0.0), -row.number))

    @property
    def best_params(self) -> dict[str, Value]:
        """The tuned parameters and their best values."""
        return dict(self.best.params)

    @property
    def best_value(self) -> float:
        """The mean of the metric over held-out queries in the best trial."""
        return float(self.best.value or 0.0)

    def best_ranker(self) -> Ranker:
        """An unfitted ranker with the best parameters."""
        return apply_values(self.ranker, self.best_params)

    def fit(self, train: RankingData, *, valid: RankingData | None = None) -> Ranker:
        """The best ranker fitted on `train`, its rows weighted if `positive_weight` was tuned."""
        weight = self.best_params.get(POSITIVE_WEIGHT)
        data = train if weight is None else weigh_positives(train, float(weight))
        return self.best_ranker().fit(data, valid=valid)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the best trial, how it was searched, and every trial."""
        return {
            "ranker": type(self.ranker).__name__,
            "best_params": self.best_params,
            "best_value": self.best_value,
            "metric": self.metric,
            "empty": self.empty,
            "method": self.method,
            "seed": self.seed,
            "study": self.study,
            **({} if self.group is None else {"group": self.group}),
            "space": describe_space(self.space),
            "trials": [{**vars(row), "params": dict(row.params)} for row in self.trials],
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)

    def to_yaml(self) -> str:
        """The best ranker with all its settings, as `placings fit --config` and `tune --config` read it."""
        import yaml

        ranker = self.best_ranker()
        settings, left_out = _list_settings(ranker)
        kind = type(ranker).__name__
        seed = ranker.get_params(deep=False).get("random_state")
        facts: dict[str, Any] = {
            "ranker": find_choice(kind, settings) if kind in CLASSES else kind,
            "seed": self.seed if seed is None else int(seed),
        }
        if POSITIVE_WEIGHT in self.best_params:
            facts[POSITIVE_WEIGHT] = self.best_params[POSITIVE_WEIGHT]
        notes = [f"# {self.metric} {self.best_value:.6f} in trial {self.best.number} of {len(self.trials)}"]
        notes += [f"# {name} is left out: a file cannot hold it" for name in left_out]
        text = yaml.safe_dump({**facts, "set": settings}, sort_keys=False, allow_unicode=True)
        return "\n".join([*notes, str(text)])

    def save(self, path: str | Path) -> Path:
        """Write `best.json` (everything) and `best.yaml` (the best ranker and its settings) into a folder.

        Each file appears whole or not at all.
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "best.json", self.to_json() + "\n")
        write_text(folder / "best.yaml", self.to_yaml())
        return folder

    def table(self, first: int | None = 10) -> str:
        """The best trials, best first, as lines of text."""
        sign = -1.0 if self.maximize else 1.0
        done = [row for row in self.trials if row.state == "complete"]
        rows = sorted(done, key=lambda row: (sign * float(row.value or 0.0), row.number))[:first]
        names = list(self.space)
        cells = [["trial", self.metric, "seconds", *names]]
        for row in rows:
            shown = [_shorten(row.params[name]) if name in row.params else "·" for name in names]
            cells.append([str(row.number), f"{row.value:.4f}", f"{row.seconds:.1f}", *shown])
        widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
        )

    def summary(self) -> str:
        """One sentence: how many trials there were and how they ended."""
        states = [row.state for row in self.trials]
        parts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        dealt = "" if self.group is None else f", folds of whole {name_units(self.group)}"
        rule = "queries without a click count as 0" if as_metric(self.metric).ips else f"empty={self.empty!r}"
        how = f"method {self.method}, seed {self.seed}, {rule}{dealt}"
        return f"{len(states)} trials ({parts}), {how}"

    def __repr__(self) -> str:
        return f"Tuning of {type(self.ranker).__name__}: {self.summary()}\n{self.table()}"


def tune(
    ranker: Ranker | str,
    train: RankingData,
    valid: RankingData | None = None,
    *,
    trials: int | None = 50,
    method: str = "tpe",
    space: str | Mapping[str, Any] | None = None,
    folds: int = 3,
    metric: AnyMetric = "ndcg@10",
    storage: str | Path | None = None,
    study: str | None = None,
    workers: int = 1,
    timeout: float | None = None,
    prune: bool = True,
    progress: bool = False,
    random_state: int | None = None,
    empty: str = "drop",
    group: str | None = "auto",
) -> Tuning:
    """Search for the parameters with the best mean of `metric` over held-out queries.

    A trial is judged on `valid`, or without it over `folds` query folds of `train`: the mean is over all
    held-out queries, those with nothing relevant counted as `empty` says (as 0 by a metric that ends in
    `:ips`, which needs the propensity of the data). `metric` may be a function of your own.
    Folds keep the queries of one user
    (segment `user_id`) or session (`session_id`) together, where the data know them; `group` names another
    segment, "query" deals out single queries. `method` is "tpe" (Optuna's
    default), "random" or "grid" (all combinations in a seeded order, or the first `trials` of them). TPE
    and random search begin with the ranker's own values. `space` is a preset's name or a mapping; see
    `spaces`. After each fold but the last a trial below the median of the others there is pruned.

    `storage` (a path to an SQLite file, or an Optuna URL) keeps the trials. The same call then resumes:
    `trials` is the total wanted, so a call that was stopped does what is missing and a finished one does
    nothing. Other data, space, metric or folds are refused under the same `study` name. Several processes
    may work on one storage; `workers` starts that many.

    With one worker the same `random_state` gives the same trials, resumed or not. With several, "random"
    and "grid" try the same values; what TPE tries and what is pruned depends on who finishes first. A
    trial that raises an error is recorded with its message and skipped; if all do, that is an error.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(12, random_state=0).data
    >>> found = tune("ridge", data, trials=3, random_state=0)
    >>> len(found.trials), list(found.best_params)
    (3, ['C'])
    """
    start = make_ranker(ranker) if isinstance(ranker, str) else ranker
    _check(start, train, valid, trials, method, folds, workers)
    chosen = as_metric(metric)
    if not chosen.ips:  # those count a query without a click as 0
        chosen = as_metric(chosen, empty=empty)
    check_propensity([chosen], train if valid is None else valid)
    plain = find_space(start, space)
    own = {} if method == "grid" else own_values(start, plain)
    wide = widen_space(plain, own)
    wanted = _count_wanted(trials, method, wide, timeout)
    key = {
        "ranker": type(start).__name__,
        "settings": _plain_settings(start, wide),
        "space": describe_space(wide),
        "method": method,
        "metric": str(chosen),
        "empty": empty,
        "folds": None if valid is not None else folds,
        "train": fingerprint(train),
        "valid": None if valid is None else fingerprint(valid),
    }
    clusters = None if valid is not None else find_clusters(train, group)
    if clusters is not None:
        key["group"] = clusters.by
    with quiet_optuna() as optuna, ExitStack() as stack:
        lower = chosen.lower_is_better
        opened, seed = open_study(storage, study, key, maximize=not lower, seed=random_state)
        opened.pruner = optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner()
        if "random_state" in start.get_params(deep=False) and start.get_params()["random_state"] is None:
            start = apply_values(start, {"random_state": seed})
        drop_dead(opened)
        task = Task(
            start, train, valid, folds, str(chosen), empty, seed, None if clusters is None else clusters.by
        )
        missing = wanted - len(list_counted(opened))
        search = Search(opened, Planner(method, wide, own, seed), wanted, task.steps, timeout)
        if progress and missing > 0:
            search.say = stack.enter_context(_show_trials(wanted, wanted - missing, str(chosen), lower))
        if missing > 0 and workers > 1:
            search.run_together(stack.enter_context(Workers(task, min(workers, missing))))
        elif missing > 0:
            search.run(task)
        rows = collect_rows(opened)
        found = Tuning(
            start, str(chosen), not lower, empty, method, wide, seed, opened.study_name, rows,
            None if clusters is None else clusters.by,
        )  # fmt: skip
    if not any(row.state == "complete" for row in rows):
        raise AllTrialsFailed(_describe_failure(start, rows))
    return found


def _check(
    ranker: object, train: object, valid: object, trials: object, method: str, folds: int, workers: int
) -> None:
    if not isinstance(ranker, Ranker):
        raise BadInput(f"tune takes an unfitted ranker or the name of one. Got {type(ranker).__name__}.")
    for name, data in (("train", train), ("valid", valid)):
        if not isinstance(data, RankingData) and not (name == "valid" and data is None):
            raise BadInput(f"{name} must be a RankingData. Got {type(data).__name__}.")
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if trials is not None:
        check_count("trials", trials, least=1)
    check_count("folds", folds, least=2)
    check_count("workers", workers, least=1)
    check_limit("jobs", workers, "workers")


def _count_wanted(trials: int | None, method: str, space: Space, timeout: float | None) -> int:
    """How many trials there are to be: never more than a grid has, one if there is nothing to tune."""
    if not space:
        return 1
    if method == "grid":
        return min(count_grid(space), trials or count_grid(space))
    if trials is None and timeout is None:
        raise BadInput("without a number of trials there must be a timeout. Give trials=50 or timeout=600.")
    return trials or sys.maxsize


def _plain_settings(ranker: Ranker, space: Space) -> dict[str, str]:
    """The parameters that are not tuned, as text, so that any object can be part of a key."""
    settings = ranker.get_params(deep=True)
    return {name: repr(settings[name]) for name in sorted(settings) if name not in {*space, *UNCOUNTED}}


def _list_settings(ranker: Ranker) -> tuple[dict[str, Any], list[str]]:
    """A ranker's settings as plain values, and the names of those that are none.

    What the machine decides is left out (threads, progress), and the seed, which stands for itself; so is
    what was not set and is None by default.
    """
    defaults = {name: each.default for name, each in inspect.signature(type(ranker)).parameters.items()}
    found, left_out = {}, []
    for name, value in ranker._plain_params().items():
        if name in (*UNCOUNTED, "checkpoint") or (value is None and defaults.get(name) is None):
            continue
        try:
            found[name] = json.loads(json.dumps(value.item() if hasattr(value, "item") else value))
        except (TypeError, ValueError):
            left_out.append(name)
    return found, left_out


def _describe_failure(ranker: Ranker, rows: tuple[TrialRow, ...]) -> str:
    if not rows:
        return "no trial was finished in the time given. Give a longer timeout."
    pruned = sum(row.state == "pruned" for row in rows)
    said = next((row.error for row in rows if row.error), "no message")
    return (
        f"none of the {len(rows)} trials of {type(ranker).__name__} was completed ({pruned} pruned). "
        f"The first that failed said: {said.rstrip('.')}. Fix that, and give a new study name if you use "
        "a storage."
    )


def _shorten(value: Value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
