"""Integrated gradients: a network's score as a sum over its transformed features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from placings.core import Floats, Floats32, Ints
from placings.training.sources import cut_queries, sees_queries

POINTS = 64
ROWS_AT_ONCE = 4096


def attribute_rows(
    model: Any, X: Floats32, offsets: Ints | None = None, *, owners: Ints | None = None
) -> Floats:
    """`[rows, features + 1]` for a model with `transform` and `follow`; each row adds up to its score.

    `owners` are the features of the transformed columns `[columns]`, if there are more columns than
    features: what the columns of a feature add is added up. Where the transform scales a query's rows
    together, `offsets` says which these are; None: all of them.
    """
    device = next(model.parameters()).device
    model.eval()
    out = np.empty((X.shape[0], X.shape[1] + 1), dtype=np.float64)
    nothing = torch.full((1, X.shape[1]), torch.nan, device=device)
    with torch.no_grad():
        start = model.transform(nothing)
        bias = float(model.follow(start))
    for first, stop, borders in _cut(model, X.shape[0], offsets):
        rows = torch.tensor(X[first:stop], device=device)
        with torch.no_grad():
            end = model.transform(rows, torch.from_numpy(borders).to(device))
            gained = model.follow(end).double() - bias  # [rows]
        parts = _follow_path(model.follow, start, end)
        size = parts.abs()
        share = size / size.sum(dim=1, keepdim=True).clamp_min(1e-300)
        even = torch.full_like(share, 1.0 / share.shape[1])
        share = torch.where(size.sum(dim=1, keepdim=True) > 0, share, even)
        parts = parts + share * (gained - parts.sum(dim=1))[:, None]
        if owners is not None:
            whole = parts.new_zeros((len(parts), X.shape[1]))
            parts = whole.index_add_(1, torch.from_numpy(owners).to(device), parts)
        out[first:stop, :-1] = parts.cpu().numpy()
    out[:, -1] = bias
    return out


def _cut(model: Any, rows: int, offsets: Ints | None) -> Iterator[tuple[int, int, Ints]]:
    """Blocks of rows with the borders of queries inside, whole queries where the transform sees them."""
    if sees_queries(model):
        return cut_queries(np.array([0, rows]) if offsets is None else offsets, ROWS_AT_ONCE)
    ends = [*range(0, rows, ROWS_AT_ONCE), rows]
    return iter([(start, stop, np.array([0, stop - start])) for start, stop in pairwise(ends)])


def _follow_path(follow: Callable[[Tensor], Tensor], start: Tensor, end: Tensor) -> Tensor:
    """The mean slope at the middle of each piece of the way, times the way; `[rows, features]` float64."""
    slope = torch.zeros_like(end, dtype=torch.float64)
    for point in range(POINTS):
        here = (start + (point + 0.5) / POINTS * (end - start)).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(follow(here).sum(), here)
        slope += gradient.double()
    return (end - start).double() * slope / POINTS
