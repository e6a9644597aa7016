"""Which features there are, by the names that a state calls them."""

from __future__ import annotations

from placings.features.category import OneHot
from placings.features.engine_signals import EngineSignals
from placings.features.fields import FieldMatch, QueryCover
from placings.features.geo import Coordinates, Distance
from placings.features.ngrams import CountedNgrams, HashedNgrams
from placings.features.number import Number
from placings.features.similarity import Similarity
from placings.features.spec import Feature
from placings.features.standing import Standing
from placings.features.text import TextShape
from placings.features.time import Clock

FAMILIES: dict[str, type[Feature]] = {
    each.family: each
    for each in (
        Clock, Coordinates, CountedNgrams, Distance, EngineSignals, FieldMatch, HashedNgrams, Number, OneHot,
        QueryCover, Similarity, Standing, TextShape,
    )
}  # fmt: skip
