"""The paper's recipe on one GPU: its speed, its precision, and whether planted transforms are found.

    python benchmarks/gpu_training.py speed        # 100,000 steps in bfloat16: seconds, ms a step
    python benchmarks/gpu_training.py precision    # 3 seeds × 20,000 steps, bfloat16 against float32
    python benchmarks/gpu_training.py recovery     # planted and learned transforms, mixture and oracle

Data are generated in WEB30K's size: 18,919 training queries of 136 features, a sixth more to validate on and
another to judge on, one truth. `recovery` keeps the weights of the best of ten checks on the validation
queries; `--last` keeps the last ones. Preset zhuang2020: 1024, 512, 256 units, 8 Gumbel draws of
ApproxNDCG@5, AdaGrad 0.5, 128 lists of at most 200.
`--queries 60 --steps 5 --device cpu` tries the script out where there is no GPU.

Needs a CUDA GPU; without one it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
import torch

import placings as pg
from placings.losses import find_loss
from placings.rankers import build_network, settle
from placings.simulate import Synthetic
from placings.training import TrainingPlan, find_mixtures, score_rows, train
from placings.transforms import Mixture, PerFeature, Transform

NAMES = {"log": "log1p", "rank": "cdf", "raw": "gauss", None: "gauss"}  # planted scale → transform
METRICS = ("ndcg@1", "ndcg@5", "ndcg@10")
KINDS = {"raw": "linear", "gauss": "linear", "log1p": "log1p", "cdf": "cdf"}


def make_transform(kind: str, made: Synthetic, seed: int) -> Transform:
    if kind == "paper":
        return Mixture(start="random", random_state=seed)
    if kind == "standardised":
        return Mixture(basis=("gauss", "cdf", "log1p"), start="uniform", normalise=True, random_state=seed)
    choices: dict[str, list[str]] = {}
    for planted in made.truth:
        choices.setdefault(NAMES[planted.scale], []).append(planted.name)
    return PerFeature(choices)  # the oracle


def run(
    made: Synthetic, cuts: tuple[int, int], kind: str, *, steps: int, seed: int, precision: str, device: str,
    checks: int,
) -> tuple[dict[str, Any], np.ndarray]:  # fmt: skip
    data, valid, test = made.data[: cuts[0]], made.data[cuts[0] : cuts[1]], made.data[cuts[1] :]
    began = time.perf_counter()
    transform = make_transform(kind, made, seed).fit(data)
    torch.manual_seed(seed)
    network = build_network(settle("zhuang2020", {}), transform).to(device)
    plan = TrainingPlan(
        steps=steps, batch=128, list_size=200, optimizer="adagrad", lr=0.5, mixture_lr=None, weight_decay=0.0,
        check_every=-(-steps // max(1, checks)), patience=steps, seed=seed, precision=precision,
    )  # fmt: skip
    marks: list[tuple[int, float]] = []
    history = train(
        network, find_loss("approx_ndcg@5", draws=8), data, plan,
        valid=valid if checks else None, metric=pg.metric("ndcg@5") if checks else None,
        on_step=lambda step: marks.append((step, time.perf_counter())),
    )  # fmt: skip
    ended = time.perf_counter()
    first = marks[min(127, len(marks) - 1)]
    pace = (ended - first[1]) / max(1, steps - first[0])
    scores = score_rows(network, test.X, test.offsets)
    out: dict[str, Any] = {
        "transform": kind, "seed": seed, "precision": precision, "steps": steps,
        "seconds, all": ended - began, "ms a step": 1e3 * pace,
        "checks": history.checks, "kept step": history.best_step,
        "loss at the end": float(np.mean(history.loss[-100:])),
        **{m: float(np.nanmean(pg.metric(m)(scores, test.y, test.offsets))) for m in METRICS},
    }  # fmt: skip
    each = pg.ndcg(scores, test.y, test.offsets, k=5)
    for layer in find_mixtures(network):
        assert isinstance(transform, Mixture)
        out["planted × learned"] = confuse(made, layer.weights().cpu().numpy(), transform.basis)
    return out, each


def tell_gap(found: dict[str, list[np.ndarray]]) -> None:
    """The oracle's lead over the mixture, seeds averaged first, queries paired."""
    if not {"oracle", "standardised"} <= set(found):
        return
    gap = np.mean(found["oracle"], axis=0) - np.mean(found["standardised"], axis=0)
    gap = gap[~np.isnan(gap)]
    half = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
    print(
        f"oracle - mixture, NDCG@5 in points: {100 * gap.mean():.2f} "
        f"[{100 * (gap.mean() - half):.2f}, {100 * (gap.mean() + half):.2f}] over {len(gap)} queries"
    )


def confuse(made: Synthetic, shares: np.ndarray, basis: Any) -> dict[str, dict[str, int]]:
    """How many features of each planted scale have their largest share where; raw and gauss are one."""
    kinds = [KINDS[str(name)] for name in basis]
    table: dict[str, dict[str, int]] = {}
    for planted, share in zip(made.truth, shares, strict=True):
        row = table.setdefault(planted.scale or "no signal", dict.fromkeys(("linear", "log1p", "cdf"), 0))
        sums = {kind: sum(s for s, k in zip(share, kinds, strict=True) if k == kind) for kind in row}
        row[max(sums, key=lambda kind: sums[kind])] += 1
    return table


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("what", choices=("speed", "precision", "recovery"))
    options.add_argument("--queries", type=int, default=18_919)
    options.add_argument("--steps", type=int)
    options.add_argument("--device", default="cuda")
    options.add_argument("--kinds", default="standardised,oracle,paper", help="of recovery")
    options.add_argument("--seeds", type=int, default=1, help="of recovery")
    options.add_argument("--last", action="store_true", help="recovery without validation")
    chosen = options.parse_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        print(
            "skipped: no CUDA device here. --device cpu with few --queries and --steps tries the script out."
        )
        return
    warnings.simplefilter("ignore")
    more = max(20, chosen.queries // 6)
    made = pg.make_ranking(chosen.queries + 2 * more, random_state=0)
    cuts = (chosen.queries, chosen.queries + more)
    best, test = made.signal[made.data.offsets[cuts[1]] :], made.data[cuts[1] :]
    print(f"NDCG@5 of the planted signal itself: {np.nanmean(pg.ndcg(best, test.y, test.offsets, k=5)):.4f}")
    kinds = chosen.kinds.split(",")
    cells = {
        "speed": [("paper", 0, "bfloat16", 100_000)],
        "precision": [("paper", s, p, 20_000) for s in range(3) for p in ("bfloat16", "float32")],
        "recovery": [(kind, s, "bfloat16", 100_000) for s in range(chosen.seeds) for kind in kinds],
    }[chosen.what]
    each: dict[str, list[np.ndarray]] = {}
    for kind, seed, precision, steps in cells:
        torch._dynamo.reset()
        found, values = run(
            made, cuts, kind, steps=chosen.steps or steps, seed=seed, precision=precision,
            device=chosen.device, checks=10 if chosen.what == "recovery" and not chosen.last else 0,
        )  # fmt: skip
        print(json.dumps(found), flush=True)
        each.setdefault(kind, []).append(values)
    tell_gap(each)


if __name__ == "__main__":
    main()
