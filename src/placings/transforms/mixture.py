"""`Mixture`: a learned mixture of transforms for each feature; the statistics here, the learning in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from placings.core import AnyArray, BadInput, Bools, Floats, Floats32, Ints
from placings.transforms.basic import MinMax, Raw, Scaling
from placings.transforms.parts import give_parts, make_part, name_part, take_parts
from placings.transforms.policy import Indicator, Missing
from placings.transforms.records import need_array
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import TINY, Transform
from placings.transforms.vectors import FORMS, VectorGroup, find_vectors, measure_group

if TYPE_CHECKING:
    from torch import nn

    from placings.transforms.curves import Curves
    from placings.transforms.layers import Layer

PAPER = ("raw", "gauss", "cdf", "log1p")
STARTS = ("uniform", "random", "paper")
NORMAL_KNOTS = 10_000  # of features whose transformed values are to be standardised


class Mixture(Transform):
    """A learned mixture for each feature k: `σ_k(x) = Σ_m p_mk σ_mk(x)`, `p_k = softmax(W e_k / T)`.

    `fit` learns the statistics of the `basis` (names or transforms); `module()` is the layer whose `W`
    `[bases, embedding]` and `e` `[features, embedding]` are trained with the ranker; `take_weights` brings
    what it learned back, for `transform`, `weights` and `state`. T is `temperature`. `embedding=None` learns
    each feature's logits directly. Fitting again, also `partial_fit` and `merge`, starts the weights anew.

    `start` is where the weights begin: "uniform" (W = 0, e normal: every basis equal), "random" (W e normal
    of variance 1), "paper" (as Keras initialises an embedding and a dense layer: e uniform in ±0.05, W by
    Glorot; the paper does not say). `Mixture(start="random")` and `start="paper"` are equation 4 as written.

    `normalise=True` standardises each basis by its mean and standard deviation over the training values
    before mixing (raw and gauss are then the same); a constant becomes 0. `dropout` drops bases at random
    in training, for each feature, and renormalises what is left (all stay if all would go). `entropy` is
    the weight of `regularisation()`, the mean entropy of the p_k, which a training loop may add. `lr` is the
    learning rate a loop should use for the mixture's own parameters; None means that of the rest.

    `groups={"title": ["e0", …]}` names columns that are one vector: they share one p and are transformed as a
    whole, in forms that keep directions; see `placings.transforms.vectors`. A missing coordinate takes its
    mean where the policy says median.

    After `fit`: `basis_` (names), `embedding_`, `projection_` (W), `temperature_`.

    >>> mixture = Mixture(("raw", "cdf")).fit([[10.0], [20.0]])
    >>> mixture.weights().tolist(), mixture.transform([[20.0]]).tolist()
    ([[0.5, 0.5]], [[10.25]])

    Zhuang et al.: Feature Transformation for Neural Ranking Models, SIGIR 2020.
    """

    basis_: tuple[str, ...]
    embedding_: Floats32
    projection_: Floats32
    temperature_: float
    _parts: list[Transform]
    _groups: list[VectorGroup]
    _scalars: Ints
    _normal: tuple[Floats, Floats, Floats, Floats]  # mean, std [scalars]; center, spread [bases, scalars]

    def __init__(
        self,
        basis: Sequence[str | Transform] = PAPER,
        *,
        embedding: int | None = 8,
        start: str = "uniform",
        temperature: float = 1.0,
        normalise: bool = False,
        dropout: float = 0.0,
        entropy: float = 0.0,
        lr: float | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        missing: Missing = "median",
        indicator: Indicator = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.basis = basis
        self.embedding = embedding
        self.start = start
        self.temperature = temperature
        self.normalise = normalise
        self.dropout = dropout
        self.entropy = entropy
        self.lr = lr
        self.groups = groups
        self.random_state = random_state

    # -- what was learned --------------------------------------------------------------------------

    def weights(self) -> Floats:
        """p, the share of each basis in each feature `[features, bases]`; columns as in `basis_`."""
        logits = (
            self.embedding_.astype(np.float64) @ self.projection_.astype(np.float64).T / self.temperature_
        )
        logits = np.where(self._allowed(), logits, -np.inf)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray((shares / shares.sum(axis=1, keepdims=True))[self._units()])

    def take_weights(self, module: nn.Module) -> Self:
        """Take over what a trained `module()` of this mixture has learned."""
        layer: Any = getattr(module, "function", module)
        if not all(hasattr(layer, name) for name in ("embedding", "projection", "temperature")):
            raise BadInput(f"weights come from a module of this mixture. Got {type(module).__name__}.")
        embedding, projection = (
            getattr(layer, name).detach().float().cpu().numpy().copy() for name in ("embedding", "projection")
        )
        if embedding.shape != self.embedding_.shape or projection.shape != self.projection_.shape:
            raise BadInput(f"weights come from a module of this mixture. Got {embedding.shape} embeddings.")
        self.embedding_, self.projection_ = embedding, projection
        self.temperature_ = float(layer.temperature)
        return self

    def curves(self, points: int = 200) -> Curves:
        """Each feature's learned curve, and those of its bases, on a grid; see `trace_curves`."""
        from placings.transforms.curves import trace_curves

        return trace_curves(self, points=points)

    # -- what Transform asks for -------------------------------------------------------------------

    @property
    def _per_query(self) -> bool:
        return any(part._per_query for part in self._parts)

    def _check_settings(self) -> None:
        parts = self._make_parts()
        for part in parts:
            part._check_settings()
        if self.normalise and any(part._per_query for part in parts):
            raise BadInput(
                "normalise=True needs transforms of single values; query_minmax has no fixed mean."
            )
        if self.start not in STARTS:
            raise BadInput(f"start must be one of {', '.join(STARTS)}. Got {self.start!r}.")
        if self.embedding is not None and not (
            isinstance(self.embedding, int | np.integer) and self.embedding > 0
        ):
            raise BadInput(f"embedding must be None or a whole number of 1 or more. Got {self.embedding!r}.")
        if not (np.isfinite(self.temperature) and self.temperature > 0.0):
            raise BadInput(f"temperature must be above 0. Got {self.temperature!r}.")
        if not 0.0 <= self.dropout < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1. Got {self.dropout!r}.")
        if self.lr is not None and not self.lr > 0.0:
            raise BadInput(f"lr must be None or above 0. Got {self.lr!r}.")
        if self.groups and not any(name_part(part) in FORMS for part in parts):
            raise BadInput(f"groups need one of {', '.join(FORMS)} in the basis. Got {self.basis!r}.")

    def _policies(self) -> list[str | float]:
        policies = super()._policies()
        for places in self._find_groups().values():
            for place in places:
                policies[place] = "mean" if policies[place] == "median" else policies[place]
        return policies

    def _count_knots(self, features: int) -> Ints:
        knots = np.zeros(features, dtype=np.int64)
        scalars = self._find_scalars()
        for part in self._make_parts():
            knots[scalars] = np.maximum(knots[scalars], part._count_knots(len(scalars)))
        if self.normalise:
            knots[scalars] = np.maximum(knots[scalars], NORMAL_KNOTS)
        return knots

    def _learn(self, statistics: Statistics) -> None:
        self._arrange()
        own = statistics.take(self._scalars)
        for part in self._parts:
            part._adopt(self._scalar_names(), own)
        self._groups = [measure_group(name, at, statistics) for name, at in self._find_groups().items()]
        self._normal = self._standardise(own)
        self._start()

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        shares = self.weights()
        out = np.zeros(X.shape)
        for number in range(len(self._parts)):
            out += shares[:, number] * self._compute_basis(number, X, offsets)
        return out

    def _compute_basis(self, number: int, X: Floats32, offsets: Ints) -> Floats:
        """One basis of filled rows `[rows, features]`, standardised if asked for."""
        part, name = self._parts[number], name_part(self._parts[number])
        out = np.zeros(X.shape)
        scalars = X[:, self._scalars]
        mean, std, center, spread = self._normal
        if not self.normalise:
            out[:, self._scalars] = part._compute(scalars, offsets)
        elif is_affine(part):
            out[:, self._scalars] = _divide(scalars - mean, std)
        else:
            out[:, self._scalars] = _divide(part._compute(scalars, offsets) - center[number], spread[number])
        for group in self._groups:
            if name in FORMS:
                form = group.compute(name, X[:, group.columns], normalise=self.normalise)
                out[:, group.columns] = form
        return out

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.mixing import build_mixing

        return build_mixing(self, export)

    def _give_arrays(self) -> dict[str, AnyArray]:
        arrays = {"embedding": self.embedding_, "projection": self.projection_, **give_parts(self._parts)}
        arrays["temperature"] = np.array([self.temperature_])
        names = ("mean", "std", "center", "spread")
        arrays |= {f"normal.{name}": values for name, values in zip(names, self._normal, strict=True)}
        for number, group in enumerate(self._groups):
            arrays[f"group.{number}.center"] = group.center
            arrays[f"group.{number}.size"] = np.array([group.scale, group.length])
        return arrays

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        self._arrange()
        take_parts(self._parts, [self._scalar_names()] * len(self._parts), arrays)
        bases, width = len(self._parts), len(self._scalars)
        self._groups = []
        for number, (name, places) in enumerate(self._find_groups().items()):
            center = need_array(arrays, f"group.{number}.center", np.float64, (len(places),))
            scale, length = need_array(arrays, f"group.{number}.size", np.float64, (2,))
            self._groups.append(VectorGroup(name, places, center, float(scale), float(length)))
        mean, std = (need_array(arrays, f"normal.{name}", np.float64, (width,)) for name in ("mean", "std"))
        center, spread = (
            need_array(arrays, f"normal.{name}", np.float64, (bases, width)) for name in ("center", "spread")
        )
        self._normal = mean, std, center, spread
        units, size = width + len(self._groups), self.embedding or bases
        self.embedding_ = need_array(arrays, "embedding", np.float32, (units, size))
        self.projection_ = need_array(arrays, "projection", np.float32, (bases, size))
        self.temperature_ = float(need_array(arrays, "temperature", np.float64, (1,))[0])
        if not self.temperature_ > 0.0:
            raise BadInput("the temperature in a mixture's state must be above 0.")

    # -- inside ------------------------------------------------------------------------------------

    def _make_parts(self) -> list[Transform]:
        if isinstance(self.basis, str) or not len(self.basis):
            raise BadInput(f"basis must list transforms, such as {PAPER}. Got {self.basis!r}.")
        return [make_part(part, "Mixture") for part in self.basis]

    def _arrange(self) -> None:
        self._parts = self._make_parts()
        self._scalars = self._find_scalars()
        names = [name_part(part) for part in self._parts]
        again = [names[:place].count(name) for place, name in enumerate(names)]
        self.basis_ = tuple(f"{n}_{count + 1}" if count else n for n, count in zip(names, again, strict=True))

    def _find_groups(self) -> dict[str, Ints]:
        return find_vectors(self.groups or {}, self.feature_names_)

    def _find_scalars(self) -> Ints:
        alone = np.ones(len(self.feature_names_), dtype=bool)
        for places in self._find_groups().values():
            alone[places] = False
        return np.flatnonzero(alone)

    def _scalar_names(self) -> list[str]:
        return [self.feature_names_[place] for place in self._scalars]

    def _units(self) -> Ints:
        """For each feature, the row of the embedding that it uses: its own, or its group's."""
        units = np.zeros(self.n_features_in_, dtype=np.int64)
        units[self._scalars] = np.arange(len(self._scalars))
        for number, group in enumerate(self._groups):
            units[group.columns] = len(self._scalars) + number
        return units

    def _allowed(self) -> Bools:
        """Which bases a unit may use `[units, bases]`: all, but in a group only those with a vector form."""
        allowed = np.ones((len(self._scalars) + len(self._groups), len(self._parts)), dtype=bool)
        allowed[len(self._scalars) :] = [name_part(part) in FORMS for part in self._parts]
        return allowed

    def _start(self) -> None:
        units, bases = len(self._scalars) + len(self._groups), len(self._parts)
        random, size = check_random_state(self.random_state), self.embedding or bases
        draw = (
            random.uniform(-0.05, 0.05, (units, size))
            if self.start == "paper"
            else random.normal(size=(units, size))
        )
        if self.embedding is None:
            projection = np.eye(bases)
            draw = np.zeros_like(draw) if self.start == "uniform" else draw
        elif self.start == "uniform":
            projection = np.zeros((bases, size))
        elif self.start == "random":
            projection = random.normal(size=(bases, size)) / np.sqrt(size)
        else:
            limit = np.sqrt(6.0 / (bases + size))
            projection = random.uniform(-limit, limit, (bases, size))
        self.embedding_, self.projection_ = draw.astype(np.float32), projection.astype(np.float32)
        self.temperature_ = float(self.temperature)

    def _standardise(self, own: Statistics) -> tuple[Floats, Floats, Floats, Floats]:
        """Means and standard deviations: of the features, exact, and of each basis, from the sketches."""
        bases, width = len(self._parts), own.features
        std = np.where(own.std >= TINY, own.std, 0.0)
        center, spread = np.zeros((bases, width)), np.zeros((bases, width))
        if self.normalise and width:
            longest = max(1, *(len(sketch) for sketch in own.sketches))
            values, counts = np.zeros((longest, width), dtype=np.float32), np.zeros((longest, width))
            for place, sketch in enumerate(own.sketches):
                values[: len(sketch), place] = sketch.values
                counts[: len(sketch), place] = (sketch.up + sketch.down) / 2
            share = counts / np.maximum(counts.sum(axis=0), 1.0)
            for number, part in enumerate(self._parts):
                if not is_affine(part):
                    made = np.asarray(part._compute(values, np.array([0, longest])), dtype=np.float64)
                    center[number] = (share * made).sum(axis=0)
                    spread[number] = np.sqrt((share * (made - center[number]) ** 2).sum(axis=0))
            spread[:, own.constant] = 0.0
        return own.average, std, center, np.where(spread >= TINY, spread, 0.0)


def is_affine(part: Transform) -> bool:
    """Whether a transform only shifts and scales: standardised, it is the z-score."""
    return isinstance(part, Raw) or (
        isinstance(part, Scaling) and not (isinstance(part, MinMax) and part.clip)
    )


def _divide(values: Floats, by: Floats) -> Floats:
    return np.divide(values, by, out=np.zeros_like(values, dtype=np.float64), where=by > 0.0)
