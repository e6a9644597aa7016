"""A place, a hit, and what an engine promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

Focus = tuple[float, float]  # latitude, longitude in degrees


@dataclass(frozen=True)
class Place:
    """A place that can be found. What a source does not tell is empty; `weight` is its popularity, 0 or more.

    `names` are other names that it is known by. `fields` are what else a source says, plain values.
    """

    id: str
    name: str
    lat: float
    lon: float
    type: str = ""
    locality: str = ""
    street: str = ""
    neighbourhood: str = ""
    borough: str = ""
    country: str = ""
    zone: str = ""  # the time zone's name, Europe/Berlin
    weight: float = 0.0
    names: tuple[str, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Hit:
    """A place found: the engine's score, higher is better, and the rank it had, from 1."""

    place: Place
    score: float
    rank: int


@runtime_checkable
class Engine(Protocol):
    """What answers a text with places, best first."""

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits, best first; `layers` are the types wanted, `focus` is where the user is."""
        ...


def split_locality(name: str, locality: str) -> str:
    """A name without the locality behind its last comma.

    >>> split_locality("Schanzstraße, Wiernsheim", "Wiernsheim"), split_locality("Bad, Rot", "Ulm")
    ('Schanzstraße', 'Bad, Rot')
    """
    head, comma, tail = name.rpartition(",")
    return head.strip() if comma and head.strip() and tail.strip() == locality.strip() else name
