"""`Feature`, a declaration of numbers and where they come from, and `FeatureSet`, many of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    Floats,
    UnknownName,
    check_file,
    check_name,
    parse_json,
    write_atomically,
)
from placings.data import Matrix, RankingData, say_one_query
from placings.features.columns import LIST, Rows, Table
from placings.features.one_list import ListRows
from placings.logs import PROPENSITY

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FeatureKind: TypeAlias = Literal["item", "context", "query", "query-item"]
KINDS = ("item", "context", "query", "query-item")
MISSING = ("nan", "drop")
FORMAT, VERSION = "placings features", 1
SEGMENTS = (
    "query",
    "target",
    "platform",
    "surface",
    "kind",
    "session_id",
    "user_id",
    "device",
    "arm",
)  # of the rows table, kept for slices and splits
UNKNOWN = "unknown"  # what a segment or a category is called where nothing is known


@dataclass(frozen=True)
class Feature:
    """A declaration: which columns are read, which numbers they give, of what kind, and what if missing.

    A declaration never changes; `fit` gives another one, with what it learned in its fields, so its fields
    are all that a file needs to hold. `missing` says what happens to a feature whose columns are absent or
    empty when it is fitted: "nan" keeps it, all missing; "drop" leaves it out, and the set notes it. Once
    fitted its columns stay: where a value is missing later, the number is NaN.
    """

    family: ClassVar[str] = ""  # its name in a state
    sparse: ClassVar[bool] = False

    missing: str = field(default="nan", kw_only=True)

    def __post_init__(self) -> None:
        check_types(self)
        check_name("missing", self.missing, MISSING)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        raise NotImplementedError

    @property
    def plain(self) -> bool:
        """Whether it gives its one column, of the item, as it is."""
        return False

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns without which there is nothing to compute."""
        return self.columns

    def names(self) -> list[str]:
        """The names of the numbers."""
        raise NotImplementedError

    def kinds(self) -> list[FeatureKind]:
        """The kind of each number: of the item, the context, the query, or of query and item together."""
        raise NotImplementedError

    def width(self) -> int:
        """How many numbers there are."""
        return len(self.names())

    def fit(self, rows: Rows) -> Self:
        """The same feature with what must be learned from rows; most learn nothing."""
        return self

    def compute(self, rows: Rows) -> list[Floats]:
        """One float64 array `[rows]` for each name."""
        raise NotImplementedError

    def compute_sparse(self, rows: Rows) -> csr_array[np.float32, tuple[int, int]]:
        """The numbers as CSR `[rows, names]`, where the feature is sparse."""
        raise NotImplementedError

    def to_state(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        state: dict[str, Any] = {"feature": self.family}
        for each in fields(self):
            value = getattr(self, each.name)
            state[each.name] = list(value) if isinstance(value, tuple) else value
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The feature of these fields, checked as when declared."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in state.items() if name != "feature"}
        for name in given:
            if name not in known:
                raise UnknownName(f"field of a {cls.family} feature", str(name), known)
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        try:
            return cls(**values)
        except TypeError as error:
            raise BadInput(f"a {cls.family} feature lacks a field: {error}.") from error


class FeatureSet:
    """Features in their order: fitted on a table of rows, then computed for tables and for live requests.

    `rows` is a pandas or polars table, a pyarrow Table or a dict of equally long columns, one row for each
    item shown. `names`, `kinds` (a kind for each name) and `notes` (what was left out, and why) are there
    after `fit`. The numbers are float32 `[rows, names]`, CSR if a feature is sparse; missing is NaN.

    >>> from placings.features.text import TextShape
    >>> rows = {"search_id": ["s1", "s1"], "query": ["hbf", "hbf"], "name": ["Hbf", "Hbf Süd"]}
    >>> features = FeatureSet([TextShape("query"), TextShape("name", ("length",))]).fit(rows)
    >>> features.names
    ['query_length', 'query_words', 'query_digits', 'name_length']
    >>> features.transform(rows)
    array([[3., 1., 0., 3.],
           [3., 1., 0., 7.]], dtype=float32)
    """

    def __init__(self, features: Iterable[Feature]) -> None:
        self.features: tuple[Feature, ...] = tuple(features)
        for each in self.features:
            if not isinstance(each, Feature):
                raise BadInput(f"features must be declared features. Got {type(each).__name__}.")
        self.notes: tuple[str, ...] = ()
        self._fitted: tuple[Feature, ...] | None = None
        self._columns: tuple[str, ...] = _list_columns(self.features)
        self._width = 0
        self._sparse = False
        self._plain: tuple[str, ...] = ()
        self._blocks: tuple[Feature | tuple[str, ...], ...] = ()

    def fit(self, rows: Table) -> Self:
        """Learn categories and vocabularies, leave out what has no data and may be; gives itself back."""
        table = Rows(rows)
        kept, notes = [], []
        for each in self.features:
            blank = [column for column in each.needed if table.is_blank(column)]
            if each.missing == "drop" and blank:
                notes.append(
                    f"{each.family} of {' and '.join(each.columns)} left out: no data in {blank[0]!r}"
                )
            else:
                kept.append(each.fit(table))
        self._set(tuple(kept))
        self.notes = tuple(notes)
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` was called, or the set comes from a file that was fitted."""
        return self._fitted is not None

    @property
    def fitted(self) -> tuple[Feature, ...]:
        """The features as fitted, without those left out."""
        if self._fitted is None:
            raise BadInput("the feature set is not fitted. Call fit(rows) first.")
        return self._fitted

    @property
    def names(self) -> list[str]:
        """The columns' names; made anew each time, since hashed n-grams can be millions."""
        return [name for each in self.fitted for name in each.names()]

    @property
    def kinds(self) -> list[FeatureKind]:
        """The kind of each column."""
        return [kind for each in self.fitted for kind in each.kinds()]

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once."""
        return list(self._columns)

    def transform(self, rows: Table) -> Matrix:
        """The numbers `[rows, names]`, row by row; rows of one list need not stand together."""
        return self.transform_rows(Rows(rows))

    def transform_rows(self, table: Rows) -> Matrix:
        """`transform` of a table that was read."""
        if not self._sparse:
            dense_only: Matrix = self._compute_dense(self.fitted, table)
            return dense_only
        from scipy.sparse import csr_array, hstack

        parts: list[Any] = []
        dense: list[Feature] = []
        for each in [*self.fitted, None]:  # runs of dense features become one block
            if each is not None and not each.sparse:
                dense.append(each)
                continue
            if dense:
                parts.append(csr_array(self._compute_dense(dense, table)))
                dense = []
            if each is not None:
                parts.append(each.compute_sparse(table))
        joined: Matrix = hstack(parts, format="csr", dtype=np.float32)
        return joined

    def fit_transform(self, rows: Table) -> Matrix:
        """`fit`, then `transform`."""
        return self.fit(rows).transform(rows)

    def transform_request(self, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Matrix:
        """The numbers of one live list, the same to the bit as in a table.

        `context` holds what is true of the whole search (`query`, `time`, `focus_lat`, …), `items` the
        fields of each item in the engine's order; a field of the item goes before one of the context.
        Without `position` the items count from 1. No items give no rows.
        """
        return self.transform_rows(self.read_request(context, items))

    def read_request(self, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Rows:
        """A live list as `transform_rows` wants it; what it lacks is told by `count_missing`."""
        if not all(type(each) is dict or isinstance(each, Mapping) for each in (context, *items)):
            raise BadInput("context must be a dict and items a list of dicts.")
        if not items:
            return Rows({column: [] for column in self._columns})
        return ListRows(context, items, self._columns, self._plain)

    def to_ranking(self, rows: Table, label: str | None = "label") -> RankingData:
        """The rows as RankingData: qid is `search_id`, items `item_id`, and what else the rows say.

        `label=None` makes all labels 0, for rows that nobody has judged. Rows without `search_id` are one
        query, which a warning says (above 10,000 rows an error). Position, time and propensity are taken
        where they are there (a propensity then for every row), and as segments those of query, target,
        platform, surface, kind, session_id, user_id, device and arm that are.
        """
        table = Rows(rows)
        there = set(table.names)
        if label is not None and label not in there:
            raise UnknownName("column", label, there)
        y = np.zeros(table.count) if label is None else table.floats(label)
        segments: dict[str, Any] = {}
        for name in SEGMENTS:
            if name in there:
                found = table.whole_texts(name)
                segments[name] = np.array([text or UNKNOWN for text in found.values], dtype=object)[
                    found.codes
                ]
        if LIST not in there:
            how = f"Give the rows a column {LIST} with the id of each one's search"
            say_one_query(table.count, "FeatureSet.to_ranking", name=LIST, how=how)
        return RankingData.from_arrays(
            self.transform(table),
            y,
            table.ids(LIST) if LIST in there else np.zeros(table.count, dtype=np.int64),
            feature_names=self.names,
            items=table.ids("item_id") if "item_id" in there else None,
            position=table.floats("position") if "position" in there else None,
            propensity=None if table.is_blank(PROPENSITY) else table.floats(PROPENSITY),
            time=table.times("time") if "time" in there else None,
            segments=segments,
        )

    # -- files ----------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything as plain JSON values; `from_state` makes the same set of it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "fitted": self._fitted is not None,
            "features": [
                each.to_state() for each in (self.features if self._fitted is None else self._fitted)
            ],
            "notes": list(self.notes),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FeatureSet:
        """The set that a state describes; checked field by field, nothing in it is executed."""
        from placings.features.catalogue import FAMILIES

        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise BadInput(
                f"a state of features must be a dict whose format is {FORMAT!r}. Got {_show(state)}."
            )
        if state.get("version") != VERSION:
            raise BadInput(
                f"a state of features must be of version {VERSION}. Got {state.get('version')!r}. "
                "Update placings, or make the state again with this one."
            )
        declared, notes = state.get("features"), state.get("notes", [])
        if not isinstance(declared, list) or not all(isinstance(each, Mapping) for each in declared):
            raise BadInput(f"features of a state must be a list of dicts. Got {_show(declared)}.")
        if not isinstance(notes, list) or not all(isinstance(each, str) for each in notes):
            raise BadInput(f"notes of a state must be a list of texts. Got {_show(notes)}.")
        made = []
        for each in declared:
            family = str(each.get("feature"))
            if family not in FAMILIES:
                raise UnknownName("feature", family, FAMILIES)
            made.append(FAMILIES[family].from_state(each))
        features = cls(made)
        if state.get("fitted") is True:
            features._set(tuple(made))
            features.notes = tuple(notes)
        return features

    # -- inside ---------------------------------------------------------------------------------------------

    def _set(self, fitted: tuple[Feature, ...]) -> None:
        seen: set[str] = set()
        for each in fitted:
            own = (
                [f"n-grams of {each.columns[0]}"] if each.sparse else each.names()
            )  # n-grams can be millions
            for name in own:
                if name in seen:
                    raise BadInput(f"features must give different names. Got {name!r} twice.")
                seen.add(name)
        self._fitted = fitted
        self._columns = _list_columns(fitted)
        self._width = sum(each.width() for each in fitted)
        self._sparse = any(each.sparse for each in fitted)
        self._plain = tuple(each.columns[0] for each in fitted if each.plain)
        self._blocks = tuple(_join_plain(fitted))

    def _compute_dense(self, features: Sequence[Feature], rows: Rows) -> Any:
        whole = features is self._fitted
        width = self._width if whole else sum(each.width() for each in features)
        blocks = self._blocks if whole and isinstance(rows, ListRows) else features
        out = np.empty((rows.count, width), dtype=np.float32)
        column = 0
        with np.errstate(over="ignore"):
            for block in blocks:
                if isinstance(block, Feature):
                    for values in block.compute(rows):
                        out[:, column] = values
                        column += 1
                else:
                    out[:, column : column + len(block)] = rows.numbers(block)
                    column += len(block)
        out[np.isinf(out)] = np.nan  # a quotient that float32 cannot hold
        return out

    def __repr__(self) -> str:
        if self._fitted is None:
            return f"FeatureSet of {len(self.features)} features, not fitted"
        return f"FeatureSet of {sum(each.width() for each in self._fitted)} columns"


def _list_columns(features: Sequence[Feature]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for each in features for column in each.columns))


def _join_plain(features: Sequence[Feature]) -> Iterator[Feature | tuple[str, ...]]:
    """The features in their order, neighbours that are plain numbers as one tuple of columns."""
    run: list[str] = []
    for each in features:
        if each.plain:
            run.append(each.columns[0])
            continue
        if run:
            yield tuple(run)
            run = []
        yield each
    if run:
        yield tuple(run)


# -- checks -------------------------------------------------------------------------------------------------


def check_types(feature: Feature) -> None:
    """Refuse a field whose value is not of the type that it is declared with."""
    hints = get_type_hints(type(feature))
    for each in fields(feature):
        value, hint = getattr(feature, each.name), hints[each.name]
        if not _fits(value, hint):
            wanted = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)
            raise BadInput(f"{each.name} of a {feature.family} feature must be {wanted}. Got {_show(value)}.")


def check_measures(measures: Sequence[str], known: Iterable[str]) -> None:
    """Refuse measures that are unknown, or none at all."""
    if not measures:
        raise BadInput(f"measures must name at least one. Known: {', '.join(known)}.")
    for measure in measures:
        check_name("measure", measure, known)


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(hint, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(each, get_args(hint)[0]) for each in value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint is type(value) or (hint is not type(None) and isinstance(value, hint))


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def write_features(features: FeatureSet, path: str | PathLike[str]) -> Path:
    """Write a feature set's state as JSON, whole or not at all; gives back where."""
    file = Path(path)
    with write_atomically(file) as part:
        part.write_text(
            json.dumps(features.to_state(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
        )
    return file


def read_features(path: str | PathLike[str]) -> FeatureSet:
    """The feature set that `write_features` wrote; a file that holds anything else is refused."""
    file = Path(path)
    check_file(file)
    try:
        state = parse_json(file.read_bytes())
        return FeatureSet.from_state(state)
    except BadInput as error:
        raise BadFile(file, str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadFile(file, f"is not JSON: {error}. Write it with write_features.") from error
