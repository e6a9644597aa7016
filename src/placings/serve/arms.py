"""Which order a person sees: the engine's, a model's, two of them interleaved, and a little exploration.

Everything random here is a hash of the experiment's name with the person (for the arm) or the session (for
team turns and swaps), never of the keystroke. The same person has the same arm in every worker and after
every restart, another experiment deals people anew, and a list does not flicker while somebody types:

- who gives first in each round of interleaving is fixed for a session, so equal lists stay equal;
- whether a session has swaps at all is fixed for it, and so is the rank of every pair of items among the
  pairs that may be swapped. As the list changes from "kar" to "karl", the same two items stay swapped until
  they are too far apart or below the depth, or a pair joins that ranks before them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placings.core import BadInput

ENGINE = "engine"
MODEL = "model"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@dataclass(frozen=True)
class Arm:
    """One arm: its name, its share of people, and what it shows.

    `shows` is "engine", the name of a model, or two of these to be interleaved.
    """

    name: str
    share: float
    shows: tuple[str, ...]

    def __post_init__(self) -> None:
        for told in (self.name, *self.shows):
            if not NAME.fullmatch(told):
                raise BadInput(
                    f"names of arms and models must have letters, digits, _, . or -. Got {told!r}."
                )
        if not 0.0 <= self.share <= 1.0:
            raise BadInput(f"the share of arm {self.name!r} must be from 0 to 1. Got {self.share!r}.")
        if len(self.shows) not in (1, 2) or len(set(self.shows)) != len(self.shows):
            raise BadInput(f"arm {self.name!r} must show one order, or two different ones interleaved.")

    @classmethod
    def parse(cls, told: str) -> Arm:
        """An arm as `--arm` takes it.

        >>> Arm.parse("mix=0.1:engine+model")
        Arm(name='mix', share=0.1, shows=('engine', 'model'))
        """
        name, _, rest = told.partition("=")
        share, _, what = rest.partition(":")
        try:
            number = float(share)
        except ValueError:
            number = math.nan
        if not (name and what) or math.isnan(number):
            raise BadInput(f"an arm must be NAME=SHARE:WHAT, such as new=0.5:model. Got {told!r}.")
        return cls(name, number, tuple(what.split("+")))

    def __str__(self) -> str:
        return f"{self.name}={self.share!r}:{'+'.join(self.shows)}"


@dataclass(frozen=True)
class Drawn:
    """A list as it is shown: `order` are rows of the engine's list `[items]`, best first.

    `teams` names for each shown item which of the two interleaved orders put it there (empty if none).
    `swapped` is the position from 1 of the upper item of a swapped pair and `swapped_with` that of the lower
    one, both 0 if nothing was swapped; `propensity` the probability that each shown item had of standing
    where it does, given the order before, `swap_probability` that any pair of the list had to be swapped, and
    `swap_reach` how many places apart the two items of a pair could be at most, 0 if none could be swapped.
    """

    order: tuple[int, ...]
    teams: tuple[str, ...] = ()
    swapped: int = 0
    propensity: tuple[float, ...] = ()
    swap_probability: float = 0.0
    swapped_with: int = 0
    swap_reach: int = 0


@dataclass(frozen=True)
class Exploration:
    """Swaps: with probability `rate` one pair within the first `depth` changes places.

    Its items are at most `reach` places apart: neighbours by default, any two of the first `depth` with a
    reach of `depth` − 1 or more.
    """

    rate: float = 0.0
    depth: int = 10
    reach: int = 1

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 0.5:
            raise BadInput(f"the rate of exploration must be from 0 to 0.5. Got {self.rate!r}.")
        if self.depth < 2:
            raise BadInput(f"the depth of exploration must be 2 or more. Got {self.depth!r}.")
        if self.reach < 1:
            raise BadInput(f"the reach of exploration must be 1 or more. Got {self.reach!r}.")


@dataclass(frozen=True)
class Arms:
    """All arms; their shares make 1. `experiment` names what they are for; another name deals people anew."""

    arms: tuple[Arm, ...] = (Arm(MODEL, 1.0, (MODEL,)),)
    exploration: Exploration = field(default_factory=Exploration)
    experiment: str = "first"

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names or len(set(names)) != len(names):
            raise BadInput(f"arms must have different names. Got {', '.join(names) or 'none'}.")
        total = sum(arm.share for arm in self.arms)
        if abs(total - 1.0) > 1e-6:
            raise BadInput(f"the shares of the arms must make 1. Got {total:g}.")
        if not NAME.fullmatch(self.experiment):
            raise BadInput(f"the experiment must have letters, digits, _, . or -. Got {self.experiment!r}.")

    def choose(self, person: str) -> Arm:
        """The arm of a person: each arm draws a waiting time for them, and the shortest wins.

        With u a hash of experiment, arm and person, arm i waits −ln(1 − u_i) / share_i and so wins with
        probability share_i. The order of the arms does not matter. If shares change, few people move: of two
        arms, exactly the change; of more, at most 2δ/(1 + δ) of all people, where δ is half the sum of the
        absolute changes. No rule without a memory of earlier shares can promise less for any number of arms
        (Bavarian et al., Optimality of correlated sampling strategies, Theory of Computing 2020).

        >>> arms = Arms((Arm("old", 0.5, ("engine",)), Arm("new", 0.5, ("model",))))
        >>> arms.choose("ann") == arms.choose("ann")
        True
        """
        waits = [
            (-math.log1p(-draw_share(self.experiment, "arm", arm.name, person)) / arm.share, place)
            for place, arm in enumerate(self.arms)
            if arm.share > 0
        ]
        return self.arms[min(waits)[1]]

    def __str__(self) -> str:
        """What every impression says of its arms, so that shares are known when it is read again."""
        return " ".join(map(str, self.arms))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Arms:
        """What `dataclasses.asdict` gave."""
        arms = tuple(Arm(each["name"], each["share"], tuple(each["shows"])) for each in told["arms"])
        return cls(arms, Exploration(**told["exploration"]), told["experiment"])


def draw_share(*words: str) -> float:
    """A number from 0 to 1, 1 excluded, that depends on the words alone.

    >>> draw_share("first", "ann") == draw_share("first", "ann") != draw_share("first", "bob")
    True
    >>> draw_share("a", "bc") != draw_share("ab", "c")
    True
    """
    told = [word.encode("utf-8", "surrogatepass") for word in words]
    joined = b"".join(len(word).to_bytes(4, "big") + word for word in told)
    # 53 bits are what a float holds: 56 could be rounded up to 1
    return (int.from_bytes(hashlib.blake2b(joined, digest_size=7).digest(), "big") >> 3) / 2**53


def interleave(one: Sequence[int], other: Sequence[int], names: tuple[str, str], *keys: str) -> Drawn:
    """Team draft: in each round both orders, in a drawn turn, give the best of theirs that is not shown yet.

    An order's team are the items that it gave. Clicks on them are counted per list: which order's team got
    more. Each order is first in a round with probability 1/2, so of two equal orders none is preferred.
    The turns depend on the keys and the number of the round alone. Radlinski, Kurup, Joachims: How does
    clickthrough data reflect retrieval quality?, CIKM 2008.

    >>> interleave([0, 1, 2], [2, 1, 0], ("engine", "model"), "first", "session").order in [
    ...     (0, 2, 1), (2, 0, 1)]
    True
    """
    if len(set(one)) != len(one) or sorted(one) != sorted(other):
        raise BadInput(f"two orders to interleave must hold the same rows. Got {len(one)} and {len(other)}.")
    orders, places = (one, other), [0, 0]
    taken: set[int] = set()
    order: list[int] = []
    teams: list[str] = []
    turn = 0
    while len(order) < len(one):
        first = int(draw_share(*keys, "turn", str(turn)) < 0.5)
        for side in (first, 1 - first):
            while places[side] < len(one) and orders[side][places[side]] in taken:
                places[side] += 1
            if places[side] < len(one):
                row = orders[side][places[side]]
                taken.add(row)
                order.append(row)
                teams.append(names[side])
        turn += 1
    return Drawn(tuple(order), tuple(teams))


def explore(order: Sequence[int], items: Sequence[str], exploration: Exploration, *keys: str) -> Drawn:
    """Swap one pair of items, or none; each pair within depth and reach is as likely as any other.

    `items[row]` is the id of a row. A hash of the keys says whether anything is swapped, with probability
    `rate`. Then each pair has a hash of its own, of the keys and its two items, and the lowest is swapped:
    the same two items on the next keystroke too, wherever they stand.

    With n pairs, an item that was swapped stood where it does with probability rate/n, and one that was not
    with 1 − m·rate/n, where m of the pairs hold its position (of neighbours 1 at both ends, else 2; none
    below the depth). For each item these add up to 1 over the positions that it may have. They are
    probabilities over sessions: lists of one session are no independent draws.

    >>> explore([0, 1, 2], ["a", "b", "c"], Exploration(0.2, 10), "first", "session 1").propensity
    (0.9, 0.8, 0.9)
    >>> drawn = explore([0, 1, 2], ["a", "b", "c"], Exploration(0.3, 10, reach=2), "first", "session 1")
    >>> [round(chance, 3) for chance in drawn.propensity]  # three pairs, of which each item is in two
    [0.8, 0.8, 0.8]
    """
    count = min(len(order), exploration.depth)
    reach = min(exploration.reach, count - 1)
    if exploration.rate == 0.0 or reach < 1:
        return Drawn(tuple(order), (), 0, (1.0,) * len(order))
    pairs = [(upper, upper + away) for away in range(1, reach + 1) for upper in range(count - away)]
    each = exploration.rate / len(pairs)
    shown = list(order)
    propensity = [
        1.0 - each * (min(place, reach) + min(count - 1 - place, reach) if place < count else 0)
        for place in range(len(order))
    ]
    swapped = swapped_with = 0
    if draw_share(*keys, "swap") < exploration.rate:

        def rank(pair: tuple[int, int]) -> float:
            names = sorted(items[order[place]] for place in pair)  # the same pair, whoever is above
            return draw_share(*keys, "pair", *names)

        upper, lower = min(pairs, key=rank)
        shown[upper], shown[lower] = shown[lower], shown[upper]
        propensity[upper] = propensity[lower] = each
        swapped, swapped_with = upper + 1, lower + 1
    return Drawn(
        tuple(shown), (), swapped, tuple(propensity), exploration.rate,
        swapped_with=swapped_with, swap_reach=reach,
    )  # fmt: skip
