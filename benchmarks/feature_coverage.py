"""Coverage of 136 features from parquet: placings against a hand-written DuckDB aggregate, in one run.

    python benchmarks/feature_coverage.py [--rows 1600000] [--features 136] [--repeat 5] [--spark] [--json]

A file is written to a temporary folder: float32 features with zeros, NaN and NULL, lists of 20 rows, a time
and a category. Both sides open a fresh connection each time, read the same columns from the same file and
must give the same counts; they take turns, so that a busy machine slows both. The hand-written query is the
fastest of the forms that we tried (`count(CASE WHEN …)`; `count(*) FILTER` takes about twice as long). Peak
memory is that of a process of its own, which does nothing else, on the file and on one of half the rows.

Needs nothing but the development install, 2 GB of disk for a while, and Java for `--spark`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import count_threads
from placings.feco import coverage

LIST, CHUNK = 20, 100_000
MODES: dict[str, dict[str, Any]] = {
    "rows": {},
    "rows by category and day": {"by": "category", "time": "ts"},
    "events, any row": {"event": "search"},
    "events, share of rows, by day": {"event": "search", "within": "rows", "time": "ts"},
}


def write_log(path: Path, rows: int, features: int) -> None:
    """A log whose row groups hold 100,000 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        search = np.arange(start, start + n) // LIST
        columns: dict[str, Any] = {
            "search": search,
            "ts": pa.array((1_700_000_000 + search * 10) * 1_000_000, pa.timestamp("us")),
            "category": np.array(["a", "b", "c", "d"])[search % 4],
        }
        for name in name_features(features):
            values = rng.lognormal(size=n).astype(np.float32)
            values[rng.random(n) < 0.3] = 0.0
            values[rng.random(n) < 0.02] = np.nan
            columns[name] = pa.array(values, mask=rng.random(n) < 0.02)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def name_features(count: int) -> list[str]:
    return [f"f{number}" for number in range(1, count + 1)]


def ask_by_hand(path: Path, features: int) -> list[int]:
    """What someone who knows DuckDB would write."""
    import duckdb

    counts = ", ".join(
        f"count(CASE WHEN {name} <> 0 AND NOT isnan({name}) THEN 1 END)" for name in name_features(features)
    )
    with duckdb.connect(config={"threads": count_threads()}) as connection:
        row = connection.execute(f"SELECT {counts} FROM read_parquet('{path}')").fetchone()
    return [int(count) for count in row or ()]


def ask_placings(path: Path, features: int, **options: Any) -> list[int]:
    found = coverage(path, name_features(features), **options).to_pandas()
    return [int(count) for count in found.groupby("feature", sort=False)["covered"].sum()]


def time_in_turn(calls: dict[str, Callable[[], list[int]]], repeat: int) -> dict[str, list[float]]:
    """Seconds of each call, taking turns, after one round that warms up and compares the answers."""
    answers = {name: call() for name, call in calls.items()}
    first = next(iter(answers.values()))
    for name, answer in answers.items():
        if answer != first:
            raise SystemExit(f"{name} counts otherwise than {next(iter(answers))}")
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_peak(what: str, path: Path, features: int) -> float:
    """Peak resident memory, in MiB, of a process that asks once."""
    command = [sys.executable, __file__, "--peak", what, "--file", str(path), "--features", str(features)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def read_peak() -> float:
    """Of this process alone, in MiB; getrusage would tell the parent's peak if that was higher."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(rows: int, features: int, repeat: int, spark: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path, half = Path(folder) / "log.parquet", Path(folder) / "half.parquet"
        note(f"writing {rows:,} rows × {features} features")
        write_log(path, rows, features)
        write_log(half, rows // 2, features)
        result: dict[str, Any] = {"rows": rows, "features": features, "file_mib": path.stat().st_size / 2**20}
        note("taking turns")
        calls = {
            "by hand": lambda: ask_by_hand(path, features),
            "placings": lambda: ask_placings(path, features),
        }
        result["seconds"] = time_in_turn(calls, repeat)
        ratios = [
            a / b for a, b in zip(result["seconds"]["placings"], result["seconds"]["by hand"], strict=True)
        ]
        result["ratio"] = statistics.median(ratios)
        result["modes"] = {}
        for name, options in MODES.items():
            note(name)
            start = time.perf_counter()
            ask_placings(path, features, **options)
            result["modes"][name] = time.perf_counter() - start
        result["peak_mib"] = {
            f"{what}, {kind}": measure_peak(what, file, features)
            for what in ("by hand", "placings", "events")
            for kind, file in (("half the rows", half), ("all rows", path))
        }
        if spark:
            result["spark"] = time_spark(path, features, repeat)
    return result


def time_spark(path: Path, features: int, repeat: int) -> dict[str, Any]:
    """Seconds on a local Spark session, whose start is not counted; the counts must be DuckDB's."""
    from placings.data import start_spark

    note("Spark")
    session = start_spark()
    try:
        calls = {"by hand": lambda: ask_by_hand(path, features),
                 "spark": lambda: ask_placings(path, features, backend=session)}  # fmt: skip
        return {"seconds": time_in_turn(calls, repeat)["spark"], "version": version("pyspark")}
    finally:
        session.stop()


def note(text: str) -> None:
    if sys.stderr.isatty():
        print(f"… {text}", file=sys.stderr)


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['rows']:,} rows × {result['features']} features, {result['file_mib']:,.0f} MiB of parquet"
    )
    for name, seconds in result["seconds"].items():
        print(f"{name:34}{statistics.median(seconds):7.2f} s   ({min(seconds):.2f} to {max(seconds):.2f})")
    print(f"{'placings / by hand':34}{result['ratio']:7.2f}")
    for name, seconds in result["modes"].items():
        print(f"{name:34}{seconds:7.2f} s")
    for name, peak in result["peak_mib"].items():
        print(f"{'peak: ' + name:34}{peak:7,.0f} MiB")
    if "spark" in result:
        seconds = result["spark"]["seconds"]
        print(
            f"{'Spark ' + result['spark']['version'] + ', same counts':34}{statistics.median(seconds):7.2f} s"
        )
    print(
        f"{date.today()}, Python {platform.python_version()}, DuckDB {version('duckdb')}, "
        f"Ibis {version('ibis-framework')}, {count_threads()} threads"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="also on a local Spark session")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peak", choices=["by hand", "placings", "events"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        if given.peak == "by hand":
            ask_by_hand(given.file, given.features)
        else:
            ask_placings(
                given.file, given.features, **({"event": "search"} if given.peak == "events" else {})
            )
        print(read_peak())
        return
    result = run(given.rows, given.features, given.repeat, given.spark)
    print(json.dumps(result)) if given.json else show(result)


if __name__ == "__main__":
    main()
