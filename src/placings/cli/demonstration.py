"""`placings demo`: places, a simulated log, four rankers, an alert, a saved model and a page to open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_aside, print_json, print_text

WIDTH = 108  # of a sentence's lines


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

    The log is joined; engine, linear, LightGBM and neural rankers are judged on held-out time, the default
    re-ranker on every slice; one number goes dark, which raises an alert, and what that costs is told. Two
    pages, a picture and the trained re-ranker stay in --out. Training is shortened, and the demo says how.

    \b
    Examples:
      placings demo
      placings demo --searches 5000 --seed 7 --out /tmp/demo
      placings demo --places places.jsonl.gz
    """
    from placings.cli.checks import check_folder, check_inputs
    from placings.cli.printing import say_when_stopped
    from placings.core import MissingExtra, write_json
    from placings.report import list_verdict, say_dark, say_winners
    from placings.studies import MODEL, run_demo

    say = print_aside if as_json else print_text
    check_folder(out)
    check_inputs(places)
    with say_when_stopped("the demo keeps nothing to go on from; the same command starts anew."):
        result = run_demo(out, searches=searches, seed=seed, places=places, say=say)
    say("\n6. In short (SIMULATED: it shows how the tool works, not what you will gain)")
    for line in (*list_verdict(result)[:1], *say_winners(result), *say_dark(result["coverage"])):
        say(fill(line, WIDTH, initial_indent="   ", subsequent_indent="     "))
    say("\n7. What to look at, and what to run next")
    try:
        _write_pages(out, result, say)
    except MissingExtra as error:
        say(f"   the pages were left out: {error}")
    say(
        f"   placings places search {out / 'places.db'} karls --model {out / MODEL}\n"
        f"   placings serve --model {out / MODEL} --engine sqlite:{out / 'places.db'}\n"
        f"   placings places study {out / 'rows.parquet'} --quick --out {out / 'study'}\n"
        "   placings log join --help   your own logs"
    )
    if as_json:
        print_json(write_json(result))


def _write_pages(out: Path, result: dict[str, Any], say: Callable[[str], None]) -> None:
    import os

    from placings.logs import ClickLog
    from placings.report import say_kind, write_demo_picture, write_places_page

    words = Path("docs/glossary.md")  # in a clone, where `make demo` runs
    more = os.path.relpath(words, out) if words.is_file() else ""
    page = write_places_page(
        out / "index.html", result, title="placings: the demo", brief=True, glossary=more
    )
    picture = write_demo_picture(out / "demo.png", result, [say_kind(row) for row in result["slices"]])
    with ClickLog.read(out / "rows.parquet") as log:
        log_page = log.explore(out / "log.html", source="")
    say(f"   open {page}   the rankers, and the number that went dark")
    say(f"   open {log_page}   the log\n   open {picture}   the picture of the README")
