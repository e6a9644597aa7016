"""Raw real data: networks and ridge over transforms, the mixture, LightGBM and CatBoost.

    python benchmarks/transforms.py [--out out/transforms] [--workers 2] [--sets mslr,ohsumed,wikitables]
    python benchmarks/transforms.py --methods ridge-log1p,ridge-quantile_normal  # a minute

Sets are the MSLR sample (train and vali), OHSUMED-min and WikiTables of $PLACINGS_DATA (default
../shared/data). Five folds by query. In fold i, part i is the test, part i + 1 what early stopping watches,
the rest trains. Neural rankers: preset "default", three seeds, once as they are and, for the mixture, once
tuned. LightGBM, CatBoost and the tuned mixture get 20 trials of `placings.tune` each, on the training and
validation parts of the first fold; what was found is then fixed for all folds. `ridge-TRANSFORM` is the
simple baseline: the transform is fitted on the training part, and a `LinearRanker("ridge")` takes its C
(0.001 to 1,000) from the part that early stopping watches. Nothing of it is random, so it has one seed. Every
cell is a file in --out: a run that was stopped goes on, and methods may be added later.

Needs the sets in `$PLACINGS_DATA/ltr`; without them it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import placings as pg
from placings.core import adjust_holm
from placings.transforms import make_transform

FOLDS, SEEDS, TRIALS = 5, 3, 20
SINGLES = ("raw", "gauss", "cdf", "log1p")
TREES = ("lightgbm", "catboost")
RIDGES = ("ridge-gauss", "ridge-cdf", "ridge-log1p", "ridge-quantile_normal")
CS = tuple(10.0**power for power in range(-3, 4))
METRICS = ("ndcg@5", "ndcg@10")
DATA = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "ltr"


def read_set(name: str) -> pg.RankingData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "mslr":
            return pg.concat([pg.read(DATA / "mslr_sample" / f"{part}.txt.gz") for part in ("train", "vali")])
        if name == "ohsumed":
            return pg.concat([pg.read(DATA / "ohsumed/Feature-min" / f"S{i}.txt.gz") for i in range(1, 6)])
        return pg.read(DATA / "wikitables/features.csv.gz", qid="query_id", label="rel")


def cut(data: pg.RankingData, fold: int) -> tuple[pg.RankingData, pg.RankingData, pg.RankingData]:
    order = np.random.default_rng(2026).permutation(data.n_queries)
    parts = [np.sort(order[i::FOLDS]) for i in range(FOLDS)]
    rest = np.sort(np.concatenate([parts[(fold + i) % FOLDS] for i in range(2, FOLDS)]))
    return data[rest], data[parts[(fold + 1) % FOLDS]], data[parts[fold]]


def make(method: str, seed: int, settings: dict[str, Any]) -> Any:
    if method in TREES:
        kind = pg.LightGBMRanker if method == "lightgbm" else pg.CatBoostRanker
        return kind(random_state=seed, n_jobs=1, **settings)
    transform = "mixture" if method.startswith("mixture") else method
    return pg.NeuralRanker(transform=transform, random_state=seed, device="cpu", **settings)


def count_seeds(method: str) -> int:
    return 1 if method in RIDGES else SEEDS


def score_ridge(
    transform: str, train: pg.RankingData, valid: pg.RankingData, test: pg.RankingData
) -> np.ndarray:
    """Scores of a ridge over one transform: both fitted on train, C by NDCG@5 on valid."""
    fitted = make_transform(transform).fit(train)
    train, valid, test = (fitted.transform_data(part) for part in (train, valid, test))
    rankers = [pg.LinearRanker("ridge", C=C).fit(train) for C in CS]
    ndcg = pg.metric("ndcg@5")
    watched = [np.nanmean(ndcg(ranker.predict(valid), valid.y, valid.offsets)) for ranker in rankers]
    return np.asarray(rankers[int(np.argmax(watched))].predict(test))


def tune_method(name: str, method: str, out: Path) -> dict[str, Any]:
    """Settings found on training and validation parts of the first fold."""
    kept = out / f"{name}-{method}-settings.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    train, valid, _ = cut(read_set(name), 0)
    found = pg.tune(make(method, 0, {}), train, valid, metric="ndcg@5", trials=TRIALS, random_state=0)
    kept.write_text(json.dumps(found.best_params))
    return dict(found.best_params)


def run_cell(name: str, method: str, fold: int, seed: int, out: Path) -> None:
    path = out / f"{name}-{method}-{fold}-{seed}.json"
    if path.exists():
        return
    os.environ.update(PLACINGS_THREADS="1", OMP_NUM_THREADS="1")
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tuned = method in TREES or method == "mixture-tuned"
    settings = json.loads((out / f"{name}-{method}-settings.json").read_text()) if tuned else {}
    train, valid, test = cut(read_set(name), fold)
    if method in RIDGES:
        scores = score_ridge(method.removeprefix("ridge-"), train, valid, test)
    else:
        scores = make(method, seed, settings).fit(train, valid=valid).predict(test)
    values = {m: pg.metric(m)(scores, test.y, test.offsets).tolist() for m in METRICS}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(values))
    part.replace(path)
    print(f"{path.name} {np.nanmean(values['ndcg@5']):.4f}", flush=True)


def gather(name: str, method: str, out: Path, metric: str) -> np.ndarray:
    """One value a query, the mean over seeds; folds one after the other."""
    return np.concatenate(
        [
            np.mean(
                [
                    json.loads((out / f"{name}-{method}-{f}-{s}.json").read_text())[metric]
                    for s in range(count_seeds(method))
                ],
                axis=0,
                dtype=float,
            )
            for f in range(FOLDS)
        ]
    )


def flip_pooled(differences: list[np.ndarray], draws: int = 20_000) -> tuple[float, float]:
    """The mean over sets of the mean difference, and its p by sign flips of queries within each set."""
    rng = np.random.default_rng(0)
    kept = [d[~np.isnan(d)] for d in differences]
    seen = float(np.mean([d.mean() for d in kept]))
    null = np.mean([(rng.choice([-1.0, 1.0], (draws, len(d))) * d).mean(axis=1) for d in kept], axis=0)
    return seen, float((1 + (np.abs(null) >= abs(seen) - 1e-12).sum()) / (draws + 1))


def measure_error(differences: list[np.ndarray]) -> float:
    """The standard error of the mean over sets of the mean difference, queries drawn within each set."""
    kept = [d[~np.isnan(d)] for d in differences]
    return float(np.sqrt(np.sum([d.var() / len(d) for d in kept])) / len(kept))


def pick_pairs(methods: list[str]) -> list[tuple[str, str]]:
    """What is compared: transforms with raw, the mixture with all others, as tuned with trees and ridge."""
    pairs = [(a, "raw") for a in ("gauss", "cdf", "log1p", "mixture")]
    pairs += [("mixture", b) for b in methods if b not in ("mixture", "raw")]
    pairs += [("mixture-tuned", b) for b in (*TREES, *RIDGES)]
    return [(a, b) for a, b in pairs if a in methods and b in methods]


def show(sets: list[str], methods: list[str], out: Path) -> None:
    for metric in METRICS:
        values = {m: [gather(s, m, out, metric) for s in sets] for m in methods}
        print(f"\n{metric}, percent; empty queries left out; {SEEDS} seeds averaged first (ridge: 1)")
        print(f"{'':22s}" + "".join(f"{s:>14s}" for s in sets) + f"{'mean':>9s}")
        for m in methods:
            means = [100 * np.nanmean(v) for v in values[m]]
            errors = [100 * np.nanstd(v) / np.sqrt((~np.isnan(v)).sum()) for v in values[m]]
            cells = "".join(f"{a:8.2f} ±{1.96 * e:4.1f}" for a, e in zip(means, errors, strict=True))
            print(f"{m:22s}{cells}{np.mean(means):9.2f}")
        pairs = pick_pairs(methods)
        differences = {(a, b): [x - y for x, y in zip(values[a], values[b], strict=True)] for a, b in pairs}
        found = [flip_pooled(differences[pair]) for pair in pairs]
        holm = adjust_holm(np.array([p for _, p in found]))
        for pair, (seen, p), adjusted in zip(pairs, found, holm, strict=True):
            width = 1.96 * measure_error(differences[pair])
            each = [flip_pooled([difference]) for difference in differences[pair]]
            apart = "  ".join(f"{s} {100 * d:+.2f} (p {q:.3f})" for s, (d, q) in zip(sets, each, strict=True))
            print(
                f"{pair[0]} − {pair[1]}: {100 * seen:+.2f} ± {100 * width:.2f} pooled, "
                f"p {p:.4f}, Holm over {len(pairs)} {adjusted:.4f};  {apart}"
            )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--out", type=Path, default=Path("out/transforms"))
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--sets", default="mslr,ohsumed,wikitables")
    options.add_argument(
        "--methods", default=",".join((*SINGLES, "mixture", *TREES, "mixture-tuned", *RIDGES))
    )
    options.add_argument("--only-show", action="store_true")
    chosen = options.parse_args()
    if not DATA.is_dir() and not chosen.only_show:
        print(f"skipped: {DATA} is not there. Set PLACINGS_DATA to the folder that holds ltr/.")
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    sets, methods = chosen.sets.split(","), chosen.methods.split(",")
    if not chosen.only_show:
        tuned = [m for m in methods if m in TREES or m == "mixture-tuned"]
        with ProcessPoolExecutor(chosen.workers) as pool:
            waiting = [pool.submit(tune_method, s, m, chosen.out) for m in tuned for s in sets]
            plain = [m for m in methods if m not in tuned]
            waiting += [
                pool.submit(run_cell, s, m, f, seed, chosen.out)
                for seed in range(SEEDS) for f in range(FOLDS) for s in sets for m in plain
                if seed < count_seeds(m)
            ]  # fmt: skip
            for future in waiting:
                future.result()
            for future in [
                pool.submit(run_cell, s, m, f, seed, chosen.out)
                for seed in range(SEEDS) for f in range(FOLDS) for s in sets for m in tuned
            ]:  # fmt: skip
                future.result()
    show(sets, methods, chosen.out)


if __name__ == "__main__":
    main()
