"""What a service is told at its start: one frozen object, with defaults that a team would choose."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from placings.core import BadInput, check_limit
from placings.serve.arms import Arms
from placings.serve.forgetting import check_days

NO_ENGINE = "none"
MOST_RESULTS = 40  # as Pelias
MOST_ITEMS = 200  # of a request that brings its own
MOST_LETTERS = 256  # of a text; what is longer is refused
MOST_EVENTS = 500  # in one feedback request
ROUNDED = 2  # digits after the point that a person's coordinates keep: 0.01° is about a kilometre

POSITIVE = ("budget_ms", "engine_timeout_ms", "grace", "clicks_delay", "feedback_rate", "read_seconds")


@dataclass(frozen=True)
class ServeSettings:
    """How to serve.

    `model` is a saved re-ranker, `models` more of them by name, for other arms; `engine` as `open_engine`
    takes it, or "none" if callers bring the hits. `data` is the folder of events, key and lock; what is older
    than `keep_days` is taken out of it once a day, nothing if none are named. Times are in
    milliseconds where their names say so, else in seconds.

    `linger` is how long a service that was told to leave still takes requests while it says that it is not
    ready. `feedback_rate` is how many events a second one address, or one user, may send. `read_seconds` is
    how long a client may take to send one request. `proxies` are the addresses whose X-Forwarded-For counts.

    `gate_log` is a joined log: a reload takes only what is shown non-inferior on it (`would_have`).
    """

    model: str
    engine: str = NO_ENGINE
    data: str = "serve-data"
    models: dict[str, str] = field(default_factory=dict)
    digest: str | None = None
    model_root: str | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    admin_port: int = 8081
    workers: int = 1
    depth: int = 40
    budget_ms: float = 50.0
    engine_timeout_ms: float = 1000.0
    engine_threads: int = 2
    most_waiting: int = 32
    grace: float = 10.0
    exact_positions: bool = False
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    arms: Arms = field(default_factory=Arms)
    clicks_delay: float = 2.0
    dark_share: float = 0.5
    fall_back_when_dark: bool = False
    keep_days: float | None = None
    linger: float = 0.5
    feedback_rate: float = 20.0
    most_connections: int = 1000
    read_seconds: float = 15.0
    proxies: tuple[str, ...] = ()
    access_log: bool = True
    gate_log: str | None = None

    def __post_init__(self) -> None:
        for name in ("port", "admin_port"):
            if not 0 <= getattr(self, name) <= 65_535:
                raise BadInput(f"{name} must be from 0 to 65535. Got {getattr(self, name)!r}.")
        for name in POSITIVE:
            if not 0 < getattr(self, name) < 3.6e6:
                raise BadInput(f"{name} must be above 0. Got {getattr(self, name)!r}.")
        if not 0 <= self.linger < self.grace:
            raise BadInput(f"linger must be from 0 to less than grace. Got {self.linger!r}.")
        if not 0 < self.dark_share <= 1:
            raise BadInput(f"dark_share must be above 0 and at most 1. Got {self.dark_share!r}.")
        for name in ("workers", "engine_threads"):
            check_limit("jobs", getattr(self, name), name)
        for name in ("workers", "engine_threads", "most_connections", "most_waiting"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be 1 or more. Got {getattr(self, name)!r}.")
        if not 2 <= self.depth <= MOST_ITEMS:
            raise BadInput(f"depth must be from 2 to {MOST_ITEMS}. Got {self.depth!r}.")
        if self.keep_days is not None:
            check_days(self.keep_days)

    @cached_property  # every request asks
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @cached_property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The names under which the service answers; another name in a request is refused."""
        if self.hosts:
            return self.hosts
        return ("127.0.0.1", "localhost", "::1", "[::1]") if self.is_loopback else ("*",)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a worker and for `settings.json`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> ServeSettings:
        """What `to_dict` gave."""
        lists = {name: tuple(told[name]) for name in ("hosts", "origins", "proxies")}
        return cls(**{**told, **lists, "arms": Arms.from_dict(told["arms"])})
