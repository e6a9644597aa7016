"""The loop over HTTP: people search through a service week after week, and it learns from what they click.

serve → feedback → export → join → fit → reload, with a real service in a process of its own, beside the same
people on the bare engine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    Shown,
    draw_counts,
    keep_cell,
    percentile_interval,
    plain_value,
    render_grid,
    show_progress,
    write_text,
)
from placings.logs import ClickLog
from placings.rerank import Reranker
from placings.studies.served_engine import ServedEngine, ServiceProcess

if TYPE_CHECKING:
    import pandas as pd

    from placings.places import Place, SqliteEngine
    from placings.serve import ExportReport
    from placings.simulate import PlaceLog

VERSION = 1  # of the cells
WORLDS = ("served", "bare", "same")  # through the service; on the bare engine; the service's texts on it
UNTOLD = ("platform", "surface", "target")  # of a search; a client of Pelias sends none of them
ROUNDED = 2  # digits of coordinates that the service keeps
FLUSH = 10.0  # seconds in which the lists that were shown must be on the disk
GOAL = 0.02


@dataclass(frozen=True)
class LiveLoopSettings:
    """How long, with how many people, and what learns.

    The first `before` weeks are on the bare engine in both worlds: the log that a team has when it begins.
    Then come `weeks` weeks through the service, after each of which a new re-ranker is fitted on all there is
    and loaded; the last one is loaded and serves nobody. `sessions` is how many a person has in all weeks.
    `rounds` are those of the trees. `unheard` of the acknowledgements are taken as lost, so that clicks come
    twice. The model's time limit, `budget_ms`, is wide: this study asks how good the lists are, and a list
    that a busy machine left to the engine would say nothing of that. Such lists are counted all the same.
    `guard=False` serves the model's order for every kind of search, also where few searches judged it.
    """

    people: int = 400
    before: int = 3
    weeks: int = 3
    sessions: float = 6.0
    rounds: int = 100
    pool: int = 40
    unheard: float = 0.05
    budget_ms: float = 1000.0
    bootstrap: int = 2000
    guard: bool = True

    def __post_init__(self) -> None:
        for name in ("people", "before", "weeks", "rounds", "bootstrap"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be 1 or more. Got {getattr(self, name)!r}.")
        if not 0 <= self.unheard <= 1:
            raise BadInput(f"unheard must lie between 0 and 1. Got {self.unheard!r}.")


@dataclass(frozen=True, repr=False)
class LiveLoop(Shown):
    """What the loop gave: weeks by seed and pooled, the gain with its interval, and the accounts."""

    settings: LiveLoopSettings
    seeds: tuple[int, ...]
    weeks: list[dict[str, Any]]
    gains: list[dict[str, Any]]
    accounts: list[dict[str, Any]]
    cells: list[dict[str, Any]] = field(default_factory=list)

    @property
    def nothing_lost(self) -> bool:
        """Whether each acknowledged click is in the store once, and in the join."""
        return all(account["nothing_lost"] for account in self.accounts)

    def table(self, format: str = "text") -> str:
        """The weeks of all seeds together, the gains of each seed, the accounts below."""
        return render_grid(self._make_grid(), format)

    def _make_grid(self) -> Grid:
        rows = [
            (
                Cell(f"week {row['week']}" + ("" if row["is_served"] else ", bare engine")),
                Cell(f"{row['searches']:,}"),
                *(Cell(_say(row[world])) for world in WORLDS),
                Cell(_say(row["gain"], signed=True)),
                Cell(_say(row["gain_same"], signed=True)),
            )
            for row in self.weeks
        ]
        for row in self.gains:
            name = "all seeds" if row["seed"] is None else f"seed {row['seed']}"
            rows.append(
                (
                    Cell(f"{name}, served weeks", best=False),
                    Cell(f"{row['searches']:,}"),
                    *(Cell(_say(row[world])) for world in WORLDS),
                    Cell(_say(row["gain"], signed=True)),
                    Cell(_say(row["gain_same"], signed=True)),
                )
            )
        header = (
            "MRR on the place meant", "searches", "served", "bare engine", "same texts", "gain",
            "gain, same texts",
        )  # fmt: skip
        return Grid(header, tuple(rows), (*self._list_notes(),))

    def _list_notes(self) -> Iterator[str]:
        yield (
            "SIMULATED people, a real service. Intervals (95 %) are bootstrapped over people. Bare engine: "
            "the same people with the same wishes, without the service. Same texts: the bare engine's "
            "answers to the texts that were sent to the service."
        )
        for each in self.accounts:
            lost = "nothing lost" if each["nothing_lost"] else "NOT ALL THERE"
            fallbacks = ", ".join(f"{why} {count}" for why, count in each["fallbacks"].items()) or "none"
            yield (
                f"seed {each['seed']}: {each['acknowledged']:,} clicks acknowledged, {each['sent_again']:,} "
                f"sent twice, {each['exported']:,} exported, {each['joined']:,} joined; "
                f"{each['lists']:,} lists shown, {each['lists_exported']:,} exported: "
                f"{lost}. Lists left to the engine: {fallbacks}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = {name: getattr(self, name) for name in ("settings", "seeds", "weeks", "gains", "accounts")}
        return dict(plain_value({"simulated": True, **found, "nothing_lost": self.nothing_lost}))


def run_live_loop(
    out: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    settings: LiveLoopSettings | None = None,
    places: Sequence[Place] | None = None,
    progress: bool = True,
) -> LiveLoop:
    """Run the loop for each seed; tables, JSON and a page go to `out`, finished seeds to `out/cells`.

    `places` are the demo's, GeoNames' cities, unless others are given.
    """
    from placings.places import SqliteEngine, build_index, read_geonames

    settings = settings or LiveLoopSettings()
    if not seeds:
        raise BadInput("seeds must name at least one. Got none.")
    out.mkdir(parents=True, exist_ok=True)
    known = list(read_geonames()) if places is None else list(places)
    index = out / "places.db"
    build_index(known, index)
    engine = SqliteEngine(index)
    made_of = {"settings": asdict(settings), "places": len(known), "version": VERSION}
    cells = []
    with show_progress("people search", wanted=progress) as bar:
        for number, seed in enumerate(seeds):

            def tell(done: int, total: int, number: int = number) -> None:
                bar.reach(number * total + done, len(seeds) * total)

            def make(seed: int = seed, tell: Callable[[int, int], None] = tell) -> dict[str, Any]:
                return run_seed(known, engine, index, seed, settings, tell)

            cells.append(keep_cell(out / "cells", f"seed-{seed}", {**made_of, "seed": seed}, make))
    result = judge_cells(cells, settings)
    write_text(out / "live.json", result.to_json() + "\n")
    _write_page(result, out)
    return result


# -- one seed ----------------------------------------------------------------------------------------


def run_seed(
    places: Sequence[Place],
    engine: SqliteEngine,
    index: Path,
    seed: int,
    settings: LiveLoopSettings,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """All weeks of one seed, in both worlds; sums by week and person, and the accounts."""
    from placings.simulate import Behaviour, PlannedWeeks

    began = monotonic()
    planned = PlannedWeeks(
        places, settings.people, k=settings.pool, random_state=seed,
        behaviour=Behaviour(weeks=settings.before + settings.weeks, sessions=settings.sessions),
    )  # fmt: skip
    weeks: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="placings-live-") as folder,
        closing(_Loop(Path(folder), index, seed, settings)) as loop,
    ):
        for number in range(len(planned)):
            bare = planned.run(number, engine)
            found = {"bare": _sum_ranks(bare)}
            if loop.served is None:
                weeks.append(
                    {**found, "served": found["bare"], "same": found["bare"], **loop.learn_bare(bare)}
                )
            else:
                log = planned.run(number, loop.served, visitor=loop.served)
                found |= {"served": _sum_ranks(log), "same": _sum_ranks(log, engine)}
                weeks.append({**found, **loop.learn_served()})
            tell(number + 1, len(planned))
        loop.close()
        account = loop.settle()
    return {"seed": seed, "weeks": weeks, "account": account, "seconds": monotonic() - began}


class _Loop:
    """One seed's service: fitted on the bare engine's log at first, then on what it served itself as well."""

    def __init__(self, folder: Path, index: Path, seed: int, settings: LiveLoopSettings) -> None:
        self.folder, self.index, self.seed, self.settings = folder, index, seed, settings
        self.data, self.models = folder / "serve-data", folder / "models"
        self.service: ServiceProcess | None = None
        self.served: ServedEngine | None = None
        self.before: list[pd.DataFrame] = []
        self.week = 0
        self.digests: list[str] = []

    def learn_bare(self, log: PlaceLog) -> dict[str, Any]:
        """Keep a week of the bare engine; after the last of them fit a re-ranker and start the service."""
        self.week += 1
        rows = log.to_rows(unsuccessful="negatives")
        self.before.append(rows.drop(columns=[*UNTOLD, "is_target", "kind"], errors="ignore"))
        if self.week < self.settings.before:
            return {"is_served": False}
        digest = self._fit(self.before)
        self._start(digest)
        return {"is_served": False, "digest": digest}

    def learn_served(self) -> dict[str, Any]:
        """Export what was served so far, join it, fit a new re-ranker on all weeks, and go live with it."""
        assert self.served is not None
        assert self.service is not None
        self.week += 1
        answered_by = dict(self.served.models)
        self.served.models.clear()
        self._export()
        joined, _ = self._join()
        digest = self._fit([*self.before, joined])
        self.service.reload(self._name_model(), digest)
        return {"is_served": True, "answered_by": answered_by, "digest": digest}

    def _name_model(self) -> Path:
        return self.models / f"week{self.week}"

    def _fit(self, logs: list[pd.DataFrame]) -> str:
        import pandas as pd

        from placings.places import place_features
        from placings.rankers import make_ranker

        rows = pd.concat(logs, ignore_index=True)
        ranker = make_ranker("lightgbm")
        ranker.set_params(
            rounds=self.settings.rounds, early_stopping=20, debias=False, metric="mrr",
            random_state=self.seed,
        )  # fmt: skip
        # no clock: the service's is that of today, the people's that of their week
        reranker = Reranker(
            features=place_features(clock=False), ranker=ranker, guard=self.settings.guard,
            pool=self.settings.pool, random_state=self.seed,
        )  # fmt: skip
        digest = reranker.fit(ClickLog(rows)).save(self._name_model())
        self.digests.append(digest)
        return digest

    def _start(self, digest: str) -> None:
        words = (
            "--digest",
            digest,
            "--budget-ms",
            str(self.settings.budget_ms),
            "--engine-timeout-ms",
            "30000",
        )
        self.service = ServiceProcess(
            self._name_model(), f"sqlite:{self.index}", self.data, self.models, words
        )
        self.served = ServedEngine(self.service.url, unheard=self.settings.unheard)

    def _export(self) -> ExportReport:
        """The service's log up to now; lists are on the disk a little after they were shown."""
        from placings.serve import export_log

        assert self.served is not None
        until = monotonic() + FLUSH
        while True:
            report = export_log(self.data, self.folder / "export")
            if report.searches >= self.served.lists or monotonic() > until:
                return report
            sleep(0.1)

    def _join(self) -> tuple[pd.DataFrame, Any]:
        from placings.logs import join_logs

        export = self.folder / "export"
        paths = (export / "searches.parquet", export / "actions.parquet")
        with join_logs(*paths, unsuccessful="negatives") as joined:
            return joined.rows, joined.report

    def settle(self) -> dict[str, Any]:
        """The accounts, when the service has ended: what the client was promised against what is there."""
        import pyarrow.parquet as pq

        assert self.served is not None
        export = self._export()
        _, report = self._join()
        kept = pq.read_table(self.folder / "export" / "actions.parquet")["event_id"].to_pylist()
        promised = self.served.acknowledged
        whole = (
            sorted(kept) == sorted(promised)
            and export.orphans == export.untrusted == 0
            and export.searches == self.served.lists
            and report.adds_up
            and report.read["actions"] == report.actions["used"] == len(promised)
        )
        return {
            "seed": self.seed, "nothing_lost": bool(whole), "acknowledged": len(promised),
            "sent_again": self.served.again, "exported": export.actions, "orphans": export.orphans,
            "untrusted": export.untrusted, "joined": report.actions["used"], "lists": self.served.lists,
            "lists_exported": export.searches, "fallbacks": dict(self.served.fallbacks),
            "digests": self.digests, "exit_code": None if self.service is None else self.service.end(),
        }  # fmt: skip

    def close(self) -> None:
        """End the service."""
        if self.served is not None:
            self.served.close()
        if self.service is not None:
            self.service.end()


def _sum_ranks(log: PlaceLog, engine: SqliteEngine | None = None) -> dict[str, list[float]]:
    """For each person the sum of 1/rank of the place meant over their searches (0 if it is not in the list),
    and how many these are.

    With an engine it is asked each text anew, with coordinates as the service rounds them.
    """
    found: dict[str, list[float]] = {}
    meant = log.truth["target_id"].to_pylist()
    for row, target in zip(log.searches.to_pylist(), meant, strict=True):
        if engine is None:
            ids = [item["item_id"] for item in row["results"]]
        else:
            focus = (row["focus_lat"], row["focus_lon"])
            known = None if focus[0] is None else (round(focus[0], ROUNDED), round(focus[1], ROUNDED))
            ids = [hit.id for hit in engine.search(row["query"], known, log.settings["k"])]
        one = found.setdefault(row["user_id"], [0.0, 0.0])
        one[0] += 1.0 / (ids.index(target) + 1) if target in ids else 0.0
        one[1] += 1.0
    return found


# -- judging -----------------------------------------------------------------------------------------


def judge_cells(cells: Sequence[dict[str, Any]], settings: LiveLoopSettings) -> LiveLoop:
    """MRR by week and by seed, with intervals over people; people of different seeds are different people."""
    weeks = []
    for number in range(settings.before + settings.weeks):
        of_week = [cell["weeks"][number] for cell in cells]
        facts = {"week": number, "is_served": of_week[0]["is_served"]}
        weeks.append({**facts, **_judge([[week] for week in of_week], settings)})
    gains = []
    served = [[week for week in cell["weeks"] if week["is_served"]] for cell in cells]
    for cell, chosen in zip(cells, served, strict=True):
        gains.append({"seed": cell["seed"], **_judge([chosen], settings)})
    gains.append({"seed": None, **_judge(served, settings)})
    accounts = [cell["account"] for cell in cells]
    return LiveLoop(settings, tuple(cell["seed"] for cell in cells), weeks, gains, accounts, list(cells))


def _judge(seeds: Sequence[Sequence[Mapping[str, Any]]], settings: LiveLoopSettings) -> dict[str, Any]:
    """MRR of each world and the gains over some weeks of some seeds: [mean, low, high]."""
    sums = np.concatenate([_gather(weeks) for weeks in seeds])  # [person, world, (sum, count)]
    counts = np.concatenate(list(draw_counts(len(sums), settings.bootstrap)))  # [draw, person]
    draws = _divide(np.tensordot(counts, sums, 1))  # [draw, world]
    means = _divide(sums.sum(axis=0))

    def judge(value: float, drawn: Floats) -> list[float]:
        low, high = percentile_interval(drawn[:, None])
        return [float(value), float(low[0]), float(high[0])]

    found = {world: judge(means[place], draws[:, place]) for place, world in enumerate(WORLDS)}
    for name, other in (("gain", 1), ("gain_same", 2)):
        found[name] = judge(means[0] - means[other], draws[:, 0] - draws[:, other])
    return {"searches": int(sums[:, 0, 1].sum()), "people": len(sums), **found}


def _gather(weeks: Sequence[Mapping[str, Any]]) -> Floats:
    """Sums and counts by person over weeks, `[person, world, 2]`."""
    people = sorted({person for week in weeks for world in WORLDS for person in week[world]})
    rows = {person: place for place, person in enumerate(people)}
    sums = np.zeros((len(people), len(WORLDS), 2))
    for week in weeks:
        for place, world in enumerate(WORLDS):
            for person, both in week[world].items():
                sums[rows[person], place] += both
    return sums


def _divide(sums: Floats) -> Floats:
    """Means of `[…, (sum, count)]`."""
    means: Floats = sums[..., 0] / np.maximum(sums[..., 1], 1.0)
    return means


def _say(found: Sequence[float], *, signed: bool = False) -> str:
    value, low, high = found
    if signed:
        return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _write_page(result: LiveLoop, out: Path) -> None:
    from placings.report import draw_weeks, write_result_page

    figure = draw_weeks(result.weeks, goal=GOAL)
    write_text(out / "live.svg", figure + "\n")
    write_result_page(
        out / "index.html",
        result,
        title="The loop over HTTP, week after week (SIMULATED people)",
        figure=figure,
    )
