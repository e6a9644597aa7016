"""`placings demo`: places, a simulated log, coverage, four rankers, a saved model and a page to open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_aside, print_json, print_text


def demo(
    out: Annotated[Path, typer.Option(help="Folder for index, log, model and page.")] = Path("placings-demo"),
    searches: Annotated[int, typer.Option(min=200, help="Searches to simulate.", metavar="N")] = 4000,
    places: Annotated[
        Path | None,
        typer.Option(help="Places to search, .jsonl.gz. None: the cities of GeoNames.", metavar="FILE"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Index real places, simulate a search log, and learn to rank what the engine finds.

    The log is joined to query groups; engine, linear, LightGBM and neural rankers are judged on held-out
    time, the default re-ranker on every slice; one feature goes dark, and what that costs is told. A page
    and the trained re-ranker stay in --out.

    \b
    Examples:
      placings demo
      placings demo --searches 5000 --seed 7 --out /tmp/demo
      placings demo --places places.jsonl.gz
    """
    from placings.cli.checks import check_folder, check_inputs
    from placings.cli.printing import say_when_stopped
    from placings.core import MissingExtra, write_json
    from placings.studies import MODEL, run_demo

    say = print_aside if as_json else print_text
    check_folder(out)
    check_inputs(places)
    with say_when_stopped("the demo keeps nothing to go on from; the same command starts anew."):
        result = run_demo(out, searches=searches, seed=seed, places=places, say=say)
    say("\n6. What to look at, and what to run next")
    try:
        from placings.logs import ClickLog
        from placings.report import write_places_page

        page = write_places_page(out / "index.html", result, title="placings: the demo", brief=True)
        with ClickLog.read(out / "rows.parquet") as log:
            log_page = log.explore(out / "log.html", source="")
        say(f"   open {page}   the rankers, slice by slice\n   open {log_page}   the log")
    except MissingExtra as error:
        say(f"   the pages were left out: {error}")
    say(
        f"   placings places search {out / 'places.db'} karls --model {out / MODEL}\n"
        f"   placings places study {out / 'rows.parquet'} --quick --out {out / 'study'}\n"
        "   placings log join --help   your own logs"
    )
    if as_json:
        print_json(write_json(result))
