"""What of the query the name does not explain, and whether another field of the item does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placings.core import KEPT, Floats, find_limit, fold_text, give_spellings, remember_short
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind, check_measures

MATCHES = ("match", "left", "core_exact")


@dataclass(frozen=True)
class FieldMatch(Feature):
    """The query against a field beside the name, such as the locality; NaN where a text is missing.

    match: the share of the query's words that begin a word of the field. left: the same share of the words
    that begin no word of the name, which are the ones that say where; NaN if the name explains them all.
    core_exact: 1 where query and name are equal once the field's words are taken from both, as "Schloss" and
    "Schloss, Bruchsal" are; without a field, where they are equal.

    >>> from placings.features.spec import FeatureSet
    >>> rows = {"query": ["Markt Bruch"] * 2, "name": ["Markt"] * 2, "locality": ["Bruchsal", "Rastatt"]}
    >>> FeatureSet([FieldMatch("locality", ("match", "left"))]).fit_transform(rows)
    array([[0.5, 1. ],
           [0. , 0. ]], dtype=float32)
    """

    family: ClassVar[str] = "field match"

    field: str = "locality"
    measures: tuple[str, ...] = MATCHES
    query: str = "query"
    name: str = "name"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, MATCHES)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.query, self.name, self.field)

    def names(self) -> list[str]:
        return [f"{self.field}_{measure}" for measure in self.measures]

    def kinds(self) -> list[FeatureKind]:
        return ["query-item"] * len(self.measures)

    def compute(self, rows: Rows) -> list[Floats]:
        return [self._measure(rows, measure) for measure in self.measures]

    def _measure(self, rows: Rows, measure: str) -> Floats:
        if measure == "core_exact":
            return match_cores(rows, self.query, self.name, self.field)
        triples = rows.combine(self.query, self.name, self.field)
        only_left = measure == "left"
        texts = zip(*triples.columns, strict=True)
        return triples.spread([_match(query, name, field, only_left) for query, name, field in texts])


@dataclass(frozen=True)
class QueryCover(Feature):
    """How much of the query the item's texts explain together.

    query_cover: the share of the query's words that begin a word of the name or of one of the fields.
    words_left: how many begin no word of the name. Missing fields are skipped; NaN without query or name.
    """

    family: ClassVar[str] = "query cover"

    fields: tuple[str, ...] = ("locality", "street", "neighbourhood", "borough")
    query: str = "query"
    name: str = "name"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.query, self.name, *self.fields)

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.query, self.name)

    def names(self) -> list[str]:
        return ["query_cover", "words_left"]

    def kinds(self) -> list[FeatureKind]:
        return ["query-item", "query-item"]

    def compute(self, rows: Rows) -> list[Floats]:
        combined = rows.combine(*self.columns)
        cover, left = [], []
        before: str | None = None
        words: tuple[tuple[str, ...], ...] = ()
        for query, name, *others in zip(*combined.columns, strict=True):
            if query != before:
                words, before = _spell_query(query), query
            known = _spell_words(name)
            if not words or not known:
                cover.append(np.nan)
                left.append(np.nan)
                continue
            rest = [word for word in words if not _begins(word, known)]
            lacking = 0
            if rest:
                fields = "".join([_spell_words(text) for text in others if text])
                lacking = sum([not _begins(word, fields) for word in rest])
            cover.append(1.0 - lacking / len(words))
            left.append(float(len(rest)))
        return [combined.spread(cover), combined.spread(left)]


def match_cores(rows: Rows, query: str, name: str, field: str) -> Floats:
    """1 where query and name are equal but for the field's words; NaN without query or name."""

    def match() -> Floats:
        triples = rows.combine(query, name, field)
        found = []
        before: str | None = None
        asked: tuple[str, ...] = ()
        for one, other, beside in zip(*triples.columns, strict=True):
            if one != before:
                asked, before = give_spellings(one, bare=True), one
            found.append(_match_core(asked, other, beside))
        return triples.spread(found)

    return rows.remember(("cores", query, name, field), match)


def _match_core(asked: tuple[str, ...], name: str, field: str) -> float:
    named = give_spellings(name, bare=True)
    if not asked or not named:
        return np.nan
    beside = _list_beside(field) if field else frozenset()
    if not beside:
        return float(asked[0] in named or (len(asked) > 1 and not set(asked).isdisjoint(named)))
    if not any(word not in beside for word in asked[0].split()):
        return float(
            any(one in named for one in asked)
        )  # the query is the field: only the name itself equals it
    cores = {_leave(one, beside) for one in asked}
    return float(any(_leave(one, beside) in cores for one in named))


def _match(query: str, name: str, field: str, only_left: bool) -> float:
    words, known, beside = _spell_query(query), _spell_words(name), _spell_words(field)
    if not words or not known or not beside:
        return np.nan
    if only_left:
        words = tuple(word for word in words if not _begins(word, known))
    return sum(_begins(word, beside) for word in words) / len(words) if words else np.nan


@remember_short(KEPT)
def _spell_query(query: str) -> tuple[tuple[str, ...], ...]:
    """The first words of a query, each in all its spellings, with a blank before each."""
    words = fold_text(query).split()[: find_limit("words")]
    return tuple((f" {word}", *(f" {each}" for each in give_spellings(word)[1:])) for word in words)


@remember_short(KEPT)
def _list_beside(field: str) -> frozenset[str]:
    """The words of a field, in all spellings."""
    return frozenset(_spell_words(field).split())


@remember_short(KEPT)
def _spell_words(text: str) -> str:
    """All words of all spellings, with a blank before each."""
    return "".join(f" {spelling}" for spelling in give_spellings(text, bare=True))


def _begins(spellings: tuple[str, ...], padded: str) -> bool:
    return spellings[0] in padded or (len(spellings) > 1 and any(each in padded for each in spellings[1:]))


def _leave(text: str, words: frozenset[str]) -> str:
    return " ".join(word for word in text.split() if word not in words)
