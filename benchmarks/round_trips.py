"""Every file of the shared data reads with the counts of its README and writes back to equal float32 values.

.venv/bin/python benchmarks/round_trips.py        # reads $PLACINGS_DATA, default ../shared/data

Needs the sets in `$PLACINGS_DATA/ltr`; without them it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import placings as pg

DATA = Path(os.environ.get("PLACINGS_DATA", Path(__file__).parents[2] / "shared" / "data")) / "ltr"

# files (each on its own), options, and what the README says of them together: rows, queries, features
SETS = {
    "mslr_sample train": (["mslr_sample/train.txt.gz"], {}, (5403, 47, 136)),
    "mslr_sample vali": (["mslr_sample/vali.txt.gz"], {}, (2408, 24, 136)),
    "ohsumed min": ([f"ohsumed/Feature-min/S{i}.txt.gz" for i in range(1, 6)], {}, (16140, 106, 45)),
    "ohsumed null": (
        [f"ohsumed/Feature-null/S{i}.txt.gz" for i in range(1, 6)],
        {"missing": "NULL"},
        (16140, 106, 45),
    ),
    "mq2008": ([f"mq2008/S{i}.txt.gz" for i in range(1, 6)], {}, (15211, 784, 46)),
    "wikitables": (["wikitables/features.csv.gz"], {"qid": "query_id", "label": "rel"}, (3120, 60, 39)),
    "lightgbm_rank train": (["lightgbm_rank/rank.train.gz"], {}, (3005, 201, 300)),
    "lightgbm_rank test": (["lightgbm_rank/rank.test.gz"], {}, (768, 50, 300)),
}


def as_dense(data: pg.RankingData) -> np.ndarray:
    return data.X if isinstance(data.X, np.ndarray) else data.X.toarray()


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    if not DATA.is_dir():
        print(f"skipped: {DATA} is not there. Set PLACINGS_DATA to the folder that holds ltr/.")
        return 0
    failed = 0
    head = f"{'set':<22}{'files':>6}{'rows':>8}{'queries':>9}{'features':>10}{'missing':>9}"
    print(f"{head}  counts  text      parquet")
    for name, (files, options, expected) in SETS.items():
        rows = queries = missing = 0
        text = table = True
        for file in files:
            data = pg.read(DATA / file, cache=False, **options)
            rows, queries = rows + data.n_rows, queries + data.n_queries
            missing += int(np.isnan(as_dense(data)).sum())
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # svmlight has no place for text columns, and says so
                pg.write(data, Path(folder, "rows.txt"))
                pg.write(data, Path(folder, "rows.parquet"))
                text &= same(data, pg.read(Path(folder, "rows.txt"), cache=False))
                table &= same(data, pg.read(Path(folder, "rows.parquet"), cache=False))
        counts = (rows, queries, data.n_features) == expected
        failed += not (counts and text and table)
        print(
            f"{name:<22}{len(files):>6}{rows:>8,}{queries:>9}{data.n_features:>10}{missing:>9,}"
            f"  {'as said' if counts else f'NOT {expected}':<8}{'equal' if text else 'DIFFERS':<10}"
            f"{'equal' if table else 'DIFFERS'}"
        )
    return int(failed > 0)


def same(first: pg.RankingData, second: pg.RankingData) -> bool:
    """Equal float32 values, labels, query borders and item ids."""
    return (
        np.array_equal(as_dense(first).view(np.uint32), as_dense(second).view(np.uint32))
        and np.array_equal(first.y, second.y)
        and np.array_equal(first.offsets, second.offsets)
        and (first.items is None) == (second.items is None)
        and (first.items is None or second.items is None or list(first.items) == list(second.items))
    )


if __name__ == "__main__":
    sys.exit(main())
