"""The study that trials are kept in: opened or resumed, guarded against other data, counted exactly.

A trial's place is its rank among the trials that were not dropped; the place, not the clock, seeds what
is tried there. A trial whose process was killed is dropped, and the next one takes its place: a search
that was stopped and resumed goes the same way as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, need_library, option
from placings.evaluation.spaces import count_grid
from placings.rankers import Float, Int, Space, Value

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

KEY, OWNER, DROPPED, ERROR = "placings", "placings_owner", "placings_dropped", "placings_error"
LARGEST_GRID = 5_000_000
STALE = 24 * 3600.0  # seconds after which a trial of another machine counts as dead


def need_optuna() -> Any:
    """Optuna, or an error that says how to get it."""
    return need_library("optuna", "tuning", "tune")


@contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Optuna without its line a trial, which it says again afterwards if it did before."""
    optuna = need_optuna()
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.ERROR))
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(level)


def open_study(
    storage: str | Path | None, name: str | None, key: Mapping[str, Any], *, maximize: bool, seed: int | None
) -> tuple[Study, int]:
    """The study of this name with these facts, new or resumed, and the seed it runs on.

    Without a name it is called after its key, so other data or another space make another study.
    """
    optuna = need_optuna()
    facts = json.loads(json.dumps({**key, "seed": seed}))
    if name is None:
        name = f"{key['ranker']}-{hashlib.blake2b(json.dumps(facts).encode(), digest_size=6).hexdigest()}"
    study: Study = optuna.create_study(
        storage=None if storage is None else _connect(storage),
        study_name=name,
        direction="maximize" if maximize else "minimize",
        load_if_exists=True,
    )
    stored = study.user_attrs.get(KEY)
    if stored is None:
        if study.get_trials(deepcopy=False):
            raise BadInput(f"study {name!r} in {storage} was not made by placings. Give another name.")
        drawn = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        stored = {**facts, "seed": drawn}
        study.set_user_attr(KEY, stored)
    _refuse_other(name, storage, stored, {**facts, "seed": stored["seed"] if seed is None else seed})
    return study, int(stored["seed"])


def _connect(storage: str | Path) -> BaseStorage:
    optuna = need_optuna()
    text = str(storage)
    if "://" not in text:
        path = Path(text).expanduser().resolve()
        if path.exists() and path.read_bytes()[:16] not in (b"", b"SQLite format 3\0"):
            raise BadInput(f"storage must be an SQLite file of a study. Got {path}, which is something else.")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = f"sqlite:///{path}"
    options = {"connect_args": {"timeout": 60}} if text.startswith("sqlite") else {}
    opened: BaseStorage = optuna.storages.RDBStorage(text, engine_kwargs=options)
    return opened


def _refuse_other(name: str, storage: object, stored: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    other = [fact for fact in {**facts, **stored} if stored.get(fact) != facts.get(fact)]
    if other:
        shown = "; ".join(
            f"{fact} was {_sketch(stored.get(fact))}, is {_sketch(facts.get(fact))}" for fact in other
        )
        raise BadInput(
            f"study {name!r} in {storage} was made with something else: {shown}. Its trials cannot be "
            "compared with new ones. Give another study name or another storage."
        )


# -- counting trials --------------------------------------------------------------------------------


def list_counted(study: Study) -> list[FrozenTrial]:
    """The trials that count, by number; the place of one is its index here."""
    trials = study.get_trials(deepcopy=False)
    return sorted((t for t in trials if not t.user_attrs.get(DROPPED)), key=lambda trial: trial.number)


def drop_dead(study: Study) -> int:
    """Drop the trials whose process is gone; says how many."""
    optuna = need_optuna()
    dropped = 0
    for trial in study.get_trials(deepcopy=False):
        if trial.state == optuna.trial.TrialState.RUNNING and _is_dead(trial):
            drop_trial(study, trial)
            dropped += 1
    return dropped


def drop_trial(study: Study, trial: FrozenTrial | Trial) -> None:
    """Give a trial's place back: it is marked as failed and no longer counted."""
    optuna = need_optuna()
    study._storage.set_trial_user_attr(trial._trial_id, DROPPED, True)
    study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)


def claim_trial(study: Study, planner: Planner, wanted: int) -> tuple[Trial, int, dict[str, Value]] | None:
    """A new trial, its place and its values, or None when `wanted` are taken; never one too many.

    Numbers are given out by the storage, so of two processes that claim the last place at the same
    time one finds itself behind it, and withdraws.
    """
    expected = len(list_counted(study))
    if expected >= wanted:
        return None
    planner.seat(study, expected)
    trial = study.ask()
    trial.set_user_attr(OWNER, _own_mark())
    place = sum(other.number < trial.number for other in list_counted(study))
    if place >= wanted:
        drop_trial(study, trial)
        return None
    if place != expected:
        planner.seat(study, place)
    return trial, place, planner.suggest(trial, place)


def _own_mark() -> list[Any]:
    return [socket.gethostname(), os.getpid(), _process_start(os.getpid()), time.time()]


def _is_dead(trial: FrozenTrial) -> bool:
    mark = trial.user_attrs.get(OWNER)
    if mark is None:  # killed between asking and marking, or another process is right there
        started = trial.datetime_start
        return started is None or time.time() - started.timestamp() > 60.0
    host, pid, start, since = mark
    if host != socket.gethostname():
        return bool(time.time() - since > STALE)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is someone else's, so it lives
    return bool(_process_start(pid) != start)


def _process_start(pid: int) -> str:
    """When a process began, where /proc says it: a number that was given out again is another process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


# -- what is tried where ----------------------------------------------------------------------------


class Planner:
    """The values of the trial at each place: the ranker's own first, then what the method says."""

    def __init__(self, method: str, space: Space, own: Mapping[str, Value], seed: int) -> None:
        self.method, self.space, self.own, self.seed = method, space, own, seed
        self._order = self._shuffle() if method == "grid" else None

    def seat(self, study: Study, place: int) -> None:
        """Give the study the sampler of a place; before asking, and again if the place was another."""
        optuna = need_optuna()
        fixed = self._fixed(place)
        if fixed is not None:
            study.sampler = _fix_values(fixed)
            return
        draw = int(np.random.SeedSequence([self.seed, place]).generate_state(1)[0])
        kind = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}[self.method]
        study.sampler = kind(seed=draw)

    def suggest(self, trial: Trial, place: int) -> dict[str, Value]:
        """The values of a trial, as told to the study."""
        fixed = self._fixed(place)
        return {name: self._ask(trial, name) for name in (self.space if fixed is None else fixed)}

    def _fixed(self, place: int) -> dict[str, Value] | None:
        if self._order is not None:
            steps = [dimension.steps for dimension in self.space.values()]
            places = np.unravel_index(int(self._order[place]), [len(values) for values in steps])
            return {name: v[int(at)] for name, v, at in zip(self.space, steps, places, strict=True)}
        return dict(self.own) if place == 0 else None

    def _ask(self, trial: Trial, name: str) -> Value:
        dimension = self.space[name]
        if self._order is not None:
            options: Any = dimension.steps
            chosen: Value = trial.suggest_categorical(name, options)
            return chosen
        if isinstance(dimension, Float):
            return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
        if isinstance(dimension, Int):
            return trial.suggest_int(name, dimension.low, dimension.high, log=dimension.log)
        return trial.suggest_categorical(name, dimension.options)

    def _shuffle(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        total = count_grid(self.space)
        if total > LARGEST_GRID:
            raise BadInput(
                f"a grid must have at most {LARGEST_GRID:,} combinations. Got {total:,}. Leave parameters "
                f"out of the space, or use {option('method', value='random')}."
            )
        return np.random.default_rng(self.seed).permutation(total)


def _fix_values(values: Mapping[str, Value]) -> BaseSampler:
    from optuna.samplers import BaseSampler

    class Fixed(BaseSampler):
        """Gives the values it was told."""

        def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Any) -> dict[str, Any]:
            return {}

        def sample_independent(self, study: Study, trial: FrozenTrial, name: str, distribution: Any) -> Any:
            return values[name]

    return Fixed()


def _sketch(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:28]}…{text[-28:]}"
