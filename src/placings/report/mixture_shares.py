"""What a mixture learned, as a table: the share of each transform in each feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.arrays import Floats
from placings.data.ranking import RankingData
from placings.errors import BadInput, UnknownName


@dataclass(frozen=True, eq=False)
class MixtureShares:
    """`shares` `[features, bases]`: how much of each transform of `basis` a feature uses; rows add to 1."""

    features: tuple[str, ...]
    basis: tuple[str, ...]
    shares: Floats

    def __post_init__(self) -> None:
        if self.shares.shape != (len(self.features), len(self.basis)):
            raise BadInput(
                f"shares must be {len(self.features)} features × {len(self.basis)} transforms. "
                f"Got shape {self.shares.shape}."
            )

    def select(self, names: Sequence[str]) -> MixtureShares:
        """Some features, in this order."""
        places = {name: place for place, name in enumerate(self.features)}
        for name in names:
            if name not in places:
                raise UnknownName("feature", str(name), self.features)
        return MixtureShares(tuple(names), self.basis, self.shares[[places[name] for name in names]])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"features": list(self.features), "basis": list(self.basis), "shares": self.shares.tolist()}


def gather_shares(given: Any, basis: Sequence[str] | None = None) -> MixtureShares:
    """The shares of a ranker with a mixture, of a Mixture, of a DataFrame or a mapping feature → shares.

    A DataFrame has features as its index and transforms as its columns; a mapping needs `basis`.

    >>> gather_shares({"clicks": [0.25, 0.75]}, basis=["raw", "log1p"]).shares
    array([[0.25, 0.75]])
    """
    from placings.transforms import Mixture

    if isinstance(given, MixtureShares):
        return given
    transform = getattr(given, "transform_", given)
    if isinstance(transform, Mixture):
        if not hasattr(transform, "embedding_"):
            raise BadInput("the mixture is not fitted; fit it (or its ranker) first.")
        return MixtureShares(name_columns(given), transform.basis_, transform.weights())
    if hasattr(given, "index") and hasattr(given, "columns"):
        return _make_shares(given.index, given.columns, given.to_numpy())
    if isinstance(given, dict):
        if basis is None:
            raise BadInput("a mapping of shares needs basis= with the transforms' names, in its order.")
        return _make_shares(given, basis, list(given.values()))
    raise BadInput(
        "shares come from a ranker fitted with transform='mixture', a fitted Mixture, a DataFrame or a "
        f"mapping. Got {type(given).__name__}."
    )


def name_columns(ranker_or_transform: Any) -> tuple[str, ...]:
    """The names of the features: the ranker's own, for its transform may know them by number only."""
    transform = getattr(ranker_or_transform, "transform_", ranker_or_transform)
    names: tuple[str, ...] = getattr(ranker_or_transform, "feature_names_", transform.feature_names_)
    return names if len(names) == transform.n_features_in_ else transform.feature_names_


def measure_effects(ranker: Any, data: RankingData, *, rows: int = 20_000) -> MixtureShares:
    """How much of each feature's variation comes from each transform: `p_mk sd(σ_mk)`, as shares.

    The shares p of equation 4 weigh transforms of different sizes: with raw values up to 60,000 and a CDF in
    [0, 1], 4 % raw is still nearly all that the network sees. Here each share is multiplied by the standard
    deviation of its transform over (at most `rows`, evenly spread) rows of `data`, and rows add up to 1
    again. A feature that does not vary keeps its shares. With a standardised basis the two are about the
    same.
    """
    from placings.data.alignment import align_features

    found = gather_shares(ranker)
    transform = getattr(ranker, "transform_", ranker)
    chosen = np.unique(np.linspace(0, data.n_rows - 1, min(rows, data.n_rows)).astype(np.int64))
    X: Any = align_features(data, found.features).X[chosen]
    filled = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float32)
    filled = np.where(np.isnan(filled), transform.fill_.astype(np.float32), filled)
    borders = np.array([0, len(filled)])
    spread = [
        transform._compute_basis(number, filled, borders).std(axis=0) for number in range(len(found.basis))
    ]
    sizes = found.shares * np.stack(spread, axis=1)
    total = sizes.sum(axis=1, keepdims=True)
    shares = np.where(total > 0.0, sizes / np.where(total > 0.0, total, 1.0), found.shares)
    return MixtureShares(found.features, found.basis, shares)


def average_shares(several: Sequence[MixtureShares]) -> MixtureShares:
    """The mean over fits of the same mixture: other seeds, other folds."""
    first = several[0]
    if any((each.features, each.basis) != (first.features, first.basis) for each in several):
        raise BadInput("shares can be averaged only over the same features and transforms.")
    return MixtureShares(first.features, first.basis, np.mean([each.shares for each in several], axis=0))


def _make_shares(features: Iterable[Any], basis: Iterable[Any], shares: ArrayLike) -> MixtureShares:
    return MixtureShares(
        tuple(map(str, features)), tuple(map(str, basis)), np.asarray(shares, dtype=np.float64)
    )
