"""Raw real data: single transforms, the mixture, LightGBM and CatBoost, on folds nothing was tuned on.

    python benchmarks/transforms.py [--out out/transforms] [--workers 2] [--sets mslr,ohsumed,wikitables]

Sets are the MSLR sample (train and vali), OHSUMED-min and WikiTables of $PLACINGS_DATA (default
../shared/data). Five folds by query. In fold i, part i is the test, part i + 1 what early stopping watches,
the rest trains. Neural rankers: preset "default", three seeds, once as they are and, for the mixture, once
tuned. LightGBM, CatBoost and the tuned mixture get 20 trials of `placings.tune` each, on the training and
validation parts of the first fold; what was found is then fixed for all folds. Every cell is a file in
--out: a run that was stopped goes on.
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
from placings.evaluation.significance import adjust_holm

FOLDS, SEEDS, TRIALS = 5, 3, 20
SINGLES = ("raw", "gauss", "cdf", "log1p")
TREES = ("lightgbm", "catboost")
METRICS = ("ndcg@5", "ndcg@10")


def read_set(name: str) -> pg.RankingData:
    root = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "ltr"
    if not root.exists():
        raise SystemExit(f"{root} is not there. Say where the data are with PLACINGS_DATA.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "mslr":
            return pg.concat([pg.read(root / "mslr_sample" / f"{part}.txt.gz") for part in ("train", "vali")])
        if name == "ohsumed":
            return pg.concat([pg.read(root / "ohsumed/Feature-min" / f"S{i}.txt.gz") for i in range(1, 6)])
        return pg.read(root / "wikitables/features.csv.gz", qid="query_id", label="rel")


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
    ranker = make(method, seed, settings).fit(train, valid=valid)
    scores = ranker.predict(test)
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
                    for s in range(SEEDS)
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


def show(sets: list[str], methods: list[str], out: Path) -> None:
    for metric in METRICS:
        values = {m: [gather(s, m, out, metric) for s in sets] for m in methods}
        print(f"\n{metric}, percent; queries with nothing relevant left out; {SEEDS} seeds averaged first")
        print(f"{'':16s}" + "".join(f"{s:>14s}" for s in sets) + f"{'mean':>9s}")
        for m in methods:
            means = [100 * np.nanmean(v) for v in values[m]]
            errors = [100 * np.nanstd(v) / np.sqrt((~np.isnan(v)).sum()) for v in values[m]]
            cells = "".join(f"{a:8.2f} ±{1.96 * e:4.1f}" for a, e in zip(means, errors, strict=True))
            print(f"{m:16s}{cells}{np.mean(means):9.2f}")
        pairs = [(a, "raw") for a in methods if a in ("gauss", "cdf", "log1p", "mixture")]
        pairs += [("mixture", b) for b in methods if b not in ("mixture", "raw")]
        pairs += [("mixture-tuned", b) for b in TREES if "mixture-tuned" in methods]
        found = [
            flip_pooled([x - y for x, y in zip(values[a], values[b], strict=True)])
            for a, b in pairs
            if a in values and b in values
        ]
        holm = adjust_holm(np.array([p for _, p in found]))
        for (a, b), (seen, p), adjusted in zip(pairs, found, holm, strict=True):
            each = [flip_pooled([x - y]) for x, y in zip(values[a], values[b], strict=True)]
            apart = "  ".join(f"{s} {100 * d:+.2f} (p {q:.3f})" for s, (d, q) in zip(sets, each, strict=True))
            print(f"{a} − {b}: {100 * seen:+.2f} pooled, p {p:.4f}, Holm {adjusted:.4f};  {apart}")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--out", type=Path, default=Path("out/transforms"))
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--sets", default="mslr,ohsumed,wikitables")
    options.add_argument("--methods", default=",".join((*SINGLES, "mixture", *TREES, "mixture-tuned")))
    options.add_argument("--only-show", action="store_true")
    chosen = options.parse_args()
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
