"""`placings demo`: generated data, read, inspected, split, scored and judged, with a page to open."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.inspection import SKEWED

if TYPE_CHECKING:
    from collections.abc import Callable

    from placings.arrays import AnyArray
    from placings.data.ranking import RankingData
    from placings.data.synthetic import Planted
    from placings.evaluation.verdicts import Comparison

LINEAR = "linear (ridge)"
METRIC_NAMES = ("ndcg@1", "ndcg@5", "ndcg@10", "mrr", "map")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the data and the page.")] = Path("placings-demo"),
    queries: Annotated[int, typer.Option(min=50, help="Queries to generate.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
) -> None:
    """Generate ranking data, look at it, train rankers on it and say which is better.

    \b
    Examples:
      placings demo
      placings demo --queries 2000 --seed 7 --out /tmp/demo
    """
    from rich.console import Console

    from placings.data.quality import describe_features
    from placings.data.reading import read, write
    from placings.data.summary import describe_text
    from placings.data.synthetic import make_ranking

    console = Console(highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    made = make_ranking(queries, random_state=seed)
    file = out / "rows.txt.gz"
    write(made.data, file)
    (out / "feature_names.txt").write_text("\n".join(made.data.feature_names) + "\n")
    data = read(file)
    console.print(f"[bold]1. The data[/bold], written to {file} and read back\n", soft_wrap=True)
    console.print(describe_text(data), end="\n\n")
    facts = describe_features(data)
    skewed = sorted((fact for fact in facts if abs(fact.skew) >= SKEWED), key=lambda fact: -abs(fact.skew))
    console.print(f"[bold]2. The features[/bold]: {len(skewed)} of {len(facts)} are skewed, worst first\n")
    for fact in skewed[:5]:
        console.print(f"   {fact.name:<32} skew {fact.skew:8.1f}   largest {fact.maximum:.3g}")
    console.print(f"   all of them: placings inspect {file} --sort skew\n", soft_wrap=True)
    train, test = data.split(0.7, 0.3, random_state=seed)
    console.print(f"[bold]3. Who ranks better[/bold]: trained on {len(train)} queries, judged on {len(test)}")
    result = judge(train, test, seed)
    typer.echo(f"\n{result.table()}")
    page = write_demo_page(out / "index.html", data, facts, made.truth, result, queries, seed)
    console.print(f"\nopen {page}", soft_wrap=True)


def judge(train: RankingData, test: RankingData, seed: int) -> Comparison:
    """Five or six ways to order the test queries, compared query by query."""
    import numpy as np

    from placings.evaluation.comparison import compare
    from placings.metrics import ndcg
    from placings.rankers.linear import LinearRanker

    lone = int(np.argmax([np.nanmean(ndcg(x, train.y, train.offsets, k=10)) for x in np.asarray(train.X).T]))
    scores: dict[str, AnyArray] = {
        "chance": np.random.default_rng(seed).random(test.n_rows),
        f"one feature ({test.feature_names[lone]})": np.asarray(test.X)[:, lone],
    }
    for name, transform in list_transforms(np.asarray(train.X)).items():
        fitted = LinearRanker(loss="ridge").fit(train.replace(X=transform(np.asarray(train.X))))
        scores[f"{LINEAR}, {name}"] = fitted.predict(transform(np.asarray(test.X)))
    if find_spec("lightgbm") is not None:
        from placings.rankers.lgbm import LightGBMRanker

        learn, watch = train.split(0.8, 0.2, random_state=seed)
        scores["LightGBM"] = LightGBMRanker(random_state=seed).fit(learn, valid=watch).predict(test)
    return compare(scores, test, METRIC_NAMES, baseline=f"{LINEAR}, raw", random_state=seed)


def list_transforms(known: AnyArray) -> dict[str, Callable[[AnyArray], AnyArray]]:
    """What may be done to every feature before it is added up."""
    import numpy as np

    ordered = np.sort(known, axis=0)

    def rank_against(X: AnyArray) -> AnyArray:
        places = [np.searchsorted(ordered[:, j], X[:, j]) for j in range(X.shape[1])]
        return np.asarray(np.stack(places, axis=1) / len(ordered), dtype=np.float32)

    return {"raw": lambda X: X, "log1p": lambda X: np.sign(X) * np.log1p(np.abs(X)), "cdf": rank_against}


def write_demo_page(
    path: Path,
    data: RankingData,
    facts: Any,
    truth: tuple[Planted, ...],
    result: Comparison,
    queries: int,
    seed: int,
) -> Path:
    """The page to open: the same facts as pictures."""
    import numpy as np

    from placings.data.summary import describe_facts
    from placings.report.figures import draw_histogram, draw_means, draw_shares, draw_spark
    from placings.report.pages import write_page
    from placings.report.rank_figures import draw_rank_distribution

    grades, counts = np.unique(data.y, return_counts=True)
    shares = {f"{grade:g}": count / data.n_rows for grade, count in zip(grades, counts, strict=True)}
    rows = [
        {
            "name": fact.name,
            "minimum": f"{fact.minimum:.3g}",
            "median": f"{fact.median:.3g}",
            "maximum": f"{fact.maximum:.3g}",
            "skew": f"{fact.skew:.1f}",
            "skewed": abs(fact.skew) >= SKEWED,
            "zeros": f"{fact.zeros:.0%}",
            "spark": draw_spark(fact.shape),
            "planted": planted.scale or "",
        }
        for fact, planted in zip(facts, truth, strict=True)
    ]
    return write_page(
        path,
        "demo.html",
        seed=seed,
        queries=queries,
        facts=describe_facts(data),
        labels_figure=draw_shares(shares, xlabel="label"),
        sizes_figure=draw_histogram(data.sizes, xlabel="rows a query"),
        table=result.table("html"),
        means_figure=draw_means(
            {name: values["ndcg@10"] for name, values in result.means.items()},
            {name: values["ndcg@10"] for name, values in result.per_query.items()},
            xlabel="NDCG@10",
        ),
        ranks_figure=draw_rank_distribution(
            {name: 1.0 / values["mrr"] for name, values in result.per_query.items()}
        ),
        features=rows,
        skewed=sum(row["skewed"] for row in rows),
    )
