"""A truncated Newton method for ½‖w‖² + L(Xw): conjugate gradients, exact line search, a certified gap.

The objective F is strongly convex, so `F(w) − min F ≤ ½‖∇F(w)‖²`: what stops the search is a bound on what
is left to gain, not a guess. For the hinge the bound is the duality gap; its corner is smoothed by a parabola
that narrows until that gap is small enough. Cutting planes, SVM^rank's way, need a plane of all columns for
each step and many steps when C is large; this needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from placings.core import Floats
from placings.rankers.design import Design
from placings.rankers.pair_kernels import Pairs, Point, SmoothHinge

MOST_PRODUCTS = 200  # products with the second derivative in one Newton step
MOST_TRIALS = 30  # of one line search; each costs a sweep over scores, and none touches the features
WIDEST = 768  # columns up to which the preconditioner is a matrix; beyond, its diagonal
NARROWEST = 1e-7  # width of the hinge's parabola

Apply = Callable[[Floats], Floats]


class SmoothLoss(Protocol):
    """A loss of scores with second derivatives; see `pair_kernels`."""

    def at(self, scores: Floats) -> Point: ...


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights, the objective there, a bound on its distance from the minimum, and the steps it took."""

    w: Floats
    objective: float
    gap: float
    steps: int
    converged: bool


def minimise(
    design: Design,
    loss: SmoothLoss,
    pairs: Pairs,
    *,
    tol: float,
    max_iter: int,
    watch: Callable[[int, float, float], None] = lambda *_: None,
) -> Solution:
    """The weights that minimise ½‖w‖² + loss(Xw), to within `tol` × the objective.

    `watch(step, objective, gap)` is called after each step.
    """
    w, scores = np.zeros(design.features), np.zeros(design.rows)
    soften = make_preconditioner(design, pairs)
    point, steps = loss.at(scores), 0
    while True:
        gradient = w + design.gather(point.slope)
        smooth = 0.5 * float(gradient @ gradient)
        meant, rough = point.judge()
        objective = 0.5 * float(w @ w) + meant
        gap = smooth + rough
        watch(steps, objective, gap)
        if gap <= tol * objective:
            return Solution(w, objective, gap, steps, True)
        if steps >= max_iter:
            return Solution(w, objective, gap, steps, False)
        if isinstance(loss, SmoothHinge) and rough > 0.5 * tol * objective and smooth <= 0.25 * rough:
            if loss.width <= NARROWEST:
                return Solution(w, objective, gap, steps, False)
            aim = 0.5 * np.sqrt(tol * objective / rough)  # the roughness falls with the width squared
            loss, point, w, scores = _sharpen(
                design, loss, point, pairs, soften, w, scores, float(np.clip(aim, 0.1, 0.5))
            )
            steps += 1
            continue
        eta = float(np.clip(np.sqrt(smooth / objective), 1e-3, 0.1))
        step, shift = _find_step(
            design, point, gradient, partial(soften, share=point.bend / pairs.total), eta
        )
        length, point = _search(loss, w, scores, step, shift, float(gradient @ step))
        steps += 1
        if length == 0.0:  # nothing to gain that float64 can see
            return Solution(w, objective, gap, steps, False)
        w = w + length * step
        scores = scores + length * shift


def solve(
    multiply: Callable[[Floats, Floats], Floats],
    target: Floats,
    soften: Apply,
    shift_of: Apply,
    *,
    tolerance: float,
    most: int = MOST_PRODUCTS,
) -> tuple[Floats, Floats]:
    """Preconditioned conjugate gradients: `p` with `H p ≈ target`, and `X p`, which comes for free.

    `multiply(v, X v)` is `H v`; `tolerance` is relative to the target, in the preconditioner's norm.
    """
    p = np.zeros_like(target)
    residual = target.copy()
    soft = soften(residual)
    along = soft.copy()
    size = first = float(residual @ soft)
    total: Floats | None = None
    for _ in range(most):
        shifted = shift_of(along)
        product = multiply(along, shifted)
        bend = float(along @ product)
        if bend <= 0.0 or size == 0.0:
            break
        length = size / bend
        p += length * along
        total = length * shifted if total is None else total + length * shifted
        residual -= length * product
        soft = soften(residual)
        before, size = size, float(residual @ soft)
        if size <= tolerance**2 * first:
            break
        along = soft + (size / before) * along
    return p, shift_of(p) if total is None else total


def make_preconditioner(design: Design, pairs: Pairs) -> Callable[..., Floats]:
    """`soften(r, share)` ≈ `H⁻¹ r` where `share` of the pairs' weight has curvature.

    H ≈ I + share·G, G being the scatter of the features within queries (all pairs bent alike), once
    decomposed where there are few columns; only its diagonal where there are many.
    """
    sizes = np.diff(pairs.offsets)
    ends = np.concatenate([[0.0], np.cumsum(pairs.weight * pairs.lower)])[pairs.offsets]
    by_query = np.diff(ends) * 2.0 / np.maximum(sizes - 1, 1)
    weight = np.repeat(np.maximum(by_query, 0.0), sizes)
    if isinstance(design.X, np.ndarray) and design.features <= WIDEST:
        values, vectors = np.linalg.eigh(design.scatter(pairs.offsets, weight)[0])
        values = np.maximum(values, 0.0)
        return lambda r, share: np.asarray(vectors @ ((vectors.T @ r) / (1.0 + share * values)))
    squares = design.squares(weight)
    return lambda r, share: np.asarray(r / (1.0 + share * squares))


def _sharpen(
    design: Design,
    loss: SmoothHinge,
    point: Point,
    pairs: Pairs,
    soften: Callable[..., Floats],
    w: Floats,
    scores: Floats,
    factor: float,
) -> tuple[SmoothHinge, Point, Floats, Floats]:
    """Narrow the parabola, and move to where its pairs keep their slopes, as they do on the way to the hinge.

    A pair on the parabola has slope α = ½ + z/width; with the width times `factor` it needs z times `factor`.
    One Newton step on these pairs' parabolas, continued beyond their ends, goes there.
    """
    wide = 1.0 / factor
    stretched = replace(
        point,
        slope=wide * point.slope + (1.0 - wide) * point.middle,
        multiply=lambda vector: wide * point.multiply(vector),
    )
    gradient = w + design.gather(stretched.slope)
    bent = partial(soften, share=wide * point.bend / pairs.total)
    step, shift = _find_step(design, stretched, gradient, bent, 1e-3)
    narrow = loss.sharpen(factor)
    here, there = narrow.at(scores), narrow.at(scores + shift)
    if there.value + 0.5 * float((w + step) @ (w + step)) < here.value + 0.5 * float(w @ w):
        return narrow, there, w + step, scores + shift
    return narrow, here, w, scores


def _find_step(
    design: Design, point: Point, gradient: Floats, soften: Apply, tolerance: float
) -> tuple[Floats, Floats]:
    def multiply(v: Floats, shifted: Floats) -> Floats:
        return v + design.gather(point.multiply(shifted))

    return solve(multiply, -gradient, soften, design.scores, tolerance=tolerance)


def _search(
    loss: SmoothLoss, w: Floats, scores: Floats, step: Floats, shift: Floats, slope: float
) -> tuple[float, Point]:
    """Where along the step the derivative is nearly 0 (false position with a bracket), and the loss there."""
    middle, bend = float(w @ step), float(step @ step)
    low, slope_low = 0.0, slope
    high, slope_high = np.inf, np.nan
    length, found = 1.0, (0.0, loss.at(scores))
    if slope >= 0.0:
        return found
    for trial in range(MOST_TRIALS):
        point = loss.at(scores + length * shift)
        derivative = middle + length * bend + float(point.slope @ shift)
        if derivative <= 0.0:
            low, slope_low, found = length, derivative, (length, point)
        else:
            high, slope_high = length, derivative
        if abs(derivative) <= 0.1 * abs(slope):
            return length, point
        if high == np.inf:
            length = 2.0 * length
        elif trial % 2:
            length = 0.5 * (low + high) if low > 0.0 else 0.01 * high
        else:
            part = slope_low / (slope_low - slope_high)
            length = low + float(np.clip(part, 0.05, 0.95)) * (high - low)
    return found
