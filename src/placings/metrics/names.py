"""`"ndcg@10"` → a metric, and several of them measured in one ranking pass."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from placings.core import BadInput, Floats, UnknownName, say_unregistered
from placings.metrics import debiased, gain, rank
from placings.metrics.order import Ranked, rank_rows
from placings.metrics.own import HELD_METRICS, OWN_METRICS, find_own_metric, hold_metric
from placings.metrics.registered import RegisteredMetric

MARK = ":ips"  # what the name of a debiased metric ends in
OWN = {"k", "propensity"}  # of a metric's keywords, those that are no options


# A new metric is one line here: doors, contract and property tests and errors read the names from it.
METRICS: dict[str, RegisteredMetric] = {
    "ndcg": RegisteredMetric(gain.ndcg),
    "dcg": RegisteredMetric(gain.dcg, bounds=(0.0, math.inf)),
    "err": RegisteredMetric(gain.err),
    "mrr": RegisteredMetric(rank.mrr, ("rr",)),
    "map": RegisteredMetric(rank.average_precision, ("ap", "average_precision")),
    "p": RegisteredMetric(rank.precision, ("precision",)),
    "recall": RegisteredMetric(rank.recall, ("r",)),
    "hit": RegisteredMetric(rank.hit, ("success",)),
    "arp": RegisteredMetric(rank.arp, lower_is_better=True, bounds=(1.0, math.inf)),
    "tau": RegisteredMetric(rank.kendall_tau, ("kendall_tau",), bounds=(-1.0, 1.0)),
    "rank": RegisteredMetric(
        rank.rank_of_first_relevant, ("first",), lower_is_better=True, bounds=(1.0, math.inf)
    ),
}
# Those of clicks over propensities; they are called "dcg@10:ips", the cutoff before the mark.
DEBIASED: dict[str, RegisteredMetric] = {
    "dcg:ips": RegisteredMetric(debiased.dcg_ips, bounds=(0.0, math.inf)),
    "clicks:ips": RegisteredMetric(debiased.clicks_ips, bounds=(0.0, math.inf)),
    "mrr:ips": RegisteredMetric(debiased.mrr_ips, ("rr:ips",), bounds=(0.0, math.inf)),
}
# Why the others have no such form: what they need of a list beside its clicks.
UNOBSERVED = {
    "ndcg": "it divides by the DCG of the ideal order, which is unobserved",
    "err": "whether people go on to a rank depends on everything above it, so it is no sum over items",
    "map": "it divides by the number of wanted items, which is unobserved",
    "p": "clicks@k:ips is k times as much",
    "recall": "it divides by the number of wanted items, which is unobserved",
    "hit": "whether any item is wanted is no sum over items",
    "arp": "it divides by the sum of the labels, most of which are unobserved",
    "tau": "it compares rows that were clicked with rows that may not have been seen",
    "rank": "the first wanted item is unobserved",
}


@dataclass(frozen=True)
class Metric:
    """A metric as a value: call it, print it, compare it, use it as a key.

    >>> ndcg10 = Metric("ndcg", 10)
    >>> str(ndcg10), ndcg10([0.3, 0.1], [1, 0])
    ('ndcg@10', array([1.]))
    >>> debiased = Metric("dcg:ips", 10)
    >>> str(debiased), debiased([0.3, 0.1], [1, 0], propensity=[0.5, 1.0])
    ('dcg@10:ips', array([2.]))
    """

    name: str
    k: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in METRICS and self.name not in DEBIASED and find_own_metric(self.name) is None:
            raise UnknownName("metric", str(self.name), [*METRICS, *DEBIASED, *OWN_METRICS])
        if self.own and self.k is not None and "k" not in self._registered.defaults:
            raise BadInput(f"{self.name} takes no cutoff: it has no keyword k. Got '{self}'.")
        known = self._registered.defaults.keys() - OWN
        for option, _ in self.options:
            if option not in known:
                raise UnknownName(f"option of {self.name}", option, known)
        if self.options or not _is_cutoff(self.k):
            self([], [], [0], propensity=[])  # no query, but every option is checked

    @property
    def _registered(self) -> RegisteredMetric:
        return find_own_metric(self.name) or {**METRICS, **DEBIASED}[self.name]

    @property
    def own(self) -> bool:
        """Whether it is a function of the user's."""
        return self.name not in METRICS and self.name not in DEBIASED

    @property
    def lower_is_better(self) -> bool:
        """Whether a small value is a good one, as for a rank."""
        return self._registered.lower_is_better

    @property
    def bounds(self) -> tuple[float, float]:
        """What no value is below or above, but for `empty="zero"` and `"one"`."""
        return self._registered.bounds

    @property
    def ips(self) -> bool:
        """Whether it divides clicks by their propensities, and so needs `propensity`."""
        return self.name in DEBIASED

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        propensity: ArrayLike | None = None,
    ) -> Floats:
        """The value of each query, [queries]; only a metric with `ips` looks at `propensity` `[rows]`."""
        more = {"propensity": self.check_propensity(propensity)} if self.ips else {}
        more |= {} if self.own and self.k is None else {"k": self.k}
        return self._registered.function(scores, labels, offsets, **more, **dict(self.options))

    def check_propensity(self, propensity: ArrayLike | None) -> ArrayLike | None:
        """What was given; refused if it is None and this metric divides clicks by it."""
        if self.ips and propensity is None:
            raise BadInput(debiased.say_no_propensity(str(self)))
        return propensity

    def __str__(self) -> str:
        name, colon, mark = self.name.partition(":")
        return f"{name}{'' if self.k is None else f'@{self.k}'}{colon}{mark}"


def metric(name: str | Metric | Callable[..., Any], **options: Any) -> Metric:
    """The metric that a name such as `"ndcg@10"`, `"mrr"`, `"map@5"` or `"dcg@10:ips"` stands for.

    A function of your own is one too: `function(scores, labels)` gives the value of one query, and
    `function(scores, labels, offsets)` one value for each. It is tried on two small queries first, and is
    called what the function is called; `register_metric` gives it another name, and says which way is better.

    `options` are the keywords of its function. Case does not matter; the names that mean the same
    (`ap` and `map`, `precision` and `p`, `success` and `hit`, …) give equal metrics. A name that ends in
    `:ips` is a metric of clicks over their propensities: `dcg`, `clicks` and `mrr` have such a form. Others
    are refused, with what clicks do not show of them.

    >>> metric("precision@3")
    Metric(name='p', k=3, options=())
    >>> metric("ndcg@10", gain="linear") == metric("NDCG@10", gain="linear")
    True
    >>> str(metric("clicks@5:ips", clip=20))
    'clicks@5:ips'
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
    if callable(name):
        ours = {key: kind.function for key, kind in {**METRICS, **DEBIASED}.items()}
        name = hold_metric(name, ours)
    if not isinstance(name, str):
        raise BadInput(
            f"a metric must be a name such as 'ndcg@10', a Metric, or a function of your own. Got {name!r}."
        )
    body, colon, mark = name.strip().lower().partition(":")
    word, at, depth = body.partition("@")
    known = _find_marked(word, colon + mark, name) if colon else _find_plain(word)
    if at and (not re.fullmatch("[0-9]{1,18}", depth) or int(depth) == 0):
        raise BadInput(
            f"a metric's cutoff must be a whole number of 1 or more, as in '{word}@10{colon}{mark}'. "
            f"Got {name!r}."
        )
    if "k" in options:
        raise BadInput(
            f"the cutoff must be part of the name, as in '{word}@10{colon}{mark}'. Got k={options['k']!r}."
        )
    return Metric(known, int(depth) if at else None, tuple(sorted(options.items())))


AnyMetric: TypeAlias = str | Metric | Callable[..., Any]
AnyMetrics: TypeAlias = AnyMetric | Iterable[AnyMetric]


def measure(
    metrics: AnyMetrics,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    **options: Any,
) -> dict[str, Floats]:
    """Several metrics of each query in one ranking pass, as `{name: values}`, in the order given.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one); values are `[queries]`.
    The scores are ranked once, as deep as the deepest metric asks (and once more for each other rule of
    ties), the labels once. Each of `options` goes to the metrics that know it; what a `Metric` carries
    itself comes first. Ties, empty queries and NaN are each metric's own, and so are the bits. Metrics that
    end in `:ips` divide clicks by `propensity` `[rows]`, which they need; `empty` says nothing to them.

    >>> measure(["ndcg@2", "mrr"], [0.9, 0.8, 0.7], [0, 1, 1])
    {'ndcg@2': array([0.38685281]), 'mrr': array([0.5])}
    """
    wanted: dict[str, Metric] = {}
    for each in list_metrics(metrics):
        found = metric(each)
        key = str(found) if callable(each) and not isinstance(each, Metric) else str(each).strip()
        chosen = _with_options(found, options)
        if wanted.setdefault(key, chosen) != chosen:
            raise BadInput(
                f"two metrics with other options are both called {key!r}. Measure them one at a time."
            )
    for each in wanted.values():
        each.check_propensity(propensity)
    known = {name for each in wanted.values() for name in each._registered.defaults} - OWN
    if any(each.ips for each in wanted.values()):
        known |= {"empty"}  # a rule for a whole table; without a click they are 0 whatever it says
    for option in options.keys() - known:
        raise UnknownName("option of these metrics (a cutoff is part of a name)", option, known)
    settings = {key: each._registered.defaults | dict(each.options) for key, each in wanted.items()}
    ranking = {key: each for key, each in wanted.items() if not each.own}
    rules = [settings[key]["ties"] for key in ranking]
    orders = {
        ties: rank_rows(scores, labels, offsets, k=_deepest(ranking.values(), rules, ties), ties=ties)
        for ties in dict.fromkeys(rules)
    }
    return {
        key: each(scores, labels, offsets)
        if each.own
        else _apply(each, orders[settings[key]["ties"]], settings[key], propensity)
        for key, each in wanted.items()
    }


def list_metrics(metrics: AnyMetrics) -> list[str | Metric]:
    """One metric or several as a list, functions of the user's own by their names; others are refused."""
    if isinstance(metrics, str | Metric) or callable(metrics):
        wanted: list[Any] = [metrics]
    elif not isinstance(metrics, Iterable):
        raise BadInput(
            "metrics must be names such as 'ndcg@10', Metrics or functions of your own: one of them or a "
            f"list. Got {metrics!r}."
        )
    else:
        wanted = list(metrics)
    found = [(each, metric(each)) for each in wanted]
    named = [each if isinstance(each, str | Metric) else chosen for each, chosen in found]
    own: dict[str, Any] = {}
    for each, chosen in found:
        if callable(each) and chosen.own and own.setdefault(str(chosen), each) is not each:
            raise BadInput(
                f"two functions are both called {str(chosen)!r}. Name one: "
                "pg.register_metric('my_metric', …)."
            )
    return named


def _find_plain(word: str) -> str:
    known = {alias: key for key, kind in METRICS.items() for alias in (key, *kind.aliases)}
    if word + MARK in DEBIASED and word not in known:
        raise BadInput(
            f"{word} counts clicks over their propensities, which its name must say, as in "
            f"'{word}@10{MARK}'. Got {word!r}."
        )
    known |= {key: key for key in (*HELD_METRICS, *OWN_METRICS)}
    if word not in known:
        raise UnknownName("metric", word, known, meaning=say_unregistered("metric", word, known))
    return known[word]


def _find_marked(word: str, mark: str, given: str) -> str:
    """The debiased metric of a word; the others are refused with what clicks do not show of them."""
    if mark != MARK:
        raise BadInput(
            f"a metric may end in '{MARK}', for clicks over their propensities, and in nothing else, as in "
            f"'dcg@10{MARK}'. Got {given!r}."
        )
    known = {alias: key for key, kind in DEBIASED.items() for alias in (key, *kind.aliases)}
    if word + MARK in known:
        return known[word + MARK]
    plain = {alias: key for key, kind in METRICS.items() for alias in (key, *kind.aliases)}
    if word not in plain:
        raise UnknownName("metric", word + MARK, known)
    raise BadInput(
        f"{word} cannot be estimated from clicks: {UNOBSERVED[plain[word]]}. Got {given!r}. Use "
        f"'dcg@10{MARK}' or 'clicks@10{MARK}', or 'mrr{MARK}' where each search wants one item."
    )


def _with_options(chosen: Metric, options: dict[str, Any]) -> Metric:
    known = chosen._registered.defaults.keys() - OWN
    fitting = {name: value for name, value in options.items() if name in known}
    return metric(chosen, **(fitting | dict(chosen.options))) if fitting else chosen


def _is_cutoff(k: object) -> bool:
    return k is None or (type(k) is int and k > 0)


def _deepest(metrics: Iterable[Metric], rules: list[str], ties: str) -> int | None:
    depths = [each.k for each, rule in zip(metrics, rules, strict=True) if rule == ties]
    return None if None in depths else max(depth for depth in depths if depth is not None)


def _apply(chosen: Metric, ranked: Ranked, setting: dict[str, Any], propensity: ArrayLike | None) -> Floats:
    """The metric of rows that are already ranked: `rank_rows` passes a `Ranked` through."""
    given = setting | {"k": chosen.k} | ({"propensity": propensity} if chosen.ips else {})
    return chosen._registered.function(ranked, ranked.labels, ranked.offsets, **given)
