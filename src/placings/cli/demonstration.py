"""`placings demo`: generated data, read, inspected, split, scored and judged, with a page to open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.inspection import SKEWED

if TYPE_CHECKING:
    from collections.abc import Callable

    from placings.arrays import AnyArray
    from placings.data.ranking import RankingData
    from placings.data.synthetic import Planted

METRIC_NAMES = ("ndcg@1", "ndcg@5", "ndcg@10", "mrr", "map")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the data and the page.")] = Path("placings-demo"),
    queries: Annotated[int, typer.Option(min=50, help="Queries to generate.")] = 400,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
) -> None:
    """Generate ranking data, look at it, rank it in five ways and say which is better.

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
    console.print(
        f"[bold]3. Who ranks better[/bold]: fitted on {len(train)} queries, judged on the other {len(test)}"
    )
    results, best = judge(train, test, seed)
    rule = print_results(console, results, best, test)
    page = write_demo_page(out / "index.html", data, facts, made.truth, results, best, rule, queries, seed)
    console.print(f"\nopen {page}", soft_wrap=True)


def judge(train: RankingData, test: RankingData, seed: int) -> tuple[dict[str, dict[str, AnyArray]], str]:
    """Each way's metrics per test query, and the way with the best NDCG@10."""
    import numpy as np

    from placings.metrics import measure, ndcg

    lone = int(np.argmax([np.nanmean(ndcg(x, train.y, train.offsets, k=10)) for x in _columns(train)]))
    scores: dict[str, AnyArray] = {
        "chance": np.random.default_rng(seed).random(test.n_rows),
        f"one feature ({test.feature_names[lone]})": np.nan_to_num(np.asarray(test.X)[:, lone]),
        "linear, raw features": fit_linear(train, lambda X: X)(test),
        "linear, log1p features": fit_linear(train, lambda X: np.sign(X) * np.log1p(np.abs(X)))(test),
        "linear, cdf features": fit_linear(train, rank_against(np.asarray(train.X)))(test),
    }
    results = {name: measure(METRIC_NAMES, s, test.y, test.offsets) for name, s in scores.items()}
    best = max(results, key=lambda name: float(np.nanmean(results[name]["ndcg@10"])))
    return results, best


def _columns(data: RankingData) -> list[AnyArray]:
    import numpy as np

    return [np.nan_to_num(column) for column in np.asarray(data.X).T]


def rank_against(known: AnyArray) -> Callable[[AnyArray], AnyArray]:
    """The share of known values strictly below, for each column."""
    import numpy as np

    ordered = np.sort(known, axis=0)

    def transform(X: AnyArray) -> AnyArray:
        places = [np.searchsorted(ordered[:, j], X[:, j]) for j in range(X.shape[1])]
        return np.stack(places, axis=1) / len(ordered)

    return transform


def fit_linear(
    train: RankingData, transform: Callable[[AnyArray], AnyArray]
) -> Callable[[RankingData], AnyArray]:
    """A ridge regression on standardised, transformed features."""
    import numpy as np
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def prepare(data: RankingData) -> AnyArray:
        return np.nan_to_num(transform(np.asarray(data.X, dtype=np.float64)))

    model = make_pipeline(StandardScaler(), Ridge(alpha=10.0)).fit(prepare(train), train.y)
    return lambda data: np.asarray(model.predict(prepare(data)))


def print_results(console: Any, results: dict[str, dict[str, AnyArray]], best: str, test: RankingData) -> str:
    """The table at the terminal; returns the sentence about the empty-query rule."""
    import numpy as np
    from rich.table import Table

    from placings.data.summary import count_empty

    empty = count_empty(test)
    rule = (
        f"Means over {len(test) - empty} of {len(test)} test queries; {empty} with nothing relevant are left "
        'out (empty="drop").'
    )
    table = Table("order by", *METRIC_NAMES, caption=rule, caption_justify="left")
    for name, values in results.items():
        cells = [f"{np.nanmean(values[metric]):.4f}" for metric in METRIC_NAMES]
        table.add_row(name, *cells, style="bold" if name == best else None)
    console.print(table)
    return rule


def write_demo_page(
    path: Path,
    data: RankingData,
    facts: Any,
    truth: tuple[Planted, ...],
    results: dict[str, dict[str, AnyArray]],
    best: str,
    rule: str,
    queries: int,
    seed: int,
) -> Path:
    """The page to open: the same facts as pictures."""
    import numpy as np

    from placings.data.summary import describe_facts
    from placings.report.figures import draw_histogram, draw_means, draw_shares, draw_spark
    from placings.report.pages import write_page

    grades, counts = np.unique(data.y, return_counts=True)
    shares = {f"{grade:g}": count / data.n_rows for grade, count in zip(grades, counts, strict=True)}
    means = {name: {m: float(np.nanmean(v)) for m, v in values.items()} for name, values in results.items()}
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
        scores=means,
        metric_names=METRIC_NAMES,
        best=best,
        rule=rule,
        means_figure=draw_means(
            {name: values["ndcg@10"] for name, values in means.items()},
            {name: values["ndcg@10"] for name, values in results.items()},
            xlabel="NDCG@10",
        ),
        features=rows,
        skewed=sum(row["skewed"] for row in rows),
    )
