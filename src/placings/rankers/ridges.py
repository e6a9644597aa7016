"""Ridges beside a trained network: where a line says more than its layers, the score is mostly the line.

A network that few queries teach, and fewer stop, may order lists worse than a line over the same features.
So when it is trained, two ridges are fitted to what it sees: one over its transformed features, and one over
these and the pieces of each feature's range, which bend. The held-out queries that stopped the training
choose each one's C and the weights of the three, drawn towards equal ones (`choose_weights`). All of it then
becomes part of the network: the first ridge of its skip, the second of that and of a curve for each feature.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from placings.core import AnyArray, Floats, Ints
from placings.data import RankingData
from placings.rankers.blending import choose_weights
from placings.rankers.click_weights import weigh_clicks
from placings.rankers.design import Design, average_rows
from placings.rankers.mean import measure_spread
from placings.rankers.networks import FeedForward
from placings.training import cut_queries, score_rows, send_rows
from placings.transforms import Piecewise

CS = tuple(10.0**power for power in range(-5, 4))  # what C is chosen from
PIECES = 8  # of each feature's range
MOST_ROWS = 250_000  # that ridges learn from; more say nothing new about a few hundred weights
NUMBERS_AT_ONCE = 1 << 22
NETWORK, LINE, CURVES = "network", "ridge", "ridge with pieces"
SLACK = 1.5  # how much longer the ridges may take than a first block of rows makes believe

Judge = Callable[[Floats], Floats]  # scores [rows] → one value a query, more is better, NaN where it has none


@dataclass(frozen=True)
class RidgeShares:
    """What a score is made of: the share of the network and of each ridge, and the C of each ridge."""

    shares: dict[str, float]
    C: dict[str, float]


def draw_rows(data: RankingData, seed: int) -> RankingData:
    """All queries, or as many drawn by seed as hold at most `MOST_ROWS` rows."""
    if data.n_rows <= MOST_ROWS:
        return data
    order = np.random.default_rng([seed, 41]).permutation(data.n_queries)
    count = int(np.searchsorted(np.cumsum(data.sizes[order]), MOST_ROWS, side="right"))
    return data[np.sort(order[: max(1, count)])]


def find_targets(data: RankingData, labels_weighed: bool) -> tuple[Floats, Floats]:
    """What the ridges learn `[rows]`, and what each row weighs `[rows]`.

    A click over its propensity is a larger label to a square of errors, not a heavier row; see
    `Ranker._weighs_labels`. The rows of a network were weighed by it, unless `labels_weighed`.
    """
    y = np.asarray(data.y, dtype=np.float64)
    weight = np.ones(data.n_rows) if data.weight is None else np.asarray(data.weight, dtype=np.float64)
    if data.propensity is None or labels_weighed:
        return y, weight
    clicks = weigh_clicks(data.y, data.propensity).weights
    return y * clicks, weight / clicks


@dataclass
class RidgeSums:
    """What all of the ridges need to know of the rows: sums of products, and how far columns spread."""

    matrix: Floats  # [columns, columns]
    along: Floats  # [columns]
    mass: float
    total: Floats  # [columns], of the columns less `center`
    squares: Floats
    center: Floats
    low: Floats
    high: Floats
    queries: int = 0

    @classmethod
    def start(cls, center: Floats) -> RidgeSums:
        """Sums of nothing; `center` is a number near the columns' means."""
        count = len(center)
        zeros = np.zeros((4, count))
        ends = np.full(count, np.inf)
        return cls(np.zeros((count, count)), zeros[0], 0.0, zeros[1], zeros[2], center, ends, -ends)

    def add(self, block: AnyArray, offsets: Ints, y: Floats, weight: Floats) -> None:
        """Count whole queries in: `block` `[rows, columns]`."""
        design = Design(block, np.zeros(block.shape[1]), np.ones(block.shape[1]), has_nan=False)
        target = y - np.repeat(average_rows(y, offsets, weight), np.diff(offsets))
        matrix, along = design.scatter(offsets, weight, target)
        away = np.asarray(block, dtype=np.float64) - self.center
        self.matrix += matrix
        self.along += along
        self.mass += float(weight.sum())
        self.total += weight @ away
        self.squares += weight @ np.square(away)
        self.low, self.high = (
            np.minimum(self.low, block.min(axis=0)),
            np.maximum(self.high, block.max(axis=0)),
        )
        self.queries += len(offsets) - 1

    def merge(self, other: RidgeSums) -> RidgeSums:
        """Both together; they have one center."""
        return RidgeSums(
            self.matrix + other.matrix, self.along + other.along, self.mass + other.mass,
            self.total + other.total, self.squares + other.squares, self.center,
            np.minimum(self.low, other.low), np.maximum(self.high, other.high), self.queries + other.queries,
        )  # fmt: skip

    def solve(self, columns: int, C: float) -> Floats:
        """The weights of `LinearRanker("ridge", C=C)` over the first `columns`, in the columns' own units."""
        mass = self.mass if self.mass > 0.0 else 1.0
        variance = self.squares / mass - np.square(self.total / mass)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        spread = (self.high > self.low) & (deviation > 1e-300)
        inverse = np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=spread)[:columns]
        factor = 2.0 * C / max(1, self.queries)
        matrix = self.matrix[:columns, :columns] * np.outer(inverse, inverse)
        along = self.along[:columns] * inverse
        found = np.linalg.solve(factor * matrix + np.eye(columns), factor * along)
        return np.asarray(found * inverse, dtype=np.float64)


class RidgeFitter:
    """Fits ridges to what a trained network sees, and makes them part of it.

    `pieces` of the same features are seen beside the network's own inputs, if they are given; `refit` says
    that the ridges learn from the held-out queries too, once these have chosen.
    """

    def __init__(
        self,
        network: FeedForward,
        train: RankingData,
        held: RankingData,
        *,
        seed: int,
        refit: bool,
        labels_weighed: bool = False,
        pieces: bool = True,
    ) -> None:
        self.network, self.held, self.seed, self.refit = network, held, seed, refit
        self.train = draw_rows(train, seed)
        self.labels_weighed = labels_weighed
        self.pieces = Piecewise(PIECES).fit(self.train) if pieces else None
        self.bend: Any = None if self.pieces is None else self.pieces.module().function

    def expect_seconds(self) -> float:
        """How long `add` may take, from a first block of rows."""
        began = time.monotonic()
        sums, rows = None, 0
        for start, stop, offsets, block in self._see(self.train):
            sums = RidgeSums.start(np.zeros(block.shape[1]))
            sums.add(block, offsets, np.zeros(stop - start), np.ones(stop - start))
            rows = stop - start
            break
        took = time.monotonic() - began
        return SLACK * took * (self.train.n_rows + self.held.n_rows) / max(1, rows)

    def add(self, judge: Judge) -> RidgeShares | None:
        """Choose, fit and fold in; None, and a network as it was, where the held-out queries tell nothing."""
        own = score_rows(self.network, self.held.X, self.held.offsets)
        if np.isnan(judge(own)).all() or not np.isfinite(own).all():
            return None
        sums = self._sum_train()
        columns = len(sums.center)
        widths = {LINE: self._count_seen(), CURVES: columns}
        if self.pieces is None:
            del widths[CURVES]
        lines = {name: [sums.solve(width, C) for C in CS] for name, width in widths.items()}
        scores, more = self._score_held(lines, sums.center)
        places = {name: int(np.argmax([_mean(judge(row)) for row in each])) for name, each in scores.items()}
        members = {NETWORK: own} | {name: scores[name][place] for name, place in places.items()}
        scales = {name: measure_spread(each, self.held.offsets) or 1.0 for name, each in members.items()}
        matrix = np.stack([each / scales[name] for name, each in members.items()])
        weights = dict(zip(members, choose_weights(matrix, judge, seed=self.seed).tolist(), strict=True))
        if more is not None:
            whole = sums.merge(more)
            lines |= {name: [whole.solve(width, C) for C in CS] for name, width in widths.items()}
        total = np.zeros(columns)
        for name, place in places.items():  # a score keeps the network's scale
            line = lines[name][place] * (weights[name] * scales[NETWORK] / scales[name])
            total[: len(line)] += line
        self._fold(weights[NETWORK], total, curved=weights.get(CURVES, 0.0) > 0.0)
        return RidgeShares(weights, {name: CS[place] for name, place in places.items()})

    # -- inside ------------------------------------------------------------------------------------

    def _count_seen(self) -> int:
        skip = self.network.layers.skip
        assert skip is not None
        return int(skip.weight.shape[1])

    def _see(self, data: RankingData) -> Iterator[tuple[int, int, Ints, AnyArray]]:
        """Blocks of whole queries: first row, last, borders, and what the skip sees with pieces behind."""
        network = self.network
        was = network.training
        network.eval()
        device = next(network.parameters()).device
        bend = None if self.bend is None else self.bend.to(device)
        columns = self._count_seen() + (0 if self.pieces is None else len(self.pieces.owner_))
        for start, stop, inside in cut_queries(data.offsets, max(1024, NUMBERS_AT_ONCE // max(1, columns))):
            if start == stop:
                continue
            with torch.no_grad():
                rows = network.spread(send_rows(data.X[start:stop], device))
                prepared = network.transform.prepare(rows, torch.from_numpy(inside).to(device))
                seen: Tensor = network.layers.enter(network.transform.finish(prepared))
                if bend is not None:
                    filled = network.transform.fill_in(rows)
                    seen = torch.cat([seen, bend(filled).to(seen.dtype)], dim=1)
            yield start, stop, inside, seen.float().cpu().numpy()
        network.train(was)

    def _sum_train(self) -> RidgeSums:
        y, weight = find_targets(self.train, self.labels_weighed)
        sums: RidgeSums | None = None
        for start, stop, offsets, block in self._see(self.train):
            if sums is None:
                sums = RidgeSums.start(block.mean(axis=0, dtype=np.float64))
            sums.add(block, offsets, y[start:stop], weight[start:stop])
        assert sums is not None
        return sums

    def _score_held(
        self, lines: dict[str, list[Floats]], center: Floats
    ) -> tuple[dict[str, Floats], RidgeSums | None]:
        """What each line of each C scores the held-out rows, and their sums if ridges learn from them."""
        scores = {name: np.empty((len(CS), self.held.n_rows)) for name in lines}
        sums = RidgeSums.start(center) if self.refit else None
        y, weight = find_targets(self.held, self.labels_weighed) if self.refit else (np.zeros(0),) * 2
        for start, stop, offsets, block in self._see(self.held):
            for name, each in lines.items():
                weights = np.stack(each, axis=1)  # [columns, Cs]
                scores[name][:, start:stop] = (block[:, : len(weights)].astype(np.float64) @ weights).T
            if sums is not None:
                sums.add(block, offsets, y[start:stop], weight[start:stop])
        return scores, sums

    def _fold(self, share: float, line: Floats, *, curved: bool) -> None:
        """The network times its share, with the line in its skip and in a curve for each feature."""
        stack = self.network.layers
        last: Any = stack.layers[-1]
        skip: Any = stack.skip
        seen = self._count_seen()
        with torch.no_grad():
            for weight in (last.weight, last.bias, skip.weight):
                weight.mul_(share)
            skip.weight.add_(torch.tensor(line[:seen], dtype=skip.weight.dtype, device=skip.weight.device))
        if curved:
            assert self.pieces is not None
            self.network.take_curves(self.pieces, line[seen:])


def _mean(values: Sequence[float] | Floats) -> float:
    found = np.asarray(values)
    return float(np.nanmean(found)) if not np.isnan(found).all() else -np.inf
