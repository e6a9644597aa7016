"""`placings serve`: a re-ranker in front of an engine, over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.printing import print_text

if TYPE_CHECKING:
    from placings.serve import Arms, Supervisor

TOKEN = "PLACINGS_ADMIN_TOKEN"

app = typer.Typer(
    cls=PlainFlags,
    help="A re-ranker in front of an engine, over HTTP.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@app.callback()
def serve(
    context: typer.Context,
    model: Annotated[Path | None, typer.Option(help="A saved re-ranker's folder.", metavar="DIR")] = None,
    engine: Annotated[
        str,
        typer.Option(help="sqlite:places.db, postgresql://…, pelias+http://…, opensearch+http://…, or none."),
    ] = "none",
    data: Annotated[Path, typer.Option(help="The folder of events, key and lock.", metavar="DIR")] = Path(
        "serve-data"
    ),
    host: Annotated[
        str, typer.Option(help="Where to listen; other machines reach only what you name.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="For searches and feedback.")] = 8080,
    admin_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="For metrics and reloads, on loopback.")
    ] = 8081,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer.")] = 1,
    budget_ms: Annotated[float, typer.Option(help="A model that takes longer is not waited for.")] = 50.0,
    engine_timeout_ms: Annotated[
        float, typer.Option(help="An engine that takes longer is an error.")
    ] = 1000.0,
    depth: Annotated[int, typer.Option(min=2, max=200, help="How many hits are re-ranked.")] = 40,
    grace: Annotated[float, typer.Option(help="Seconds to finish requests after SIGTERM.")] = 10.0,
    digest: Annotated[str | None, typer.Option(help="Refuse any other re-ranker than this one.")] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=SHARE:WHAT, as control=0.5:engine, new=0.5:model or mix=0.1:engine+model; repeatable."
        ),
    ] = None,
    explore: Annotated[float, typer.Option(min=0.0, max=0.5, help="Rate of swaps of neighbours.")] = 0.0,
    explore_depth: Annotated[int, typer.Option(min=2, help="Swaps are within the first so many.")] = 10,
    exact_positions: Annotated[
        bool, typer.Option("--exact-positions", help="Do not round people's coordinates to 0.01°.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name to answer for. Again for more.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin whose pages may send feedback. Again for more.")
    ] = None,
    model_root: Annotated[
        Path | None, typer.Option(help="Reloads take models below this folder.", metavar="DIR")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"The operators' token; else {TOKEN}.", metavar="FILE")
    ] = None,
) -> None:
    """Serve a re-ranker: searches in Pelias' shape, lists to re-rank, feedback that is never lost.

    \b
    Examples:
      placings serve --model out/demo/reranker --engine sqlite:out/demo/places.db
      placings serve --model reranker --engine none --port 9000
      placings serve --model reranker --engine pelias+http://127.0.0.1:4000 --workers 2
      placings serve --model reranker --engine sqlite:places.db --arm control=0.5:engine --arm new=0.5:model
    """
    if context.invoked_subcommand is not None:
        return
    if model is None:
        raise typer.BadParameter("name a saved re-ranker: --model DIR.")
    import asyncio

    from placings.serve import ServeSettings, Supervisor, write_logs

    settings = ServeSettings(
        model=str(model.resolve()),
        engine=engine,
        data=str(data),
        digest=digest,
        model_root=None if model_root is None else str(model_root),
        host=host,
        port=port,
        admin_port=admin_port,
        workers=workers,
        depth=depth,
        budget_ms=budget_ms,
        engine_timeout_ms=engine_timeout_ms,
        grace=grace,
        exact_positions=exact_positions,
        hosts=tuple(allow_host or ()),
        origins=tuple(allow_origin or ()),
        arms=_read_arms(arm or [], explore, explore_depth),
    )
    write_logs()
    supervisor = Supervisor(settings, _read_token(token_file))
    code = asyncio.run(supervisor.run(_say_started))
    raise typer.Exit(code)


def _say_started(supervisor: Supervisor) -> None:
    host, port = supervisor.settings.host, supervisor.port
    print_text(f"serving on http://{host}:{port} (Ctrl-C ends it)")
    if supervisor.settings.engine != "none":
        print_text(f'try: curl "http://{host}:{port}/v1/autocomplete?text=karls"')
    sys.stdout.flush()


def _read_arms(told: list[str], rate: float, depth: int) -> Arms:
    from placings.core import BadInput
    from placings.serve import Arm, Arms, Exploration

    exploration = Exploration(rate, depth)
    if not told:
        return Arms(exploration=exploration)
    arms = []
    for each in told:
        name, equals, rest = each.partition("=")
        share, colon, what = rest.partition(":")
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        if not (name and equals and colon and what) or number < 0:
            raise BadInput(f"an arm must be NAME=SHARE:WHAT, such as new=0.5:model. Got {each!r}.")
        arms.append(Arm(name, number, tuple(what.split("+"))))
    return Arms(tuple(arms), exploration)


def _read_token(path: Path | None) -> str | None:
    from placings.core import BadFile, read_config_text

    if path is None:
        return os.environ.get(TOKEN) or None
    token = read_config_text(path).strip()
    if len(token) < 16:
        raise BadFile(path, f"must hold a token of 16 letters or more. Got {len(token)}.")
    return token
