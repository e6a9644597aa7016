"""Feature coverage: a shop's log, a feature that goes dark, what it costs, and a gate against it."""

# 1. A log.
#
# No download is needed: make_shop_log makes six weeks of a shop's searches, a file a day: what was searched,
# what was shown, 16 features of each item, what was clicked. From 8 February on we break something: of the
# searches in the north nine in ten are served without price, rating and days of delivery. As most engines
# do, ours writes 0 in their place.

import numpy as np
import pandas as pd

import placings as pg
from placings.feco import check_coverage, degrade, estimate_risk, find_alerts, make_limits, read_limits
from placings.simulate import Outage, make_shop_log, write_shop_log

DARK = ("price", "rating", "delivery_days")
outage = Outage("north", DARK, day=38, share=0.9)
log = make_shop_log(42, searches=500, outage=outage, random_state=7)
files = write_shop_log(log, "logs")
print(f"{len(files)} files, {log.table.num_rows:,} rows, {len(log.features)} features")

# 2. Coverage.
#
# The share of searches in which a feature has a value (present and not 0, in any of the items shown), by
# region and day. Each letter of the line is a day.

found = pg.coverage(
    "logs/*.parquet",
    [*DARK, "query_item_ctr"],
    event="search_id",
    by="region",
    time="time",
)
print(f"\n{found.table()}")

# 3. Is something wrong?
#
# Each day is held against the same weekday of the weeks before. Features and segments that go dark together
# are one incident, and it says where to read on.

alerts = find_alerts(found)
print(f"\n{alerts}")

# 4. What would it cost?
#
# A ranker learns from the clicks of three healthy weeks; a further week judges it. Then a feature is taken
# away from a share of the judged searches, again and again. This is the coverage paper's table.

frame = log.to_pandas()


def take_days(first, last):
    days = frame[frame["time"].between(first, last)]
    return pg.RankingData.from_arrays(
        days[list(log.features)].to_numpy(np.float32),
        days["click"].to_numpy(float),
        days["search_id"].to_numpy(),
        feature_names=log.features,
        segments={"region": days["region"].to_numpy()},
    )


train, judged = take_days("2024-01-08", "2024-01-29"), take_days("2024-01-29", "2024-02-05")
ranker = pg.LinearRanker("ridge").fit(train)
print("\nwhat would it cost?")
lost = degrade(ranker, train, judged, DARK[:2], drops=(0.25, 0.75), metrics="ndcg@4")
for loss in lost.losses:
    change = f"ndcg@4 {loss.full:.3f} → {loss.degraded:.3f}"
    print(f"  {loss.feature:<7} dark in {loss.drop:.0%} of the searches: {change}")

# 5. What does it cost today?
#
# The same, with today's coverage in each region: coverage at risk. No labels of today are needed. All three
# together cost more than they do one by one: while one is dark the others stand in for it. They went dark in
# the same searches, so we say so.

frames = found.to_pandas()
today = frames[frames["window"] == pd.Timestamp("2024-02-10")]
usual = pg.coverage(
    [str(file) for file in files[:28]],
    list(found.features),
    event="search_id",
    by="region",
)
risk = estimate_risk(ranker, judged, today, usual=usual, jointly="together", metric="ndcg@4")
print("\nwhat does it cost today?")
for name in (*DARK, "all jointly"):
    row = risk[name]
    print(f"  {name:<14} ndcg@4 lost: {row.lost:.3f} [{row.low:.3f}, {row.high:.3f}] of {risk.full:.3f}")

# 6. A gate.
#
# Limits are made from four healthy weeks and kept in a file that people edit. It also says how to count.
# Every morning the day's file is held against it; the same check can stand before training.

limits = make_limits(
    [str(file) for file in files[:28]],
    list(log.features),
    event="search_id",
    by="region",
    time="time",
)
limits.write("limits.yaml")
print("\nthe gate")
for file in files[36:40]:
    verdict = check_coverage(str(file), read_limits("limits.yaml"))
    print(f"  {file.stem}  {verdict.summary}")
print(f"  {verdict.reasons[0]}")

# At the terminal, 6 is two commands; check leaves with exit code 3 when a feature is below its limit:
#
#   placings coverage init 'logs/*.parquet' --event search_id --by region --time time \
#       --until 2024-01-29 -o limits.yaml
#   placings coverage check logs/2024-02-08.parquet --limits limits.yaml

assert not verdict.passed
assert [incident.onset for incident in alerts.incidents] == [pd.Timestamp("2024-02-08")]
