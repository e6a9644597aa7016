"""Cells of Table 1 (method × fold × seed): trained once, kept as a JSON file with the scores beside it."""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from placings.arrays import AnyArray, Floats
from placings.data.ranking import RankingData
from placings.data.streams import write_atomically
from placings.errors import PlacingsWarning
from placings.evaluation.rendering import plain_value, write_json
from placings.evaluation.runs import as_plain, write_text
from placings.metrics import ndcg
from placings.rankers.bundles import find_versions
from placings.rankers.estimator import Ranker
from placings.report.mixture_shares import gather_shares, measure_effects
from placings.studies.table1_entrants import Entrant
from placings.studies.table1_folds import Parts
from placings.training.plans import Diverged
from placings.transforms import Mixture

FORMAT = 1
CUTOFF = 5  # validation: NDCG@5, what the paper trains
NO_MATTER = ("device", "checkpoint", "checkpoint_every", "verbose", "n_jobs")  # settings that no key holds


@dataclass(frozen=True)
class Fold:
    """One fold's data and what their bytes hash to."""

    number: int
    parts: Parts
    prints: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What a cell left: facts for JSON, and the scores of the test rows."""

    facts: dict[str, Any]
    scores: Floats
    fresh: bool  # trained now, not read

    @property
    def valid(self) -> float:
        """The validation metric; NaN where the training diverged."""
        value = self.facts["valid"]
        return float("nan") if value is None else float(value)


@dataclass(frozen=True)
class Workshop:
    """Makes cells, or finds them in `folder`; None keeps nothing."""

    folder: Path | None
    keep: str  # "best" check on validation data, or the "last" step

    def make(
        self, entrant: Entrant, fold: Fold, seed: int, rate: float, *, may_diverge: bool = False
    ) -> Result:
        """The cell of these; with `may_diverge` a training that diverged is a result too (without scores)."""
        path = self._find_path(entrant, fold, seed, rate)
        rows = fold.parts[2].n_rows
        stored = _read_cell(path, rows)
        if stored is not None and (may_diverge or stored.facts["valid"] is not None):
            return stored
        checkpoint = None if path is None else path.with_suffix(".checkpoint")
        began = time.perf_counter()
        facts: dict[str, Any] = {
            "format": FORMAT, "method": entrant.name, "network": entrant.block, "fold": fold.number,
            "seed": seed, "lr": rate,
        }  # fmt: skip
        scores: Floats = np.zeros(0)
        try:
            ranker = self._fit(entrant, fold.parts, seed, rate, checkpoint)
        except Diverged as error:
            if not may_diverge:
                raise Diverged(
                    f"{entrant.name}, fold {fold.number}, seed {seed}, learning rate {rate:g}: {error} "
                    "Cells that are finished stay; give a lower lr, or settings such as clip=1.0, to go on."
                ) from error
            facts |= {"valid": None, "diverged": str(error)}
        else:
            scores = ranker.predict(fold.parts[2])
            facts |= {"valid": find_mean(ranker, fold.parts[1]), **_describe(ranker, fold.parts[0])}
        facts |= {"seconds": round(time.perf_counter() - began, 3), "checksum": _sum_up(scores)}
        if path is not None:
            _write_cell(path, facts, scores)
            scores = _load_scores(path)
            if checkpoint is not None:
                checkpoint.unlink(missing_ok=True)
        return Result(plain_value(facts), scores, fresh=True)

    def _fit(self, entrant: Entrant, parts: Parts, seed: int, rate: float, checkpoint: Path | None) -> Ranker:
        train, valid, _ = parts
        ranker: Any = clone(entrant.ranker)
        ranker.set_params(random_state=seed, **{entrant.rate: rate})
        watched: RankingData | None = valid
        if entrant.neural:
            ranker.set_params(checkpoint=None if checkpoint is None else str(checkpoint))
            if self.keep == "last":
                ranker.set_params(holdout=0.0)
                watched = None
        fitted: Ranker = ranker.fit(train, valid=watched)
        return fitted

    def _find_path(self, entrant: Entrant, fold: Fold, seed: int, rate: float) -> Path | None:
        if self.folder is None:
            return None
        params = entrant.ranker.get_params(deep=False)
        settings = {name: value for name, value in params.items() if name not in NO_MATTER}
        whole = [
            FORMAT, find_versions(), type(entrant.ranker).__name__, as_plain(settings), list(fold.prints),
            seed, rate, self.keep,
        ]  # fmt: skip
        key = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]
        short = re.sub(r"[^A-Za-z0-9]+", "_", f"{entrant.block}_{entrant.name}")[:40]
        return self.folder / f"{short}-fold{fold.number}-seed{seed}-lr{rate:g}-{key}.json"


def find_mean(ranker: Ranker, data: RankingData) -> float:
    """The mean NDCG@5 over queries with something relevant; 0 if there is none."""
    values = ndcg(ranker.predict(data), data.y, data.offsets, k=CUTOFF)
    return float(np.nanmean(values)) if not np.isnan(values).all() else 0.0


def _describe(ranker: Any, train: RankingData) -> dict[str, Any]:
    """What is worth keeping of a fitted ranker: how its training went, and what its mixture chose."""
    facts: dict[str, Any] = {}
    history: Any = getattr(ranker, "history_", None)
    if hasattr(history, "checks"):
        facts |= {"steps": len(history.loss), "best_step": history.best_step, "checks": history.checks}
        facts["device"] = str(next(ranker.network_.parameters()).device)
        facts["loss"] = history.loss[-1] if history.loss else None
    elif hasattr(ranker, "rounds_"):
        facts["rounds"] = ranker.rounds_
    if isinstance(getattr(ranker, "transform_", None), Mixture):
        facts["mixture"] = gather_shares(ranker).to_dict()
        facts["effects"] = measure_effects(ranker, train).to_dict()
    return facts


# -- files -----------------------------------------------------------------------------------------


def _write_cell(path: Path, facts: dict[str, Any], scores: Floats) -> None:
    """Scores first, then the facts with the scores' checksum: a cell without facts is not finished."""
    with write_atomically(path.with_suffix(".npy")) as part, open(part, "wb") as file:
        np.save(file, np.asarray(scores, dtype=np.float64), allow_pickle=False)
    write_text(path, write_json(facts) + "\n")


def _read_cell(path: Path | None, rows: int) -> Result | None:
    if path is None or not path.is_file():
        return None
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        scores = _load_scores(path)
        expected = rows if facts["valid"] is not None else 0
        whole = scores.shape == (expected,) and _sum_up(scores) == facts["checksum"]
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        whole = False
    if not whole:
        warnings.warn(
            f"{path} or its scores are damaged; the cell is made anew.", PlacingsWarning, stacklevel=3
        )
        return None
    return Result(facts, scores, fresh=False)


def _load_scores(path: Path) -> Floats:
    """Scores straight from the disk: a study of many cells does not hold them all."""
    file = path.with_suffix(".npy")
    if file.stat().st_size < 4096:  # an empty array cannot be mapped
        return np.asarray(np.load(file, allow_pickle=False))
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def _sum_up(scores: AnyArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(scores, dtype=np.float64).tobytes()).hexdigest()


def find_means(
    results: Sequence[Result], test: RankingData, metrics: Sequence[str]
) -> list[dict[str, float]]:
    """The mean of each metric for each cell by itself, empty queries dropped: how far seeds lie apart."""
    from placings.metrics.names import measure

    found = []
    for result in results:
        values = measure(list(metrics), result.scores, test.y, test.offsets, empty="drop")
        found.append(
            {
                name: float(np.nanmean(v)) if not np.isnan(v).all() else float("nan")
                for name, v in values.items()
            }
        )
    return found
