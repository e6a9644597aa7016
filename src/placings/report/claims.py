"""What the paper reads from its Figure 2, as three claims that a fitted mixture can be asked about.

Zhuang, Wang, Bendersky and Najork: Feature Transformation for Neural Ranking Models, SIGIR 2020, section 5.4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from placings.data.collections import STREAMS
from placings.report.mixture_shares import MixtureShares, gather_shares

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
