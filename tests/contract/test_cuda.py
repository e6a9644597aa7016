"""Losses and transforms on a GPU: the same values as on the CPU. Skipped where there is none.

On a machine without pytest: `PYTHONPATH=src python tests/contract/test_cuda.py`, which also prints times.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from placings.losses import LOSSES, find_loss
from placings.transforms import TRANSFORMS, make_transform

try:
    import pytest

    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    each_loss: Any = pytest.mark.parametrize("name", LOSSES)
    each_transform: Any = pytest.mark.parametrize("name", [n for n in TRANSFORMS if n != "query_minmax"])
except ImportError:  # the GPU machine has no pytest

    def each_loss(test: Any) -> Any:
        return test

    each_transform = each_loss


def draw_lists(queries: int = 16, items: int = 60) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, labels 0 to 4 and a mask of lists of different lengths, one of them without a relevant item."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, items + 1, queries)
    mask = np.arange(items) < lengths[:, None]
    labels = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(queries, items)) * mask
    labels[0] = 0
    scores = rng.normal(size=(queries, items))
    return tuple(map(torch.from_numpy, (scores.astype(np.float32), labels.astype(np.float32), mask)))  # type: ignore[return-value]


def run_loss(name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    scores, labels, mask = (tensor.to(device) for tensor in draw_lists())
    scores.requires_grad_()
    values = find_loss(name)(scores, labels, mask)
    values.sum().backward()
    assert scores.grad is not None
    return values.detach().cpu(), scores.grad.cpu()


@each_loss
def test_a_loss_and_its_gradient_are_the_same_on_the_gpu(name: str) -> None:
    for here, there in zip(run_loss(name, "cpu"), run_loss(name, "cuda"), strict=True):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@each_transform
def test_a_transform_is_the_same_on_the_gpu(name: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), np.exp(rng.normal(0, 6, 500)), rng.integers(0, 4, 500)])
    X = X.astype(np.float32)
    X[::9, 0] = np.nan
    transform = make_transform(name).fit(X)
    module = transform.module()
    with torch.no_grad():
        here = module(torch.from_numpy(X))
        there = module.to("cuda")(torch.from_numpy(X).to("cuda")).cpu()
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(there.numpy(), transform.transform(X), rtol=1e-5, atol=1e-5)


def clock(job: Any, repeat: int = 50) -> float:
    """Milliseconds of a job on the GPU, after a warm-up."""
    for _ in range(5):
        job()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        job()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start) / repeat


def main() -> None:
    for name in LOSSES:
        test_a_loss_and_its_gradient_are_the_same_on_the_gpu(name)
        print("loss equal on the GPU:", name)
    for name in TRANSFORMS:
        if name != "query_minmax":
            test_a_transform_is_the_same_on_the_gpu(name)
            print("transform equal on the GPU:", name)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rng = np.random.default_rng(0)
    labels = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(128, 200)).astype(np.float32)
    scores = torch.randn(128, 200, device="cuda", requires_grad=True)
    given = torch.from_numpy(labels).cuda(), torch.ones(128, 200, dtype=torch.bool, device="cuda")
    for name, draws in (("softmax", 0), ("approx_ndcg@5", 0), ("approx_ndcg@5", 8), ("lambdarank", 0)):
        loss = find_loss(name, draws=draws)

        def step(loss: Any = loss) -> None:
            scores.grad = None
            loss(scores, *given).sum().backward()

        print(f"{name}, {draws} draws, 128 lists of 200, forward and backward: {clock(step):.3f} ms")
    X = np.exp(rng.normal(0, 4, size=(25_600, 136))).astype(np.float32)
    rows = torch.from_numpy(X).cuda()
    for name in ("gauss", "log1p", "cdf", "mixture"):
        module = make_transform(name).fit(X).module().to("cuda")
        with torch.no_grad():
            print(f"{name}, 25,600 rows x 136: {clock(lambda module=module: module(rows)):.3f} ms")


if __name__ == "__main__":
    main()
