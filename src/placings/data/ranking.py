"""RankingData: rows grouped by query, the one shape that everything here reads and gives back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import AnyArray, BadInput, Floats, Ints, UnknownName, as_offsets
from placings.data.checks import (
    Matrix,
    as_matrix,
    check_labels,
    check_length,
    check_position,
    check_weight,
    name_features,
    order_by_query,
    read_only,
    read_only_rows,
    say_one_query,
)
from placings.data.ids import as_ids, number_ids

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


def describe_facts(data: RankingData) -> dict[str, str]:
    """What a reader wants to know first, as label → text."""
    sizes = data.sizes
    facts = {
        "rows": f"{data.n_rows:,}",
        "queries": f"{data.n_queries:,}",
        "features": f"{data.n_features:,} ({'sparse' if data.is_sparse else 'dense'})",
    }
    if data.n_queries:
        facts["rows a query"] = (
            f"{int(sizes.min()):,} to {int(sizes.max()):,}, mean {sizes.mean():,.1f}, "
            f"median {np.median(sizes):,g}"
        )
        facts["labels"] = describe_labels(data)
        facts["nothing relevant"] = f"{count_empty(data):,} of {data.n_queries:,} queries"
    known = [name for name in ("items", "position", "weight", "propensity", "time") if has(data, name)]
    if known or data.segments:
        facts["also known"] = ", ".join([*known, *(f"segment {name!r}" for name in data.segments)])
    return facts


def describe_labels(data: RankingData) -> str:
    """Shares of each grade, or the range when grades are fractions."""
    grades, counts = np.unique(data.y, return_counts=True)
    if len(grades) > 12:
        return f"{grades[0]:g} to {grades[-1]:g}, {len(grades):,} distinct, mean {data.y.mean():.4g}"
    shares = counts / max(1, data.n_rows)
    return ", ".join(f"{grade:g}: {share:.1%}" for grade, share in zip(grades, shares, strict=True))


def count_empty(data: RankingData) -> int:
    """Queries with nothing relevant."""
    relevant = np.bincount(data.query_index, weights=data.y > 0, minlength=data.n_queries)
    return int((relevant == 0).sum())


def has(data: RankingData, column: str) -> bool:
    return getattr(data, column) is not None


def describe_text(data: RankingData) -> str:
    """The `repr`: aligned lines."""
    facts = describe_facts(data)
    width = max(map(len, facts))
    return "\n".join(["RankingData", *(f"  {name:<{width}}  {text}" for name, text in facts.items())])


def describe_html(data: RankingData) -> str:
    """The notebook's view: a table without scripts or styles from elsewhere."""
    left = "style='text-align:left'"
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(text)}</td></tr>"
        for name, text in describe_facts(data).items()
    )
    return f"<table><caption>RankingData</caption>{rows}</table>"


PER_ROW = ("position", "weight", "propensity", "time")


@dataclass(frozen=True, eq=False, repr=False)
class RankingData:
    """Rows grouped by query: features, labels and what else is known of each row.

    Build one with `RankingData.from_arrays` (or `from_pandas`, `from_polars`, `from_arrow`, or
    `placings.read`), which take rows in any order and group them stably by query. The arrays are
    read-only views; nothing here changes in place.

    Shapes: `X` `[rows, features]` float32 (dense, or CSR where absent means 0), `y` `[rows]` float64,
    `offsets` `[queries + 1]`, `qids` `[queries]`, and per row, where known: `items` (ids), `position`
    (as shown, from 1), `weight`, `propensity`, `time`, and named `segments`. Missing features are NaN.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], ["b", "a", "b"])
    >>> data.qids, data.offsets, data.X[:, 0]
    (array(['b', 'a'], dtype=object), array([0, 2, 3]), array([1., 3., 2.], dtype=float32))
    """

    X: Matrix
    y: Floats
    offsets: Ints
    qids: AnyArray
    feature_names: tuple[str, ...]
    items: AnyArray | None = None
    position: AnyArray | None = None
    weight: AnyArray | None = None
    propensity: AnyArray | None = None
    time: AnyArray | None = None
    segments: Mapping[str, AnyArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows, features = self.X.shape
        if len(self.y) != rows:
            raise BadInput(f"y must have one label for each of the {rows} rows of X. Got {len(self.y)}.")
        if len(self.feature_names) != features:
            raise BadInput(
                f"feature_names must name the {features} columns of X. Got {len(self.feature_names)} names."
            )
        if len(set(self.feature_names)) != features:
            counts = Counter(self.feature_names)
            twice = next(name for name in self.feature_names if counts[name] > 1)
            raise BadInput(f"feature_names must differ from each other. Got {twice!r} twice.")
        as_offsets(self.offsets, rows)
        if len(self.qids) != len(self.offsets) - 1:
            raise BadInput(f"qids must name the {len(self.offsets) - 1} queries. Got {len(self.qids)}.")
        for name, values in self._columns().items():
            check_length(values, rows, name)
        self._freeze()

    # -- building ---------------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        qid: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        items: Any = None,
        position: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        time: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> RankingData:
        """Group rows in any order by `qid` (numbers or strings), keeping their order inside a query.

        Without `qid` all rows are one query, which a warning says; above 10,000 rows it must be given.
        Queries stand in the order of their first row. `X` may be dense or a scipy sparse matrix, which
        stays sparse. Names default to f1, f2, …
        """
        matrix = as_matrix(X)
        labels = np.array(check_labels(y))
        rows = matrix.shape[0]
        ids = np.zeros(rows, dtype=np.int64) if qid is None else as_ids(qid, "qid")
        if len(ids) != rows or len(labels) != rows:
            raise BadInput(
                f"X, y and qid must have one entry a row. Got {rows}, {len(labels)} and {len(ids)} rows."
            )
        if qid is None:
            say_one_query(rows, "RankingData.from_arrays")
        names = tuple(feature_names) if feature_names is not None else name_features(matrix.shape[1])
        columns = {
            "items": None if items is None else as_ids(items, "items"),
            "position": check_position(position),
            "weight": check_weight(weight, "weight"),
            "propensity": check_weight(propensity, "propensity"),
            "time": None if time is None else np.array(time),
        }
        codes, qids = number_ids(ids)
        data_segments = {str(name): np.array(values) for name, values in (segments or {}).items()}
        order, offsets = order_by_query(codes, len(qids))
        if order is not None:
            for name, column in [*columns.items(), *data_segments.items()]:
                if column is not None:
                    check_length(column, rows, name)
            matrix, labels = matrix[order], labels[order]
            columns = {name: None if c is None else c[order] for name, c in columns.items()}
            data_segments = {name: column[order] for name, column in data_segments.items()}
        return cls(matrix, labels, offsets, qids, names, segments=data_segments, **columns)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, **columns: Any) -> RankingData:
        """From a pandas table; see `from_arrow` for how columns are named or guessed."""
        import pyarrow as pa

        return cls.from_arrow(pa.Table.from_pandas(frame, preserve_index=False), **columns)

    @classmethod
    def from_polars(cls, frame: pl.DataFrame, **columns: Any) -> RankingData:
        """From a polars table; see `from_arrow` for how columns are named or guessed."""
        return cls.from_arrow(frame.to_arrow(), **columns)

    @classmethod
    def from_arrow(cls, table: pa.Table, **columns: Any) -> RankingData:
        """From an Arrow table: `qid=`, `label=`, `item=`, `features=` name columns, or are guessed and said.

        Numeric columns that play no other part are features; text columns become segments.
        """
        from placings.data.tables import from_table

        return from_table(table, **columns)

    def to_arrow(self) -> pa.Table:
        """Columns qid, label, item, the features, and what else is known; it reads back as it was."""
        from placings.data.tables import to_table

        return to_table(self)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas table (see `to_arrow`)."""
        from placings.core import need_library

        need_library("pandas", "RankingData.to_pandas")
        return self.to_arrow().to_pandas()  # type: ignore[no-any-return]

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars table (see `to_arrow`)."""
        from placings.core import need_library

        polars = need_library("polars", "RankingData.to_polars")
        return polars.from_arrow(self.to_arrow())  # type: ignore[no-any-return]

    # -- looking ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.qids)

    @property
    def n_queries(self) -> int:
        return len(self.qids)

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        return not isinstance(self.X, np.ndarray)

    @property
    def sizes(self) -> Ints:
        """Rows of each query `[queries]`."""
        return np.diff(self.offsets)

    @property
    def qid(self) -> AnyArray:
        """The query id of each row `[rows]`."""
        return np.repeat(self.qids, self.sizes)

    @property
    def query_index(self) -> Ints:
        """The number of each row's query, 0 to queries − 1 `[rows]`."""
        return np.repeat(np.arange(len(self.qids)), self.sizes)

    def __iter__(self) -> Iterator[RankingData]:
        """One RankingData a query."""
        return (self[index] for index in range(len(self.qids)))

    def __repr__(self) -> str:

        return describe_text(self)

    def _repr_html_(self) -> str:

        return describe_html(self)

    # -- taking parts -----------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | Sequence[int] | AnyArray) -> RankingData:
        """Queries by place: a number, a slice (a view, nothing copied), a list of numbers, or a mask."""
        count = len(self.qids)
        if isinstance(queries, int | np.integer):
            index = int(queries)
            if not -count <= index < count:
                raise IndexError(f"query {index} is out of range; there are {count} queries")
            return self[slice(index % count, index % count + 1)]
        if isinstance(queries, slice):
            start, stop, step = queries.indices(count)
            if step == 1:
                return self._view(start, max(start, stop))
            queries = np.arange(start, stop, step)
        chosen = np.asarray(queries)
        if chosen.dtype == np.bool_:
            if chosen.shape != (count,):
                raise BadInput(
                    f"a mask must have one value for each of the {count} queries. Got {chosen.shape}."
                )
            chosen = np.flatnonzero(chosen)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise BadInput(f"queries are taken by whole numbers, a slice or a mask. Got {queries!r}.")
        if chosen.size and (chosen.min() < -count or chosen.max() >= count):
            raise IndexError(f"query {int(chosen.max())} is out of range; there are {count} queries")
        return self._take(chosen % max(count, 1))

    def query(self, qid: Any) -> RankingData:
        """The query of this id."""
        places = np.flatnonzero(self.qids == qid)
        if not len(places):
            known = ", ".join(repr(value) for value in self.qids[:5].tolist())
            raise BadInput(f"no query {qid!r}; the {len(self.qids)} queries begin with {known}.")
        return self[int(places[0])]

    def select(self, features: Sequence[str | int]) -> RankingData:
        """The same rows with these features, by name or place, in this order."""
        places = [self._place(feature) for feature in features]
        names = tuple(self.feature_names[place] for place in places)
        X = np.take(self.X, places, axis=1) if isinstance(self.X, np.ndarray) else self.X[:, places]
        return replace(self, X=X, feature_names=names)

    def replace(self, **parts: Any) -> RankingData:
        """The same data with some parts exchanged, checked as when built: `data.replace(y=clicks)`."""
        checks: dict[str, Any] = {
            "X": as_matrix,
            "y": check_labels,
            "items": lambda values: as_ids(values, "items"),
            "position": check_position,
            "weight": lambda values: check_weight(values, "weight"),
            "propensity": lambda values: check_weight(values, "propensity"),
            "time": np.asarray,
            "feature_names": tuple,
        }
        for name, values in parts.items():
            if name in checks and values is not None:
                parts[name] = checks[name](values)
        return replace(self, **parts)

    def split(
        self,
        *shares: float,
        random_state: int | None = None,
        by: str | None = None,
        group: str | ArrayLike | None = None,
    ) -> tuple[RankingData, ...]:
        """Parts by query: at random, by time (`by="time"`, earliest first), or whole groups together.

        >>> from placings.simulate.rankings import make_ranking
        >>> train, valid, test = make_ranking(50, random_state=0).data.split(0.6, 0.2, 0.2, random_state=0)
        >>> len(train), len(valid), len(test)
        (30, 10, 10)
        """
        from placings.data.splits import split_queries

        return tuple(self[part] for part in split_queries(self, shares, random_state, by, group))

    def folds(
        self,
        n: int = 5,
        *,
        random_state: int | None = None,
        by: str | None = None,
        group: str | ArrayLike | None = None,
        valid: bool = False,
    ) -> Iterator[tuple[RankingData, ...]]:
        """`n` times (train, test), or (train, valid, test) in LETOR's rotation with `valid=True`."""
        from placings.data.splits import fold_queries

        for parts in fold_queries(self, n, random_state, by, group, valid):
            yield tuple(self[part] for part in parts)

    # -- inside -----------------------------------------------------------------------------------

    def _columns(self) -> dict[str, AnyArray]:
        named = {name: getattr(self, name) for name in ("items", *PER_ROW)}
        present = {name: values for name, values in named.items() if values is not None}
        return {**present, **{f"segment {name!r}": values for name, values in self.segments.items()}}

    def _freeze(self) -> None:
        for name in ("y", "offsets", "qids"):
            object.__setattr__(self, name, read_only(getattr(self, name)))
        for name in ("items", *PER_ROW):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))
        frozen = {name: read_only(np.asarray(values)) for name, values in self.segments.items()}
        object.__setattr__(self, "segments", MappingProxyType(frozen))
        frozen_X = read_only(self.X) if isinstance(self.X, np.ndarray) else read_only_rows(self.X)
        object.__setattr__(self, "X", frozen_X)

    def _map_rows(self, rows: Any) -> dict[str, Any]:
        parts: dict[str, Any] = {"X": self.X[rows], "y": self.y[rows]}
        for name in ("items", *PER_ROW):
            column = getattr(self, name)
            parts[name] = None if column is None else column[rows]
        parts["segments"] = {name: column[rows] for name, column in self.segments.items()}
        return parts

    def _view(self, start: int, stop: int) -> RankingData:
        offsets = self.offsets[start : stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return replace(self, offsets=offsets - offsets[0], qids=self.qids[start:stop], **self._map_rows(rows))

    def _take(self, chosen: AnyArray) -> RankingData:
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.repeat(self.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return replace(self, offsets=offsets, qids=self.qids[chosen], **self._map_rows(rows))

    def _place(self, feature: str | int) -> int:
        if isinstance(feature, int | np.integer):
            if not 0 <= feature < self.n_features:
                raise BadInput(f"no feature at place {feature}; places run from 0 to {self.n_features - 1}.")
            return int(feature)
        if feature not in self.feature_names:
            raise UnknownName("feature", feature, self.feature_names)
        return self.feature_names.index(feature)
