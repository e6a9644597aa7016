"""`placings reproduce`: the documents' experiments, each one command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placings.cli.completion import complete_rankers, complete_transforms
from placings.cli.flags import PlainFlags
from placings.cli.options import AsJson, Format, Label, Missing, Qid, Seed, StudyFolder, TableFormat, Verbose
from placings.cli.printing import (
    check_format,
    choose_progress,
    print_aside,
    print_json,
    print_result,
    print_text,
)

PEOPLE = 400  # of a crowd in the live loop

app = typer.Typer(
    cls=PlainFlags,
    help="Run an experiment of the papers again, on their data or on yours.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class Keep(StrEnum):
    """Which weights score the test part."""

    best = "best"
    last = "last"


@app.callback()
def open_reproduce() -> None:
    """Run an experiment of the papers again, on their data or on yours."""


@app.command("table1")
def run_table1(
    data: Annotated[
        Path, typer.Argument(metavar="PATH", help="A WEB30K or Istella folder, or any data to make folds of.")
    ],
    out: StudyFolder = Path("table1"),
    methods: Annotated[
        str, typer.Option(help="Transforms to compare, with commas.", autocompletion=complete_transforms)
    ] = "raw,gauss,cdf,log1p,mixture",
    linear: Annotated[
        bool, typer.Option("--linear/--no-linear", help="A ridge over each transform beside them.")
    ] = True,
    trees: Annotated[bool, typer.Option("--trees", help="LightGBM and CatBoost beside them.")] = False,
    attention: Annotated[bool, typer.Option("--attention", help="Every method over attention, too.")] = False,
    groupwise: Annotated[
        bool, typer.Option("--groupwise", help="Every method scored groupwise, too.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Train so often, averaged.", metavar="N")] = 3,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps; the preset's by default.", metavar="N")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; cuda where there is one.")] = None,
    folds: Annotated[
        str | None,
        typer.Option(help="How many (5), or which (1,3). Fold1 of WEB30K, 5 of others, by default."),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate; chosen on validation data by default.")
    ] = None,
    preset: Annotated[str, typer.Option(help="zhuang2020 (the paper's) or default.")] = "zhuang2020",
    keep: Annotated[Keep, typer.Option(help="Weights of the best check on validation data, or the last.")] = (
        Keep.best
    ),
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the neural rankers: hidden=[64,32].")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Significant from this p-value, after Holm.")] = 0.05,
    seed: Annotated[int, typer.Option(help="The first seed; the same gives the same.")] = 0,
    missing: Missing = None,
    qid: Qid = None,
    label: Label = None,
    verbose: Verbose = False,
    format: TableFormat = Format.text,
    as_json: AsJson = False,
) -> None:
    """Table 1 of the feature transformation paper: Raw, Gauss, CDF, Log1p and Mixture, with tests.

    A ridge over each transform stands beside the networks. Finished cells (method, fold, seed) are kept
    in --out: run the same command again to go on. The tables are printed beside the paper's, and written
    there as JSON, Markdown and LaTeX, with Figure 2.

    \b
    Examples:
      placings reproduce table1 MSLR-WEB30K --device cuda
      placings reproduce table1 istella --lr 0.1 --trees --out runs/istella
      placings reproduce table1 train.txt --preset default --seeds 5 --folds 5
      placings reproduce table1 rows.parquet --steps 500 --set hidden=[64,32] --set batch=32
    """
    from placings.cli.checks import check_folder
    from placings.cli.loading import parse_settings, split_names
    from placings.cli.printing import say_when_stopped
    from placings.studies import reproduce_table1

    reading = {"missing": missing, "qid": qid, "label": label}
    chosen = parse_settings(settings or [])
    numbers = parse_folds(folds)
    check_folder(out)
    check_format(format.value)
    with say_when_stopped(f"the finished cells are in {out / 'cells'}; the same command goes on."):
        table = reproduce_table1(
            data,
            methods=split_names(methods),
            seeds=seeds,
            steps=steps,
            device=device,
            folds=numbers,
            linear=linear,
            trees=trees,
            attention=attention,
            groupwise=groupwise,
            lr=lr,
            preset=preset,
            keep=keep.value,
            settings=chosen,
            out=out,
            random_state=seed,
            alpha=alpha,
            reading={name: value for name, value in reading.items() if value is not None},
            progress=choose_progress(verbose),
        )
    print_result(table, "json" if as_json else format.value, "Table 1, reproduced")
    if not as_json:
        print_aside(f"\nkept in {out}")


@app.command("coverage-drop")
def run_coverage_drop(
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="Folder of MSLR's sample (train and vali files)."),
    ] = None,
    out: StudyFolder = Path("coverage-drop"),
    parts: Annotated[str, typer.Option(help="mslr, generated, or both with a comma.")] = "mslr,generated",
    rankers: Annotated[
        str,
        typer.Option(
            help="Rankers to compare, with commas; ridge:gauss is a ridge over a transform.",
            autocompletion=complete_rankers,
        ),
    ] = "lightgbm,ridge,ridge:quantile_normal",
    ids: Annotated[
        str, typer.Option(help="MSLR's features to mask, by number from 1.")
    ] = "8,55,134,108,127,128,130",
    drops: Annotated[str, typer.Option(help="Shares that lose the feature.")] = "0.05,0.25,0.5",
    folds: Annotated[int, typer.Option(min=2, help="Query folds of MSLR's sample.", metavar="N")] = 5,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of masks; 20 in test data.", metavar="N")
    ] = None,
    retrained: Annotated[int | None, typer.Option(min=1, help="Draws that retrain; 3.", metavar="N")] = None,
    queries: Annotated[
        int, typer.Option(min=20, help="Size of the generated data; 840 are 100,000 rows.", metavar="N")
    ] = 840,
    compared: Annotated[
        int, typer.Option(min=3, help="Features whose importance is held against their impact.", metavar="N")
    ] = 20,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """The coverage paper's tables: what NDCG loses when a feature loses 5, 25 and 50 % of its coverage.

    Finished cells are kept in --out: run the same command again to go on. The tables are printed, in a
    pipe or a file as Markdown, and written there with figures.

    \b
    Examples:
      placings reproduce coverage-drop mslr_sample --out runs/coverage-drop
      placings reproduce coverage-drop --parts generated --queries 840
      placings reproduce coverage-drop mslr_sample --parts mslr --ids 134,8 --folds 3 --draws 5 --retrained 1
    """
    from placings.cli.checks import check_folder
    from placings.cli.coverage_costs import parse_shares
    from placings.cli.loading import split_names
    from placings.cli.printing import say_when_stopped
    from placings.core import find_width, write_json
    from placings.studies import study_coverage_drop

    numbers = parse_folds(ids if "," in ids else f"{ids},")
    counts = {"test": draws or 20, "train+test": retrained or 3} if draws or retrained else None
    shares = parse_shares(drops)
    check_folder(out)
    with say_when_stopped(f"the finished cells are in {out / 'cells'}; the same command goes on."):
        study = study_coverage_drop(
            data, out, parts=split_names(parts), rankers=split_names(rankers), drops=shares,
            ids=numbers if isinstance(numbers, list) else [], folds=folds, draws=counts, queries=queries,
            compared=compared, random_state=seed, progress=True,
        )  # fmt: skip
    shown = "markdown" if find_width() is None else "text"  # a terminal has no room for pipes
    print_json(write_json(study.to_dict())) if as_json else print_text(study.report(shown))
    if not as_json:
        print_aside(f"kept in {out}")


@app.command("live")
def run_live(
    out: StudyFolder = Path("live"),
    seeds: Annotated[
        int, typer.Option(min=1, help="Crowds of people, one after the other.", metavar="N")
    ] = 3,
    people: Annotated[int, typer.Option(min=1, help="People in each crowd.", metavar="N")] = PEOPLE,
    before: Annotated[
        int, typer.Option(min=1, help="Weeks on the bare engine, whose log comes first.", metavar="N")
    ] = 3,
    weeks: Annotated[int, typer.Option(min=1, help="Weeks through the service.", metavar="N")] = 3,
    places: Annotated[
        Path | None, typer.Option(help="A file of places in place of GeoNames' cities.", metavar="FILE")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """The loop over HTTP: serve, feedback, export, join, fit, reload, week after week.

    Simulated people search through `placings serve`, in a process of its own, and beside it on the bare
    engine. Finished seeds are kept in --out: run the same command again to go on. The table is printed, and
    written there with a page and a picture. Exit 1: an acknowledged click is not where it must be.

    \b
    Examples:
      placings reproduce live --out out/live
      placings reproduce live --seeds 1 --people 100 --before 1 --weeks 2 --places places.jsonl
    """
    from placings.cli.checks import check_folder
    from placings.cli.printing import say_when_stopped
    from placings.places import read_places
    from placings.studies import LiveLoopSettings, run_live_loop

    settings = LiveLoopSettings(people=people, before=before, weeks=weeks)
    known = None if places is None else read_places(places)
    check_folder(out)
    with say_when_stopped(f"the finished seeds are in {out / 'cells'}; the same command goes on."):
        found = run_live_loop(
            out, seeds=range(seed, seed + seeds), settings=settings, places=known,
            progress=True,
        )  # fmt: skip
    print_json(found.to_json()) if as_json else print_text(found.table())
    if not as_json:
        print_aside(f"\nkept in {out}; open {out / 'index.html'}")
    if not found.nothing_lost:
        raise typer.Exit(1)


def parse_folds(text: str | None) -> int | list[int] | None:
    """`5` is how many, `1,3` which.

    >>> parse_folds("5"), parse_folds("1,3"), parse_folds("2,")
    (5, [1, 3], [2])
    """
    from placings.core import BadInput

    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise BadInput(f"--folds is how many, such as 5, or which, such as 1,3. Got {text!r}.")
    return numbers if "," in text else numbers[0]
