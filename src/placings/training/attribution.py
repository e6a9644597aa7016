"""Integrated gradients: a network's score as a sum over its transformed features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.arrays import Floats, Floats32

POINTS = 64
ROWS_AT_ONCE = 4096


def attribute_rows(model: Any, X: Floats32) -> Floats:
    """`[rows, features + 1]` for a model with `transform` and `layers`; each row adds up to its score."""
    device = next(model.parameters()).device
    model.eval()
    out = np.empty((X.shape[0], X.shape[1] + 1), dtype=np.float64)
    nothing = torch.full((1, X.shape[1]), torch.nan, device=device)
    with torch.no_grad():
        start = model.transform(nothing)
        bias = float(model.layers(start))
    for first in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = torch.tensor(X[first : first + ROWS_AT_ONCE], device=device)
        with torch.no_grad():
            end = model.transform(rows)
            gained = model.layers(end).squeeze(-1).double() - bias  # [rows]
        parts = _follow_path(model.layers, start, end)
        size = parts.abs()
        share = size / size.sum(dim=1, keepdim=True).clamp_min(1e-300)
        even = torch.full_like(share, 1.0 / share.shape[1])
        share = torch.where(size.sum(dim=1, keepdim=True) > 0, share, even)
        parts = parts + share * (gained - parts.sum(dim=1))[:, None]
        out[first : first + len(rows), :-1] = parts.cpu().numpy()
    out[:, -1] = bias
    return out


def _follow_path(layers: nn.Module, start: Tensor, end: Tensor) -> Tensor:
    """The mean slope at the middle of each piece of the way, times the way; `[rows, features]` float64."""
    slope = torch.zeros_like(end, dtype=torch.float64)
    for point in range(POINTS):
        here = (start + (point + 0.5) / POINTS * (end - start)).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(layers(here).sum(), here)
        slope += gradient.double()
    return (end - start).double() * slope / POINTS
