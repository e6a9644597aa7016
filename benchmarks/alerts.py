"""Do the alerts find every outage on its day, and stay silent on clean logs?

    .venv/bin/python benchmarks/alerts.py                    # seeds 0 to 49: even ones with an outage
    .venv/bin/python benchmarks/alerts.py --seeds 1000-1019  # others
    .venv/bin/python benchmarks/alerts.py --by region,platform

Each seed makes a shop log of 60 days; an even seed has an outage of at least 21 points planted in one region.
The coverage of its 16 features by region and day (share of rows, with intervals that know searches) goes
to find_alerts with its default settings. An outage is found if an incident names the region and one of its
dark features and its first alert is on the outage's first day. Every other incident is a false one. The
run fails (exit 1) if an outage is missed, or if clean logs raise more than one incident in ten.

Needs nothing but the development install; takes some five minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from placings.feco import Alerts, Incident, coverage, find_alerts
from placings.simulate import ShopLog, make_shop_log


@dataclass(frozen=True)
class Outcome:
    """What came of one log."""

    seed: int
    planted: str
    lost: float  # the least loss among the dark features, first day
    found: bool | None  # None: nothing was planted
    delay: int | None  # days from the outage to the first alert
    named: str  # how many of the dark features the incident names
    false_incidents: int
    mix_shifts: int
    seconds: float


def judge_seed(
    seed: int, *, outage: bool, by: tuple[str, ...] = ("region",), searches: int = 1000
) -> Outcome:
    """Make one log, look for alerts, and compare them with the truth."""
    begin = time.perf_counter()
    log = make_shop_log(outage=outage or None, random_state=seed, searches=searches)
    shares = coverage(
        log.table, log.features, event="search_id", within="rows", by=list(by), time="time", window="1d"
    )
    alerts = find_alerts(shares)
    seconds = time.perf_counter() - begin
    if log.truth is None:
        return Outcome(seed, "", 0.0, None, None, "", len(alerts.incidents), len(alerts.mix_shifts), seconds)
    planted = log.truth.outage
    hits = find_hits(log, alerts)
    first = min(hits, key=lambda incident: incident.flagged, default=None)
    delay = None if first is None else (first.flagged - find_start(log)).days
    named = set(first.features) & set(planted.features) if first else set()
    return Outcome(
        seed=seed,
        planted=f"{planted.region}: {', '.join(planted.features)}",
        lost=min(log.truth.lost_first_day.values()),
        found=delay == 0,
        delay=delay,
        named=f"{len(named)}/{len(planted.features)}",
        false_incidents=len(alerts.incidents) - len(hits),
        mix_shifts=len(alerts.mix_shifts),
        seconds=seconds,
    )


def find_start(log: ShopLog) -> datetime:
    """The first midnight of the planted outage."""
    if log.truth is None:
        raise ValueError("no outage was planted")
    return datetime.combine(log.start, datetime.min.time()) + timedelta(days=log.truth.outage.day)


def find_hits(log: ShopLog, alerts: Alerts) -> list[Incident]:
    """Incidents of the planted region and features that begin within the outage (or the day after it)."""
    if log.truth is None:
        return []
    planted = log.truth.outage
    end = find_start(log) + timedelta(days=planted.last_day(log.days) - planted.day + 1)
    return [
        incident
        for incident in alerts.incidents
        if any(segment.get("region") == planted.region for segment in incident.segments)
        and set(incident.features) & set(planted.features)
        and find_start(log) <= incident.flagged <= end
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0-49", help="first and last, such as 0-49")
    parser.add_argument("--by", default="region")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split("-"))
    by = tuple(given.by.split(","))
    outcomes = []
    if not given.json:
        print(f"{'seed':>5} {'lost':>6} {'found':>7} {'named':>6} {'false':>6} {'mix':>4}  planted")
    for seed in range(first, last + 1):
        one = judge_seed(seed, outage=seed % 2 == 0, by=by)
        outcomes.append(one)
        if not given.json:
            late = "missed" if one.delay is None else "its day" if one.delay == 0 else f"+{one.delay} d"
            said = "" if one.found is None else late
            lost = f"{100 * one.lost:.1f}" if one.planted else ""
            print(
                f"{seed:>5} {lost:>6} {said:>7} {one.named:>6} {one.false_incidents:>6} "
                f"{one.mix_shifts:>4}  {one.planted or 'clean'}",
                flush=True,
            )
    broken = [one for one in outcomes if one.found is not None]
    clean = [one for one in outcomes if one.found is None]
    found = sum(bool(one.found) for one in broken)
    false = sum(one.false_incidents for one in clean)
    beside = sum(one.false_incidents for one in broken)
    passed = found == len(broken) and 10 * false <= len(clean)
    if given.json:
        summary = {"found": found, "outages": len(broken), "false": false, "clean": len(clean)}
        print(json.dumps({**summary, "passed": passed, "logs": [asdict(one) for one in outcomes]}, indent=2))
    else:
        print(f"\noutages found on their day: {found} of {len(broken)}")
        print(f"false incidents: {false} in {len(clean)} clean logs, {beside} in the others")
        print(f"median time for a log: {sorted(one.seconds for one in outcomes)[len(outcomes) // 2]:.1f} s")
        print("passed" if passed else "NOT PASSED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
