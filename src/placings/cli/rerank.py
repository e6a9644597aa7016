"""`placings rerank`: a re-ranker learned from a click log, judged, and tried in front of an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.completion import complete_metrics, complete_ranker
from placings.cli.flags import PlainFlags
from placings.cli.loading import split_names
from placings.cli.options import AsJson, Digest, Layers, Near, When
from placings.cli.printing import print_json, print_note, print_text

if TYPE_CHECKING:
    from placings.features import FeatureSet
    from placings.logs import ClickLog
    from placings.rerank import Engine

app = typer.Typer(
    cls=PlainFlags,
    help="Re-rankers: learn one from a click log, judge it, try it in front of an engine.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("fit")
def fit_log(
    log: Annotated[
        Path,
        typer.Argument(help="What `placings log join` wrote, a file or a folder.", metavar="LOG"),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the re-ranker.", metavar="DIR")],
    valid: Annotated[
        Path | None,
        typer.Option(help="A second log to validate on; else the last fifth of LOG.", metavar="LOG"),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="places, shop, or a features file (.json). Else places if items have a name and coordinates."
        ),
    ] = None,
    ranker: Annotated[
        str,
        typer.Option(
            help="mean (of trees and a network), lightgbm, ridge, neural or another.",
            autocompletion=complete_ranker,
        ),
    ] = "mean",
    guard: Annotated[
        bool, typer.Option(help="Keep the engine's order where the model was not shown to be as good.")
    ] = True,
    guard_tolerance: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="The loss in MRR that a kind of search is kept from. Less is stricter, and forgoes more.",
        ),
    ] = 0.02,
    pool: Annotated[int, typer.Option(min=2, help="How many hits of a list are re-ranked.")] = 40,
    history: Annotated[
        bool, typer.Option("--history", help="Learn from each person's own past clicks too; needs user_id.")
    ] = False,
    half_life: Annotated[
        float, typer.Option(help="Days after which a person's own click counts half.", metavar="DAYS")
    ] = 30.0,
    propensity: Annotated[
        str | None,
        typer.Option(
            help="Weigh clicks by how often their rank is looked at: what placings log propensity --out "
            "wrote, or log for the column propensity of LOG.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random state.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a re-ranker from a click log of a shop or of places, and keep it.

    \b
    Examples:
      placings rerank fit rows.parquet --out reranker
      placings rerank fit rows.parquet --out reranker --features shop --ranker lightgbm
      placings rerank fit train.parquet --valid valid.parquet --out reranker --no-guard
      placings rerank fit rows.parquet --out reranker --history --half-life 60
      placings rerank fit rows.parquet --out reranker --propensity curve.json
    """
    from placings.cli.checks import check_folder, check_inputs
    from placings.core import refuse_other, show_work
    from placings.logs import ClickLog
    from placings.rerank import Reranker

    chosen, looks = _read_features(features), _read_propensity(propensity)
    settings: dict[str, Any] = {
        "ranker": ranker, "guard": guard, "pool": pool, "random_state": seed, "history": history,
        "half_life": half_life, "propensity": looks, "guard_tolerance": guard_tolerance,
    }  # fmt: skip
    Reranker(features=chosen or "places", **settings).check_settings()
    check_folder(out)
    for part in ("model", "reranker"):
        refuse_other(out / part)
    check_inputs(log, valid)
    with ExitStack() as stack:
        rows = stack.enter_context(ClickLog.read(log))
        held = None if valid is None else stack.enter_context(ClickLog.read(valid))
        if held is None:
            train, held = rows.split(0.8, 0.2, by="time")
        else:
            train = rows
        declared = chosen or _choose_features(train)
        work = f"training {ranker} on {train.n_searches:,} searches, validating on {held.n_searches:,}"
        with show_work(work):
            reranker = Reranker(features=declared, **settings).fit(train, valid=held)
    digest = reranker.save(out, metrics={"valid_mrr": list(reranker.valid_.values())[-1]})
    found = {
        "out": str(out), "digest": digest, "lists": reranker.lists_,
        "features": len(reranker.features_.names), "valid_mrr": reranker.valid_,
        "past_clicks": len(reranker.clicks_),
        **({} if reranker.own_clicks_ is None else {"people": len(reranker.own_clicks_.people)}),
        "left_out": list(reranker.features_.notes),
    }  # fmt: skip
    if reranker.debias_ is not None:
        found["debias"] = reranker.debias_
    if as_json:
        print_json(found)
        return
    print_text("\n".join(_say_fit(found, reranker)))


@app.command("evaluate")
def evaluate_log(
    model: Annotated[Path, typer.Argument(help="A re-ranker's folder.", metavar="DIR")],
    log: Annotated[Path, typer.Argument(help="A log that it has not learned from.", metavar="LOG")],
    metrics: Annotated[
        str, typer.Option(help="Metrics, with commas.", autocompletion=complete_metrics)
    ] = "mrr,ndcg@10",
    by: Annotated[
        str | None,
        typer.Option(
            help="Slices by columns of the log, with commas, e.g. platform,target; frequency is head, torso "
            "and tail, by how often a query is asked."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask search by search, as a server would; slower, the same order.")
    ] = False,
    bootstrap: Annotated[int, typer.Option(min=10, help="Samples for intervals.")] = 1000,
    page: Annotated[Path | None, typer.Option(help="Write the result as a page, .html.")] = None,
    digest: Digest = None,
    as_json: AsJson = False,
) -> None:
    """Compare a re-ranker with the engine whose hits it re-ranks, on a log.

    \b
    Examples:
      placings rerank evaluate reranker test.parquet
      placings rerank evaluate reranker test.parquet --by platform,target --page result.html
      placings rerank evaluate reranker test.parquet --by frequency
      placings rerank evaluate reranker test.parquet --live --json
    """
    from placings.cli.checks import check_inputs, check_metrics, check_output
    from placings.logs import ClickLog
    from placings.rerank import load_reranker

    wanted = check_metrics(split_names(metrics))
    check_inputs(log)
    if page is not None:
        check_output(page, "--page", (".html",))
    reranker = load_reranker(model, digest=digest)
    with ClickLog.read(log) as rows:
        slices = None if by is None else split_names(by)
        result = reranker.evaluate(rows, wanted, live=live, slices=slices, bootstrap=bootstrap)
    if page is not None:
        from placings.report import write_result_page

        write_result_page(page, result)
    if as_json:
        print_json(result.to_json())
        return
    print_text("\n\n".join(part for part in (result.table(), result.slice_table()) if part))


@app.command("search")
def search_engine(
    model: Annotated[Path, typer.Argument(help="A re-ranker's folder.", metavar="DIR")],
    text: Annotated[str, typer.Argument(help="What to look for.")],
    engine: Annotated[
        str | None,
        typer.Option(
            help="sqlite:places.db, postgresql://…, pelias+http://…, opensearch+http://host:9200/index.",
        ),
    ] = None,
    hits: Annotated[
        Path | None,
        typer.Option(
            help="Hits written down as JSON lines, in place of an engine; a log of searches is such a file.",
            metavar="FILE",
        ),
    ] = None,
    near: Near = None,
    layers: Layers = None,
    context: Annotated[
        list[str] | None,
        typer.Option(help="What else is known of the search, as the log calls it.", metavar="NAME=VALUE"),
    ] = None,
    when: When = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Hits at most.")] = 10,
    request_file: Annotated[
        Path | None,
        typer.Option(
            "--request",
            help="Also write what POST /v1/rerank of placings serve takes, .json.",
            metavar="FILE",
        ),
    ] = None,
    digest: Digest = None,
    as_json: Annotated[bool, typer.Option("--json", help="All fields, for machines.")] = False,
) -> None:
    """Search an engine and show its hits in the learned order, beside the engine's ranks.

    \b
    Examples:
      placings rerank search reranker haupt --engine sqlite:places.db --near 49.01,8.40
      placings rerank search reranker lamp --engine "opensearch+http://127.0.0.1:9200/shop?fields=title^3"
      placings rerank search reranker "red lamp" --hits hits.jsonl --context platform=app
      placings rerank search reranker "red lamp" --hits searches.jsonl --request request.json
    """
    from placings.cli.checks import check_output
    from placings.cli.searching import parse_context, parse_moment, parse_position, write_lines
    from placings.core import write_text
    from placings.rerank import HitsFile, Request, load_reranker, open_engine

    if (engine is None) == (hits is None):
        raise typer.BadParameter("name the engine with --engine, or a file of hits with --hits; one of them.")
    focus = None if near is None else parse_position(near)
    moment = None if when is None else parse_moment(when)
    known = parse_context(context or ())
    wanted = None if layers is None else split_names(layers)
    if request_file is not None:
        check_output(request_file, "--request", (".json",))
    reranker = load_reranker(model, digest=digest)
    source: Engine = HitsFile(hits) if hits is not None else open_engine(str(engine))
    with ExitStack() as stack:
        stack.callback(getattr(source, "close", lambda: None))
        found = source.search(text, focus, max(k, reranker.pool), wanted)
    request = Request.of_hits(text, found[: reranker.pool], focus=focus, time=moment, **known)
    answer = reranker.rerank(request)
    if request_file is not None:
        write_text(request_file, json.dumps(_as_plain(request.to_dict()), ensure_ascii=False) + "\n")
    ordered = [found[row] for row in answer.order.tolist()] + found[reranker.pool :]
    if as_json:
        told = {
            "hits": [
                {
                    "id": hit.id,
                    "rank": hit.rank,
                    "score": None if hit.score != hit.score else hit.score,
                    "fields": _as_plain(hit.fields),
                }
                for hit in ordered[:k]
            ],
            "digest": answer.digest,
            "missing": dict(answer.missing),
        }
        print_json(told)
        return
    print_text("\n".join(write_lines(ordered[:k], focus)) if ordered else "nothing found")
    if answer.missing and ordered:
        print_note(answer.say_missing())


def _read_features(features: str | None) -> str | FeatureSet | None:
    """A name of a set as it is; a file's features, declared anew so that they learn from this log."""
    from placings.rerank import FEATURE_SETS

    if features is None or features in FEATURE_SETS:
        return features
    from placings.core import UnknownName
    from placings.features import read_features

    if not features.endswith(".json") and not Path(features).is_file():
        raise UnknownName("features", features, (*FEATURE_SETS, "a file such as features.json"))
    return read_features(features)


def _read_propensity(told: str | None) -> Any:
    """A curve from a file, "log", or None."""
    if told is None or told == "log":
        return told
    from placings.cli.checks import check_inputs
    from placings.core import BadFile, BadInput, read_json
    from placings.logs import PropensityCurve

    check_inputs(told)
    try:
        return PropensityCurve.from_state(read_json(Path(told)))
    except BadInput as error:
        raise BadFile(
            told, f"{error} Write one with: placings log propensity LOG --out curve.json"
        ) from error


def _choose_features(log: ClickLog) -> str:
    from placings.places import choose_preset

    return choose_preset(log.rows)


def _say_fit(found: dict[str, Any], reranker: Any) -> list[str]:
    judged = ", ".join(f"{name} {value:.4f}" for name, value in found["valid_mrr"].items())
    lines = [
        f"learned from {found['lists']:,} lists, {found['features']} features; MRR on validation: {judged}",
        *(f"  {note}" for note in found["left_out"]),
    ]
    if reranker.debias_ is not None:
        lines.append(_say_debias(reranker.debias_))
    if reranker.guard_ is not None:
        lines += ["", str(reranker.guard_), ""]
    where = found["out"]
    lines.append(f"kept in {where} (digest {found['digest'][:12]}…)")
    lines.append(f"next: placings rerank evaluate {where} LOG")
    return lines


def _say_debias(facts: Mapping[str, Any]) -> str:
    """Which of the two models was taken, and what its propensities rest on."""
    on = facts.get("rests_on", "the log's column propensity")
    if facts.get("power") == 0.0:
        return (
            f"plain clicks were taken: {facts['clicks']:,} are too few to be weighed by their propensity "
            f"({facts['least_clicks']:,.0f} are needed); propensities rest on {on}"
        )
    both = f"{facts['difference']:+.4f} ± {facts['standard_error']:.4f} in {facts['metric']}"
    verdict = {
        "weighted": "clicks were weighed by their propensity: not shown to be worse than plain clicks",
        "naive": "plain clicks were taken: weighing them by their propensity was shown to be worse",
    }[facts["chosen"]]
    part = facts.get("power", 1.0)
    some = "" if part == 1.0 else f"; clicks are few, so weights were raised to the power {part:.2f}"
    return f"{verdict} ({both} over {facts['lists']:,} lists{some}); propensities rest on {on}"


def _as_plain(fields: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
