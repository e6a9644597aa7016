"""The join of a million searches with ten results each, 2 % of the events broken, on DuckDB.

    python benchmarks/join.py [--searches 1000000] [--memory 5GB] [--unsuccessful report] [--spark] [--json]

Both logs are written to a temporary folder as parquet, the lists nested. A process of its own joins them
and lets DuckDB write the rows; its seconds (import and report included) and its peak memory are printed. The
demand is under a minute and 8 GB. `--spark` joins a smaller part (`--part`) on both engines and
compares every row and every count.

Needs nothing but the development install, 3 GB of disk for a while, and Java for `--spark`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import count_threads

SHOWN, CHUNK, ITEMS = 10, 50_000, 200_000
BROKEN = 0.02
START = 1_700_000_000_000_000
SECOND = 1_000_000


def write_logs(folder: Path, searches: int) -> None:
    """`searches.parquet` and `actions.parquet`: sessions of growing prefixes, six in ten with a click."""
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = np.array([f"{word} {number:06d}" for number, word in enumerate(_draw_words(rng))], dtype=object)
    writers: dict[str, Any] = {}
    for start in range(0, searches, CHUNK):
        made = make_chunk(rng, names, start, min(CHUNK, searches - start))
        for name, table in zip(("searches", "actions"), made, strict=True):
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", table.schema, compression="zstd")
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()


def make_chunk(rng: np.random.Generator, names: Any, start: int, n: int) -> tuple[Any, Any]:
    """Some searches and their actions; `BROKEN` of either are broken, in every way that the join knows."""
    import pyarrow as pa

    number = np.arange(start, start + n)
    session, step = number // 4, number % 4
    item = rng.integers(0, ITEMS, (n, SHOWN))
    position = np.tile(np.arange(1, SHOWN + 1), (n, 1))
    kind = np.where(rng.random(n) < BROKEN, rng.integers(1, 6, n), 0)  # 0 is whole
    item[kind == 1, 5] = item[kind == 1, 2]  # a double item
    lost = kind == 2  # no position in the second half
    masked = np.zeros((n, SHOWN), dtype=bool)
    masked[lost, 5:] = True
    no_item = np.zeros((n, SHOWN), dtype=bool)
    no_item[kind == 3, 7] = True
    wish = names[(session * 7919) % ITEMS]
    when = START + session * 20 * SECOND + step * 4 * SECOND
    ids = np.array([f"search-{each:09d}" for each in number], dtype=object)
    flat = item.ravel()
    fields = {
        "item_id": pa.array([f"item{each}" for each in flat], mask=no_item.ravel()),
        "position": pa.array(position.ravel(), mask=masked.ravel()),
        "score": pa.array(rng.random(n * SHOWN)),
        "name": pa.array(names[flat]),
        "type": pa.array(np.array(["stop", "street", "poi", "city"], dtype=object)[flat % 4]),
        "lat": pa.array(48.0 + flat / ITEMS),
        "lon": pa.array(8.0 + flat / ITEMS),
        "weight": pa.array(1.0 / (1 + flat)),
    }
    offsets = pa.array(np.arange(0, n * SHOWN + 1, SHOWN, dtype=np.int32))
    lists = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(list(fields.values()), list(fields)))
    searches = pa.table(
        {
            "search_id": pa.array(ids, mask=kind == 4),
            "session_id": [f"session-{each:08d}" for each in session],
            "time": pa.array(when, pa.timestamp("us")),
            "query": [text[: 3 + 3 * at] for text, at in zip(wish, step, strict=True)],
            "focus_lat": pa.array(48.0 + rng.random(n), mask=rng.random(n) < 0.2),
            "focus_lon": pa.array(8.0 + rng.random(n), mask=rng.random(n) < 0.2),
            "target": pa.array(np.array(["origin", "destination"], dtype=object)[number % 2]),
            "platform": pa.array(np.array(["android", "ios", "web"], dtype=object)[session % 3]),
            "results": lists,
        }
    )
    again = searches.take(pa.array(np.flatnonzero(kind == 5)))  # the same search logged twice
    return pa.concat_tables([searches, again]), _make_actions(rng, ids, item, when)


def _make_actions(rng: np.random.Generator, ids: Any, item: Any, when: Any) -> Any:
    import pyarrow as pa

    rows = np.flatnonzero(rng.random(len(ids)) < 0.6)
    kind = np.where(rng.random(len(rows)) < BROKEN, rng.integers(1, 9, len(rows)), 0)
    places = np.minimum(rng.geometric(0.35, len(rows)) - 1, SHOWN - 1)
    search = ids[rows].copy()
    search[kind == 1] = "no such search"
    chosen = np.array([f"item{each}" for each in item[rows, places]], dtype=object)
    chosen[kind == 2] = "no such item"
    moment = when[rows] + rng.integers(1, 120, len(rows)) * SECOND
    moment[kind == 3] += 7200 * SECOND
    moment[kind == 4] -= 3600 * SECOND
    action = np.array(["click", "click", "click", "cart", "purchase"], dtype=object)[
        rng.integers(0, 5, len(rows))
    ]
    action[kind == 5] = "hover"
    table = pa.table(
        {
            "search_id": pa.array(search, mask=kind == 6),
            "item_id": pa.array(chosen),
            "time": pa.array(moment, pa.timestamp("us"), mask=kind == 7),
            "action": pa.array(action),
        }
    )
    return pa.concat_tables([table, table.take(pa.array(np.flatnonzero(kind == 8)))])


def _draw_words(rng: np.random.Generator) -> list[str]:
    letters = np.array(list("abcdefghijklmnoprstuvwz"))
    return ["".join(each) for each in letters[rng.integers(0, len(letters), (ITEMS, 9))]]


def join_once(folder: Path, memory: str, unsuccessful: str) -> dict[str, Any]:
    """In this process: seconds, peak memory and the report."""
    start = time.perf_counter()
    from placings import join_logs

    logs = (folder / "searches.parquet", folder / "actions.parquet")
    with join_logs(*logs, memory=memory, unsuccessful=unsuccessful) as joined:
        counted = time.perf_counter() - start
        joined.write(folder / "rows.parquet")
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "until_report_s": counted,
        "cpu_s": time.process_time(),
        "peak_mib": read_peak(),
        "rows_mib": (folder / "rows.parquet").stat().st_size / 2**20,
        "report": joined.report.to_dict(),
        "table": joined.report.table(),
    }


def read_peak() -> float:
    """Of this process alone, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        return float(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare_spark(searches: int) -> dict[str, Any]:
    """Rows and report of both engines on a smaller log; raises where they differ."""
    from pandas.testing import assert_frame_equal

    from placings import join_logs
    from placings.data import start_spark

    session = start_spark()
    try:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_logs(folder, searches)
            logs = (folder / "searches.parquet", folder / "actions.parquet")
            seconds, found = {}, {}
            for name, engine in (("duckdb", None), ("spark", session)):
                start = time.perf_counter()
                with join_logs(*logs, backend=engine, unsuccessful="negatives") as joined:
                    found[name] = (joined.rows, joined.unsuccessful, joined.report.to_dict())
                seconds[name] = time.perf_counter() - start
    finally:
        session.stop()
    for left, right in zip(found["duckdb"][:2], found["spark"][:2], strict=True):
        assert_frame_equal(left, right)
    reports = [each[2] for each in found.values()]
    for report in reports:
        report["settings"].pop("engine")
    if reports[0] != reports[1]:
        raise SystemExit("the reports differ")
    return {"searches": searches, "rows": len(found["spark"][0]), "seconds": seconds}


def run(given: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_logs(folder, given.searches)
        size = (folder / "searches.parquet").stat().st_size / 2**20
        command = [
            sys.executable, __file__, "--only", str(folder), "--memory", given.memory,
            "--unsuccessful", given.unsuccessful,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        result: dict[str, Any] = {"searches": given.searches, "file_mib": size, **json.loads(done.stdout)}
    if given.spark:
        result["spark"] = compare_spark(given.part)
    return result


def show(result: dict[str, Any], given: argparse.Namespace) -> None:
    print(
        f"{result['searches']:,} searches × {SHOWN} results, {result['file_mib']:,.0f} MiB of parquet, nested"
    )
    print(
        f"join to parquet   {result['seconds']:8.1f} s   ({result['until_report_s']:.1f} s until the report)"
    )
    print(f"processor time    {result['cpu_s']:8.1f} s   (of all threads; the same on a busy machine)")
    print(f"peak memory       {result['peak_mib']:8,.0f} MiB (memory_limit {given.memory})")
    print(f"rows written      {result['rows_mib']:8,.0f} MiB")
    print(result["table"])
    if "spark" in result:
        part = result["spark"]
        print(
            f"Spark {version('pyspark')} on {part['searches']:,} searches: {part['rows']:,} rows and "
            f"every count equal; {part['seconds']['spark']:.1f} s against {part['seconds']['duckdb']:.1f} s"
        )
    print(
        f"{date.today()}, Python {platform.python_version()}, DuckDB {version('duckdb')}, "
        f"Ibis {version('ibis-framework')}, {count_threads()} threads"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--searches", type=int, default=1_000_000)
    parser.add_argument("--memory", default="5GB", help="DuckDB's memory_limit")
    parser.add_argument("--unsuccessful", choices=["report", "negatives"], default="report")
    parser.add_argument("--spark", action="store_true", help="also compare with a local Spark session")
    parser.add_argument("--part", type=int, default=50_000, help="searches of the comparison")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(join_once(given.only, given.memory, given.unsuccessful)))
        return
    result = run(given)
    print(json.dumps(result)) if given.json else show(result, given)


if __name__ == "__main__":
    main()
