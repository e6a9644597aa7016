"""The click log: one row for each item shown, with the columns of its search, its own fields and a label."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    Guess,
    Ints,
    PlacingsWarning,
    UnknownName,
    check_file,
    find_late,
    hold_part,
    make_features,
    need_library,
    swap_folder,
    sync_file,
    write_atomically,
)
from placings.data import (
    PARQUET,
    SAVED_INDEX,
    Backend,
    OpenedTable,
    RankingData,
    Table,
    as_arrow,
    as_paths,
    check_seed,
    is_csv,
    is_url,
    open_source,
    seal_parquet,
    told_as_ours,
    write_sealed,
)
from placings.logs.column_names import Columns, check_columns, refuse_unused
from placings.logs.epochs import MICROS, check_unit, choose_unit, is_epoch
from placings.logs.join_report import JoinReport
from placings.logs.json_lines import is_json_lines
from placings.logs.schema import (
    CLICKED,
    FIELDS,
    FITS,
    ITEM_ID,
    LABEL,
    NAMED_IN_ROWS,
    NEEDED,
    POSITION,
    PROPENSITY,
    ROWS,
    SEARCH_ID,
    SESSION_ID,
    TIME,
    TYPES,
    USER_ID,
    WANTED,
    LogReading,
    name_type,
    open_log,
    suggest_fix,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SPLITS = ("time", "session", "user", "search")
ORDER = (TIME, SEARCH_ID, POSITION)


class ClickLog:
    """What was shown and what was clicked: one row for each item of each search, in order of time.

    `ClickLog(rows)` takes a pandas, polars or Arrow table, a dict of columns, or an Ibis table, which stays
    on its backend; `ClickLog.read` takes files, and `join_logs` makes one of searches and actions. Columns
    and their kinds are checked here, once: `search_id`, `item_id`, `position` and `label` are needed, and
    what `placings.logs.schema.ROWS` knows must be of its kind. Every other field travels along. Values that
    are missing are no error. Rows without `position` are taken to stand in the order in which they were
    shown, which a warning says; with `count_positions=False` they stay without one, as judgements do that
    nobody ranked. Rows without `label` that have a column `clicked` (true and false, or counts) are labelled
    by it: null is 0. `columns` says what the table calls our columns, {"search_id": "sid"}. Times that are
    numbers are seconds or milliseconds since 1970, told by their size or by `time_unit`.

    On a backend nothing comes to memory before `rows` is asked for. Close the log (or use `with`) to free
    the backend earlier than the garbage collector does.

    >>> log = ClickLog({"search_id": ["s", "s"], "item_id": ["a", "b"], "position": [2, 1], "label": [0, 1]})
    >>> log.rows["item_id"].tolist(), len(log), log.n_searches
    (['b', 'a'], 2, 1)
    >>> ClickLog({"search_id": ["s"], "item_id": ["a"]})
    Traceback (most recent call last):
    placings.core.errors.BadInput: the rows table lacks label. placings log join makes one that has it; \
a column 'clicked' is taken for it.
    """

    report: JoinReport | None  # of the join that made the log: what became of every event
    name: str

    def __init__(
        self,
        rows: Table,
        *,
        count_positions: bool = True,
        columns: Columns | None = None,
        time_unit: str | None = None,
    ) -> None:
        reading = LogReading(check_columns(columns, NAMED_IN_ROWS), time_unit)
        check_unit(time_unit)
        if isinstance(rows, ClickLog):
            rows = rows.rows
        if as_paths(rows) is not None:
            raise BadInput(f"rows must be a table. Got {rows!r}. ClickLog.read reads files.")
        if hasattr(rows, "_find_backends"):  # an Ibis table
            source = open_log(rows, "rows table", reading=reading)
            refuse_unused(reading.columns, source.mapped, source.name, source.there)
            self._set(_check_table(source, count_positions), stack=ExitStack())
        else:
            frame = _rename(_as_frame(rows), reading.columns)
            self._set(None, frame=_check_frame(frame, count_positions, time_unit))

    @classmethod
    def read(
        cls,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        backend: Backend = None,
        count_positions: bool = True,
        columns: Columns | None = None,
        time_unit: str | None = None,
        strict: bool = False,
    ) -> ClickLog:
        """The log in files: parquet, JSONL or CSV; one file, a folder of parts, a glob or a list of them.

        `backend` is None or "duckdb" (embedded), "spark", a master's URL, a SparkSession or an Ibis backend.
        JSONL is read into memory, and every line of it checked; other files are read when rows are asked
        for. The rows of a file have no order that a backend would keep, so `position` must be there, unless
        `count_positions=False` says that there is none. `columns` and `time_unit` are those of `ClickLog`. A
        last line of JSONL that ends early is passed over with a warning; with `strict` it is an error.
        """
        need_library("pandas", "a click log")
        kinds = {name: kind for name, kind in {**ROWS, **FIELDS}.items() if kind != "flag"}
        reading = LogReading(check_columns(columns, NAMED_IN_ROWS), time_unit, strict)
        check_unit(time_unit)
        source = open_log(_list_parts(path), "rows", backend, kinds=kinds, reading=reading)
        stack = ExitStack()
        if source.own:
            stack.callback(source.backend.disconnect)
        try:
            refuse_unused(reading.columns, source.mapped, source.name, source.there)
            for place in source.cut:
                warnings.warn(PlacingsWarning(f"{place} ends early and is passed over."), stacklevel=2)
            return cls._of(_check_table(source, count_positions), stack=stack)
        except BaseException:
            stack.close()
            raise

    @classmethod
    def _of(cls, source: OpenedTable | None, **rest: Any) -> ClickLog:
        log = cls.__new__(cls)
        log._set(source, **rest)
        return log

    @classmethod
    def _of_join(
        cls, source: OpenedTable, table: Any, apart: Any, report: JoinReport, stack: ExitStack
    ) -> ClickLog:
        """The rows of a join, on the backend that made them; `stack` frees what it holds."""
        opened = _check_table(replace(source, table=table), count_positions=False)
        return cls._of(opened, apart=apart, report=report, stack=stack)

    def _set(
        self,
        source: OpenedTable | None,
        *,
        frame: pd.DataFrame | None = None,
        apart: Any = None,
        report: JoinReport | None = None,
        stack: ExitStack | None = None,
        parent: ClickLog | None = None,
    ) -> None:
        self._source, self._frame, self._apart, self.report = source, frame, apart, report
        self._stack, self._parent, self._closed = stack or ExitStack(), parent, False
        self.name = "rows" if source is None else source.name
        self.columns: tuple[str, ...] = tuple(
            map(str, frame.columns if source is None and frame is not None else self._lazy.columns)
        )
        weakref.finalize(self, _close_quietly, self._stack)

    # -- rows ---------------------------------------------------------------------------------------------

    @property
    def rows(self) -> pd.DataFrame:
        """One row for each item shown, by time, search_id and position, as a pandas frame; kept."""
        if self._frame is None:
            self._frame = self._fetch(self.table)
        return self._frame

    @cached_property
    def unsuccessful(self) -> pd.DataFrame | None:
        """The searches without a used action: their columns, `size` of the list, chain and `outcome`.

        Only a join knows them; the log of other rows has None.
        """
        return None if self._apart is None else self._fetch(self._apart)

    @property
    def table(self) -> Any:
        """The rows as an ordered Ibis table; one in memory goes to an embedded DuckDB."""
        if self._source is None:
            self._source = open_source(self.rows)
            if self._source.own:
                self._stack.callback(self._source.backend.disconnect)
        table = self._source.table
        return table.order_by([name for name in (*ORDER, ITEM_ID) if name in table.columns])

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.rows, preserve_index=False)

    def take(self, names: Iterable[str]) -> pd.DataFrame:
        """Those of these columns that are there, in order; a backend fetches no others."""
        kept = [name for name in dict.fromkeys(names) if name in self.columns]
        return self._fetch(self.table.select(*kept)) if self._frame is None else self._frame[kept]

    def __len__(self) -> int:
        return len(self._frame) if self._frame is not None else self._counts["rows"]

    @property
    def n_searches(self) -> int:
        """How many searches the rows are of."""
        if self._frame is not None:
            return int(self._frame[SEARCH_ID].nunique())
        return self._counts["searches"]

    def __repr__(self) -> str:
        if self._frame is None and self.report is None and "_counts" not in vars(self):
            return f"ClickLog({self.name}, {self._lazy_backend}, nothing fetched yet)"
        where = "in memory" if self._source is None else self._lazy_backend
        return f"ClickLog({len(self):,} rows in {self.n_searches:,} searches, {where})"

    # -- what is done with it -------------------------------------------------------------------------------

    def split(self, *shares: float, by: str = "time", random_state: int | None = 0) -> tuple[ClickLog, ...]:
        """The log in parts of these shares, each search in one of them.

        `by="time"` deals out sessions by their first search, the last ones to the last part; `"session"`
        sessions at random, `"user"` whole users, `"search"` single searches. Shares are of what is dealt
        out. A log without `session_id` is dealt by search, which a warning says; a search without a session
        is one by itself, one without a user goes by its session. A random deal hangs on the names and
        `random_state` alone, not on the order of rows. Rows without a `search_id` are in no part.

        The parts of a log on a backend stay there, and live as long as the log is open.

        >>> rows = {"search_id": list("abcd"), "item_id": list("wxyz"), "position": [1] * 4, "label": [1] * 4,
        ...         "session_id": ["u", "v", "u", "w"], "time": np.arange(4).astype("datetime64[s]")}
        >>> [part.rows["search_id"].tolist() for part in ClickLog(rows).split(0.67, 0.33)]
        [['a', 'b', 'c'], ['d']]
        """
        if by not in SPLITS:
            raise UnknownName("split", str(by), SPLITS)
        if not shares or any(not 0.0 < share <= 1.0 for share in shares) or abs(sum(shares) - 1.0) > 1e-9:
            raise BadInput(f"shares must be above 0 and add up to 1. Got {shares}.")
        seed = check_seed(random_state)
        units = self._find_units(by)
        heads = self._gather_heads(units)
        part = deal_units(_name_units(heads, units), shares, None if by == "time" else seed)
        empty = next((number for number in range(len(shares)) if not (part == number).any()), None)
        if empty is not None:
            raise BadInput(
                f"part {empty + 1} of {shares} would be empty. Got {len(heads):,} searches, dealt by {by}. "
                "Ask for fewer parts, or give a longer log."
            )
        return self._take_parts(heads[SEARCH_ID], part, len(shares))

    def explore(self, path: str | PathLike[str] = "log.html", **options: Any) -> Path:
        """Write what the log says as one HTML page: clicks by rank, query length, distance, week, hour.

        The options are those of `placings log explore`: title, zone, types, simulated, source, unsuccessful.
        Needs the extra `report`.
        """
        from placings.logs.facts import USED

        write_page = find_late("page", "log")
        options = {"source": f"{Path(self.name).name}.", "unsuccessful": self.unsuccessful} | options
        written: Path = write_page(path, self.take([*USED, str(options.get("types", "type"))]), **options)
        return written

    def to_ranking(self, features: Any, label: str | None = LABEL) -> RankingData:
        """The rows as RankingData, with position, time, propensity and segments where they are there.

        `features` is a fitted FeatureSet, or the name of one to fit on this log: "shop", "places". Give a
        second log, such as a test part, the set that was fitted on the first.
        """
        if isinstance(features, str):
            features = make_features(features, self.rows).fit(self.rows)
        data: RankingData = features.to_ranking(self.rows, label)
        return data

    def write(self, path: str | PathLike[str], *, unsuccessful: str | PathLike[str] | None = None) -> Path:
        """The rows as parquet, written by the backend: one file on DuckDB, a folder of files on Spark.

        `unsuccessful` is a second file for the searches without a used action, which only a join knows.
        """
        if unsuccessful is not None and self._apart is None:
            raise BadInput(
                "only a log that join_logs made knows the searches without an action. Leave unsuccessful out."
            )
        self._write(None if self._source is None else self.table, Path(path))
        if unsuccessful is not None:
            self._write(self._apart, Path(unsuccessful))
        return Path(path)

    def close(self) -> None:
        """Free what the log holds on its backend; rows that were not fetched before are gone."""
        self._closed = True
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _lazy(self) -> Any:
        """The Ibis table as it lies on the backend."""
        if self._source is None:
            raise AssertionError("the log is in memory")
        return self._source.table

    @property
    def _lazy_backend(self) -> str:
        return "" if self._source is None else self._source.kind

    @cached_property
    def _counts(self) -> dict[str, int]:
        if self.report is not None:
            return {"rows": self.report.notes["rows"], "searches": self.report.notes["groups"]}
        table = self._lazy
        found = self._ask(table.aggregate(rows=table.count(), searches=table[SEARCH_ID].nunique()))
        return {name: int(found[name].iloc[0]) for name in ("rows", "searches")}

    def _find_units(self, by: str) -> tuple[str, ...]:
        """The columns whose values are dealt out; where the first has none, the next counts."""
        if by == "user" and USER_ID not in self.columns:
            raise BadInput(
                f"by='user' needs a column {USER_ID}. Got {', '.join(self.columns)}. Write who searched into "
                "the log of searches, or split by='session'."
            )
        if by in ("time", "session") and SESSION_ID not in self.columns:
            warnings.warn(
                f"the log has no {SESSION_ID}: single searches are dealt out, so those of one person may be "
                "in two parts.",
                Guess,
                stacklevel=3,
            )
        if by == "time" and TIME not in self.columns:
            warnings.warn(
                f"the log has no column {TIME}: what is dealt out is in order of {SEARCH_ID}.",
                Guess,
                stacklevel=3,
            )
        wanted = {"user": (USER_ID, SESSION_ID), "search": ()}.get(by, (SESSION_ID,))
        return tuple(name for name in wanted if name in self.columns)

    def _gather_heads(self, units: tuple[str, ...]) -> pd.DataFrame:
        """One line a search: its id and units, in order of time and id."""
        names = [SEARCH_ID, *units, *([TIME] if TIME in self.columns else [])]
        if self._frame is not None:
            rows = self._frame[names]
            heads: pd.DataFrame = rows[rows[SEARCH_ID].notna()].drop_duplicates(SEARCH_ID)
            return heads.reset_index(drop=True)
        table = self._lazy.filter(self._lazy[SEARCH_ID].notnull())
        heads = self._fetch(
            table.group_by(SEARCH_ID).aggregate(**{name: table[name].min() for name in names[1:]})
        )
        keys = [name for name in ORDER if name in heads]
        return heads.sort_values(keys, kind="stable").reset_index(drop=True)

    def _take_parts(self, searches: pd.Series[Any], part: Ints, count: int) -> tuple[ClickLog, ...]:
        if self._frame is not None:
            codes = need_library("pandas", "a click log").Index(searches).get_indexer(self._frame[SEARCH_ID])
            found = np.where(codes >= 0, part[codes], -1)
            frames = [self._frame[found == number].reset_index(drop=True) for number in range(count)]
            return tuple(self._of(None, frame=frame) for frame in frames)
        import pyarrow as pa

        source = self._open()
        dealt = open_source(
            pa.table({SEARCH_ID: pa.Array.from_pandas(searches), "placings_part": part}), source.backend
        ).table
        tables = [
            source.table.semi_join(dealt.filter(dealt.placings_part == number), SEARCH_ID)
            for number in range(count)
        ]
        return tuple(self._of(replace(source, table=table, own=False), parent=self) for table in tables)

    def _open(self) -> OpenedTable:
        """The backend, if it is still there."""
        log: ClickLog | None = self
        while log is not None:
            if log._closed:
                raise BadInput(
                    "the log is closed, and its rows were not fetched before. Ask for them inside the `with`."
                )
            log = log._parent
        if self._source is None:
            raise AssertionError("the log is in memory")
        return self._source

    def _ask(self, expression: Any) -> pd.DataFrame:
        return self._open().ask(expression)

    def _fetch(self, expression: Any) -> pd.DataFrame:
        source = self._open()
        with told_as_ours(source.name):
            table = source.backend.to_pyarrow(expression)
        frame: pd.DataFrame = table.to_pandas()
        if TIME in frame:
            frame[TIME] = frame[TIME].astype("datetime64[us]")
        return frame

    def _write(self, expression: Any, path: Path) -> None:
        if path.suffix.lower() not in (".parquet", ".pq"):
            raise BadInput(f"rows are written as parquet: the path must end in .parquet. Got {str(path)!r}.")
        if expression is None:
            with write_atomically(path) as part:
                write_sealed(self.to_arrow(), part)
            return
        source = self._open()
        if source.kind == "pyspark":
            self._write_folder(source, expression, path)
            return
        with write_atomically(path) as part, told_as_ours(source.name):
            source.backend.to_parquet(expression, str(part))
            seal_parquet(part)

    def _write_folder(self, source: OpenedTable, expression: Any, path: Path) -> None:
        """Spark writes a folder; it appears whole, in the place of what was there."""
        if not path.parent.is_dir():
            raise BadFile(path, f"the folder {path.parent} does not exist. Make it first.")
        with hold_part(path, folder=True) as part:
            written = part / "rows"  # Spark wants to make the folder itself
            with told_as_ours(source.name):
                backend = source.backend
                frame = backend._session.sql(backend.compile(expression))
                for column in frame.schema:  # else Spark writes them as its old INT96
                    if column.dataType.typeName() == "timestamp":
                        frame = frame.withColumn(column.name, frame[column.name].cast("timestamp_ntz"))
                frame.write.parquet(written.resolve().as_uri())
            for file in written.iterdir():
                sync_file(file)
            swap_folder(written, path)


def _close_quietly(stack: ExitStack) -> None:
    """For the garbage collector: a backend that was stopped before has nothing left to free."""
    with suppress(Exception):
        stack.close()


# -- the order of rows ------------------------------------------------------------------------------------


def order_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by time, search and position, checked; nothing of the given table changes."""
    _check_needed(rows.columns, None, count=True)
    return _sort_rows(rows)


def find_offsets(frame: pd.DataFrame) -> Ints:
    """Where each search begins, and the end; the rows of a search stand together."""
    ids = frame[SEARCH_ID].to_numpy()
    if not len(ids):
        return np.zeros(1, dtype=np.int64)
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    return np.concatenate([[0], starts, [len(ids)]]).astype(np.int64)


def _sort_rows(rows: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in ORDER if name in rows]
    return rows.sort_values(keys, kind="stable").reset_index(drop=True)


# -- parts ------------------------------------------------------------------------------------------------


def deal_units(units: Sequence[Any], shares: Sequence[float], random_state: int | None) -> Ints:
    """The part of each search, by the unit that it belongs to: in the order given, or at random.

    >>> deal_units(["u", "v", "u", "w"], [0.5, 0.5], None)  # rint(0.5 · 3) = 2 units in the first part
    array([0, 0, 0, 1])
    """
    codes, names = need_library("pandas", "a split").factorize(np.asarray(units, dtype=object))
    place = np.arange(len(names))
    if random_state is not None:  # by name, so that the deal hangs on the names and the seed alone
        order = np.argsort(names.astype(str), kind="stable")
        place[order[np.random.default_rng(random_state).permutation(len(names))]] = np.arange(len(names))
    borders = np.rint(np.cumsum(shares) * len(names)).astype(np.int64)
    part: Ints = np.searchsorted(borders, place, side="right")[codes].astype(np.int64)
    return part


def _name_units(heads: pd.DataFrame, units: tuple[str, ...]) -> list[str]:
    """What each search is dealt with: the first of its units that is known, else the search itself."""
    found = heads[SEARCH_ID].astype(object)
    for name in reversed(units):
        found = heads[name].astype(object).where(heads[name].notna(), found)
    return [str(unit) for unit in found]


# -- the door ---------------------------------------------------------------------------------------------


def _as_frame(rows: Table) -> pd.DataFrame:
    pandas = need_library("pandas", "a click log")
    if isinstance(rows, pandas.DataFrame):
        return rows.reset_index(drop=True)  # type: ignore[no-any-return]
    frame: pd.DataFrame = as_arrow(rows).to_pandas()
    return frame


def _rename(rows: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The frame under our names; a column that has one of them already gives way."""
    if not columns:
        return rows
    refuse_unused(columns, rows.columns, "the rows table", map(str, rows.columns))
    named = {ours: rows[theirs] for ours, theirs in columns.items()}
    return rows.drop(columns=list({*columns.values(), *(set(columns) & set(rows.columns))})).assign(**named)


def _label_clicked(rows: pd.DataFrame) -> pd.DataFrame:
    """The frame with `label` in place of `clicked`, where only that is there."""
    if LABEL in rows or CLICKED not in rows:
        return rows
    found = _name_series(rows[CLICKED])
    if found not in ("true or false", "whole numbers", "numbers", "nothing"):
        _refuse(None, f"has a column {CLICKED!r} that must be true or false, or numbers. Got {found}")
    clicked = need_library("pandas", "a click log").to_numeric(rows[CLICKED].astype("Float64")).fillna(0.0)
    return rows.drop(columns=CLICKED).assign(**{LABEL: clicked.astype(np.float64)})


def _check_frame(rows: pd.DataFrame, count_positions: bool, time_unit: str | None = None) -> pd.DataFrame:
    """The rows in order, times in microseconds of UTC without a zone; what is wrong is named."""
    twice = rows.columns[rows.columns.duplicated()]
    if len(twice):
        _refuse(None, f"has two columns {twice[0]!r}. Rename or drop one of them")
    rows = _label_clicked(rows)
    _check_needed(rows.columns, None, count_positions, given=True)
    frame = rows
    if POSITION not in rows and count_positions:
        warnings.warn(
            f"the rows have no {POSITION}: they are taken to stand in the order in which they were shown.",
            Guess,
            stacklevel=4,
        )
        frame = frame.assign(**{POSITION: frame.groupby(SEARCH_ID, sort=False).cumcount() + 1})
    for name, kind in ROWS.items():
        if name not in frame:
            continue
        column = frame[name]
        found = _name_series(column)
        if kind == "time" and found in ("times", "text", *FITS["number"]):
            frame = frame.assign(**{name: _as_times(column, name, time_unit)})
        elif name == LABEL and found == "true or false":
            frame = frame.assign(**{name: column.astype(np.float64)})
        elif found not in ("nothing", *FITS[kind]) and not (kind == "id" and _is_whole(column, found)):
            row = int(np.flatnonzero(column.notna())[0])
            _refuse_kind(None, name, found, column.iloc[row], f" in row {row + 1}")
        elif kind == "number" and found == "numbers" and name != PROPENSITY:
            frame = _drop_endless(frame, name)
    if PROPENSITY in frame:
        numbers = frame[PROPENSITY].astype(np.float64)
        wrong = np.flatnonzero(numbers.notna() & ~((numbers > 0) & (numbers <= 1)))
        if len(wrong):
            _refuse_propensity(None, f"{numbers.iloc[wrong[0]]} in row {wrong[0] + 1}")
    return _sort_rows(frame)


def _drop_endless(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The frame with NaN for ±inf, which says nothing of a score or a position; a label of it is refused."""
    column = frame[name]
    endless = np.isinf(column.to_numpy(np.float64, na_value=np.nan))
    if not endless.any():
        return frame
    if name == LABEL:
        _refuse_label(None, f"{column[endless].iloc[0]} in row {np.flatnonzero(endless)[0] + 1}")
    return frame.assign(**{name: column.mask(endless)})


def _check_table(source: OpenedTable, count_positions: bool) -> OpenedTable:
    """The same of a table on a backend, which is asked only where a type does not tell."""
    import ibis

    table = source.table
    table = table.drop(*[name for name in table.columns if name in SAVED_INDEX])
    if LABEL not in table.columns and CLICKED in table.columns:
        table = _take_clicked(source, table)
    _check_needed(table.columns, source.name, count_positions)
    changed: dict[str, Any] = {}
    rules: dict[str, Any] = {}  # what of a column is wrong; any such row is asked for
    for name, kind in ROWS.items():
        if name not in table.columns:
            continue
        column = table[name]
        found = name_type(column.type())
        if found == "nothing":
            changed[name] = ibis.null(TYPES[kind])
        elif kind == "time" and found == "times":
            changed[name] = column.cast("timestamp(6)")
        elif kind == "time" and found == "text":
            changed[name] = column.try_cast("timestamp('UTC', 6)").cast("timestamp(6)")  # offsets count
            rules[name] = column.notnull() & changed[name].isnull()
        elif name == LABEL and found == "true or false":
            changed[name] = column.cast("float64")
        elif kind == "id" and found == "numbers":  # whole numbers with gaps, as pandas writes them
            rules[name] = column.notnull() & ~column.isnan() & (column != column.floor())
        elif found not in FITS[kind]:
            rules[name] = column.notnull()
            changed[name] = ibis.null(TYPES[kind])  # of no value at all a type was guessed
        if name == PROPENSITY and name not in changed:
            known = column.notnull() & (~column.isnan() if found == "numbers" else True)
            rules[name] = known & ~((column > 0) & (column <= 1))
    if LABEL in table.columns and name_type(table[LABEL].type()) == "numbers":
        rules[LABEL] = table[LABEL].isinf()
    checked = replace(source, table=table)
    _refuse_wrong(checked, rules)
    changed |= {name: _without_endless(table[name]) for name in _list_floats(table) if name not in changed}
    return replace(source, table=table.mutate(**changed) if changed else table)


def _take_clicked(source: OpenedTable, table: Any) -> Any:
    """The table with `label` in place of `clicked`."""
    import ibis

    found = name_type(table[CLICKED].type())
    if found not in ("true or false", "whole numbers", "numbers", "nothing"):
        _refuse(source.name, f"has a column {CLICKED!r} that must be true or false, or numbers. Got {found}")
    zero = ibis.literal("0").cast("float64")
    clicked = zero if found == "nothing" else ibis.coalesce(table[CLICKED].cast("float64"), zero)
    return table.mutate(**{LABEL: clicked}).drop(CLICKED)


def _list_floats(table: Any) -> list[str]:
    """Known columns of floats in which ±inf says nothing."""
    known = [name for name, kind in ROWS.items() if kind == "number" and name not in (LABEL, PROPENSITY)]
    return [name for name in known if name in table.columns and table[name].type().is_floating()]


def _without_endless(column: Any) -> Any:
    import ibis

    return column.isinf().ifelse(ibis.null(column.type()), column)


def _refuse_wrong(source: OpenedTable, rules: Mapping[str, Any]) -> None:
    """Refuse the first row that a rule finds, with its value."""
    for name, wrong in rules.items():
        rows = source.ask(source.table.filter(wrong).select(name).limit(1))
        if len(rows):
            found, value = name_type(source.table[name].type()), rows[name].iloc[0]
            if name == PROPENSITY and found in FITS["number"]:
                _refuse_propensity(source.name, str(value))
            if name == LABEL and found == "numbers":
                _refuse_label(source.name, str(value))
            _refuse_kind(source.name, name, found, value)


def _check_needed(columns: Iterable[Any], name: str | None, count: bool, *, given: bool = False) -> None:
    """Refuse rows without a column that is needed; positions can be counted where the rows are `given`."""
    there = set(columns)
    missing = [column for column in NEEDED if column not in there]
    if POSITION in missing and (given or not count):
        missing.remove(POSITION)
    if not missing:
        return
    if ITEM_ID in missing and "results" in there:
        _refuse(name, "holds searches with their lists. pg.join_logs joins them with the actions")
    if missing == [LABEL]:
        _refuse(
            name,
            f"lacks {LABEL}. placings log join makes one that has it; a column {CLICKED!r} is taken for it",
        )
    has = "it" if len(missing) == 1 else "them"
    _refuse(name, f"lacks {', '.join(missing)}. placings log join makes one that has {has}")


def _refuse_kind(table: str | None, name: str, found: str, value: Any, where: str = "") -> NoReturn:
    kind = ROWS[name]
    shown = value.item() if isinstance(value, np.generic) else value
    broken = (
        kind == "id" and found == "numbers"
    )  # whole ones are let in, and others stay what they are as text
    _refuse(
        table,
        f"has a column {name!r} that must be {WANTED[kind]}. Got {found}, such as {shown!r}{where}. "
        + suggest_fix(name, "decimals" if broken else found, kind),
    )


def _refuse_label(name: str | None, got: str) -> NoReturn:
    _refuse(
        name, f"has a column {LABEL!r} that must hold finite numbers. Got {got}. Mend or leave out the row"
    )


def _refuse_propensity(name: str | None, got: str) -> NoReturn:
    _refuse(
        name,
        f"has a column {PROPENSITY!r} that must be above 0 and at most 1: how likely the item was to be "
        f"looked at there. Got {got}. Leave out rows that could not be seen, or write null",
    )


def _refuse(name: str | None, problem: str) -> NoReturn:
    text = problem if problem.endswith(".") else problem + "."
    raise BadInput(f"the rows table {text}") if name is None else BadFile(name, text)


def _name_series(column: pd.Series[Any]) -> str:
    """What a pandas column holds, in the words of `FITS`."""
    types = need_library("pandas", "a click log").api.types
    kind = column.cat.categories.dtype if isinstance(column.dtype, types.CategoricalDtype) else column.dtype
    if not column.notna().any():
        return "nothing"
    if types.is_bool_dtype(kind):
        return "true or false"
    if types.is_integer_dtype(kind):
        return "whole numbers"
    if types.is_float_dtype(kind):
        return "numbers"
    if types.is_datetime64_any_dtype(kind):
        return "times"
    words = {
        "string": "text", "integer": "whole numbers", "floating": "numbers", "boolean": "true or false",
        "mixed-integer-float": "numbers", "decimal": "decimals", "datetime": "times", "datetime64": "times",
        "date": "times", "empty": "nothing",
    }  # fmt: skip
    found = types.infer_dtype(column, skipna=True)
    return words.get(found, f"{found} values")


def _is_whole(column: pd.Series[Any], found: str) -> bool:
    """Whether numbers are whole: pandas makes such of ids with gaps."""
    if found != "numbers":
        return False
    known = column[column.notna()].astype(np.float64)
    return bool((known == np.floor(known)).all())


def _as_times(column: pd.Series[Any], name: str, unit: str | None = None) -> pd.Series[Any]:
    """Times as microseconds in UTC without a zone; text must be ISO, numbers seconds or the like."""
    pandas = need_library("pandas", "a click log")
    given = column.astype(object) if column.dtype == "category" else column
    if given.dtype.kind == "M" and getattr(given.dt, "tz", None) is None:
        return given.astype("datetime64[us]")
    text = pandas.api.types.infer_dtype(given, skipna=True) == "string"
    if _name_series(given) in FITS["number"] or (text and given.dropna().map(is_epoch).all()):
        numbers = given.astype(object).where(given.notna(), np.nan).astype(np.float64)
        chosen = choose_unit(float(numbers.min()), float(numbers.max()), unit, name)
        micros = (numbers * MICROS[chosen]).round()
        whole: pd.Series[Any] = micros.astype("Int64").astype("datetime64[us]")
        return whole
    times = pandas.to_datetime(given, utc=True, errors="coerce", **({"format": "ISO8601"} if text else {}))
    wrong = np.flatnonzero(times.isna() & column.notna())
    if len(wrong):
        _refuse_kind(None, name, "text", column.iloc[wrong[0]], f" in row {wrong[0] + 1}")
    plain: pd.Series[Any] = times.dt.tz_localize(None).astype("datetime64[us]")
    return plain


# -- files ------------------------------------------------------------------------------------------------


def _list_parts(path: Any) -> Any:
    """What is to be read: of a folder without parquet its JSONL or CSV files."""
    paths = as_paths(path)
    if paths is None:
        raise BadInput(f"path must be a file, a folder, a glob or a list of them. Got {type(path).__name__}.")
    parts: list[str] = []
    for each in paths:
        if not Path(each).is_dir():
            _check_part(each)
            parts.append(each)
            continue
        files = sorted(str(file) for file in Path(each).rglob("*") if not file.name.startswith((".", "_")))
        if any(file.lower().endswith(PARQUET) for file in files):
            parts.append(each)
            continue
        known = [file for file in files if is_json_lines(file) or is_csv(file)]
        if not known:
            raise BadFile(each, "is a folder without .parquet, .jsonl or .csv files. Name the file to read.")
        parts += known
    return parts


def _check_part(path: str) -> None:
    """Refuse a local file that is not there or is no parquet, before a backend says so in its words."""
    if is_url(path) or (not Path(path).exists() and any(mark in path for mark in "*?[")):
        return
    check_file(Path(path))
    if not path.lower().endswith(PARQUET):
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(path, f"is no parquet file: {error}. `placings log join` writes one.") from error
