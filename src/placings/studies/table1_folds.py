"""The data of Table 1, one fold at a time: a known collection's own folds, or query folds made here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from placings.data.collections import COLLECTIONS, Collection, plain_folder
from placings.data.letor import count_missing, find_collection
from placings.data.ranking import RankingData
from placings.data.reading import read
from placings.errors import BadInput, Mismatch, UnknownName

DEALT = 5  # query folds of data that have none
HELD_OUT = 0.2  # of the training queries, for validation, where a collection has no such part
Parts: TypeAlias = tuple[RankingData, RankingData, RankingData]  # train, valid, test
Folds: TypeAlias = int | Sequence[int] | None


@dataclass(frozen=True)
class Source:
    """Where the folds come from: their numbers, how to read one, what to call it, what to say of it."""

    name: str
    collection: str | None  # a known collection's name
    numbers: tuple[int, ...]
    load: Callable[[int], Parts]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[int, Parts]]:
        """One fold after the other; nothing is held beyond its turn."""
        for number in self.numbers:
            yield number, self.load(number)


def find_source(
    data: str | Path | RankingData | Sequence[Parts],
    folds: Folds,
    random_state: int,
    reading: Mapping[str, Any],
) -> Source:
    """The folds of a collection's folder, of any other data that `placings.read` reads, or those given.

    `folds` is how many, or which by number. Unless it is given: of MSLR-WEB30K the first, as in the paper; of
    another collection all it has; of other data five query folds, each with the part before its test part
    for validation. A collection without a validation part gives a fifth of its training queries for it.
    Istella's features with illegitimate values are looked for in all of its parts and dropped from all.
    """
    if isinstance(data, RankingData):
        return _deal(data, "data", folds, random_state)
    if not isinstance(data, str | Path):
        return _take_given(list(data), folds)
    path, options = Path(data), dict(reading)
    named = options.get("name")
    if named is not None and named not in COLLECTIONS:
        raise UnknownName("collection", str(named), COLLECTIONS)
    collection = COLLECTIONS[named] if named is not None else find_collection(path) if path.is_dir() else None
    if collection is None:
        return _deal(read(path, **options), path.name, folds, random_state)
    return _open_collection(path, collection, folds, random_state, options)


def slim_test(test: RankingData) -> RankingData:
    """Labels and queries without features: all that is needed of a test part once its rows are scored."""
    empty = np.empty((test.n_rows, 0), dtype=np.float32)
    return RankingData(empty, np.array(test.y), np.array(test.offsets), np.array(test.qids), ())


def _open_collection(
    path: Path, collection: Collection, folds: Folds, random_state: int, options: dict[str, Any]
) -> Source:
    own = re.fullmatch(r"fold([1-5])", plain_folder(path.resolve().name))
    first = int(own[1]) if own else 1
    notes = []
    if not collection.folds:
        numbers: tuple[int, ...] = _choose_numbers(folds, 1, (1,), collection.name)
    elif own:
        numbers = _choose_numbers(folds, 1, (first,), path.name)
    else:
        usual = 1 if collection.name == "MSLR-WEB30K" else collection.folds
        numbers = _choose_numbers(folds, usual, tuple(range(1, collection.folds + 1)), collection.name)
        if folds is None and usual == 1:
            notes.append("Fold1 alone, as in the paper.")
    if collection.illegitimate:
        dropped = _find_illegitimate(path, collection, options)
        options["illegitimate"] = dropped
        if dropped:
            listed = ", ".join(map(str, dropped))
            notes.append(f"{len(dropped)} features hold illegitimate values and are left out: {listed}.")
    if "valid" not in collection.splits:
        notes.append(f"Validation: {HELD_OUT:.0%} of the training queries; the collection has no such part.")

    def load(number: int) -> Parts:
        fold = number if collection.folds else None
        train, test = (read(path, fold=fold, split=split, **options) for split in ("train", "test"))
        if "valid" in collection.splits:
            return train, read(path, fold=fold, split="valid", **options), test
        kept, valid = train.split(1.0 - HELD_OUT, HELD_OUT, random_state=random_state)
        return kept, valid, test

    return Source(path.name, collection.name, numbers, load, tuple(notes))


def _find_illegitimate(path: Path, collection: Collection, options: Mapping[str, Any]) -> list[int]:
    given = options.get("illegitimate")
    if given is not None and not isinstance(given, str):
        return [int(number) for number in given]
    found = np.zeros(collection.n_features, dtype=bool)
    for split in collection.splits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Mismatch)  # said once, when the part is read to be used
            part = read(path, split=split, **{**options, "illegitimate": "missing"})
        found |= count_missing(part) > 0
    return (np.flatnonzero(found) + 1).tolist()


def _deal(data: RankingData, name: str, folds: Folds, random_state: int) -> Source:
    count = DEALT if folds is None or not isinstance(folds, int) else folds
    numbers = _choose_numbers(
        None if isinstance(folds, int) else folds, count, tuple(range(1, count + 1)), name
    )

    def load(number: int) -> Parts:
        dealt = data.folds(count, random_state=random_state, valid=True)
        train, valid, test = next(parts for place, parts in enumerate(dealt, 1) if place == number)
        return train, valid, test

    note = (
        f"{count} query folds (seed {random_state}): one part tests, the one before it validates, "
        "the others train."
    )
    return Source(name, None, numbers, load, (note,))


def _take_given(given: list[Parts], folds: Folds) -> Source:
    if not given or any(len(fold) != 3 for fold in given):
        raise BadInput("folds must be (train, valid, test), at least one of them.")
    numbers = _choose_numbers(folds, len(given), tuple(range(1, len(given) + 1)), "the list given")
    return Source("data", None, numbers, lambda number: given[number - 1])


def _choose_numbers(folds: Folds, usual: int, known: tuple[int, ...], name: str) -> tuple[int, ...]:
    if isinstance(folds, int) and not isinstance(folds, bool) and 1 <= folds <= len(known):
        return known[:folds]
    if folds is None:
        return known[:usual]
    if not isinstance(folds, int) and folds and len(set(folds)) == len(folds) and set(folds) <= set(known):
        return tuple(int(number) for number in folds)
    shown = ", ".join(map(str, known))
    raise BadInput(f"folds must be how many, or which, of the folds of {name}: {shown}. Got {folds!r}.")
