"""`placings log simulate-places` and `simulate-shop`: generated logs with searches and actions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placings.cli.checks import check_folder
from placings.cli.options import AsJson, LogFolder
from placings.cli.printing import print_json, print_text
from placings.core import BadInput, show_progress

if TYPE_CHECKING:
    from placings.places import Place


class Clicks(StrEnum):
    """How people click."""

    position = "position"
    cascade = "cascade"
    trust = "trust"
    dbn = "dbn"


class FileForm(StrEnum):
    """What the files of a log are."""

    parquet = "parquet"
    jsonl = "jsonl"
    jsonl_gz = "jsonl.gz"


Form = Annotated[FileForm, typer.Option("--form", help="What the files are.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same log.")]


def simulate_places(
    index: Annotated[
        Path, typer.Argument(help="An index that `placings places index` made.", metavar="INDEX.db")
    ],
    out: LogFolder,
    searches: Annotated[int, typer.Option(min=1, help="Make at least this many searches.")] = 5000,
    clicked: Annotated[
        bool, typer.Option("--clicked", help="Count only searches with a click, about a third.")
    ] = False,
    clicks: Annotated[Clicks, typer.Option(help="How people click.")] = Clicks.position,
    k: Annotated[int, typer.Option(min=1, help="How many results are shown.")] = 40,
    places: Annotated[
        str | None,
        typer.Option(
            help="What may be meant: the file that was indexed, or geonames. Else what the index holds.",
            metavar="FILE",
        ),
    ] = None,
    seed: Seed = 0,
    form: Form = FileForm.parquet,
    as_json: AsJson = False,
) -> None:
    """Simulate people who search for places; every list really comes from the index.

    Writes searches, actions and truth (the place that each search was for) into OUT. What is made
    of it is SIMULATED and should say so.

    \b
    Examples:
      placings log simulate-places karlsruhe.db log/ --searches 20000 --seed 1
      placings log simulate-places karlsruhe.db log/ --clicks cascade --form jsonl.gz
    """
    from placings.places import SqliteEngine
    from placings.simulate import simulate_log

    check_folder(out, "OUT")
    engine = SqliteEngine(index)
    meant = _read_meant(places, engine)
    with show_progress("simulating searches", searches) as bar:
        log = simulate_log(
            meant,
            engine,
            searches,
            clicks=clicks.value,
            k=k,
            count="clicked" if clicked else "searches",
            random_state=seed,
            progress=bar.reach,
        )
    written = log.write(out, form.value)
    if as_json:
        counts = {"searches": log.searches.num_rows, "actions": log.actions.num_rows}
        print_json({"simulated": True, **counts, "written": list(map(str, written))}, indent=1)
        return
    print_text(log.describe())
    print_text(f"written: {', '.join(str(path) for path in written)}")


def simulate_shop(
    out: LogFolder,
    days: Annotated[int, typer.Option(min=1, help="Days of the log.")] = 28,
    searches: Annotated[int, typer.Option(min=1, help="Searches a day, about.")] = 100,
    shown: Annotated[int, typer.Option(min=1, help="Items shown, at most.")] = 8,
    broken: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of the actions that is made wrong on purpose.")
    ] = 0.0,
    seed: Seed = 0,
    form: Form = FileForm.parquet,
    as_json: AsJson = False,
) -> None:
    """Generate the log of a shop's search: queries, products with 16 features, clicks, carts, purchases.

    Writes searches and actions into OUT. With --broken, actions come twice, late, early, of searches that
    nobody knows and on items that were not shown, so that a join can be seen to cope.

    \b
    Examples:
      placings log simulate-shop shop/ --seed 0
      placings log simulate-shop shop/ --days 60 --searches 1000 --broken 0.02 --form jsonl.gz
    """
    from placings.simulate import make_shop_actions, make_shop_log

    check_folder(out, "OUT")
    shop = make_shop_actions(
        make_shop_log(days, searches=searches, shown=shown, random_state=seed), broken=broken
    )
    written = shop.write(out, form.value)
    counts = {each["values"]: each["counts"] for each in shop.actions["action"].value_counts().to_pylist()}
    if as_json:
        facts = {"simulated": True, "searches": shop.searches.num_rows, "actions": counts}
        print_json({**facts, "broken": shop.broken, "written": list(map(str, written))}, indent=1)
        return
    told = ", ".join(f"{counts.get(name, 0):,} {name}s" for name in ("click", "cart", "purchase"))
    print_text(f"SIMULATED: {shop.searches.num_rows:,} searches; {told}")
    if broken:
        print_text("made wrong: " + ", ".join(f"{count:,} {name}" for name, count in shop.broken.items()))
    print_text(f"written: {', '.join(str(path) for path in written)}")


def _read_meant(places: str | None, engine: object) -> list[Place]:
    if places is not None:
        from placings.places import read_source

        return read_source(places)
    listed = getattr(engine, "places", None)
    if listed is None:
        raise BadInput("this index does not list its places. Name the file it was made of with --places.")
    return list(listed() if callable(listed) else listed)
