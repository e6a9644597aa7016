"""`placings evaluate` and `placings compare`: how good rankings are, and which of them is better."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.completion import complete_metrics, complete_rankers
from placings.cli.loading import split_names
from placings.cli.options import (
    COLUMNS,
    AsJson,
    ColumnOptions,
    FoldNumber,
    Propensity,
    Split,
    SplitBy,
    WithEngine,
    takes,
)
from placings.cli.printing import check_format, print_json, print_note, print_result, print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from placings.core import AnyArray, Floats
    from placings.data import RankingData
    from placings.evaluation import Comparison, RunFolder
    from placings.rankers import Ranker

METRICS = "ndcg@1,ndcg@5,ndcg@10,mrr"
TABLE_METRICS = "ndcg@1,ndcg@5,ndcg@10"
READING = ("fold", "split", *COLUMNS, "propensity")
SHARED = ("metrics", "by", "empty", "min_items", "bootstrap", "cluster", "seed", "out", *READING)
EVALUATE_OPTIONS = ("model", "scores", *SHARED)
COMPARE_OPTIONS = (
    "model", "scores", "rankers", "folds", "seeds", "tune", "baseline", "second", "test", "alpha",
    "permutations", "split_by", "engine", *SHARED,
)  # fmt: skip


class Empty(StrEnum):
    """What a query with nothing relevant counts."""

    drop = "drop"
    zero = "zero"
    one = "one"


class ComparisonFormat(StrEnum):
    """How a table is written."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    html = "html"
    json = "json"


DataPath = Annotated[
    list[Path],
    typer.Argument(help="The data to judge on: a file, several or a glob, or a known collection's folder."),
]
Metrics = Annotated[
    str | None,
    typer.Option(help="What to judge by, with commas, e.g. ndcg@5,mrr.", autocompletion=complete_metrics),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        help="Slices: a segment column, list_size, has_relevant, relevant_items, or frequency: head, torso "
        "and tail, by how often a query is asked.",
        metavar="SEGMENT",
    ),
]
EmptyRule = Annotated[Empty | None, typer.Option(help="Queries with nothing relevant: left out, 0 or 1.")]
MinItems = Annotated[int | None, typer.Option(min=0, help="Leave out queries with fewer rows.", metavar="N")]
Draws = Annotated[int | None, typer.Option(min=0, help="Draws behind the intervals; 0 skips them.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="What intervals resample: auto (users or sessions, if the data know them), query, or a segment.",
        metavar="SEGMENT",
    ),
]
Seed = Annotated[int | None, typer.Option(help="The same seed gives the same numbers.")]
Config = Annotated[Path | None, typer.Option(help="A YAML file of these options; flags win.")]
CompareConfig = Annotated[
    Path | None,
    typer.Option(help="A YAML file of these options, or a best.yaml as one of --rankers; flags win."),
]
Out = Annotated[Path | None, typer.Option(help="A folder for the tables, the values of each query, the run.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another run in that folder.")]


@dataclass(frozen=True)
class Judging(ColumnOptions):
    """What evaluate and compare share: how to read the data, and what to judge by."""

    metrics: Metrics = None
    by: By = None
    empty: EmptyRule = None
    min_items: MinItems = None
    bootstrap: Draws = None
    cluster: Cluster = None
    seed: Seed = None
    fold: FoldNumber = None
    split: Split = None
    propensity: Propensity = None


@takes(Judging, "judging")
def evaluate_files(
    data: DataPath,
    *,
    model: Annotated[
        Path | None, typer.Option(help="A bundle, or a run's folder, as `placings fit` saved it.")
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(help="Scores: a number a line, or a table with qid, item, score.")
    ] = None,
    judging: Judging,
    config: Config = None,
    out: Out = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Judge a model, or scores from elsewhere: means with intervals, and the rule they follow.

    \b
    Examples:
      placings evaluate test.txt --model runs/first/model
      placings evaluate test.txt --scores scores.csv --metrics ndcg@5,mrr --by list_size
      placings evaluate MQ2008 --fold 1 --split test --model runs/first/model --json
    """
    from placings.cli.loading import gather_files, read_config
    from placings.evaluation import evaluate, give_scores

    files = gather_files(data)
    flags: dict[str, Any] = {
        "model": model, "scores": scores, "out": out, **asdict(judging),
    }  # fmt: skip
    chosen = {**read_config(config, EVALUATE_OPTIONS, evaluate_files), **_given(flags)}
    if (chosen.get("model") is None) == (chosen.get("scores") is None):
        raise typer.BadParameter("name one of --model and --scores.")
    names = split_names(chosen.get("metrics", METRICS))
    _check(files, chosen, names, [chosen.get("scores")])
    rankers: list[Ranker] = []
    if chosen.get("model") is not None:
        from placings.rankers import load_ranker

        rankers = [load_ranker(chosen["model"])]
    rows, together = read_judged(files, chosen, rankers)
    _check_rows(rows, chosen, names)
    with _start(chosen, "evaluate", files, rows, overwrite) as run:
        if rankers:
            judged = give_scores(rankers[0], rows)
        else:
            judged = _match_scores(Path(chosen["scores"]), rows, files, chosen, together)
        result = evaluate(judged, rows, names, **_settings(chosen))
        if run is not None:
            run.log(result.means)
            run.write_text("evaluation.json", result.to_json() + "\n")
            run.write_text("evaluation.md", _join(result.table("markdown"), result.slice_table("markdown")))
            _write_queries(run, rows.qids, None, {"": result.per_query})
            _draw_ranks(run, {"": judged}, rows, chosen)
    if as_json:
        print_json(result.to_json())
        return
    print_text(_join(result.table(), result.slice_table()))


@takes(Judging, "judging")
def compare_files(
    data: DataPath,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A bundle and its name; the same name again is another seed.", metavar="NAME=BUNDLE"
        ),
    ] = None,
    scores: Annotated[
        list[str] | None, typer.Option(help="A file of scores and its name, alike.", metavar="NAME=FILE")
    ] = None,
    rankers: Annotated[
        str | None,
        typer.Option(
            help="Or train these on folds: lightgbm,ridge,ridge:gauss (over a transform), "
            "runs/tuned/best.yaml, …",
            autocompletion=complete_rankers,
        ),
    ] = None,
    folds: Annotated[int | None, typer.Option(min=1, help="Folds to train on.", metavar="N")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Train so often, averaged.", metavar="N")] = None,
    tune: Annotated[
        int | None, typer.Option(min=0, help="Tune every ranker with this many trials per fold.", metavar="N")
    ] = None,
    engine: WithEngine = None,
    baseline: Annotated[
        str | None, typer.Option(help="The method to beat: † and ▼; the engine, where it is in the table.")
    ] = None,
    second: Annotated[str | None, typer.Option(help="A second one: ‡ and ▽.")] = None,
    test: Annotated[str | None, typer.Option(help="Behind the marks: randomisation or t.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Significant from this p-value, after Holm.")] = None,
    permutations: Annotated[
        int | None, typer.Option(min=1, help="Sign flips of the randomisation test.")
    ] = None,
    split_by: SplitBy = None,
    judging: Judging,
    config: CompareConfig = None,
    out: Out = None,
    overwrite: Overwrite = False,
    format: Annotated[
        ComparisonFormat, typer.Option(help="How the tables are printed.")
    ] = ComparisonFormat.text,
    as_json: AsJson = False,
) -> None:
    """Compare models, scores, or rankers trained on folds: differences, tests, and who is better.

    Where the data know the order that the engine gave, it stands in the table by itself, and is the method
    to beat unless --baseline names another. --no-engine leaves it out.

    \b
    Examples:
      placings compare test.txt --model old=runs/old/model --model new=runs/new/model --baseline old
      placings compare test.txt --scores engine=engine.csv --scores ours=ours.csv --format latex
      placings compare MQ2008 --rankers lightgbm,ranksvm,ridge --tune 20 --baseline lightgbm --out runs/mq
      placings compare train.txt --rankers lightgbm,ridge:log1p,ridge:cdf --baseline lightgbm
    """
    from placings.cli.loading import gather_files

    flags: dict[str, Any] = {
        "model": model, "scores": scores, "rankers": rankers, "folds": folds, "seeds": seeds, "tune": tune,
        "baseline": baseline, "second": second, "test": test, "alpha": alpha, "permutations": permutations,
        "split_by": split_by, "engine": engine, "out": out, **asdict(judging),
    }  # fmt: skip
    chosen = _read_comparison(config, _given(flags))
    named = chosen.get("model") or chosen.get("scores")
    if bool(named) == bool(chosen.get("rankers")):
        raise typer.BadParameter("name models and scores to compare, or --rankers to train.")
    shown = "json" if as_json else format.value
    check_format(shown)
    files = gather_files(data)
    compared = _compare_given if named else _compare_trained
    result = compared(files, chosen, overwrite)
    print_result(result, shown)


def _compare_given(data: Path | list[Path], chosen: Mapping[str, Any], overwrite: bool) -> Comparison:
    from placings.evaluation import ENGINE, compare, find_engine, give_scores
    from placings.rankers import load_ranker

    names = split_names(chosen.get("metrics", TABLE_METRICS))
    models, files = _parse_names(chosen.get("model")), _parse_names(chosen.get("scores"))
    given = [name for name, _ in [*models, *files]]
    _check_methods(given, names, chosen)
    _check(data, chosen, names, [place for _, place in files])
    loaded = [(name, load_ranker(place)) for name, place in models]
    rows, together = read_judged(data, chosen, [ranker for _, ranker in loaded])
    _check_rows(rows, chosen, names)
    chosen = _with_engine(chosen, given, [rows])
    with _start(chosen, "compare", data, rows, overwrite) as run:
        methods: dict[str, list[Floats]] = {}
        if chosen.get("engine"):
            methods[ENGINE] = [as_known(find_engine(rows))]
        for name, ranker in loaded:
            methods.setdefault(name, []).append(give_scores(ranker, rows))
        for name, place in files:
            methods.setdefault(name, []).append(_match_scores(Path(place), rows, data, chosen, together))
        result = compare(methods, rows, names, **_settings(chosen), **_testing(chosen))
        if run is not None:
            figure = _draw_ranks(run, {name: runs[0] for name, runs in methods.items()}, rows, chosen)
            _write_comparison(run, result, figure)
    return result


def _check_methods(methods: Iterable[str], metrics: list[str], chosen: Mapping[str, Any]) -> None:
    """Refuse methods and tests that cannot be compared; the engine may be named before the data are read."""
    from placings.evaluation import ENGINE, check_comparing

    asked = [chosen.get("baseline"), chosen.get("second")]
    more = [ENGINE] if chosen.get("engine", True) and ENGINE in asked and ENGINE not in methods else []
    check_comparing([*more, *methods], metrics, **_testing(chosen))


def _with_engine(
    chosen: Mapping[str, Any], methods: Iterable[str], parts: Sequence[RankingData]
) -> dict[str, Any]:
    """The options with `engine` only where its order is one more method, then the baseline unless named."""
    from placings.evaluation import ENGINE, add_engine

    asked = {name: value for name, value in chosen.items() if name != "engine"}
    baseline = ENGINE if ENGINE in (chosen.get("baseline"), chosen.get("second")) else None
    if not add_engine(list(methods), parts, bool(chosen.get("engine", True)), baseline):
        if chosen.get("engine") and ENGINE not in methods:
            raise typer.BadParameter("--engine needs data with a column position or engine_score.")
        return asked
    return {"baseline": ENGINE, **asked, "engine": True}


def as_known(scores: Floats | None) -> Floats:
    """Scores that were found before."""
    if scores is None:
        raise AssertionError("the engine's order is known")
    return scores


def _compare_trained(data: Path | list[Path], chosen: Mapping[str, Any], overwrite: bool) -> Comparison:
    from placings.cli.loading import is_folder, read_data, take_options
    from placings.cli.printing import say_when_stopped
    from placings.core import write_json
    from placings.evaluation import CELLS, ENGINE, compare_trained, read_folds
    from placings.rankers import OriginalOrder

    reading = {name: chosen[name] for name in READING if chosen.get(name) is not None}
    for name in ("fold", "split"):
        if name in reading:
            raise typer.BadParameter(f"--{name} and --rankers do not go together: all folds are trained on.")
    settings = _settings(chosen)
    names = split_names(chosen.get("metrics", TABLE_METRICS))
    entrants = _make_entrants(split_names(chosen["rankers"]))
    _check_methods(entrants, names, chosen)
    _check(data, chosen, names)
    if not is_folder(data) and chosen.get("folds") is not None and int(chosen["folds"]) < 3:
        raise typer.BadParameter(f"--folds must be 3 or more: train, validate, test. Got {chosen['folds']}.")
    if chosen.get("tune"):
        from placings.cli.checks import check_library

        check_library("optuna", "tuning", "optuna", "tune")
    group = str(chosen.get("split_by", "auto"))
    whole: Any = read_data(data, **reading) if isinstance(data, list) else data
    parts = read_folds(whole, chosen.get("folds"), settings["random_state"], take_options(reading), group)
    known = [each for each in entrants if not isinstance(entrants[each], OriginalOrder)]
    alone = len(known) == len(entrants)  # the engine's order was not asked for as a ranker
    if alone or chosen.get("engine"):
        chosen = _with_engine(chosen, entrants, [test for _, _, test in parts])
    else:
        chosen = {name: value for name, value in chosen.items() if name != "engine"}
    if chosen.get("engine"):
        entrants = {ENGINE: OriginalOrder(), **entrants}
    training = {name: chosen[name] for name in ("seeds", "tune") if chosen.get(name) is not None}
    common = {**settings, **_testing(chosen), **training, "metrics": names, "progress": True}
    tests = {f"test {number}": test for number, (_, _, test) in enumerate(parts, 1)}
    asked = {**chosen, "settings": {name: each.get_params(deep=False) for name, each in entrants.items()}}
    out = chosen.get("out")
    kept = "nothing is kept; with --out the finished cells would be."
    if out is not None:
        kept = f"the finished cells are in {Path(out) / CELLS}; the same command goes on."
    with say_when_stopped(kept), _start(_name_files(asked), "compare", data, tests, overwrite) as run:
        contest = compare_trained(parts, entrants, out=out, **common)
        if run is not None:
            _write_comparison(run, contest.comparison)
            run.write_text("parameters.json", write_json(contest.parameters) + "\n")
    return contest.comparison


def _name_files(asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked; settings only where a file gave them, so that earlier runs go on."""
    files = [name for name in split_names(asked["rankers"]) if _is_file(name)]
    return asked if files else {name: value for name, value in asked.items() if name != "settings"}


def _make_entrants(names: list[str]) -> dict[str, Ranker]:
    """Rankers by their short names, `NAME:TRANSFORM` over a transform; a best.yaml by its folder."""
    from placings.cli.checks import check_ranker
    from placings.cli.loading import POSITIVE_WEIGHT, read_settings, read_tuned
    from placings.core import BadInput

    entrants: dict[str, Ranker] = {}
    for name in names:
        if not _is_file(name):
            entrants[name] = check_ranker(name, {})
            continue
        tuned = read_tuned(Path(name))
        if tuned.get(POSITIVE_WEIGHT) not in (None, 1.0):
            raise BadInput(
                f"{name} weighs the training rows ({POSITIVE_WEIGHT}), which compare does not. Train it with "
                "placings fit, and compare the model with --model."
            )
        short = str(tuned["ranker"])
        own = f"{short} ({Path(name).resolve().parent.name})"
        entrants[own] = check_ranker(short, read_settings(tuned.get("set")))
    return entrants


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _read_comparison(config: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """The options of a configuration under the flags; a best.yaml is one more ranker to train."""
    from placings.cli.loading import is_tuned, read_config, read_options

    if config is None or not is_tuned(read_options(config)):
        return {**read_config(config, COMPARE_OPTIONS, compare_files), **flags}
    rankers = [*split_names(flags.get("rankers", "")), str(config)]
    return {**flags, "rankers": ",".join(rankers)}


def _check(
    data: Path | list[Path],
    chosen: Mapping[str, Any],
    metrics: list[str],
    scores: Sequence[str | Path | None] = (),
) -> None:
    """Refuse what would fail after the work: metrics, rules, and paths that cannot be read or written."""
    from placings.cli.checks import check_folder, check_inputs, check_metrics
    from placings.core import check_name
    from placings.metrics import EMPTY

    check_metrics(metrics)
    if chosen.get("empty") is not None:
        check_name("empty rule", str(chosen["empty"]), EMPTY)
    if chosen.get("out") is not None:
        check_folder(chosen["out"])
    check_inputs(data, *scores)


def _check_rows(rows: RankingData, chosen: Mapping[str, Any], metrics: list[str]) -> None:
    """Refuse slices, clusters and propensities that the data do not have, before anything is scored."""
    from placings.data import find_clusters
    from placings.evaluation import check_propensity, find_groups

    check_propensity(metrics, rows)
    if chosen.get("cluster") not in (None, "auto"):
        find_clusters(rows, chosen["cluster"])
    find_groups(_settings(chosen).get("slices"), [rows])


# -- reading ---------------------------------------------------------------------------------------


def read_judged(
    path: Path | list[Path], chosen: Mapping[str, Any], models: Sequence[Ranker] = ()
) -> tuple[RankingData, bool]:
    """The data as these models need them, and whether reading it left all rows at their places."""
    import warnings

    from placings.cli.loading import read_data
    from placings.core import Joined

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options: dict[str, Any] = {name: chosen.get(name) for name in READING}
        data = read_data(path, models=models, **options)
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return data, not any(issubclass(each.category, Joined) for each in caught)


def _match_scores(
    file: Path, rows: RankingData, data: Path | list[Path], chosen: Mapping[str, Any], together: bool
) -> Floats:
    from placings.evaluation import read_scores, stands_together

    found = read_scores(file)
    if found.qid is None and together:
        several = data if isinstance(data, list) else [data]
        together = all(stands_together(each, chosen) for each in several)
    return found.match(rows, together=together)


def _parse_names(given: Any) -> list[tuple[str, str]]:
    if hasattr(given, "items"):  # in a configuration file: name: path
        return [(str(name), str(place)) for name, place in given.items()]
    pairs = []
    for text in given or []:
        name, sign, place = str(text).partition("=")
        if not sign or not name.strip() or not place:
            raise typer.BadParameter(f"write NAME=PATH, such as old=runs/old/model. Got {text!r}.")
        pairs.append((name.strip(), place))
    return pairs


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None and value != []}


def _settings(chosen: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"random_state": int(chosen.get("seed", 0))}
    settings |= {name: chosen[name] for name in ("min_items", "bootstrap", "cluster") if name in chosen}
    if "empty" in chosen:
        settings["empty"] = str(chosen["empty"])
    if chosen.get("by"):
        settings["slices"] = split_names(chosen["by"])
    return settings


def _testing(chosen: Mapping[str, Any]) -> dict[str, Any]:
    own = ("baseline", "test", "alpha", "permutations")
    names = {"second": "second_baseline", **{name: name for name in own}}
    return {keyword: chosen[name] for name, keyword in names.items() if chosen.get(name) is not None}


# -- writing ---------------------------------------------------------------------------------------


@contextmanager
def _start(
    chosen: Mapping[str, Any], command: str, path: Path | list[Path], data: Any, overwrite: bool
) -> Iterator[RunFolder | None]:
    """The run's folder, or None without --out."""
    from placings.cli.fitting import open_run
    from placings.cli.loading import name_data

    if chosen.get("out") is None:
        yield None
        return
    config = {**{name: value for name, value in chosen.items() if name != "out"}, "path": name_data(path)}
    with open_run(Path(chosen["out"]), command, config, data, overwrite=overwrite) as run:
        yield run


def _write_comparison(run: RunFolder, result: Comparison, figure: str = "") -> None:
    from placings.core import MissingExtra, fit_width
    from placings.report import render_result_page

    run.log(
        {f"{method} {name}": mean for method, means in result.means.items() for name, mean in means.items()}
    )
    run.write_text("comparison.json", result.to_json() + "\n")
    for suffix, kind in [("txt", "text"), ("md", "markdown"), ("tex", "latex")]:
        with fit_width(None):  # a file is as wide as its tables
            run.write_text(f"comparison.{suffix}", result.report(kind) + "\n")
    try:
        run.write_text("comparison.html", render_result_page(result, figure=figure) + "\n")
    except MissingExtra as error:
        print_note(f"no comparison.html: {error}")
    _write_queries(run, result.qids, result.fold, result.per_query)


def _write_queries(
    run: RunFolder, qids: AnyArray, fold: AnyArray | None, values: Mapping[str, Mapping[str, Floats]]
) -> None:
    """The value of each query, one column a method and metric; empty where it was not scored."""
    import pyarrow as pa
    import pyarrow.csv

    from placings.core import escape_cell, write_atomically

    columns: dict[str, Any] = {"qid": pa.array([str(qid) for qid in qids.tolist()])}
    if fold is not None:
        columns["fold"] = pa.array(fold)
    for method, metrics in values.items():
        for name, each in metrics.items():
            columns[escape_cell(f"{method} {name}".strip())] = pa.array(each, from_pandas=True)
    with write_atomically(run.path / "per_query.csv") as part:
        pa.csv.write_csv(pa.table(columns), str(part))


def _draw_ranks(
    run: RunFolder, methods: Mapping[str, Any], data: RankingData, chosen: Mapping[str, Any]
) -> str:
    """The rank of the first relevant item as a figure, where matplotlib is installed; its SVG text."""
    from placings.core import MissingExtra
    from placings.evaluation import rank_distribution
    from placings.report import draw_rank_distribution

    least = chosen.get("min_items", 1)
    ranks = {
        name or "model": rank_distribution(each, data, min_items=least).ranks
        for name, each in methods.items()
    }
    try:
        figure = draw_rank_distribution(ranks)
    except MissingExtra as error:
        print_note(f"no figure: {error}")
        return ""
    run.write_text("first_relevant.svg", figure + "\n")
    return figure


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
