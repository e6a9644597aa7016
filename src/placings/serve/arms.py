"""Which order a person sees: the engine's, a model's, two of them interleaved, and a little exploration.

Everything random here is a hash of the service's seed with the person or the session, never of the keystroke:
the same person has the same arm in every worker and after every restart, and a list does not flicker while
somebody types.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from placings.core import BadInput

ENGINE = "engine"
MODEL = "model"
INTERLEAVED = "interleaved"


@dataclass(frozen=True)
class Arm:
    """One arm: its name, its share of people, and what it shows.

    `shows` is "engine", the name of a model, or two of these to be interleaved.
    """

    name: str
    share: float
    shows: tuple[str, ...]


@dataclass(frozen=True)
class Drawn:
    """A list as it is shown: `order` are rows of the engine's list `[items]`, best first.

    `teams` names for each shown item which of the two interleaved orders put it there (empty if none).
    `swapped` is the position from 1 of the upper item of a swapped pair, 0 if nothing was swapped, and
    `propensity` the probability that each shown item had of standing where it does, given the order before.
    """

    order: tuple[int, ...]
    teams: tuple[str, ...] = ()
    swapped: int = 0
    propensity: tuple[float, ...] = ()


@dataclass(frozen=True)
class Exploration:
    """Swaps of neighbours: with probability `rate` one pair within the first `depth` changes places."""

    rate: float = 0.0
    depth: int = 10

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 0.5:
            raise BadInput(f"the rate of exploration must be from 0 to 0.5. Got {self.rate!r}.")
        if self.depth < 2:
            raise BadInput(f"the depth of exploration must be 2 or more. Got {self.depth!r}.")


@dataclass(frozen=True)
class Arms:
    """All arms; their shares make 1. People are dealt by a hash of their id."""

    arms: tuple[Arm, ...] = (Arm(MODEL, 1.0, (MODEL,)),)
    exploration: Exploration = field(default_factory=Exploration)
    seed: str = ""

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names or len(set(names)) != len(names):
            raise BadInput(f"arms must have different names. Got {', '.join(names) or 'none'}.")
        total = sum(arm.share for arm in self.arms)
        if any(arm.share < 0 for arm in self.arms) or abs(total - 1.0) > 1e-6:
            raise BadInput(f"the shares of the arms must be 0 or more and make 1. Got {total:g}.")
        for arm in self.arms:
            if len(arm.shows) not in (1, 2):
                raise BadInput(
                    f"arm {arm.name!r} must show one order, or two interleaved. Got {len(arm.shows)}."
                )

    def choose(self, person: str) -> Arm:
        """The arm of a person."""
        place = draw_share(self.seed, "arm", person)
        for arm in self.arms:
            place -= arm.share
            if place < 0:
                return arm
        return self.arms[-1]


def draw_share(*words: str) -> float:
    """A number from 0 to 1 that depends on the words alone.

    >>> draw_share("seed", "ann") == draw_share("seed", "ann") != draw_share("seed", "bob")
    True
    """
    told = "\x1f".join(words).encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(told, digest_size=7).digest(), "big") / 2**56


def interleave(one: Sequence[int], other: Sequence[int], names: tuple[str, str], *keys: str) -> Drawn:
    """Team draft: in each round both orders, in a drawn turn, give the best of theirs that is not shown yet.

    An order's team are the items that it gave. Clicks on them are counted per list: which order's team got
    more. Radlinski, Kurup, Joachims, CIKM 2008.

    >>> interleave([0, 1, 2], [2, 1, 0], ("engine", "model"), "seed", "session").order in [
    ...     (0, 2, 1), (2, 0, 1)]
    True
    """
    orders, places = (list(one), list(other)), [0, 0]
    taken: set[int] = set()
    order: list[int] = []
    teams: list[str] = []
    turn = 0
    while len(order) < len(orders[0]):
        first = int(draw_share(*keys, "turn", str(turn)) < 0.5)
        for side in (first, 1 - first):
            while places[side] < len(orders[side]) and orders[side][places[side]] in taken:
                places[side] += 1
            if places[side] < len(orders[side]):
                row = orders[side][places[side]]
                taken.add(row)
                order.append(row)
                teams.append(names[side])
        turn += 1
    return Drawn(tuple(order), tuple(teams))


def explore(drawn: Drawn, exploration: Exploration, *keys: str) -> Drawn:
    """Swap one pair of neighbours, or none; each pair within the depth is as likely as any other.

    An item at position p that was not swapped stood there with probability 1 − rate·m/n, where n is the
    number of pairs and m how many of them it is part of (1 at both ends, else 2); a swapped one with rate/n.
    """
    count = min(len(drawn.order), exploration.depth)
    pairs = count - 1
    if exploration.rate == 0.0 or pairs < 1:
        return Drawn(drawn.order, drawn.teams, 0, (1.0,) * len(drawn.order))
    chance = draw_share(*keys, "swap")
    upper = int(chance / exploration.rate * pairs) if chance < exploration.rate else -1
    order, teams, propensity = list(drawn.order), list(drawn.teams), []
    for place in range(len(order)):
        part_of = 0 if place >= count else 1 if place in (0, count - 1) else 2
        propensity.append(1.0 - exploration.rate * part_of / pairs)
    if upper >= 0:
        order[upper], order[upper + 1] = order[upper + 1], order[upper]
        if teams:
            teams[upper], teams[upper + 1] = teams[upper + 1], teams[upper]
        propensity[upper] = propensity[upper + 1] = exploration.rate / pairs
    return Drawn(tuple(order), tuple(teams), upper + 1, tuple(propensity))
