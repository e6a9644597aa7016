"""Figure 2: which transforms a mixture chose for which feature; and the curve that each feature learned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import AnyArray, BadInput, Floats, UnknownName
from placings.data import STREAMS, RankingData
from placings.report.figures import (
    BAR,
    COLOURS,
    INK,
    check_suffix,
    escape_label,
    start_figure,
    start_panels,
    write_figure,
)


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
        return MixtureShares(name_inputs(given), transform.basis_, transform.weights())
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


def name_inputs(ranker_or_transform: Any) -> tuple[str, ...]:
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
    from placings.data import align_features

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


ONLY = 0.5  # "only uses": more than all others together


@dataclass(frozen=True)
class Statement:
    """One claim of the paper: for these features (WEB30K's names) this transform is the one."""

    text: str
    transform: str
    features: tuple[str, ...]
    least: float = 0.0  # the share that the transform must pass, besides being the largest


STATEMENTS = (
    Statement(
        "features that are sophisticated ranking scores per se use only their raw scores",
        "raw",
        ("sum of tf*idf body", "BM25 body", "LMIR.DIR body"),
        least=ONLY,
    ),
    Statement(
        "features with extremely large values or a power law use log1p",
        "log1p",
        ("sum of term frequency body", "PageRank"),
    ),
    Statement(
        "features with small values or a sparse distribution use the CDF",
        "cdf",
        ("sum of stream length normalized term frequency body", "Outlink number"),
    ),
)
# The features that the paper's text names of Figure 2, in its order; "by default we select the feature for
# body". The figure itself may show more: our copy of the paper is text, and the text names these seven.
FIGURE_2 = tuple(feature for statement in STATEMENTS for feature in statement.features)


@dataclass(frozen=True)
class Claim:
    """A claim and what a mixture says to it; `holds` is None where it cannot be said."""

    text: str
    holds: bool | None
    evidence: str
    shares: dict[str, dict[str, float]]  # feature → transform → share

    def __str__(self) -> str:
        verdict = {True: "holds", False: "does not hold", None: "cannot be said"}[self.holds]
        return f"{self.text[0].upper()}{self.text[1:]}: {verdict}. {self.evidence}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def check_claims(ranker_or_weights: Any) -> tuple[Claim, ...]:
    """The paper's three claims about Figure 2, each with the numbers that support or contradict it.

    A claim holds if its transform has the largest share of every feature that the paper names for it; for
    "only uses their raw scores" that share must also be above one half. It cannot be said (`holds=None`)
    where none of the named features is there (they are WEB30K's, known by their names) or the mixture was
    not offered the transform. A basis without `raw` but with `gauss` is judged by gauss, which is raw but for
    shift and scale, and that is said. The same features of WEB30K's other streams (anchor, title, …) are
    counted beside, and do not decide.

    >>> shares = {"PageRank": [0.1, 0.9], "sum of term frequency body": [0.4, 0.6]}
    >>> for claim in check_claims(gather_shares(shares, basis=["raw", "log1p"])):
    ...     print(claim.holds)
    None
    True
    None
    """
    found = gather_shares(ranker_or_weights)
    names = {plain_feature(name): name for name in found.features}
    return tuple(_judge(statement, found, names) for statement in STATEMENTS)


def find_named(features: Sequence[str], wanted: Sequence[str] = FIGURE_2) -> list[str]:
    """Those of `wanted` that are there, whatever the case and the signs between words, in wanted order.

    >>> find_named(["pagerank", "clicks"])
    ['pagerank']
    """
    names = {plain_feature(name): name for name in features}
    return [names[plain_feature(name)] for name in wanted if plain_feature(name) in names]


def plain_feature(name: str) -> str:
    """Letters and digits in lower case.

    >>> plain_feature("sum of tf*idf body")
    'sumoftfidfbody'
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _judge(statement: Statement, found: MixtureShares, names: dict[str, str]) -> Claim:
    there = [names[plain] for name in statement.features if (plain := plain_feature(name)) in names]
    lacking = [name for name in statement.features if plain_feature(name) not in names]
    transform, stands_in = statement.transform, ""
    if transform == "raw" and "raw" not in found.basis and "gauss" in found.basis:
        transform, stands_in = "gauss", " gauss stands for raw: the same but for shift and scale."
    if not there or transform not in found.basis:
        why = (
            f"The data lack {_join(lacking)}."
            if not there
            else f"The mixture was not offered {transform}; it had {', '.join(found.basis)}."
        )
        return Claim(statement.text, None, why, {})
    chosen = found.select(there)
    shares = {
        name: dict(zip(found.basis, map(float, row), strict=True))
        for name, row in zip(there, chosen.shares, strict=True)
    }
    passed = [_is_chosen(each, transform, statement.least) for each in shares.values()]
    said = "; ".join(_describe(name, each, transform) for name, each in shares.items())
    evidence = f"{said}.{stands_in}"
    if lacking:
        evidence += f" The data lack {_join(lacking)}."
    evidence += _count_streams(statement, transform, found, names)
    return Claim(statement.text, all(passed), evidence, shares)


def _is_chosen(shares: dict[str, float], transform: str, least: float) -> bool:
    own = shares[transform]
    return own > least and all(own > share for name, share in shares.items() if name != transform)


def _describe(name: str, shares: dict[str, float], transform: str) -> str:
    largest = max(shares, key=lambda each: shares[each])
    text = f"{name} uses {shares[transform]:.0%} {transform}"
    return text if largest == transform else f"{text} (most of all {largest}, {shares[largest]:.0%})"


def _count_streams(statement: Statement, transform: str, found: MixtureShares, names: dict[str, str]) -> str:
    kinds = [name.removesuffix(" body") for name in statement.features if name.endswith(" body")]
    plain = [plain_feature(f"{kind} {stream}") for kind in kinds for stream in STREAMS]
    there = [names[name] for name in plain if name in names]
    if len(there) <= len(kinds):
        return ""
    rows = found.select(there).shares
    passed = sum(
        _is_chosen(dict(zip(found.basis, map(float, row), strict=True)), transform, statement.least)
        for row in rows
    )
    return f" Over all streams it is so for {passed} of {len(there)} such features."


def _join(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


MOST_ROWS = 25  # features drawn when none are named
MOST_CURVES = 12
LEAST_SHARE = 0.01  # of a part that is drawn
MIXED = "#a9c4d8"
PART_COLOURS = COLOURS[1:]
LEAST_DECADES = 2.0  # orders of magnitude in a feature's range from which on its axis is a logarithm


def draw_mixture(
    ranker_or_weights: Any,
    path: str | Path,
    features: Sequence[str] | None = None,
    *,
    basis: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """The mixture's shares as a heat map, one row a feature and one column a transform: the paper's Figure 2.

    `ranker_or_weights` is a ranker fitted with `transform="mixture"`, a fitted Mixture, a DataFrame
    (features × transforms) or a mapping with `basis`. Without `features`, data with WEB30K's names show the
    seven features that the paper's text names of its figure, in its order; other data all features if they
    are few, else the 25 that are furthest from using every transform alike. Writes `.svg` or `.png` and
    returns the path; needs matplotlib.
    """
    check_suffix(path)
    found = gather_shares(ranker_or_weights, basis)
    shown = found.select(choose_shown(found) if features is None else features)
    longest = max(len(name) for name in shown.features)
    width = 1.2 + 0.065 * longest + 0.75 * len(shown.basis)
    figure, axes = start_figure(width, 0.9 + 0.28 * len(shown.features))
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("placings", ["#ffffff", BAR])
    axes.imshow(shown.shares, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto")
    for row, values in enumerate(shown.shares):
        for column, share in enumerate(values):
            colour = "#ffffff" if share > 0.6 else INK
            axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(shown.basis)), [escape_label(name) for name in shown.basis])
    axes.set_yticks(range(len(shown.features)), [escape_label(name) for name in shown.features])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    if title:
        axes.set_title(escape_label(title), fontsize=9, color=INK)
    return write_figure(figure, path)


def choose_shown(found: MixtureShares) -> list[str]:
    """The features a figure shows when none are named; see `draw_mixture`."""
    named = find_named(found.features)
    if len(named) == len(FIGURE_2):
        return named
    names = np.array(found.features, dtype=object)
    distance = np.abs(found.shares - 1.0 / len(found.basis)).sum(axis=1)
    chosen = np.arange(len(names))
    if len(names) > MOST_ROWS:
        chosen = np.sort(np.argsort(-distance, kind="stable")[:MOST_ROWS])
    largest = found.shares.argmax(axis=1)
    order = np.lexsort((-found.shares.max(axis=1)[chosen], largest[chosen]))
    return [str(name) for name in names[chosen[order]]]


def draw_curves(
    ranker: Any,
    path: str | Path,
    features: Sequence[str] | None = None,
    *,
    data: RankingData | None = None,
    points: int = 200,
) -> Path:
    """What each feature's learned transform gives for each raw value, from its smallest to its largest.

    `ranker` is a fitted NeuralRanker or a fitted Transform. A mixture is the thick pale line, and the thin
    ones are its parts, each times its share; parts below 1 % are left out. Features whose values spread over
    two orders of magnitude have a symmetric logarithm as their axis. Without `features`, WEB30K's are those
    of Figure 2, other data's the first twelve of what `draw_mixture` shows. A ranker that was loaded from a
    bundle does not know the range of its features: give it `data`. A column of a vector group has no curve
    and is refused.
    """
    from placings.transforms import trace_curves

    check_suffix(path)
    transform = getattr(ranker, "transform_", ranker)
    known = name_inputs(ranker)
    grid = None if data is None else _space_grid(data, known, points)
    curves = trace_curves(transform, points=points, grid=grid)
    shares = gather_shares(ranker) if curves.basis else None
    if features is None:
        names = list(known[:MOST_CURVES]) if shares is None else choose_shown(shares)[:MOST_CURVES]
    else:
        names = [str(name) for name in features]
    places = {name: place for place, name in enumerate(known)}
    for name in names:
        if name not in places:
            raise UnknownName("feature", name, known)
        if np.isnan(curves.y[places[name]]).all():
            raise BadInput(
                f"{name!r} is a coordinate of a vector, which is transformed as a whole: no curve."
            )
    columns = min(4, len(names))
    figure, panels = start_panels(-(-len(names) // columns), columns, 2.4, 1.9)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        place = places[name]
        x, y = curves.x[place], curves.y[place]
        axes.plot(x, y, color=BAR if shares is None else MIXED, linewidth=1.5 if shares is None else 4.0)
        if shares is not None:
            for number, part in enumerate(curves.parts[place]):
                share = float(shares.shares[place, number])
                if share >= LEAST_SHARE:
                    axes.plot(x, share * part, color=PART_COLOURS[number % len(PART_COLOURS)], linewidth=1.0)
        _choose_axis(axes, x)
        axes.set_title(escape_label(_shorten(name)), fontsize=7.5, color=INK)
    if shares is not None:
        _add_legend(figure, shares.basis)
    return write_figure(figure, path)


def _space_grid(data: RankingData, names: Sequence[str], points: int) -> Floats:
    from placings.data import align_features

    X: Any = align_features(data, tuple(names)).X
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    there = ~np.isnan(rows).all(axis=0)
    low, high = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    low[there], high[there] = np.nanmin(rows[:, there], axis=0), np.nanmax(rows[:, there], axis=0)
    first, last = (np.sign(end) * np.log1p(np.abs(end)) for end in (low, high))
    spaced = np.linspace(first, last, points, axis=1)
    return np.asarray(np.sign(spaced) * np.expm1(np.abs(spaced)))


def _choose_axis(axes: Any, x: AnyArray) -> None:
    """A symmetric logarithm, straight within ±1, where the values spread over orders of magnitude."""
    low, high = (float(np.sign(end) * np.log10(1.0 + abs(end))) for end in (x.min(), x.max()))
    if high - low < LEAST_DECADES:
        return
    powers = [10.0**power for power in range(39)]
    ticks = [tick for tick in (*(-p for p in reversed(powers)), 0.0, *powers) if x.min() <= tick <= x.max()]
    from matplotlib.ticker import NullLocator

    axes.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    apart = -(-len(ticks) // 5)
    first = ticks.index(0.0) % apart if 0.0 in ticks else 0
    axes.set_xticks(ticks[first::apart])
    axes.xaxis.set_minor_locator(NullLocator())


def _add_legend(figure: Any, basis: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=MIXED, linewidth=4.0, label="mixture")]
    for number, name in enumerate(basis):
        colour = PART_COLOURS[number % len(PART_COLOURS)]
        lines.append(Line2D([], [], color=colour, linewidth=1.0, label=f"{escape_label(name)} × its share"))
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(5, len(lines)), fontsize=7, frameon=False
    )


def _shorten(name: str, most: int = 34) -> str:
    """A name on two lines if it is long, and cut if it is longer than that."""
    if len(name) <= most:
        return name
    cut = name.rfind(" ", 0, most)
    cut = most if cut < most // 2 else cut
    rest = name[cut:].strip()
    return f"{name[:cut]}\n{rest if len(rest) <= most else rest[: most - 1] + '…'}"
