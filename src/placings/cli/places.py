"""`placings places`: an engine of places, the study of re-ranking it, and a re-ranker to try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.loading import split_names
from placings.cli.options import AsJson, Digest, Layers, Near, When
from placings.cli.places_study import run_places_study
from placings.cli.printing import print_json, print_text

app = typer.Typer(
    cls=PlainFlags,
    help="Places: index them, search them, learn to rank them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def index_places(
    source: Annotated[
        str, typer.Argument(help="A file of places (JSON lines, also compressed), or the word geonames.")
    ],
    out: Annotated[Path, typer.Argument(help="The index to write, such as places.db.")],
    as_json: AsJson = False,
) -> None:
    """Index places by name, popularity and position, so that `places search` finds them.

    \b
    Examples:
      placings places index geonames cities.db
      placings places index places_karlsruhe.jsonl.gz karlsruhe.db
    """
    from placings.cli.checks import check_output
    from placings.core import show_progress
    from placings.places import build_index, read_source

    check_output(out, "OUT")
    with show_progress("reading", rate="bytes") as bar:
        places = read_source(source, progress=bar.reach)
    with show_progress("indexing") as bar:
        build_index(places, out, progress=bar.reach)
    if as_json:
        print_json({"index": str(out), "places": len(places), "bytes": out.stat().st_size}, indent=1)
        return
    print_text(
        f"{len(places):,} place{'' if len(places) == 1 else 's'} in {out} ({out.stat().st_size / 1e6:.0f} MB)"
    )


def search_places(
    index: Annotated[Path, typer.Argument(help="An index, as `placings places index` wrote it.")],
    text: Annotated[str, typer.Argument(help="What to look for; the last word may be a beginning.")],
    near: Near = None,
    layers: Layers = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="A re-ranker's folder, as `placings demo` or `places study` keep one.", metavar="DIR"
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="What the place is for, as the log says it, e.g. origin.")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(help="Where the user searches, as the log says it, e.g. ios.")
    ] = None,
    when: When = None,
    k: Annotated[int, typer.Option("-k", "--hits", min=1, help="Hits at most.")] = 10,
    digest: Digest = None,
    as_json: Annotated[bool, typer.Option("--json", help="All fields, for machines.")] = False,
) -> None:
    """Search an index of places, best first; with --model in a learned order, beside the engine's ranks.

    \b
    Examples:
      placings places search cities.db "san fran"
      placings places search karlsruhe.db haupt --near 49.01,8.40 --layers station,stop
      placings places search cities.db karls --model places-study/reranker
      placings places search cities.db karls --model places-study/reranker --target origin --platform ios
    """
    from placings.cli.searching import parse_moment, parse_position, write_lines
    from placings.places import SqliteEngine

    told = {"--target": target, "--platform": platform, "--time": when, "--digest": digest}
    if model is None and (idle := [name for name, value in told.items() if value is not None]):
        raise typer.BadParameter(f"{', '.join(idle)}: only a re-ranker looks at that. Add --model.")
    moment = None if when is None else parse_moment(when)
    focus = None if near is None else parse_position(near)
    wanted = None if layers is None else split_names(layers)
    with SqliteEngine(index) as engine:
        if model is None:
            hits = engine.search(text, focus=focus, k=k, layers=wanted)
        else:
            from placings.rerank import load_reranker

            ranked = load_reranker(model, digest=digest).wrap(engine)
            hits = ranked.search(text, focus, k, wanted, time=moment, target=target, platform=platform)
    if as_json:
        from dataclasses import asdict

        from placings.places import Place

        told_hits = [
            {"place": asdict(Place.of_hit(hit)), "score": hit.score, "rank": hit.rank} for hit in hits
        ]
        print_json(told_hits)
        return
    print_text("\n".join(write_lines(hits, focus)) if hits else "nothing found")


app.command("index")(index_places)
app.command("search")(search_places)
app.command("study")(run_places_study)
