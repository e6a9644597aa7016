"""`placings places`: an engine of places, the study of re-ranking it, and a re-ranker to try."""

from __future__ import annotations

import typer

from placings.cli.flags import PlainFlags
from placings.cli.places_search import index_places, search_places
from placings.cli.places_study import run_places_study

app = typer.Typer(
    cls=PlainFlags,
    help="Places: index them, search them, learn to rank them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

app.command("index")(index_places)
app.command("search")(search_places)
app.command("study")(run_places_study)
