"""`compare`: which of several rankers is better, by how much, and whether it is more than luck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from placings.core import (
    BadInput,
    Floats,
    Ints,
    UnknownName,
    adjust_holm,
    check_count,
    check_share,
    compare_pairs,
    describe_pairs,
    flip_signs,
    interval_means,
    mean_known,
    measure_effect,
    option,
)
from placings.data import RankingData, find_clusters
from placings.evaluation.debiasing import (
    all_debiased,
    check_propensity,
    find_bounds,
    say_debiased,
    vary_by_chance,
    weigh_rows,
)
from placings.evaluation.scoring import (
    count_queries,
    describe_clusters,
    give_scores,
    is_lower_better,
    name_metrics,
    name_students,
    refuse_other_data,
    stack_columns,
)
from placings.evaluation.slices import QueryGroup, Slice, Slicings, find_groups, order_worst_first
from placings.evaluation.verdicts import BETTER, WORSE, Comparison, Difference, list_notes, say_counts
from placings.metrics import EMPTY, AnyMetrics, Metric, measure, metric

TESTS = {"randomisation": "p_randomisation", "t": "p_t"}


def compare(
    methods: Mapping[str, Any],
    data: RankingData | Sequence[RankingData],
    metrics: AnyMetrics = ("ndcg@1", "ndcg@5", "ndcg@10"),
    *,
    baseline: str | Sequence[str] | None = None,
    second_baseline: str | None = None,
    test: str = "randomisation",
    alpha: float = 0.05,
    bootstrap: int = 1000,
    level: float = 0.95,
    permutations: int = 10_000,
    empty: str = "drop",
    min_items: int = 1,
    slices: Slicings = None,
    random_state: int = 0,
    cluster: str | None = "auto",
    **options: Any,
) -> Comparison:
    """Compare rankers (or scores) on the same queries: differences to one or two baselines, with tests.

    `methods` maps a name to what `evaluate` takes, or to a list of such: the same method with several
    seeds. When `data` is a list of folds, each method is a list with one entry a fold, and an entry may be
    a list of seeds. **What is paired is the query**: its values are averaged over seeds first, the queries of
    all folds stand one after the other, and methods are paired query by query. A query that either of a
    pair did not score is left out of their difference; one that a seed did not score is not scored.

    With a `baseline` (a name, or a pair of names) every other method is tested against it: paired t-test,
    randomisation test by flipping signs, Cohen's d, and the p-values of `test` ("randomisation" or "t")
    corrected by Holm over methods × metrics, for each baseline by itself. † marks significantly better
    than the first baseline, ‡ than the second, ▼ and ▽ significantly worse, two-sided at `alpha`. Less is
    better of `arp` and `rank`. Without a baseline nothing is tested.

    Intervals are percentile bootstraps over queries that all methods and metrics share, and Student's t of
    100 queries (users, sessions) or fewer and of metrics that end in `:ips`, as in `evaluate`. `empty`,
    `min_items`, `slices` and `options` are those of `evaluate`.

    Queries of one user or session are alike: with `cluster` (as in `evaluate`; "auto" finds the segments
    `user_id` and `session_id`) whole users or sessions are drawn and have their signs flipped, and the
    t-test's standard error is clustered. Cohen's d is of queries.

    >>> data = RankingData.from_arrays([[0.9], [0.8], [0.3], [0.1]], [0, 1, 0, 1], [1, 1, 2, 2])
    >>> x = data.X[:, 0]
    >>> result = compare({"engine": x, "reversed": -x}, data, ["mrr"], baseline="engine")
    >>> result["reversed"]["mrr"], result.difference("reversed", "mrr").difference
    (1.0, 0.5)
    >>> result.difference("reversed", "mrr").p_randomisation  # two queries: 2 of 4 sign assignments
    0.5
    """
    folds = list(data) if isinstance(data, Iterable) and not isinstance(data, RankingData) else [data]
    for fold in folds:
        refuse_other_data(fold)
    if not folds or not methods:
        raise BadInput("compare needs at least one method and one RankingData. Got none.")
    baselines = check_comparing(
        methods,
        metrics,
        baseline=baseline,
        second_baseline=second_baseline,
        test=test,
        alpha=alpha,
        permutations=permutations,
    )
    rules = {"empty": empty, "min_items": min_items, **options}
    wanted = name_metrics(metrics)
    check_propensity(wanted, *folds)
    single = isinstance(data, RankingData)
    per_query, worth, seeds = {}, {}, {}
    for method, entries in methods.items():
        per_query[str(method)], worth[str(method)], seeds[str(method)] = _measure_method(
            str(method), entries, folds, single, wanted, rules
        )
    names = list(next(iter(per_query.values())))
    settings = {
        "baselines": baselines, "test": test, "alpha": alpha, "bootstrap": bootstrap, "level": level,
        "permutations": permutations, **rules, "random_state": random_state, "folds": len(folds),
        "seeds": seeds,
    }  # fmt: skip
    clusters = find_clusters(folds, cluster)
    codes = None if clusters is None else clusters.codes
    settings |= describe_clusters(clusters)
    chances = _find_chances(worth, baselines, folds, options)
    columns = _Columns(per_query, baselines, chances, empty)
    settings |= name_students(columns.values, codes, names)
    resampling = {"draws": bootstrap, "level": level, "random_state": random_state}
    low, high = columns.find_intervals(codes, resampling)
    means = mean_known(columns.values).reshape(len(per_query), len(names))
    ends = np.stack([low, high], axis=1).tolist()
    intervals = {
        method: {name: (*ends[row * len(names) + place],) for place, name in enumerate(names)}
        for row, method in enumerate(per_query)
    }
    differences = _test_differences(columns, low, high, settings, codes)
    counted = "zero" if all_debiased(wanted) else empty
    counts = count_queries(folds, counted, min_items, options.get("relevant_from"))
    found = [
        each
        for group in find_groups(slices, folds)
        for each in _judge_group(group, per_query, chances, settings, codes)
    ]
    first = names[0]
    return Comparison(
        per_query=per_query,
        means={
            m: dict(zip(names, row, strict=True)) for m, row in zip(per_query, means.tolist(), strict=True)
        },
        intervals=intervals,
        differences=tuple(differences),
        counts=counts,
        rule=say_counts(counts, per_query, folds, empty, min_items) + say_debiased(wanted, folds, options),
        notes=tuple(list_notes(settings, differences, folds, counts)),
        settings=settings,
        qids=np.concatenate([fold.qids.astype(object) for fold in folds]),
        fold=np.repeat(np.arange(1, len(folds) + 1), [len(fold) for fold in folds]),
        slices=tuple(order_worst_first(found, first, is_lower_better(first))),
    )


# -- values of a method ----------------------------------------------------------------------------


def _measure_method(
    method: str,
    entries: Any,
    folds: Sequence[RankingData],
    single: bool,
    metrics: Sequence[str | Metric],
    rules: Mapping[str, Any],
) -> tuple[dict[str, Floats], list[dict[str, Floats]], int]:
    """Per-query values, seeds averaged and folds joined; what a click would add in each row of each fold; and
    the (largest) number of seeds.
    """
    if single:
        by_fold = [entries]
    elif _is_list(entries):
        by_fold = list(entries)
    else:
        raise BadInput(f"{method!r} must be a list with one entry for each of the {len(folds)} folds.")
    if len(by_fold) != len(folds):
        raise BadInput(
            f"{method!r} must have one entry for each of the {len(folds)} folds. Got {len(by_fold)}."
        )
    parts, worths, most = [], [], 0
    for place, (entry, fold) in enumerate(zip(by_fold, folds, strict=True), 1):
        runs = list(entry) if _is_list(entry) else [entry]
        if not runs:
            raise BadInput(f"{method!r} must have at least one ranker or array of scores. Got an empty list.")
        where = f"the scores of {method!r}" + ("" if single else f" in fold {place}")
        scored = [give_scores(run, fold, where) for run in runs]
        measured = [
            measure(metrics, scores, fold.y, fold.offsets, propensity=fold.propensity, **rules)
            for scores in scored
        ]
        weighed = [weigh_rows(metrics, scores, fold, rules) for scores in scored]
        worths.append({name: np.mean([each[name] for each in weighed], axis=0) for name in weighed[0]})
        parts.append({name: np.mean([each[name] for each in measured], axis=0) for name in measured[0]})
        most = max(most, len(runs))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return joined, worths, most


def _is_list(entry: Any) -> bool:
    """Several rankers or arrays, and not one array of scores given as a list of numbers."""
    if hasattr(entry, "predict"):
        return False
    if isinstance(entry, np.ndarray):
        return entry.ndim == 2
    numbers = (int, float, np.number)
    return isinstance(entry, list | tuple) and not all(isinstance(each, numbers) for each in entry)


def check_comparing(
    methods: Iterable[str],
    metrics: Any,
    *,
    baseline: str | Sequence[str] | None = None,
    second_baseline: str | None = None,
    test: str = "randomisation",
    alpha: float = 0.05,
    permutations: int = 10_000,
    empty: str = "drop",
) -> list[str]:
    """The baselines; what `compare` would refuse is refused, before anything is trained or scored."""
    check_share("alpha", alpha)
    check_count("permutations", permutations, least=1)
    if test not in TESTS:
        raise UnknownName("test", str(test), TESTS)
    if empty not in EMPTY:
        raise UnknownName("empty rule", str(empty), EMPTY)
    for each in name_metrics(metrics):
        if isinstance(each, str):
            metric(each)
    return _list_baselines(baseline, second_baseline, dict.fromkeys(methods))


def _list_baselines(
    baseline: str | Sequence[str] | None, second: str | None, methods: Mapping[str, Any]
) -> list[str]:
    given = [] if baseline is None else [baseline] if isinstance(baseline, str) else list(baseline)
    chosen = given + ([] if second is None else [second])
    for name in chosen:
        if name not in methods:
            raise UnknownName("method to take as baseline", str(name), [str(each) for each in methods])
    if second is not None and not given:
        raise BadInput(f"a second baseline needs a first one: pass {option('baseline')} as well.")
    if len(chosen) > 2 or len(set(chosen)) != len(chosen):
        raise BadInput(f"there can be one baseline or two different ones. Got {chosen}.")
    return chosen


# -- tests -----------------------------------------------------------------------------------------


Key: TypeAlias = tuple[str, str, str]  # a method, the baseline it is compared with or "", a metric


class _Columns:
    """Values `[queries, methods × metrics]`, and beside them the differences to each baseline."""

    def __init__(
        self,
        per_query: Mapping[str, Mapping[str, Floats]],
        baselines: Sequence[str],
        chances: Mapping[Key, Floats],
        empty: str,
    ) -> None:
        self.values = np.concatenate([stack_columns(values) for values in per_query.values()], axis=1)
        self.keys = _list_keys(per_query, baselines)
        pairs = [per_query[method][name] - per_query[against][name] for method, against, name in self.keys]
        self.differences = np.stack(pairs, axis=1) if pairs else np.empty((len(self.values), 0))
        self.all = np.concatenate([self.values, self.differences], axis=1)
        own = [(method, "", name) for method, values in per_query.items() for name in values]
        unknown = np.full(len(self.values), np.nan)
        self.chance = np.stack([chances.get(key, unknown) for key in (*own, *self.keys)], axis=1)
        ends = find_bounds([name for _, _, name in own], empty)
        apart = find_bounds([name for _, _, name in self.keys], empty)
        self.bounds = [*ends, *((least - most, most - least) for least, most in apart)]

    def find_intervals(self, clusters: Ints | None, resampling: Mapping[str, Any]) -> tuple[Floats, Floats]:
        """Low and high of every column."""
        how: dict[str, Any] = dict(resampling)
        return interval_means(self.all, clusters=clusters, chance=self.chance, bounds=self.bounds, **how)


def _list_keys(per_query: Mapping[str, Iterable[str]], baselines: Sequence[str]) -> list[Key]:
    """Every method against every baseline in every metric."""
    return [
        (method, against, name)
        for against in baselines
        for method in per_query
        if method != against
        for name in per_query[method]
    ]


def _find_chances(
    worth: Mapping[str, Sequence[Mapping[str, Floats]]],
    baselines: Sequence[str],
    folds: Sequence[RankingData],
    options: Mapping[str, Any],
) -> dict[Key, Floats]:
    """The variance by chance of every debiased column `[queries]`; a difference has that of its clicks' own.

    A click that both methods rank alike moves neither's lead, so the difference is taken row by row.
    """
    names = {method: list(parts[0]) for method, parts in worth.items()}
    keys = [(method, "", name) for method in names for name in names[method]]
    found = {}
    for method, against, name in [*keys, *_list_keys(names, baselines)]:
        parts = []
        for place, fold in enumerate(folds):
            other = worth[against][place][name] if against else 0.0
            parts.append(vary_by_chance(worth[method][place][name] - other, fold, options))
        found[method, against, name] = np.concatenate(parts)
    return found


def _test_differences(
    columns: _Columns, low: Floats, high: Floats, settings: Mapping[str, Any], clusters: Ints | None
) -> list[Difference]:
    if not columns.keys:
        return []
    pairs = columns.differences
    count, mean, _ = describe_pairs(pairs)
    tests = {
        "p_t": compare_pairs(pairs, clusters=clusters),
        "p_randomisation": flip_signs(
            pairs,
            permutations=settings["permutations"],
            random_state=settings["random_state"],
            clusters=clusters,
        ),
    }
    chosen = tests[TESTS[settings["test"]]]
    against = np.array([settings["baselines"].index(key[1]) for key in columns.keys])
    holm = np.full(len(chosen), np.nan)
    for place in set(against.tolist()):
        holm[against == place] = adjust_holm(chosen[against == place])
    effect = measure_effect(pairs)
    first = columns.values.shape[1]
    found = []
    for i, (method, baseline, name) in enumerate(columns.keys):
        better = (mean[i] < 0.0) == is_lower_better(name)
        significant = holm[i] <= settings["alpha"] and mean[i] != 0.0
        mark = (BETTER if better else WORSE)[against[i]] if significant else ""
        found.append(
            Difference(
                method=method,
                baseline=baseline,
                metric=name,
                pairs=int(count[i]),
                difference=float(mean[i]),
                low=float(low[first + i]),
                high=float(high[first + i]),
                effect=float(effect[i]),
                p_t=float(tests["p_t"][i]),
                p_randomisation=float(tests["p_randomisation"][i]),
                p_holm=float(holm[i]),
                mark=mark,
            )
        )
    return found


def _judge_group(
    group: QueryGroup,
    per_query: Mapping[str, Mapping[str, Floats]],
    chances: Mapping[Key, Floats],
    settings: Mapping[str, Any],
    clusters: Ints | None,
) -> list[Slice]:
    chosen = {m: {name: v[group.chosen] for name, v in values.items()} for m, values in per_query.items()}
    own = {key: each[group.chosen] for key, each in chances.items()}
    columns = _Columns(chosen, settings["baselines"][:1], own, settings["empty"])
    resampling = {"draws": settings["bootstrap"], "level": settings["level"]}
    low, high = columns.find_intervals(
        None if clusters is None else clusters[group.chosen],
        {**resampling, "random_state": settings["random_state"]},
    )
    means, scored = mean_known(columns.all), (~np.isnan(columns.all)).sum(axis=0)
    ends = np.stack([low, high], axis=1).tolist()
    flat = [(method, name) for method, values in chosen.items() for name in values]
    places = {(method, name): len(flat) + i for i, (method, _, name) in enumerate(columns.keys)}
    slices = []
    for i, (method, name) in enumerate(flat):
        place = places.get((method, name))
        extra: dict[str, Any] = {}
        if place is not None:
            extra = {"difference": float(means[place]), "difference_interval": (*ends[place],)}
        interval = (ends[i][0], ends[i][1])
        slices.append(
            Slice(group.by, group.value, name, len(columns.all), int(scored[i]), float(means[i]), interval,
                  method, **extra)
        )  # fmt: skip
    return slices
