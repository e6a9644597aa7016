"""A place: what the engines of this room find, and one source of a hit's fields."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from placings.rerank import Hit


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

    def to_hit(self, score: float, rank: int) -> Hit:
        """The place as an engine gives it: all its fields, and beside them what else its source says.

        >>> hit = Place("1", "Ulm", 48.4, 10.0, fields={"stars": 4, "name": "not this one"}).to_hit(2.5, 1)
        >>> hit.id, hit.fields["name"], hit.fields["stars"]
        ('1', 'Ulm', 4)
        """
        own = {name: getattr(self, name) for name in OWN_FIELDS}
        other = {"names": self.names} if self.names else {}
        return Hit(self.id, {**self.fields, **own, **other}, score, rank)

    @classmethod
    def of_hit(cls, hit: Hit) -> Place:
        """The place that a hit tells of; what is not a place's own field goes into `fields`."""
        told = dict(hit.fields)
        own = {name: told.pop(name) for name in OWN_FIELDS if told.get(name) is not None}
        names = tuple(told.pop("names", ()))
        return cls(
            **{"name": hit.name, "lat": float("nan"), "lon": float("nan"), **own},
            id=hit.id,
            names=names,
            fields=told,
        )


OWN_FIELDS = tuple(each.name for each in fields(Place) if each.name not in ("id", "names", "fields"))


def split_locality(name: str, locality: str) -> str:
    """A name without the locality behind its last comma.

    >>> split_locality("Schanzstraße, Wiernsheim", "Wiernsheim"), split_locality("Bad, Rot", "Ulm")
    ('Schanzstraße', 'Bad, Rot')
    """
    head, comma, tail = name.rpartition(",")
    return head.strip() if comma and head.strip() and tail.strip() == locality.strip() else name
