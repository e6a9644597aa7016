"""Reading svmlight text: placings against scikit-learn's load_svmlight_file, in one run, cache off.

    .venv/bin/python benchmarks/read.py                      # the shared MSLR rows, repeated to 200 MB
    .venv/bin/python benchmarks/read.py --file train.txt     # your own file
    .venv/bin/python benchmarks/read.py --generated          # generated rows when no data are at hand

Both read the same plain-text file from the page cache and must give float32 values equal bit for bit.
Peak memory is measured in a process of its own (the highest resident size minus what the imports took).

Needs the MSLR sample in `$PLACINGS_DATA/ltr` (default ../shared/data); without it rows are generated, and
that is said.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("PLACINGS_DATA", Path(__file__).parents[2] / "shared" / "data"))
SAMPLE = DATA / "ltr" / "mslr_sample" / "train.txt.gz"

PEAK = """
import re, sys, tempfile
import placings as pg
from pathlib import Path

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1))

small = Path(tempfile.mkdtemp(), "warm.txt")
small.write_text("1 qid:1 1:0.5 2:1\\n")
pg.read(small, cache=False)
before = peak()
data = pg.read(sys.argv[1], cache=False)
print(peak() - before, data.X.nbytes)
"""


def make_file(folder: Path, megabytes: int, generated: bool) -> Path:
    """Plain text of about this size: the shared MSLR rows with fresh query ids, or generated rows."""
    path = folder / "rows.txt"
    if generated or not SAMPLE.exists():
        if not generated:
            print(f"{SAMPLE} is not here (set PLACINGS_DATA); generated rows instead", file=sys.stderr)
        import placings as pg

        pg.write(pg.make_ranking(max(2, megabytes * 5), random_state=0).data, path)
        return path
    rows = gzip.decompress(SAMPLE.read_bytes())
    with open(path, "wb") as out:
        for copy in range(max(1, megabytes * 1_000_000 // len(rows))):
            out.write(rows.replace(b"qid:", b"qid:%d" % (10_000 + copy)))
    return path


def clock(job: Callable[[], object], repeat: int) -> float:
    """The median time of a job in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or make_file(Path(folder), given.megabytes, given.generated)
        report = measure_reading(path, given.repeat)
    if given.json:
        print(json.dumps(report, indent=2))
        return
    print(f"{report['file']}: {report['megabytes']:.0f} MB, {report['rows']:,} rows x {report['features']}")
    print(f"{report['machine']}, {report['date']}, {report['versions']}\n")
    print(f"{'reader':<44}{'seconds':>9}{'MB/s':>9}{'ratio':>8}")
    for name, seconds in report["seconds"].items():
        ratio = report["seconds"]["scikit-learn load_svmlight_file"] / seconds
        print(f"{name:<44}{seconds:>9.3f}{report['megabytes'] / seconds:>9.0f}{ratio:>8.1f}")
    print(f"\nvalues equal as float32: {report['equal']}")
    print(f"peak memory: {report['peak_ratio']:.2f} times the resulting array")


def measure_reading(path: Path, repeat: int) -> dict[str, object]:
    import sklearn
    from sklearn.datasets import load_svmlight_file

    import placings as pg

    data = pg.read(path, cache=False)  # compiles once, fills the page cache
    megabytes = path.stat().st_size / 1e6
    seconds = {"placings.read": clock(lambda: pg.read(path, cache=False), repeat)}
    os.environ["PLACINGS_THREADS"] = "1"
    seconds["placings.read, one thread"] = clock(lambda: pg.read(path, cache=False), repeat)
    del os.environ["PLACINGS_THREADS"]
    start = time.perf_counter()
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    seconds["scikit-learn load_svmlight_file"] = time.perf_counter() - start
    dense = X.toarray().astype(np.float32)
    equal = np.array_equal(dense, data.X) and np.array_equal(y, data.y) and np.array_equal(qid, data.qid)
    del X, dense
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PLACINGS_CACHE"] = cache
        pg.read(path)
        seconds["placings.read, second time (cache)"] = clock(lambda: pg.read(path), repeat)
        del os.environ["PLACINGS_CACHE"]
    peak = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    used, array = map(int, peak.stdout.split())
    return {
        "file": str(path),
        "megabytes": megabytes,
        "rows": data.n_rows,
        "features": data.n_features,
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d"),
        "versions": f"placings {pg.__version__}, scikit-learn {sklearn.__version__}",
        "seconds": seconds,
        "equal": bool(equal),
        "peak_ratio": used / array,
    }


if __name__ == "__main__":
    main()
