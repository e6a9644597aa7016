"""Where a table lives and what answers questions about it: embedded DuckDB, Spark, or its own backend.

Everything that is asked is an Ibis expression, so each backend gets the same question. Sessions use UTC.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from placings.core import (
    BadFile,
    BadInput,
    MissingExtra,
    UnknownName,
    count_threads,
    hold_part,
    keep_old_names,
    option,
    parse_json,
)
from placings.data.csv_text import check_csv
from placings.data.paths import as_paths, as_urls, find_files, guess_delimiter, is_url, quote_globs
from placings.data.ranking import RankingData
from placings.data.seals import check_parquet
from placings.data.tables import METADATA_KEY, find_delimiter

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BACKENDS = ("duckdb", "spark")
MASTERS = ("local", "spark://", "yarn", "k8s://", "mesos://")
SPARK_MEMORY = "4g"

_SPILLS: dict[int, Path] = {}  # by process

Table: TypeAlias = Any  # a path, a glob, a list of them, pandas, polars, Arrow, a RankingData, an Ibis table
Backend: TypeAlias = Any  # None, "duckdb", "spark", a Spark master's URL, a SparkSession, an Ibis backend


@dataclass(frozen=True)
class OpenedTable:
    """An opened table: the Ibis table, the backend that answers, and what is known of the columns.

    `recorded` holds the parts that a table written by placings says its columns play. `typeless` is true
    of CSV, where a column without a single value looks like text.
    """

    table: Any
    backend: Any
    name: str
    recorded: Mapping[str, Any] = field(default_factory=dict)
    typeless: bool = False
    own: bool = False

    @property
    def kind(self) -> str:
        """The backend's name, as Ibis has it."""
        return str(self.backend.name)

    def ask(self, expression: Any) -> pd.DataFrame:
        """The answer to an expression as a pandas table; the backend's own errors come back as ours."""
        import pandas as pd

        with told_as_ours(self.name):
            answer = self.backend.execute(expression)
        if not isinstance(answer, pd.DataFrame):
            raise BadInput(f"an expression must be a table. Got one whose answer is {type(answer).__name__}.")
        return answer

    @contextmanager
    def holding(self, expression: Any) -> Iterator[Any]:
        """An expression computed once, as a temporary table, for the time of a `with`."""
        name, spark = f"placings_{uuid4().hex}", self.kind == "pyspark"
        with told_as_ours(self.name):
            if spark:
                frame = self.backend._session.sql(self.backend.compile(expression)).persist()
                frame.createOrReplaceTempView(name)
                held = self.backend.table(name)
            else:
                held = self.backend.create_table(name, expression, temp=True)
        try:
            yield held
        finally:
            with told_as_ours(self.name):
                if spark:
                    frame.unpersist()
                    self.backend._session.catalog.dropTempView(name)
                else:
                    self.backend.raw_sql(f"DROP TABLE {name}")


@contextmanager
def opened(table: Table, backend: Backend = None) -> Iterator[OpenedTable]:
    """A table for the time of a `with`; the embedded one is closed after it."""
    source = open_source(table, backend)
    try:
        yield source
    finally:
        if source.own:
            source.backend.disconnect()


def open_table(table: Table, backend: Backend = None) -> Any:
    """Any table as an Ibis table on the chosen backend.

    `table` is a path, a glob or a list of them (parquet, CSV; a folder means its parquet files; columns are
    matched by name, and one that a file lacks is NULL there), a pandas, polars or Arrow table, a RankingData,
    or an Ibis table, which stays on the backend it is on. `backend` is None or "duckdb" (embedded), "spark"
    (`local[*]`), a master's URL such as "spark://host:7077", a SparkSession (whose time zone is set to UTC),
    or an Ibis backend.

    >>> open_table({"x": [1.0, 0.0]}).count().execute()
    2
    """
    return open_source(table, backend).table


def open_source(table: Table, backend: Backend = None, *, texts: Sequence[str] = ()) -> OpenedTable:
    """`open_table` with what else is known of the table; `texts` are columns of a CSV file that stay text."""
    ibis = need_ibis("reading logs")
    if isinstance(table, ibis.expr.types.Table):
        return _keep_backend(table, backend)
    paths = as_paths(table)
    if paths is None:
        return _hold(as_arrow(table), backend)
    files, kind, folder = find_files(paths)
    if kind == "parquet":
        for file in files:
            if not is_url(file):
                check_parquet(file)
    connected, own = _connect(backend)
    name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    form = _describe_csv(files) if kind == "csv" else {}
    with told_as_ours(name):
        if connected.name == "pyspark":
            read = connected._session.read
            if kind == "csv":
                mark = guess_delimiter(files[0])
                frame = read.csv(as_urls(files), header=True, inferSchema=True, sep=mark)
                kept = [name for name in texts if name in frame.columns]
                if kept:
                    kinds = ", ".join(
                        f"`{name}` {'string' if name in kept else kind}" for name, kind in frame.dtypes
                    )
                    frame = read.csv(as_urls(files), header=True, schema=kinds, sep=mark)
            else:
                merged = read.option("mergeSchema", "true")
                frame = merged.parquet(*as_urls(paths if folder else files))
            opened_table = _name_frame(connected, frame)
        else:
            read = connected.read_csv if kind == "csv" else connected.read_parquet
            # a column that a later file lacks is NULL there; by default the first file would decide
            quoted = quote_globs(files) if connected.name == "duckdb" else files
            opened_table = read(quoted, union_by_name=True, **form)
            kept = [name for name in texts if name in opened_table.columns] if kind == "csv" else []
            if kept:
                opened_table = read(quoted, union_by_name=True, types=dict.fromkeys(kept, "string"), **form)
    recorded = _read_schema_record(files[0]) if kind == "parquet" else {}
    return OpenedTable(cut_nanoseconds(opened_table), connected, name, recorded, kind == "csv", own)


def _describe_csv(files: Sequence[str]) -> dict[str, Any]:
    """How DuckDB is to read CSV: what it guesses of quotes and headers may turn on one row. Checked first."""
    local = [Path(file) for file in files if not is_url(file) and not file.lower().endswith(".bz2")]
    marks = {file: find_delimiter(file) for file in local}
    for file, mark in marks.items():
        check_csv(file, mark)
    if not local or len(local) < len(files):
        return {}
    if len(set(marks.values())) > 1:
        other = next(file for file in local if marks[file] != marks[local[0]])
        raise BadFile(other, f"is delimited by {marks[other]!r}, but {local[0].name} by {marks[local[0]]!r}.")
    return {"delim": marks[local[0]], "quote": '"', "escape": '"', "header": True, "strict_mode": True}


def cut_nanoseconds(table: Any) -> Any:
    """An Ibis table whose times with a zone have microseconds, in lists and structs too.

    pandas writes nanoseconds, which DuckDB reads as TIMESTAMPTZ_NS, a type that Ibis has no name for.
    """
    known = {name: _find_known(kind) for name, kind in table.schema().items()}
    casts = {name: table[name].cast(kind) for name, kind in known.items() if kind != table[name].type()}
    return table.mutate(**casts) if casts else table


def _find_known(kind: Any) -> Any:
    import ibis.expr.datatypes as dt

    if kind.is_unknown() and "TIMESTAMPTZ_NS" in str(kind):
        return dt.Timestamp(timezone="UTC", scale=6, nullable=kind.nullable)
    if kind.is_array():
        return dt.Array(_find_known(kind.value_type), nullable=kind.nullable)
    if kind.is_struct():
        return dt.Struct({name: _find_known(each) for name, each in kind.items()}, nullable=kind.nullable)
    return kind


def need_ibis(what: str) -> Any:
    """The ibis module, or how to install it."""
    try:
        import ibis
        import pandas  # noqa: F401
    except ImportError as error:
        raise MissingExtra(what, "Ibis on DuckDB", "logs") from error
    return ibis


# -- backends -----------------------------------------------------------------------------------------


def start_spark(master: str = "local[*]") -> Any:
    """The active Spark session, or a new one: UTC, 4 GB for the driver, no web page, quiet.

    A local one listens on 127.0.0.1 alone.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(option("backend", value="spark"), "PySpark", "spark") from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # errors are raised, and told by us
    local = master.startswith("local")
    if local:
        if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
            raise BadInput(
                f"{option('backend', value='spark')} needs Java 17 or later. Got a machine without `java`. "
                "Install it, set JAVA_HOME, or leave backend out to use the embedded one."
            )
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": SPARK_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF" if local else "ERROR",
        **({"spark.sql.shuffle.partitions": str(4 * count_threads())} if local else {}),
    }
    builder = SparkSession.builder.master(master).appName("placings")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j, the JVM's start and the network each have their own
        raise BadInput(f"Spark at {master!r} did not start: {_first_line(error)}") from error


def _connect(wanted: Backend) -> tuple[Any, bool]:
    """The backend, and whether it is ours to close."""
    ibis = need_ibis("reading logs")
    if wanted is None or wanted == "duckdb":
        backend = ibis.duckdb.connect(
            temp_directory=_name_spill(),
            threads=count_threads(),
            preserve_insertion_order=False,
            autoinstall_known_extensions=False,  # nothing is fetched because a file's name asks for it
            autoload_known_extensions=False,
        )
        return backend, True
    if isinstance(wanted, ibis.backends.BaseBackend):
        _refuse_zone(wanted)
        return wanted, False
    if isinstance(wanted, str):
        if wanted != "spark" and not wanted.startswith(MASTERS):
            raise UnknownName("backend", wanted, [*BACKENDS, "local[4]", "spark://host:7077"])
        session = start_spark("local[*]" if wanted == "spark" else wanted)
    elif hasattr(wanted, "createDataFrame"):
        session = wanted
    else:
        raise BadInput(
            f"backend must be 'duckdb', 'spark', a Spark master's URL, a SparkSession or an Ibis backend. "
            f"Got {wanted!r}."
        )
    return ibis.pyspark.connect(session), False


def _name_spill() -> str:
    """Where one connection may spill: in a folder of this process that no one else can enter.

    DuckDB makes the folder when it first needs it. "" lets it not spill, where nothing can be written.
    """
    process = os.getpid()  # a forked child makes its own
    if process not in _SPILLS:
        held = ExitStack()
        try:
            folder = held.enter_context(
                hold_part(Path(tempfile.gettempdir()) / "placings-spill", folder=True)
            )
            folder.chmod(0o700)
        except OSError:
            return ""
        _SPILLS[process] = folder
        atexit.register(_remove_spill, process, held)
    return str(_SPILLS[process] / uuid4().hex)


def _remove_spill(process: int, held: ExitStack) -> None:
    if process == os.getpid():
        held.close()


def _name_frame(backend: Any, frame: Any) -> Any:
    """A Spark frame as an Ibis table."""
    name = f"placings_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return backend.table(name)


def _keep_backend(table: Any, wanted: Backend) -> OpenedTable:
    backends, _ = table._find_backends()
    if not backends:  # an in-memory table: no backend yet
        return _hold(table.to_pyarrow(), wanted)
    backend = backends[0]
    if wanted is not None and not (wanted is backend or _names(wanted, backend.name)):
        raise BadInput(
            f"an Ibis table stays on its backend, {backend.name}. Got {option('backend', value=wanted)}. "
            "Leave it out."
        )
    _refuse_zone(backend)
    return OpenedTable(cut_nanoseconds(table), backend, "the Ibis table")


def _refuse_zone(backend: Any) -> None:
    """Someone else's session must use UTC too: in another zone, times with a zone would be shifted."""
    zone = "UTC"
    if backend.name == "duckdb":
        zone = str(backend.raw_sql("SELECT current_setting('TimeZone')").fetchall()[0][0])
    elif backend.name == "pyspark":
        zone = str(backend._session.conf.get("spark.sql.session.timeZone"))
    if zone not in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
        raise BadInput(
            f"the session's time zone must be UTC. Got {zone!r}. Set it (TimeZone in DuckDB, "
            f"spark.sql.session.timeZone in Spark) and pass {option('zone')} to say where days begin."
        )


def _names(wanted: Backend, backend: str) -> bool:
    kind = "pyspark" if isinstance(wanted, str) and wanted.startswith(MASTERS) else wanted
    return bool(kind == backend or (kind == "spark" and backend == "pyspark"))


# -- tables in memory -----------------------------------------------------------------------------------


def _hold(table: pa.Table, wanted: Backend) -> OpenedTable:
    backend, own = _connect(wanted)
    name = f"placings_{uuid4().hex}"
    plain = _as_plain(table)
    with told_as_ours("the table"):
        if backend.name == "pyspark":
            session = backend._session
            try:
                frame = session.createDataFrame(plain)
            except TypeError:  # before Spark 4 there is no way in for Arrow but pandas
                frame = session.createDataFrame(plain.to_pandas())
            held = _name_frame(backend, frame)
        elif backend.name == "duckdb":
            backend.con.register(name, plain)
            held = backend.table(name)
        else:
            held = backend.create_table(name, plain, temp=True)
    return OpenedTable(held, backend, "the table", _read_record(table.schema), False, own)


def as_arrow(table: Any) -> pa.Table:
    import pyarrow as pa

    if isinstance(table, RankingData):
        return table.to_arrow()
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    kind = type(table).__module__.partition(".")[0]
    try:
        if kind == "polars":
            return (table.collect() if hasattr(table, "collect") else table).to_arrow()
        if kind == "pandas":
            return pa.Table.from_pandas(table, preserve_index=False)
        if isinstance(table, Mapping):
            return pa.table(dict(table))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(
            f"the table cannot be read: {_first_line(error)} A column must hold one kind of value: turn what "
            "is no number into NaN, as pandas.to_numeric(column, errors='coerce') does."
        ) from error
    raise BadInput(
        "table must be a path, a pandas, polars or Arrow table, a RankingData or an Ibis table. "
        f"Got {type(table).__name__}."
    )


def _as_plain(table: pa.Table) -> pa.Table:
    """The same values in types that every backend knows; columns of durations are dropped."""
    import pyarrow as pa
    import pyarrow.types as types

    names = list(table.column_names)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"the table has two columns named {twice!r}. Rename or drop one of them.")
    fields = []
    for column in table.schema:
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_duration(kind):
            continue
        if types.is_float16(kind):
            kind = pa.float32()
        elif types.is_uint64(kind):
            kind = pa.float64()
        elif types.is_unsigned_integer(kind):
            kind = pa.int64()
        elif types.is_date64(kind):
            kind = pa.date32()
        elif types.is_timestamp(kind):
            kind = pa.timestamp("us", kind.tz)
        elif types.is_large_string(kind) or getattr(types, "is_string_view", lambda _: False)(kind):
            kind = pa.string()
        fields.append(pa.field(column.name, kind))
    kept = table.select([column.name for column in fields])
    return kept.cast(pa.schema(fields), safe=False)  # nanoseconds are cut to microseconds


def _read_record(schema: pa.Schema) -> dict[str, Any]:
    try:
        recorded = parse_json((schema.metadata or {}).get(METADATA_KEY) or b"{}")
    except ValueError:
        return {}
    return recorded if isinstance(recorded, dict) and recorded.get("version") == 1 else {}


def _read_schema_record(file: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(file).is_file():
        return {}
    try:
        return _read_record(pq.read_schema(file))
    except (pa.ArrowException, OSError):
        return {}  # the backend read it; without a record nothing is lost


# -- errors -----------------------------------------------------------------------------------------------


@contextmanager
def told_as_ours(name: str) -> Iterator[None]:
    """What DuckDB, Spark and Ibis say of a table, as one kind of error with what to do."""
    try:
        with warnings.catch_warnings():  # of the backends and what Ibis calls in them: no user can mend it
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            yield
    except Exception as error:
        kind = type(error).__module__.partition(".")[0]
        if kind not in ("duckdb", "_duckdb", "pyspark", "py4j", "ibis"):
            raise
        text = _first_line(error)
        raise BadFile(name, f"cannot be read by the backend: {text} {_suggest_fix(text)}") from error


def _suggest_fix(text: str) -> str:
    if "NANOS" in text:
        return "Spark reads no nanoseconds: write microseconds (to_parquet(…, coerce_timestamps='us'))."
    if "onvert" in text or "cast" in text.lower():
        return "Mend the value, or write it as an empty field."
    return "Is the file whole, and of the kind that its name says?"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3])[:400] if lines else type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."


__getattr__ = keep_old_names(__name__, {"Engine": "Backend"})
