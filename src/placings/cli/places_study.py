"""`placings places study`: chapter 6 of the thesis on a simulated log or on your own, one command."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placings.cli.options import AsJson, Seed, Verbose
from placings.cli.printing import choose_progress, print_aside, print_json, print_text
from placings.core import BadInput, choose_voice

if TYPE_CHECKING:
    from placings.logs import ClickLog


class Split(StrEnum):
    """What is held out: the last sessions, or some at random."""

    time = "time"
    session = "session"


class StudyClicks(StrEnum):
    """How simulated people click."""

    position = "position"
    cascade = "cascade"
    trust = "trust"
    dbn = "dbn"


def run_places_study(
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ROWS.parquet]", help="A joined log (placings log join). None: simulate one."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder of the tables, the model, and the cells a stopped study goes on from."),
    ] = Path("places-study"),
    searches: Annotated[
        int | None,
        typer.Option(min=200, help="Searches to simulate; 5000, with --quick 1500.", metavar="N"),
    ] = None,
    places: Annotated[
        Path | None,
        typer.Option(help="Places to simulate on, .jsonl.gz. None: the cities of GeoNames.", metavar="FILE"),
    ] = None,
    zone: Annotated[
        str, typer.Option(help="Time zone of places that name none, such as Europe/Berlin.", metavar="ZONE")
    ] = "",
    clicks: Annotated[StudyClicks, typer.Option(help="How simulated people click.")] = StudyClicks.position,
    k: Annotated[int, typer.Option(min=10, help="Results the engine gives.", metavar="N")] = 100,
    split: Annotated[Split, typer.Option(help="Hold out the last sessions, or some at random.")] = Split.time,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two minutes: short training, little tuning.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Hours: networks train for 15,000 steps, as their presets say.")
    ] = False,
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Go on from the cells in --out, or make all anew.")
    ] = True,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Engine, linear, tree and neural rankers on a place search log: every table of the thesis' chapter 6.

    The default re-ranker, with a guard that keeps the engine's order where it is in doubt, is judged on every
    slice known before the click, the worst first. Tables are printed, and written to --out as study.md and
    study.json (and places.html, where the report extra is installed) with the trained re-ranker.

    \b
    Examples:
      placings places study --quick
      placings places study --places places.jsonl.gz --zone Europe/Berlin --searches 20000 --out runs/places
      placings places study rows.parquet --out runs/own
      placings places study rows.parquet --split session --full
    """
    import shutil

    from placings.cli.checks import check_folder, check_inputs
    from placings.cli.printing import say_when_stopped
    from placings.core import find_zone, write_json
    from placings.logs import ClickLog
    from placings.studies import CELLS, choose_settings, render_study, study_places

    if rows is not None and (places is not None or searches is not None or zone):
        raise BadInput(
            f"--places, --searches and --zone are about a log to simulate; {rows} is one. Leave either out."
        )
    if zone and places is None:
        raise BadInput(
            "--zone is for places without a time zone; GeoNames' cities name theirs. Add --places."
        )
    if zone and find_zone(zone) is None:
        raise BadInput(f"--zone must be a time zone's name such as Europe/Berlin. Got {zone!r}.")
    if quick and full:
        raise BadInput("--quick and --full are opposites. Leave one out.")
    check_folder(out)
    check_inputs(rows, places)
    progress = choose_progress(verbose)
    if not resume and (out / CELLS).is_dir():
        shutil.rmtree(out / CELLS)
    with say_when_stopped(f"the finished cells are in {out / CELLS}; the same command goes on."):
        if rows is None:
            wanted = searches or (1500 if quick else 5000)
            log = _simulate(places, zone, out, wanted, clicks, k, seed, progress)
        else:
            log = ClickLog.read(rows)
        settings = choose_settings(log.n_searches, quick=quick, full=full, seed=seed, split=split.value)
        result = study_places(
            log, out=out, settings=settings, simulated=True if rows is None else None, progress=progress
        )
    _write_page(result, out)
    print_json(write_json(result)) if as_json else print_text(render_study(result))
    if not as_json:
        print_aside(f"\nkept in {out}")


def _simulate(
    places: Path | None,
    zone: str,
    out: Path,
    searches: int,
    clicks: StudyClicks,
    k: int,
    seed: int,
    progress: bool | Callable[[str], object],
) -> ClickLog:
    """A simulated log; kept in `out` under what it was made of, so that a second run reads it."""
    import hashlib

    from placings.logs import ClickLog
    from placings.places import SqliteEngine, build_index, read_geonames, read_places
    from placings.simulate import simulate_log

    source = (
        "geonames"
        if places is None
        else f"{places.resolve()} {places.stat().st_size if places.is_file() else 0} {zone}"
    )
    mark = hashlib.sha256(f"{source} {searches} {clicks.value} {k} {seed}".encode()).hexdigest()[:12]
    file = out / f"rows-{mark}.parquet"
    if file.is_file():
        return ClickLog.read(file)
    say = choose_voice(progress)
    say("reading places")
    known = read_geonames() if places is None else read_places(places, zone=zone)
    out.mkdir(parents=True, exist_ok=True)
    index = out / f"index-{hashlib.sha256(source.encode()).hexdigest()[:12]}.db"
    if not index.is_file():
        say(f"indexing {len(known):,} places")
        build_index(known, index)
    say(f"simulating {searches:,} searches")
    made = simulate_log(known, SqliteEngine(index), searches, clicks=clicks.value, k=k, random_state=seed)
    log = ClickLog(made.to_rows(unsuccessful="negatives"))
    log.write(file)
    return log


def _write_page(result: dict[str, object], out: Path) -> None:
    """The page beside the tables, where the report extra is installed."""
    from placings.core import MissingExtra

    try:
        from placings.report import write_places_page

        write_places_page(out / "places.html", result)
    except MissingExtra:
        return
