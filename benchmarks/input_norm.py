"""Does batch norm on the input make Raw and Gauss the same? On/off × eps × precision, on the MSLR sample.

    python benchmarks/input_norm.py [--steps 400] [--seeds 3]

Five folds by query, NDCG@5 on the validation part of each. One network (64, 32), dropout 0.2, batch norm
before the hidden layers in every cell; what varies is the norm on the input, and eps everywhere. Printed too,
without training: how far the two inputs are apart after the norm, feature by feature.

Needs the sets in `$PLACINGS_DATA/ltr`; without them it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import placings as pg
from placings.training import RowNorm
from placings.transforms import make_transform

EPS = (1e-5, 1e-3, 1e-1)


def read_sample() -> pg.RankingData:
    root = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "ltr/mslr_sample"
    if not root.exists():
        print(f"skipped: {root} is not there. Set PLACINGS_DATA to the folder that holds ltr/.")
        sys.exit(0)
    return pg.concat([pg.read(root / f"{part}.txt.gz") for part in ("train", "vali")])


def compare_inputs(data: pg.RankingData) -> None:
    rows = torch.tensor(np.asarray(data.X))
    print("after the norm, |raw − gauss| (largest of a feature; median and largest over features)")
    for eps in EPS:
        for precision in (torch.float32, torch.bfloat16):
            out = []
            for name in ("raw", "gauss"):
                norm = RowNorm(rows.shape[1], eps=eps).train()
                with torch.no_grad():
                    out.append(norm(make_transform(name).fit(data).module()(rows)).to(precision).float())
            apart = (out[0] - out[1]).abs().amax(0).numpy()
            spread = np.asarray(data.X, dtype=np.float64).var(axis=0)
            small = int((spread < 100 * eps).sum())
            kind = str(precision).removeprefix("torch.")
            print(
                f"  eps {eps:g}, {kind:9s}: median {np.median(apart):.1e}, largest {apart.max():.1e}; "
                f"{int((apart > 0.1).sum())} features more than 0.1 apart; {small} of variance below 100 eps"
            )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--seeds", type=int, default=3)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    data = read_sample()
    compare_inputs(data)
    order = np.random.default_rng(2026).permutation(data.n_queries)
    parts = [np.sort(order[i::5]) for i in range(5)]
    print(f"NDCG@5 on the validation part, 5 folds × {chosen.seeds} seeds, {chosen.steps} steps, percent")
    cells = [(True, eps, p) for eps in EPS for p in ("float32", "bfloat16")]
    cells += [(False, 1e-3, p) for p in ("float32", "bfloat16")]
    for norm, eps, precision in cells:
        found: dict[str, list[float]] = {"raw": [], "gauss": []}
        for name, values in found.items():
            for fold in range(5):
                rest = np.sort(np.concatenate([parts[(fold + i) % 5] for i in range(2, 5)]))
                train, valid = data[rest], data[parts[(fold + 1) % 5]]
                per_query = []
                for seed in range(chosen.seeds):
                    ranker = pg.NeuralRanker(
                        transform=name, members=1, hidden=(64, 32), dropout=0.2, batch=16, norm_input=norm,
                        eps=eps, precision=precision, steps=chosen.steps, holdout=0.0,
                        random_state=seed, device="cpu", clip=1.0,
                    ).fit(train)  # fmt: skip
                    per_query.append(pg.ndcg(ranker.predict(valid), valid.y, valid.offsets, k=5))
                values += np.mean(per_query, axis=0).tolist()
        raw, gauss = np.array(found["raw"]), np.array(found["gauss"])
        apart = (gauss - raw)[~np.isnan(gauss - raw)]
        shown = "on " if norm else "off"
        print(f"  norm {shown} eps {eps:g} {precision:9s} raw {100 * np.nanmean(raw):5.2f}  gauss "
              f"{100 * np.nanmean(gauss):5.2f}  gauss − raw {100 * apart.mean():+.2f} ± "
              f"{196 * apart.std() / np.sqrt(len(apart)):.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
