"""What AutoRanker's fits on everything are worth: models of folds against one more that learns from all.

    python benchmarks/whole_fits.py
    python benchmarks/whole_fits.py --sets dev01,dev10 --stretch 1,2.2

A model of a fold learns from 70 % of the training queries (a fold is left out, an eighth of the rest stops
it early), and stops by few lists. For each made family and each of five tree rankers three such models are
fitted, and models on everything with as many rounds as the mean of theirs up to the best, times each number
of --stretch. Printed: NDCG@10 on 1,000 test queries of the mean of the three, of a model on everything, and
of both, each half; the mean over rankers by family, and over families with a 95 % interval of the difference.

The families for development alone, so that nothing is learnt about the final ones. One thread, one draw of
each family (`random_state=0`), seeds fixed. Queries without anything relevant are left out.

Needs placings[trees].
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import placings as pg
from placings.core import Cell, Floats, Grid, estimate_mean, render_grid
from placings.rankers import measure_spread
from placings.simulate import FAMILIES, make_family

FOLDS, USED, WATCHED = 5, 3, 1 / 8
RANKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "LightGBM": ("lightgbm", {"rounds": 600}),
    "CatBoost": ("catboost", {"loss": "QueryRMSE", "rounds": 600}),
    "CatBoost, shallow": (
        "catboost", {"loss": "QueryRMSE", "depth": 4, "l2_leaf_reg": 10.0, "rounds": 800},
    ),
    "XGBoost": ("xgboost", {"subsample": 0.8, "colsample": 0.7}),
    "XGBoost, small trees": (
        "xgboost", {"max_depth": 3, "subsample": 0.7, "colsample": 0.5, "reg_lambda": 10.0, "rounds": 600},
    ),
}  # fmt: skip


def score(ranker: Any, test: pg.RankingData) -> Floats:
    """Scores of the test rows, divided by how far they lie apart within a list."""
    scores: Floats = np.asarray(ranker.predict(test), dtype=np.float64)
    return scores / (measure_spread(scores, test.offsets) or 1.0)


def measure(family: str, ranker: str, stretches: Sequence[float]) -> list[float]:
    """NDCG@10 of the folds' mean; then, for each stretch, of a model on everything and of both."""
    drawn = make_family(family)
    train, test = drawn.train, drawn.test
    name, settings = RANKERS[ranker]
    rng = np.random.default_rng(17)
    parts = np.array_split(rng.permutation(train.n_queries), FOLDS)
    scores, rounds = [], []
    for fold in range(USED):
        rest = rng.permutation(np.concatenate([part for place, part in enumerate(parts) if place != fold]))
        watched = round(WATCHED * len(rest))
        made = pg.make_ranker(name, **settings, n_jobs=1, random_state=fold)
        made.fit(train[np.sort(rest[watched:])], valid=train[np.sort(rest[:watched])])
        scores.append(score(made, test))
        rounds.append(made.rounds_)
    folds = np.mean(scores, axis=0)
    folds = folds / (measure_spread(folds, test.offsets) or 1.0)

    def judge(blend: Floats) -> float:
        return float(np.nanmean(pg.ndcg(blend, test.y, test.offsets, k=10)))

    found = [judge(folds)]
    for stretch in stretches:
        longer = {**settings, "rounds": max(1, round(stretch * float(np.mean(rounds))))}
        whole = score(pg.make_ranker(name, **longer, n_jobs=1, random_state=100).fit(train), test)
        found += [judge(whole), judge(folds + whole)]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    development = [name for name, family in FAMILIES.items() if family.part == "development"]
    options.add_argument("--sets", default=",".join(development), help="families, with commas between them")
    options.add_argument("--rankers", default=";".join(RANKERS), help="with semicolons between them")
    options.add_argument("--stretch", default="1,1.6,2.2", help="numbers, with commas between them")
    chosen = options.parse_args(arguments)
    stretches = [float(each) for each in chosen.stretch.split(",")]
    heads = ["folds"] + [text for each in stretches for text in (f"whole × {each:g}", f"both × {each:g}")]
    rows: list[tuple[Cell, ...]] = []
    means = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family in chosen.sets.split(","):
            found = [measure(family, ranker, stretches) for ranker in chosen.rankers.split(";")]
            means.append(np.mean(found, axis=0))
            rows.append((Cell(family), *(Cell(f"{100 * value:.2f}") for value in means[-1])))
            print(family, *(f"{100 * value:.2f}" for value in means[-1]), flush=True)
    table = np.array(means)
    rows.append((Cell("mean"), *(Cell(f"{100 * value:.2f}") for value in table.mean(axis=0))))
    if len(table) > 1:
        apart = [estimate_mean(100.0 * (column - table[:, 0])) for column in table.T[1:]]
        shown = [f"{each.mean:+.2f} [{each.low:+.2f}, {each.high:+.2f}]".replace("-", "−") for each in apart]
        rows.append((Cell("minus folds"), Cell(""), *map(Cell, shown)))
    print()
    print(render_grid(Grid(("NDCG@10 in percent", *heads), tuple(rows)), "text"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
