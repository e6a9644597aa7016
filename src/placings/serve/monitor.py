"""What a service counts: for `/metrics`, and to notice a feature that goes dark.

Each worker counts for itself; with `PROMETHEUS_MULTIPROC_DIR` set, as the supervisor does, the numbers of all
workers are added up where they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from placings.core import need_library
from placings.serve.service import Answer

STEPS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # seconds
ENOUGH = 200  # items before a feature may be called dark


class Monitor:
    """Counters and timers of one worker."""

    def __init__(self, *, dark_share: float = 0.5) -> None:
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
        self._shed = count("shed", "Requests turned away because the queue was full.")
        self._dropped = count("impressions_dropped", "Impressions that were not written.")
        self._events = count("events", "Feedback: new, known, untrusted.", "fate")
        self._missing = count(
            "missing_values", "Items for which a field that the model reads was missing.", "field"
        )
        self._items = count("items", "Items that a model ordered.")
        self._stages = prometheus.Histogram(
            "placings_stage_seconds", "Time in a stage.", ["stage"], buckets=STEPS, registry=self.registry
        )
        self._dark = hold("dark_fields", "Fields that are missing far more often than in training.")
        self._model = hold("model_info", "1 for the model that answers.", "name", "digest")
        self.dark_share = dark_share
        self._expected: Mapping[str, float] = {}
        self._lacking: Counter[str] = Counter()
        self._seen = 0

    def count_request(self, path: str, status: int) -> None:
        """A request was answered."""
        self._requests.labels(path, str(status)).inc()

    def count_shown(self, arm: str, reason: str) -> None:
        """A list was shown."""
        self._shown.labels(arm, reason or "none").inc()

    def count_fallback(self, reason: str) -> None:
        """A model's order was due and is not shown."""
        self._fallbacks.labels(reason).inc()

    def count_shed(self) -> None:
        """A request was turned away."""
        self._shed.inc()

    def count_dropped(self, count: int = 1) -> None:
        """Impressions were not written."""
        self._dropped.inc(count)

    def count_events(self, new: int, known: int, untrusted: int) -> None:
        """Feedback was written."""
        for fate, number in (("new", new), ("known", known), ("untrusted", untrusted)):
            if number:
                self._events.labels(fate).inc(number)

    def time_stage(self, stage: str, seconds: float) -> None:
        """How long a stage took."""
        self._stages.labels(stage).observe(seconds)

    def count_missing(self, answers: Mapping[str, Answer], items: int) -> None:
        """Which fields were missing, for all models of a list."""
        self._items.inc(items)
        self._seen += items
        for found in answers.values():
            for name, number in found.missing.items():
                self._missing.labels(name).inc(number)
                self._lacking[name] += number
        if self._seen >= 4 * ENOUGH:  # only the last few hundred items count
            self._seen //= 2
            self._lacking = Counter({name: number // 2 for name, number in self._lacking.items()})
        self._dark.set(len(self.find_dark()))

    def expect(self, coverage: Mapping[str, float]) -> None:
        """The share of training rows that had each field."""
        self._expected = dict(coverage)

    def find_dark(self) -> list[str]:
        """Fields whose coverage fell below `dark_share` of that in training."""
        if self._seen < ENOUGH:
            return []
        return sorted(
            name
            for name, number in self._lacking.items()
            if 1.0 - number / self._seen < self.dark_share * self._expected.get(name, 1.0)
        )

    def is_dark(self) -> bool:
        """Whether any field went dark."""
        return bool(self.find_dark())

    def name_models(self, digests: Mapping[str, str]) -> None:
        """Which models answer now."""
        self._model.clear()
        for name, digest in digests.items():
            self._model.labels(name, digest).set(1)

    def write(self) -> bytes:
        """The numbers of all workers, as Prometheus reads them."""
        import os

        import prometheus_client
        from prometheus_client import multiprocess

        registry = self.registry
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            registry = prometheus_client.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return prometheus_client.generate_latest(registry)
