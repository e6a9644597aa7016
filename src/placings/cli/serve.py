"""`placings serve`: a re-ranker in front of an engine, over HTTP."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placings.cli.flags import PlainFlags
from placings.cli.options import AsJson
from placings.cli.printing import print_text
from placings.cli.serve_report import report_experiment

if TYPE_CHECKING:
    from placings.serve import Arms, Exploration, Supervisor

TOKEN = "PLACINGS_ADMIN_TOKEN"
Data = Annotated[Path, typer.Option(help="The folder of events, key and lock.", metavar="DIR")]
SHORTEST = 16  # letters of a token

app = typer.Typer(
    cls=PlainFlags,
    help="A re-ranker in front of an engine, over HTTP.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)
app.command("report")(report_experiment)


@app.callback()
def start_service(
    context: typer.Context,
    model: Annotated[Path | None, typer.Option(help="A saved re-ranker's folder.", metavar="DIR")] = None,
    engine: Annotated[
        str,
        typer.Option(help="sqlite:places.db, postgresql://…, pelias+http://…, opensearch+http://…, or none."),
    ] = "none",
    data: Data = Path("serve-data"),
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
            help="NAME=SHARE:WHAT: control=0.5:engine, new=0.4:model, mix=0.1:engine+model. Again for more."
        ),
    ] = None,
    with_model: Annotated[
        list[str] | None,
        typer.Option(help="Another re-ranker for arms, NAME=DIR: --with-model next=DIR --arm new=0.5:next."),
    ] = None,
    experiment: Annotated[
        str, typer.Option(help="What the arms are for; another name deals people anew.")
    ] = "first",
    explore: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of sessions in which two items are swapped.")
    ] = 0.0,
    explore_depth: Annotated[int, typer.Option(min=2, help="Swaps are within the first so many.")] = 10,
    explore_reach: Annotated[
        int,
        typer.Option(min=1, help="Swapped items are at most so many places apart; 1 swaps neighbours only."),
    ] = 1,
    exact_positions: Annotated[
        bool, typer.Option("--exact-positions", help="Do not round people's coordinates to 0.01°.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name to answer for. Again for more.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="An origin whose pages may send feedback. Again for more.")
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="A proxy's address, whose X-Forwarded-For is believed. Again for more."),
    ] = None,
    feedback_rate: Annotated[
        float, typer.Option(help="Events a second from one address or user; more are refused.")
    ] = 20.0,
    dark_share: Annotated[
        float, typer.Option(help="A feature is dark if it is there in less than this share of training's.")
    ] = 0.5,
    fall_back_when_dark: Annotated[
        bool, typer.Option("--fall-back-when-dark", help="Show the engine's order while a feature is dark.")
    ] = False,
    linger: Annotated[
        float, typer.Option(help="Seconds to go on after SIGTERM while /readyz says 503.")
    ] = 0.5,
    no_access_log: Annotated[
        bool, typer.Option("--no-access-log", help="Write no line for each request.")
    ] = False,
    model_root: Annotated[
        Path | None, typer.Option(help="Reloads take models below this folder.", metavar="DIR")
    ] = None,
    gate_log: Annotated[
        Path | None,
        typer.Option(
            help="Reloads take only a model that is shown non-inferior on this log (placings would-have).",
            metavar="LOG",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=f"The operators' token; else {TOKEN}.", metavar="FILE")
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(help="Take out what is older, once a day. Else everything is kept.")
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

    from placings.serve import Exploration, ServeSettings, Supervisor, write_logs

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
        models=_read_models(with_model or []),
        arms=_read_arms(arm or [], Exploration(explore, explore_depth, explore_reach), experiment),
        keep_days=keep_days,
        proxies=tuple(proxy or ()),
        feedback_rate=feedback_rate,
        dark_share=dark_share,
        fall_back_when_dark=fall_back_when_dark,
        linger=min(linger, grace / 2),
        access_log=not no_access_log,
        gate_log=None if gate_log is None else str(gate_log.resolve()),
    )
    os.umask(0o077)  # what people searched for is nobody else's
    write_logs()
    supervisor = Supervisor(settings, _read_token(token_file))
    code = asyncio.run(supervisor.run(_say_started))
    raise typer.Exit(code)


@app.command("export")
def export_events(
    out: Annotated[Path, typer.Option(help="The folder to write.", metavar="FOLDER")],
    data: Data = Path("serve-data"),
    since: Annotated[
        str | None, typer.Option(help="Searches from this time on, ISO 8601.", metavar="TIME")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Searches before this time.", metavar="TIME")] = None,
    as_json: AsJson = False,
) -> None:
    """Write what was served and clicked as searches.parquet and actions.parquet, for `placings log join`.

    The service may go on meanwhile. Events whose search was not ours are in untrusted.parquet; events whose
    list is not known are left out and counted.

    \b
    Examples:
      placings serve export --data serve-data --out week
      placings serve export --data serve-data --out week --since 2026-11-09 --until 2026-11-16
    """
    from dataclasses import asdict

    from placings.cli.checks import check_folder
    from placings.serve import export_log

    check_folder(out)

    found = export_log(data, out, since=_read_time("--since", since), until=_read_time("--until", until))
    if as_json:
        print_text(json.dumps(asdict(found), ensure_ascii=False))
        return
    lines = [
        f"{out}: {found.searches:,} searches with {found.items:,} items, {found.actions:,} actions",
        f"left out: {found.orphans:,} events without their list; apart: {found.untrusted:,} untrusted",
    ]
    if found.unfit:
        lines.append(f"{found.unfit:,} values are of another kind than their column, and empty")
    lines += [f"{old} is called {new}" for old, new in sorted(found.renamed.items())]
    print_text("\n".join(lines))


@app.command("forget")
def forget_person(
    user: Annotated[str, typer.Argument(help="The user's id, as the service was told it.", metavar="USER")],
    data: Data = Path("serve-data"),
    parquet: Annotated[
        list[Path] | None,
        typer.Option(help="An export, or what was joined of one: a file or a folder. Again for more."),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            help="A saved re-ranker that learned histories of people. Again for more.", metavar="DIR"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take a person out of the events, of exports, of what was joined of them, and of saved re-rankers.

    Their rows are deleted and the files written anew: nothing of them is left in the bytes. The service may
    go on; while the events are written anew, feedback may be told to come again. Models hold no ids; those
    with a history of people hold what each clicked under a hash of the id, until they are named here.

    \b
    Examples:
      placings serve forget ann --data serve-data
      placings serve forget ann --data serve-data --parquet week --parquet rows.parquet
      placings serve forget ann --data serve-data --model reranker
    """
    from placings.serve import forget_user

    found = forget_user(user, data, parquet or [], models=model or [])
    if as_json:
        print_text(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    lines = [f"forgotten: {found.shown:,} searches, {found.events:,} events"]
    lines += [f"{path}: {count:,} rows" for path, count in found.rows.items()]
    lines += [f"{path}: saved anew without their history; give it to the service" for path in found.models]
    lines += [
        f"{path} still holds their history, under a hash: reload the service with a model that does not"
        for path in found.left_in
    ]
    print_text("\n".join(lines))


@app.command("prune")
def prune_events(
    keep_days: Annotated[float, typer.Option(help="Take out what is older than so many days.")],
    data: Data = Path("serve-data"),
    as_json: AsJson = False,
) -> None:
    """Take out searches that are older than some days, with their events. The service may go on.

    \b
    Examples:
      placings serve prune --data serve-data --keep-days 90
    """
    from placings.serve import prune_store

    found = prune_store(data, keep_days)
    if as_json:
        print_text(json.dumps({"shown": found.shown, "events": found.events}))
        return
    print_text(f"pruned: {found.shown:,} searches, {found.events:,} events")


def _read_time(flag: str, told: str | None) -> float | None:
    from placings.core import BadInput, as_utc

    if told is None:
        return None
    try:
        return as_utc(told).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise BadInput(
            f"{flag} must be a time such as 2026-11-09 or 2026-11-09T08:00Z. Got {told!r}."
        ) from None


def _say_started(supervisor: Supervisor) -> None:
    host, port = supervisor.settings.host, supervisor.port
    print_text(f"serving on http://{host}:{port} (Ctrl-C ends it)")
    print_text(f"metrics on http://127.0.0.1:{supervisor.admin_port}/metrics")
    if supervisor.settings.engine != "none":
        print_text(f'try: curl "http://{host}:{port}/v1/autocomplete?text=karls"')
    else:  # placings rerank search --request writes such a file
        told = "-H 'Content-Type: application/json' -d @request.json"
        print_text(f"try: curl http://{host}:{port}/v1/rerank {told}")
    sys.stdout.flush()


def _read_arms(told: list[str], exploration: Exploration, experiment: str) -> Arms:
    from placings.serve import Arm, Arms

    if not told:
        return Arms(exploration=exploration, experiment=experiment)
    return Arms(tuple(map(Arm.parse, told)), exploration, experiment)


def _read_models(told: list[str]) -> dict[str, str]:
    from placings.core import BadInput

    models: dict[str, str] = {}
    for each in told:
        name, _, folder = each.partition("=")
        if not (name and folder) or name in ("engine", "model", *models):
            raise BadInput(f"another model must be NAME=DIR with a name of its own. Got {each!r}.")
        models[name] = str(Path(folder).resolve())
    return models


def _read_token(path: Path | None) -> str | None:
    from placings.core import BadFile, BadInput, read_config_text

    if path is None:
        token = os.environ.pop(TOKEN, "").strip()  # what we start must not have it in its environment
        if token and len(token) < SHORTEST:
            raise BadInput(f"{TOKEN} must hold {SHORTEST} letters or more. Got {len(token)}.")
        return token or None
    token = read_config_text(path).strip()
    if len(token) < SHORTEST:
        raise BadFile(path, f"must hold a token of {SHORTEST} letters or more. Got {len(token)}.")
    return token
