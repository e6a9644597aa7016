"""Models of the places study: what each is, and its cell: trained once, its ranks on the test kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import Floats, keep_cell, keep_old_names, plain_value
from placings.data import RankingData
from placings.evaluation import list_versions, weigh_positives
from placings.logs import find_offsets
from placings.metrics import mrr
from placings.rankers import Ranker
from placings.studies.places_measures import find_ranks
from placings.studies.places_parts import THESIS, TREES, FeatureData, Parts
from placings.studies.places_settings import GRIDS, StudySettings

FORMAT = 2  # past clicks stand as at the end of training; the default is judged as served
ENGINE, RANKSVM, LINEAR, DEEP, GROUPWISE = "engine", "RankSVM", "neural linear", "neural deep", "groupwise"
BINARY = ("rank:map",)  # objectives that take labels 0 and 1 only
CURVE = 200  # points of a training curve
VARIANTS = {  # Table 6.3: short name → preset, and how the table calls it
    "linear": ("thesis-linear-sigmoid", "Linear (sigmoid)"),
    "deep": ("thesis-fc-64-32-16-dropout-80", "FC-64-32-16, 80 % dropout"),
    "32": ("thesis-fc-32", "FC-32, 80 % dropout"),
    "groupwise": ("thesis-fc-512-256-32-groupwise", "FC-512-256-32, groupwise of 5"),
    "512": ("thesis-fc-512-256-32", "FC-512-256-32"),
    "tanh": ("thesis-fc-512-256-32-tanh", "FC-512-256-32, tanh"),
    "64": ("thesis-fc-64-32-16", "FC-64-32-16"),
    "mrr": ("thesis-fc-512-256-32-approx-mrr", "FC-512-256-32, approximate MRR loss"),
    "relu": ("thesis-linear-relu", "Non-linear (ReLU), no hidden layer"),
}


@dataclass
class StudyCells:
    """Where cells are made and kept; `say` tells how far the run is."""

    parts: Parts
    settings: StudySettings
    feature_data: FeatureData
    folder: Path | None
    progress: bool = False
    versions: Mapping[str, str] = field(default_factory=list_versions)
    begun: float = field(default_factory=time.perf_counter)

    def keep(
        self,
        name: str,
        about: Mapping[str, Any],
        make: Callable[[], dict[str, Any]],
        stands: Callable[[Mapping[str, Any]], bool] = lambda cell: True,
    ) -> dict[str, Any]:
        """A cell, keyed by the rows, how they are cut, what it is about, and the libraries' versions.

        One that was kept is made anew if it no longer `stands`.
        """
        asked = {key: getattr(self.settings, key) for key in ("shares", "split", "seed", "pool", "list_size")}
        key = {
            "format": FORMAT, "rows": self.parts.digest, "cut": asked, "name": name,
            "about": plain_value(about), "versions": dict(self.versions),
        }  # fmt: skip
        fresh: list[float] = []

        def work() -> dict[str, Any]:
            began = time.perf_counter()
            found = make()
            fresh.append(time.perf_counter() - began)
            return found

        found = keep_cell(self.folder, name, key, work, stands)
        self.say(f"{name}: {f'{fresh[0]:.1f} s' if fresh else 'kept from before'}")
        return found

    def say(self, text: str) -> None:
        """One line on stderr, if wanted."""
        if self.progress:
            print(f"[{time.perf_counter() - self.begun:7.1f} s] {text}", file=sys.stderr, flush=True)

    def judge(
        self,
        name: str,
        family: str,
        ranker: Ranker,
        *,
        watch: bool = True,
        positive_weight: float | None = None,
        hidden: bool = False,
        binary: bool = False,
    ) -> dict[str, Any]:
        """The cell of a model: its ranks on the test, with `hidden` also where no user shares a position.

        `watch` gives the validation part to `fit`; it is scored in either case. `binary` trains on whether
        there was a click at all, for objectives that know no grades.
        """
        about = {
            "features": self.feature_data.describe(family), "ranker": type(ranker).__name__,
            "settings": ranker.get_params(deep=False), "hidden": hidden, "watch": watch,
            "positive_weight": positive_weight, "binary": binary,
        }  # fmt: skip

        def make() -> dict[str, Any]:
            train, valid = self.feature_data.data(family, "train"), self.feature_data.data(family, "valid")
            if positive_weight is not None:
                train = weigh_positives(train, positive_weight)
            if binary:
                train, valid = forget_grades(train), forget_grades(valid)
            began = time.perf_counter()
            ranker.fit(train, valid=valid) if watch else ranker.fit(train)
            took = time.perf_counter() - began
            test = self.feature_data.data(family, "test")
            found = self.rank(np.asarray(ranker.predict(test), dtype=np.float64))
            found |= {"valid": measure_mrr(ranker, valid), "seconds": round(took, 2), **describe_fit(ranker)}
            if hidden:
                blind = self.feature_data.make(family, self.feature_data.rows(family, "hidden"))
                found["hidden"] = self.rank(np.asarray(ranker.predict(blind), dtype=np.float64))
            return found

        return self.keep(name, about, make)

    def rank(self, scores: Floats) -> dict[str, Any]:
        """Ranks of the clicked and of the true item of each test search; 0 where there is none."""
        rows, offsets = self.parts.test, find_offsets(self.parts.test)
        found: dict[str, Any] = {"true": None}
        for name, column in (("clicks", "label"), ("true", "is_target")):
            if column in rows:
                found[name] = find_ranks(scores, rows[column].to_numpy(dtype=np.float64), offsets)
        return found


def judge_engine(store: StudyCells) -> dict[str, Any]:
    """The engine's own order."""
    return {**store.rank(-store.parts.test["position"].to_numpy(dtype=np.float64)), "seconds": 0.0}


def forget_grades(data: RankingData) -> RankingData:
    """The same data with label 1 for every grade above 0."""
    return data.replace(y=(data.y > 0).astype(data.y.dtype))


def make_tree(name: str, settings: StudySettings, given: Mapping[str, Any]) -> Ranker:
    """An unfitted ranker of one of the three libraries as the thesis uses them: without the engine's bias.

    `rounds` in `given` multiplies the settings' number.
    """
    from placings.rankers import CatBoostRanker, LightGBMRanker, XGBoostRanker

    kinds: dict[str, Any] = {
        "XGBoost": XGBoostRanker, "LightGBM": LightGBMRanker, "CatBoost": CatBoostRanker,
    }  # fmt: skip
    params = {key: value for key, value in given.items() if key != "positive_weight"}
    rounds = settings.rounds if name == "LightGBM" else settings.slow_rounds
    params["rounds"] = round(rounds * float(given.get("rounds", 1.0)))
    if name == "LightGBM":
        params["debias"] = False
    early = max(10, rounds // 4)
    made: Ranker = kinds[name](
        metric="mrr",
        early_stopping=early,
        learning_rate=settings.tree_rate,
        random_state=settings.seed,
        **params,
    )
    return made


def judge_tree(store: StudyCells, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A library with its defaults, and with the best values of its grid on the validation part.

    Values are tried one after the other, each on top of the best so far: `trials` of them at most.
    """
    base = store.judge(f"{name} default", TREES, make_tree(name, store.settings, {}), hidden=True)
    best = base
    chosen: dict[str, Any] = {}
    for trial in GRIDS[name][: store.settings.trials]:
        values = _merge(chosen, trial)
        cell = store.judge(
            f"{name} {_name_values(values)}", TREES, make_tree(name, store.settings, values),
            positive_weight=values.get("positive_weight"), hidden=name == "LightGBM",
            binary=values.get("objective") in BINARY,
        )  # fmt: skip
        if cell["valid"] > best["valid"]:
            best, chosen = cell, values
    return base, {**best, "parameters": chosen}


def judge_ranksvm(store: StudyCells) -> dict[str, Any]:
    """RankSVM on all hashed columns."""
    from placings.rankers import LinearRanker

    return store.judge(RANKSVM, THESIS, LinearRanker("hinge", C=1.0, tol=1e-2), watch=False)


def judge_network(store: StudyCells, short: str) -> dict[str, Any]:
    """A network of Table 6.3 on all hashed columns: it sees no validation part and ends by steps alone."""
    from placings.rankers import NeuralRanker

    preset, title = VARIANTS[short]
    steps = store.settings.group_steps if short == "groupwise" else store.settings.steps
    ranker = NeuralRanker(
        preset=preset, transform="log1p", steps=steps, random_state=store.settings.seed, device="cpu",
        metric="mrr",
    )  # fmt: skip
    return {**store.judge(title, THESIS, ranker, watch=False), "title": title}


def measure_mrr(ranker: Ranker, data: RankingData) -> float:
    """The mean reciprocal rank of the first click."""
    return mean_mrr(np.asarray(ranker.predict(data), dtype=np.float64), data)


def mean_mrr(scores: Floats, data: RankingData) -> float:
    """The same for scores; 0 where nothing is judged."""
    values = mrr(scores, data.y, data.offsets, min_items=2)
    return float(np.nanmean(values)) if not np.isnan(values).all() else 0.0


def describe_fit(ranker: Any) -> dict[str, Any]:
    """How the training went: a curve of a network, rounds of trees."""
    history: Any = getattr(ranker, "history_", None)
    if hasattr(history, "gradient"):
        return {"curve": thin_curve(history.loss, history.gradient)}
    return {"rounds": int(ranker.rounds_)} if hasattr(ranker, "rounds_") else {}


def thin_curve(loss: list[float], gradient: list[float]) -> dict[str, list[float]]:
    """Step, loss and gradient norm as means of at most 200 stretches; step is a stretch's last.

    >>> thin_curve([4.0, 2.0], [1.0, 3.0])
    {'step': [1, 2], 'loss': [4.0, 2.0], 'gradient': [1.0, 3.0]}
    """
    if not loss:
        return {"step": [], "loss": [], "gradient": []}
    pieces = np.array_split(np.arange(len(loss)), min(CURVE, len(loss)))
    values, slopes = np.asarray(loss), np.asarray(gradient)
    return {
        "step": [int(piece[-1]) + 1 for piece in pieces],
        "loss": [float(values[piece].mean()) for piece in pieces],
        "gradient": [float(slopes[piece].mean()) for piece in pieces],
    }


def _merge(chosen: Mapping[str, Any], trial: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**chosen, **trial}
    if "params" in chosen and "params" in trial:
        merged["params"] = {**chosen["params"], **trial["params"]}
    return merged


def _name_values(values: Mapping[str, Any]) -> str:
    flat = {**{key: value for key, value in values.items() if key != "params"}, **values.get("params", {})}
    return " ".join(f"{key}={value}" for key, value in flat.items())


def describe_settings(settings: StudySettings) -> dict[str, Any]:
    """The settings as plain values."""
    return dict(plain_value(asdict(settings)))


__getattr__ = keep_old_names(__name__, {"Desk": "StudyCells"})
