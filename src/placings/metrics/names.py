"""`"ndcg@10"` → a metric, and several of them measured in one ranking pass."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from placings.core import BadInput, Floats, UnknownName
from placings.metrics import gain, rank
from placings.metrics.order import Ranked, rank_rows


@dataclass(frozen=True)
class RegisteredMetric:
    """One metric of the registry: its function, its other names, and which way is better."""

    function: Callable[..., Floats]
    aliases: tuple[str, ...] = ()
    lower_is_better: bool = False

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The keywords of the function and what they are when not given."""
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


# A new metric is one line here: doors, contract and property tests and errors read the names from it.
METRICS: dict[str, RegisteredMetric] = {
    "ndcg": RegisteredMetric(gain.ndcg),
    "dcg": RegisteredMetric(gain.dcg),
    "err": RegisteredMetric(gain.err),
    "mrr": RegisteredMetric(rank.mrr, ("rr",)),
    "map": RegisteredMetric(rank.average_precision, ("ap", "average_precision")),
    "p": RegisteredMetric(rank.precision, ("precision",)),
    "recall": RegisteredMetric(rank.recall, ("r",)),
    "hit": RegisteredMetric(rank.hit, ("success",)),
    "arp": RegisteredMetric(rank.arp, lower_is_better=True),
    "tau": RegisteredMetric(rank.kendall_tau, ("kendall_tau",)),
    "rank": RegisteredMetric(rank.rank_of_first_relevant, ("first",), lower_is_better=True),
}


@dataclass(frozen=True)
class Metric:
    """A metric as a value: call it, print it, compare it, use it as a key.

    >>> ndcg10 = Metric("ndcg", 10)
    >>> str(ndcg10), ndcg10([0.3, 0.1], [1, 0])
    ('ndcg@10', array([1.]))
    """

    name: str
    k: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise UnknownName("metric", str(self.name), METRICS)
        known = METRICS[self.name].defaults.keys() - {"k"}
        for option, _ in self.options:
            if option not in known:
                raise UnknownName(f"option of {self.name}", option, known)
        if self.options or not _is_cutoff(self.k):
            self([], [], [0])  # no query, but every option is checked

    @property
    def lower_is_better(self) -> bool:
        """Whether a small value is a good one, as for a rank."""
        return METRICS[self.name].lower_is_better

    def __call__(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike | None = None) -> Floats:
        """The value of each query, [queries]."""
        return METRICS[self.name].function(scores, labels, offsets, k=self.k, **dict(self.options))

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def metric(name: str | Metric, **options: Any) -> Metric:
    """The metric that a name such as `"ndcg@10"`, `"mrr"`, `"map@5"` or `"p@3"` stands for.

    `options` are the keywords of its function. Case does not matter; the names that mean the same
    (`ap` and `map`, `precision` and `p`, `success` and `hit`, …) give equal metrics.

    >>> metric("precision@3")
    Metric(name='p', k=3, options=())
    >>> metric("ndcg@10", gain="linear") == metric("NDCG@10", gain="linear")
    True
    """
    if isinstance(name, Metric) and type(name) is not Metric:
        raise BadInput(
            f"a Metric is measured by its name, so what {type(name).__name__} adds to it would be passed "
            f"over. Pass the Metric {str(name)!r} itself."
        )
    if isinstance(name, Metric) and not options:
        return name
    if isinstance(name, Metric):
        merged = dict(name.options) | options
        return Metric(name.name, name.k, tuple(sorted(merged.items())))
    if not isinstance(name, str):
        raise BadInput(f"a metric must be a name such as 'ndcg@10', or a Metric. Got {_describe(name)}.")
    word, at, depth = name.strip().lower().partition("@")
    known = {alias: key for key, kind in METRICS.items() for alias in (key, *kind.aliases)}
    if word not in known:
        raise UnknownName("metric", word, known)
    if at and (not re.fullmatch("[0-9]{1,18}", depth) or int(depth) == 0):
        raise BadInput(
            f"a metric's cutoff must be a whole number of 1 or more, as in '{word}@10'. Got {name!r}."
        )
    if "k" in options:
        raise BadInput(f"the cutoff must be part of the name, as in '{word}@10'. Got k={options['k']!r}.")
    return Metric(known[word], int(depth) if at else None, tuple(sorted(options.items())))


def measure(
    metrics: str | Metric | Iterable[str | Metric],
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    **options: Any,
) -> dict[str, Floats]:
    """Several metrics of each query in one ranking pass, as `{name: values}`, in the order given.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one); values are `[queries]`.
    The scores are ranked once, as deep as the deepest metric asks (and once more for each other rule of
    ties), the labels once. Each of `options` goes to the metrics that know it; what a `Metric` carries
    itself comes first. Ties, empty queries and NaN are each metric's own, and so are the bits.

    >>> measure(["ndcg@2", "mrr"], [0.9, 0.8, 0.7], [0, 1, 1])
    {'ndcg@2': array([0.38685281]), 'mrr': array([0.5])}
    """
    wanted: dict[str, Metric] = {}
    for each in list_metrics(metrics):
        key, chosen = str(each).strip(), _with_options(metric(each), options)
        if wanted.setdefault(key, chosen) != chosen:
            raise BadInput(
                f"two metrics with other options are both called {key!r}. Measure them one at a time."
            )
    known = {name for each in wanted.values() for name in METRICS[each.name].defaults} - {"k"}
    for option in options.keys() - known:
        raise UnknownName("option of these metrics (a cutoff is part of a name)", option, known)
    settings = {key: METRICS[each.name].defaults | dict(each.options) for key, each in wanted.items()}
    rules = [setting["ties"] for setting in settings.values()]
    orders = {
        ties: rank_rows(scores, labels, offsets, k=_deepest(wanted.values(), rules, ties), ties=ties)
        for ties in dict.fromkeys(rules)
    }
    return {
        key: _apply(each, orders[ties], settings[key])
        for (key, each), ties in zip(wanted.items(), rules, strict=True)
    }


def list_metrics(metrics: str | Metric | Iterable[str | Metric]) -> list[str | Metric]:
    """One metric or several as a list; anything else is refused."""
    if isinstance(metrics, str | Metric):
        wanted: list[str | Metric] = [metrics]
    elif callable(metrics) or not isinstance(metrics, Iterable):
        raise BadInput(
            "metrics must be names such as 'ndcg@10', or Metrics: one of them or a list. Got "
            f"{_describe(metrics)}."
        )
    else:
        wanted = list(metrics)
    for each in wanted:
        metric(each)
    return wanted


def _describe(given: object) -> str:
    """What stands in place of a metric, for an error; of a function also how it can be used."""
    if not callable(given):
        return repr(given)
    name = getattr(given, "__name__", type(given).__name__)
    return (
        f"the function {name!r}. To measure by it, call it on the scores yourself: "
        f"{name if name.isidentifier() else 'function'}(scores, data.y, data.offsets)"
    )


def _with_options(chosen: Metric, options: dict[str, Any]) -> Metric:
    known = METRICS[chosen.name].defaults.keys() - {"k"}
    fitting = {name: value for name, value in options.items() if name in known}
    return metric(chosen, **(fitting | dict(chosen.options))) if fitting else chosen


def _is_cutoff(k: object) -> bool:
    return k is None or (type(k) is int and k > 0)


def _deepest(metrics: Iterable[Metric], rules: list[str], ties: str) -> int | None:
    depths = [each.k for each, rule in zip(metrics, rules, strict=True) if rule == ties]
    return None if None in depths else max(depth for depth in depths if depth is not None)


def _apply(chosen: Metric, ranked: Ranked, setting: dict[str, Any]) -> Floats:
    """The metric of rows that are already ranked: `rank_rows` passes a `Ranked` through."""
    function = METRICS[chosen.name].function
    return function(ranked, ranked.labels, ranked.offsets, **(setting | {"k": chosen.k}))
