"""What a transform does to each feature, as curves to draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from placings.core import BadInput, Floats
from placings.transforms.mixture import Mixture
from placings.transforms.transformer import Transform, is_foreign


@dataclass(frozen=True, eq=False)
class Curves:
    """`x` `[features, points]`, the transform's value there `y`, and for a mixture `parts`
    `[features, bases, points]`, unweighted. Columns of a vector group have no curve: NaN."""

    features: tuple[str, ...]
    basis: tuple[str, ...]
    x: Floats
    y: Floats
    parts: Floats


def trace_curves(transform: Transform, *, points: int = 200, grid: Floats | None = None) -> Curves:
    """Evaluate each feature's curve: on `grid` (`[points]` for all, or `[features, points]`), or by itself.

    Without a grid, `points` run from each feature's smallest to its largest training value, evenly spaced in
    the symmetric logarithm, so that a heavy tail does not hide the rest. That needs the statistics, which a
    transform restored from a plain state lacks: then give a grid. A transform within queries has no curve.

    >>> from placings.transforms.basic import Log1p
    >>> trace_curves(Log1p().fit([[0.0], [3.0]]), points=3).x.tolist()
    [[0.0, 1.0, 3.0]]
    """
    check_is_fitted(transform)
    if transform._per_query:
        raise BadInput(
            "a transform within queries depends on the whole query, so a feature has no curve of its own."
        )
    width = transform.n_features_in_
    if grid is None:
        if points < 2:
            raise BadInput(f"points must be 2 or more. Got {points}.")
        x = _space_points(transform, points)
    else:
        x = np.array(np.broadcast_to(np.asarray(grid, dtype=np.float64), (width, np.shape(grid)[-1])))
    rows = x.T.astype(np.float32)
    borders = np.array([0, len(rows)])
    basis: tuple[str, ...] = ()
    parts = np.zeros((width, 0, len(rows)))
    made = transform.transform(rows) if is_foreign(transform) else transform._compute(rows, borders)
    y = np.asarray(made, dtype=np.float64)[:, :width].T.copy()
    if isinstance(transform, Mixture):
        basis = transform.basis_
        bases = [transform._compute_basis(number, rows, borders).T for number in range(len(basis))]
        parts = np.stack(bases, axis=1)
        grouped = np.setdiff1d(np.arange(width), transform._scalars)
        y[grouped], parts[grouped] = np.nan, np.nan
    return Curves(transform.feature_names_, basis, x, y, parts)


def _space_points(transform: Transform, points: int) -> Floats:
    found = transform._need_statistics()
    there = found.present > 0
    ends = [np.where(there, end, 0.0) for end in (found.low, found.high)]
    low, high = (np.sign(end) * np.log1p(np.abs(end)) for end in ends)
    spaced = np.linspace(low, high, points, axis=1)
    x = np.sign(spaced) * np.expm1(np.abs(spaced))
    x[:, 0], x[:, -1] = ends
    return np.asarray(x)
