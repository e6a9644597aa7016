"""Character n-grams of a text column, hashed into a fixed width or counted under their names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from placings.core import BadInput
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind

WIDEST = 2**26


@dataclass(frozen=True)
class _Ngrams(Feature):
    """What both share: 2- to 5-grams inside words (with a blank at either end), as scikit-learn's char_wb."""

    sparse: ClassVar[bool] = True

    column: str
    shortest: int = 2
    longest: int = 5
    fold: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.shortest <= self.longest:
            raise BadInput(
                "n-grams must run from at least 1 to no less than that. "
                f"Got {self.shortest} to {self.longest}."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def kinds(self) -> list[FeatureKind]:
        return ["query" if self.column == "query" else "item"] * self.width()

    @property
    def _settings(self) -> dict[str, Any]:
        return {"analyzer": "char_wb", "ngram_range": (self.shortest, self.longest), "dtype": np.float32}


@dataclass(frozen=True)
class HashedNgrams(_Ngrams):
    """N-grams hashed into `width` columns by scikit-learn's HashingVectorizer, each row of length 1.

    Nothing is learned, so nothing is unknown; which n-gram a column stands for cannot be told. The columns
    are called `name#0`, `name#1`, … An empty text gives an empty row. `fold` folds the text first
    (accents); without it only the case is ignored.
    """

    family: ClassVar[str] = "hashed n-grams"

    buckets: int = 2**20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.buckets <= WIDEST:
            raise BadInput(f"buckets must be from 1 to {WIDEST}. Got {self.buckets}.")

    def width(self) -> int:
        return self.buckets

    def names(self) -> list[str]:
        return [f"{self.column}#{number}" for number in range(self.buckets)]

    def compute_sparse(self, rows: Rows) -> Any:
        from sklearn.feature_extraction.text import HashingVectorizer

        vectorizer = HashingVectorizer(n_features=self.buckets, **self._settings)
        return _spread(vectorizer, self, rows)


@dataclass(frozen=True)
class CountedNgrams(_Ngrams):
    """How often each n-gram stands in the text, under its name: `name:ruh`.

    `fit` learns the n-grams of the training rows: those that stand in at least `at_least` rows, the `limit`
    most frequent of them (equal counts: by name). N-grams that were not there then are ignored.

    >>> from placings.features.spec import FeatureSet
    >>> counted = FeatureSet([CountedNgrams("name", shortest=3, longest=3)])
    >>> counted.fit({"name": ["Ruh"]}).names
    ['name: ru', 'name:ruh', 'name:uh ']
    """

    family: ClassVar[str] = "counted n-grams"

    limit: int | None = None
    at_least: int = 1
    vocabulary: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.limit is not None and self.limit < 1) or self.at_least < 1:
            raise BadInput(f"limit and at_least must be at least 1. Got {self.limit} and {self.at_least}.")
        if self.vocabulary is not None and len(set(self.vocabulary)) != len(self.vocabulary):
            raise BadInput("the n-grams of a vocabulary must differ from each other.")

    def fit(self, rows: Rows) -> Self:
        from sklearn.feature_extraction.text import CountVectorizer

        texts = rows.texts(self.column, self.fold)
        counter = CountVectorizer(**self._settings)
        take_apart = counter.build_analyzer()
        if not any(take_apart(text) for text in texts.values):  # no text, or blanks only
            return replace(self, vocabulary=())
        counted = counter.fit_transform(texts.values)
        times = np.bincount(texts.codes, minlength=len(texts.values)).astype(np.float64)
        total = counted.T @ times
        present = (counted > 0).T @ times
        names = counter.get_feature_names_out().tolist()
        often = sorted((-total[i], names[i]) for i in np.flatnonzero(present >= self.at_least).tolist())
        return replace(self, vocabulary=tuple(sorted(name for _, name in often[: self.limit])))

    @cached_property
    def _counter(self) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer

        return CountVectorizer(vocabulary=list(self._known), **self._settings)

    @property
    def _known(self) -> tuple[str, ...]:
        if self.vocabulary is None:
            raise BadInput(f"the n-grams of {self.column!r} are not known yet. Call fit(rows) first.")
        return self.vocabulary

    def width(self) -> int:
        return len(self._known)

    def names(self) -> list[str]:
        return [f"{self.column}:{gram}" for gram in self._known]

    def compute_sparse(self, rows: Rows) -> Any:
        from scipy.sparse import csr_array

        if not self._known:
            return csr_array((rows.count, 0), dtype=np.float32)
        return _spread(self._counter, self, rows)


def _spread(vectorizer: Any, feature: _Ngrams, rows: Rows) -> Any:
    """Each distinct text is taken apart once; rows take its line."""
    from scipy.sparse import csr_array

    texts = rows.texts(feature.column, feature.fold)
    if not texts.values:
        return csr_array((0, feature.width()), dtype=np.float32)
    lines = csr_array(vectorizer.transform(texts.values))
    lines.sort_indices()
    return lines[texts.codes]
