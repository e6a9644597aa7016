"""What a service counts: for `/metrics`, and to notice a feature that goes dark.

Each worker counts for itself; with `PROMETHEUS_MULTIPROC_DIR` set, as the supervisor does, the numbers of all
workers are added up where they are read.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import numpy as np

from placings.core import Floats, need_library
from placings.serve.service import Answer

LOG = logging.getLogger("placings.serve")
STEPS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
SAMPLED = 1000  # the last so many sampled lists are what coverage is counted over
ENOUGH = 30  # sampled lists that should have a feature before it may be called dark
EVERY = 1.0  # seconds between two samples: the features of one list a second cost next to nothing
STATES = ("closed", "half-open", "open")


class Monitor:
    """Counters and timers of one worker."""

    def __init__(self, *, dark_share: float = 0.5, clock: Callable[[], float] = monotonic) -> None:
        prometheus = need_library("prometheus_client", "placings serve", "serve", "prometheus-client")
        self.registry = prometheus.CollectorRegistry()

        def count(name: str, told: str, *labels: str) -> Any:
            return prometheus.Counter(f"placings_{name}", told, labels, registry=self.registry)

        def hold(name: str, told: str, *labels: str) -> Any:
            return prometheus.Gauge(
                f"placings_{name}", told, labels, registry=self.registry, multiprocess_mode="livemax"
            )

        self._requests = count("requests", "Requests by path and status.", "path", "status")
        self._shown = count(
            "lists_shown", "Lists by arm; reason says why it is the engine's order.", "arm", "reason"
        )
        self._fallbacks = count("fallbacks", "Lists that a model should have ordered and did not.", "reason")
        self._engine = count("engine_failures", "Searches that the engine did not answer.", "reason")
        self._shed = count("shed", "Requests turned away because the queue was full.")
        self._dropped = count("impressions_dropped", "Impressions that were not written.")
        self._events = count("events", "Feedback: new, known, untrusted.", "fate")
        self._doubts = count("events_untrusted", "Feedback kept apart from training, by reason.", "reason")
        self._limited = count("feedback_limited", "Feedback refused because it came too often.")
        self._missing = count(
            "missing_values", "Items for which a field that the model reads was missing.", "field"
        )
        self._items = count("items", "Items that a model ordered.")
        self._stages = prometheus.Histogram(
            "placings_stage_seconds", "Time in a stage.", ["stage"], buckets=STEPS, registry=self.registry
        )
        self._dark_count = hold("dark_features", "Features that are there far less often than in training.")
        self._dark = hold("dark_feature", "1 for a feature that went dark.", "feature")
        self._circuit = hold("engine_circuit", "The circuit breaker: 0 closed, 1 half-open, 2 open.")
        self._model = hold("model_info", "1 for the model that answers.", "name", "digest")
        self.dark_share, self._clock = dark_share, clock
        self.dark: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ()
        self._expected: Floats = np.zeros(0)
        self._seen: deque[Floats] = deque(maxlen=SAMPLED)
        self._sum: Floats = np.zeros(0)
        self._told: set[tuple[str, str]] = set()
        self._next_sample = 0.0
        self._labelled: dict[tuple[Any, ...], Any] = {}  # of what is counted in every request
        self._state = ""

    def _label(self, metric: Any, *labels: Any) -> Any:
        """A metric with its labels, looked up once: prometheus checks them anew each time."""
        key = (id(metric), *labels)
        found = self._labelled.get(key)
        if found is None:
            found = self._labelled[key] = metric.labels(*map(str, labels))
        return found

    def count_request(self, path: str, status: int) -> None:
        """A request was answered."""
        self._label(self._requests, path, status).inc()

    def count_shown(self, arm: str, reason: str) -> None:
        """A list was shown."""
        self._label(self._shown, arm, reason or "none").inc()

    def count_fallback(self, reason: str) -> None:
        """A model's order was due and is not shown."""
        self._fallbacks.labels(reason).inc()

    def count_engine(self, reason: str) -> None:
        """The engine gave no list."""
        self._engine.labels(reason).inc()

    def count_shed(self) -> None:
        """A request was turned away."""
        self._shed.inc()

    def count_dropped(self, count: int = 1) -> None:
        """Impressions were not written."""
        self._dropped.inc(count)

    def count_events(self, new: int, known: int, doubts: Mapping[str, int]) -> None:
        """Feedback was written; `doubts` are the reasons why some of it is kept apart."""
        for fate, number in (("new", new), ("known", known), ("untrusted", sum(doubts.values()))):
            if number:
                self._events.labels(fate).inc(number)
        for reason, number in doubts.items():
            self._doubts.labels(reason).inc(number)

    def count_limited(self) -> None:
        """Feedback was refused: too much of it."""
        self._limited.inc()

    def time_stage(self, stage: str, seconds: float) -> None:
        """How long a stage took."""
        self._label(self._stages, stage).observe(seconds)

    def show_circuit(self, state: str) -> None:
        """Whether the engine is asked."""
        if state != self._state:
            self._state = state
            self._circuit.set(STATES.index(state))

    def count_missing(self, answers: Mapping[str, Answer], items: int) -> None:
        """Which fields were missing, for all models of a list."""
        self._items.inc(items)
        for found in answers.values():
            for name, number in found.missing.items():
                self._label(self._missing, name).inc(number)

    # -- features that go dark ---------------------------------------------------------------------

    def expect(self, names: Sequence[str], coverage: Sequence[float]) -> None:
        """The share of training rows in which each feature was there and not zero; NaN if nobody knows."""
        self.forget_coverage()
        self._names, self._expected = tuple(names), np.nan_to_num(np.asarray(coverage, dtype=np.float64))

    def forget_coverage(self) -> None:
        """Start anew: another model answers."""
        self._names, self._expected, self._sum = (), np.zeros(0), np.zeros(0)
        self._seen.clear()
        for name in self.dark:
            self._dark.labels(name).set(0)
        self.dark = ()
        self._dark_count.set(0)

    def wants_sample(self) -> bool:
        """Whether the features of the next list should be looked at: about once a second."""
        now = self._clock()
        if not self._names or now < self._next_sample:
            return False
        self._next_sample = now + EVERY
        return True

    def take_sample(self, matrix: Floats) -> None:
        """The features of one list as the model sees them, `[item, feature]`."""
        if matrix.ndim != 2 or matrix.shape[1] != len(self._names) or not len(matrix):
            return
        there = np.mean((matrix != 0) & (matrix == matrix), axis=0)
        lost = self._seen[0] if len(self._seen) == SAMPLED else 0.0
        self._sum = there - lost if not len(self._sum) else self._sum + there - lost
        self._seen.append(there)
        self._judge()

    def _judge(self) -> None:
        """A feature is dark if fewer than `dark_share` of the lists that should have it do.

        Lists are counted, not items: what is said of a search is the same for all its items. A feature is
        judged once `ENOUGH` lists should have had it, so a rare one takes longer.
        """
        due = len(self._seen) * self._expected
        found = (due >= ENOUGH) & (self._sum < self.dark_share * due)
        dark = tuple(name for name, is_dark in zip(self._names, found, strict=True) if is_dark)
        for name in set(dark) ^ set(self.dark):
            self._dark.labels(name).set(int(name in dark))
        if new := [name for name in dark if name not in self.dark]:
            LOG.error(
                "features went dark: %s; over the last %d sampled lists they are there in less than %g of "
                "the share that training had",
                ", ".join(new), len(self._seen), self.dark_share,
            )  # fmt: skip
        if back := [name for name in self.dark if name not in dark]:
            LOG.warning("features are back: %s", ", ".join(back))
        self.dark = dark
        self._dark_count.set(len(dark))

    def is_dark(self) -> bool:
        """Whether any feature went dark."""
        return bool(self.dark)

    # -- reading -----------------------------------------------------------------------------------

    def name_models(self, digests: Mapping[str, str]) -> None:
        """Which models answer now. Labels cannot be taken back over processes: a former model has a 0."""
        now = set(digests.items())
        for name, digest in self._told - now:
            self._model.labels(name, digest).set(0)
        for name, digest in now:
            self._model.labels(name, digest).set(1)
        self._told |= now

    def write(self) -> bytes:
        """The numbers of this worker, or of all, as Prometheus reads them."""
        import os

        import prometheus_client

        return (
            write_all()
            if os.environ.get("PROMETHEUS_MULTIPROC_DIR")
            else prometheus_client.generate_latest(self.registry)
        )


def write_all() -> bytes:
    """The numbers of all workers, as Prometheus reads them."""
    import prometheus_client
    from prometheus_client import multiprocess

    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prometheus_client.generate_latest(registry)
