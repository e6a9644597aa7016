"""Three made-up towns and an engine that looks at every place: what the simulator is tested on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placings.places.place import Place
from placings.rerank import Focus, Hit

TOWNS = {"Altstadt": (49.0, 8.4, 300_000), "Neudorf": (49.1, 8.5, 20_000), "Köhlerbach": (48.9, 8.2, 2_000)}
STOPS = (
    "Marktplatz",
    "Hauptbahnhof",
    "Rathaus",
    "Tannenweg",
    "Am Fließ",
    "Mühlburger Tor",
    "Zoo",
    "Schloßplatz",
)
STREETS = ("Lindenstraße", "Kaiserstraße", "Gartenweg", "Henriette-Obermüller-Straße")


def make_towns() -> list[Place]:
    """Stops of like names in each town, streets, addresses, the towns, and a few sights."""
    places = []
    for number, (town, (lat, lon, people)) in enumerate(TOWNS.items()):
        other = (f"{town}-City", "Город") if number else ()
        places.append(
            Place(f"town{number}", town, lat, lon, "locality", country="Germany", weight=people, names=other)
        )
        for place, name in enumerate(STOPS):
            kind, weight = ("station", 50_000.0 / (1 + number)) if name == "Hauptbahnhof" else ("stop", 0.1)
            at = (lat + 0.004 * place, lon - 0.003 * place)
            places.append(Place(f"stop{number}.{place}", f"{name}, {town}", *at, kind, town, weight=weight))
        for place, name in enumerate(STREETS):
            at = (lat - 0.003 * place, lon + 0.005)
            places.append(Place(f"street{number}.{place}", name, *at, "street", town))
            for house in range(1, 12):
                at = (at[0] + 0.0002, at[1])
                places.append(
                    Place(
                        f"house{number}.{place}.{house}", f"{name} {house}", *at, "address", town, name,
                        fields={"postcode": f"7600{number}"},
                    )
                )  # fmt: skip
        places.append(Place(f"poi{number}", f"Museum {town}", lat, lon + 0.01, "museum", town, "Gartenweg"))
    return places


class TownEngine:
    """Every word of the text must begin a word of the place; weight, nearness and the name's start count."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.known = [(place, fold(f"{place.name} {place.locality}")) for place in places]
        self.asked: list[tuple[str, Focus | None, int]] = []

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        self.asked.append((text, focus, k))
        words = fold(text).split()
        found = []
        for place, known in self.known:
            if words and all(f" {word}" in f" {known}" for word in words):
                score = math.log10(1.0 + place.weight) / 4.0 + known.startswith(" ".join(words))
                if focus is not None:
                    score += 1.0 / (1.0 + 10.0 * math.dist(focus, (place.lat, place.lon)))
                found.append((-score, place.id, place))
        found.sort(key=lambda each: each[:2])
        return [place.to_hit(-score, rank) for rank, (score, _, place) in enumerate(found[:k], 1)]


def fold(text: str) -> str:
    table = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss", ",": " ", "-": " "})
    for spelled, plain in (("ae", "a"), ("oe", "o"), ("ue", "u")):
        text = text.lower().replace(spelled, plain)
    return " ".join(text.translate(table).split())
