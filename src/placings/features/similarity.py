"""How alike the query and a text of the item are: as wholes, word by word, letter by letter, in the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from placings.core import Bools, Floats, Ints, find_limit, give_spellings, need_library, remember_short
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind, check_measures

Compare = Callable[[str], float]  # of a folded text, not empty
Best = Callable[[Floats, Ints], Floats]  # the scores of all spellings, and where each pair's begin

DIGITS = re.compile(r"\d+")
KEPT_WORDS = 2**15  # texts whose words are remembered


def _is_prefix_of_word(query: str) -> Compare:
    padded = f" {query}"
    return lambda text: float(padded in f" {text}")


def _overlap(query: str) -> Compare:
    asked = _list_words(query)

    def compare(text: str) -> float:
        there = _list_words(text)
        both = len(asked & there)
        return both / (len(asked) + len(there) - both)

    return compare


def _words_begun(query: str) -> Compare:
    words = [f" {word}" for word in query.split()[: find_limit("words")]]
    if len(words) == 1:  # most queries of people who are still typing
        only = words[0]
        return lambda text: float(only in f" {text}")

    def compare(text: str) -> float:
        padded = f" {text}"
        return sum([word in padded for word in words]) / len(words)

    return compare


def _digits(query: str) -> Compare:
    asked = DIGITS.findall(query)
    if not asked:
        return lambda text: np.nan

    def compare(text: str) -> float:
        there = set(DIGITS.findall(text))
        return sum(number in there for number in asked) / len(asked)

    return compare


def _length_gap(query: str) -> Compare:
    letters = len(query)
    return lambda text: float(len(text) - letters)


def _edit_distance(query: str) -> Compare:
    distance = _levenshtein().normalized_distance
    return lambda text: distance(query, text)


def _prefix_edit(query: str) -> Compare:
    distance, letters = _levenshtein().distance, len(query)
    return lambda text: distance(query, text[:letters]) / letters


@remember_short(KEPT_WORDS)
def _list_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# for a folded query, not empty: a function that compares a text with it
PLAIN: dict[str, Callable[[str], Compare]] = {
    "exact": lambda query: lambda text: float(query == text),
    "prefix": lambda query: lambda text: float(text.startswith(query)),
    "word_prefix": _is_prefix_of_word,
    "word_overlap": _overlap,
    "words_begun": _words_begun,
    "digits": _digits,
    "length_gap": _length_gap,
}
FUZZY: dict[str, Callable[[str], Compare]] = {  # these need rapidfuzz
    "edit_distance": _edit_distance,
    "prefix_edit": _prefix_edit,
    "partial_ratio": lambda query: _percent("partial_ratio", query),
    "token_set_ratio": lambda query: _percent("token_set_ratio", query),
}
BEST: dict[str, Best] = {  # of several spellings; the largest if not said here
    "edit_distance": np.minimum.reduceat,
    "prefix_edit": np.minimum.reduceat,
    "length_gap": lambda gaps, starts: gaps[starts],
}
IN_LIST = ("only_exact", "edit_rank", "prefix_edit_gap")
MEASURES = (*PLAIN, *FUZZY, *IN_LIST)


@dataclass(frozen=True)
class Similarity(Feature):
    """How alike query and text are, both folded; NaN where either is missing.

    Where either has more than one spelling (Köln, Koeln; Hbf, Hauptbahnhof), the best pair of them counts.
    exact, prefix, word_prefix: 1 where the query is the text, begins it, or begins it at some word.
    word_overlap: shared words over all words. words_begun: share of the query's words that begin a word of
    the text. digits: share of the query's numbers that the text has; NaN without numbers. length_gap: the
    text's characters minus the query's. By rapidfuzz: edit_distance, the normalised Levenshtein distance
    from 0 to 1; prefix_edit, the distance to the text's first characters, as many as the query has, divided
    by them; partial_ratio and token_set_ratio from 0 to 1. In the list: only_exact, 1 for the one exact
    match; edit_rank, 1 for the smallest edit_distance; prefix_edit_gap, above the list's smallest.

    >>> from placings.features.spec import FeatureSet
    >>> rows = {"query": ["Haubt"], "name": ["Hauptbahnhof"]}
    >>> FeatureSet([Similarity(measures=("prefix", "prefix_edit", "length_gap"))]).fit_transform(rows)
    array([[0. , 0.2, 7. ]], dtype=float32)
    """

    family: ClassVar[str] = "similarity"

    text: str = "name"
    measures: tuple[str, ...] = MEASURES
    query: str = "query"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, MEASURES)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.query, self.text)

    def names(self) -> list[str]:
        return [f"{self.text}_{measure}" for measure in self.measures]

    def kinds(self) -> list[FeatureKind]:
        return ["query-item"] * len(self.measures)

    def compute(self, rows: Rows) -> list[Floats]:
        return [measure_similarity(rows, self.query, self.text, measure) for measure in self.measures]


def measure_similarity(rows: Rows, query: str, text: str, measure: str) -> Floats:
    """One measure for all rows, computed once for each distinct pair and once for a table."""
    if measure in IN_LIST:
        return _compare_in_list(rows, query, text, measure)

    def compare() -> Floats:
        pairs = rows.remember(("spelled", query, text), lambda: _spell_pairs(rows, query, text))
        if measure in FUZZY and not pairs.asked:
            _levenshtein()  # a library that is missing is told even of no rows
        scores = np.array(_compare_pairs(measure, pairs), dtype=np.float64)
        if pairs.single:
            return scores[pairs.inverse]
        found = np.full(len(pairs.known), np.nan)
        if len(scores):
            best: Best = BEST.get(measure, np.maximum.reduceat)
            found[pairs.known] = best(scores, pairs.starts)
        spread: Floats = found[pairs.inverse]
        return spread

    return rows.remember(("similarity", query, text, measure), compare)


@dataclass(frozen=True, eq=False)
class _SpelledPairs:
    """The distinct pairs of query and text, each in all its spellings, one pair's after the other's."""

    asked: list[str]
    there: list[str]
    starts: Ints  # where a pair's spellings begin `[known pairs]`
    known: Bools  # whether a pair has two texts `[pairs]`
    inverse: Ints  # the pair of each row `[rows]`
    single: bool  # whether every pair is known, and in one spelling

    @cached_property
    def query(self) -> str | None:
        """The one spelling of the one query that all pairs have, as in a live list; None if they differ."""
        asked = self.asked
        return asked[0] if asked and asked.count(asked[0]) == len(asked) else None


def _compare_pairs(measure: str, pairs: _SpelledPairs) -> list[float]:
    """One number for each spelled pair; what follows from the query alone is found once for a run of it."""
    make = PLAIN[measure] if measure in PLAIN else FUZZY[measure]
    if pairs.query is not None:
        return list(map(make(pairs.query), pairs.there))
    scores = []
    before: str | None = None
    for one, other in zip(pairs.asked, pairs.there, strict=True):
        if one != before:
            compare, before = make(one), one
        scores.append(compare(other))
    return scores


def _spell_pairs(rows: Rows, query: str, text: str) -> _SpelledPairs:
    pairs = rows.combine(query, text)
    asked: list[str] = []
    there: list[str] = []
    sizes = []
    before: str | None = None
    left: tuple[str, ...] = ()
    for one, other in zip(*pairs.columns, strict=True):
        if one != before:
            left, before = give_spellings(one, bare=True), one
        right = give_spellings(other, bare=True)
        if len(left) == 1 and len(right) == 1:
            asked.append(left[0])
            there.append(right[0])
        else:
            asked += [each for each in left for _ in right]
            there += [each for _ in left for each in right]
        sizes.append(len(left) * len(right))
    counts = np.array(sizes, dtype=np.int64)
    ends = np.cumsum(counts[counts > 0])
    single = bool((counts == 1).all()) and len(counts) > 0
    return _SpelledPairs(asked, there, ends - counts[counts > 0], counts > 0, pairs.inverse, single)


def _compare_in_list(rows: Rows, query: str, text: str, measure: str) -> Floats:
    if measure == "only_exact":
        exact = measure_similarity(rows, query, text, "exact")
        alone = (exact == 1.0) & (rows.lists.count(exact == 1.0) == 1.0)
        return np.where(np.isnan(exact), np.nan, alone.astype(np.float64))
    if measure == "edit_rank":
        return rows.lists.rank(-measure_similarity(rows, query, text, "edit_distance"))
    edits = measure_similarity(rows, query, text, "prefix_edit")
    return edits - rows.lists.smallest(edits)


def _levenshtein() -> Any:
    what = "edit distances between query and name"
    return need_library("rapidfuzz.distance", what, "places", "rapidfuzz").Levenshtein


def _percent(name: str, query: str) -> Compare:
    fuzz = need_library("rapidfuzz.fuzz", "fuzzy ratios of query and name", "places", "rapidfuzz")
    ratio: Callable[[str, str], float] = getattr(fuzz, name)
    return lambda text: ratio(query, text) / 100.0
