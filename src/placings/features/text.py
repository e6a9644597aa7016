"""The shape of a text: how long, how many words, any digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from placings.core import Floats
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind, check_measures

SHAPES = {
    "length": lambda text: float(len(text)),
    "words": lambda text: float(text.count(" ") + 1),
    "digits": lambda text: float(any(each.isdigit() for each in text)),
}


@dataclass(frozen=True)
class TextShape(Feature):
    """Characters and words of a folded text, and whether it has digits (1 or 0); NaN where there is no text.

    The names are the column's: `query_length`, `query_words`, `query_digits`.
    """

    family: ClassVar[str] = "text shape"

    column: str = "query"
    measures: tuple[str, ...] = tuple(SHAPES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, SHAPES)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def names(self) -> list[str]:
        return [f"{self.column}_{measure}" for measure in self.measures]

    def kinds(self) -> list[FeatureKind]:
        return ["query" if self.column == "query" else "item"] * len(self.measures)

    def compute(self, rows: Rows) -> list[Floats]:
        texts = rows.texts(self.column, fold=True)
        return [texts.spread([SHAPES[measure](text) for text in texts.values]) for measure in self.measures]
