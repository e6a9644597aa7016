"""Where modules of version 0.1 have gone: their old names still import, with a warning, until version 0.3.

What a user needs is in `placings` or in a room (`placings.data`, `placings.logs`); files in a room may move.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "report.tuning_figures": "report.run_figures",
    "report.history_figures": "report.run_figures",
    "logs.judgement_files": "logs.imports",
    "rankers.attention": "rankers.networks",
    "rankers.groupwise": "rankers.networks",
    "studies.places_parts": "studies.places_models",
    "studies.places_settings": "studies.places_models",
    "arrays": "core.arrays",
    "bundle": "core.bundle",
    "cli.messages": "cli.flags",
    "cli.places_search": "cli.places",
    "cli.stopping": "cli.printing",
    "clicks": "logs",
    "clicks.chains": "logs.chains",
    "clicks.histories": "logs.histories",
    "clicks.imports": "logs.imports",
    "clicks.join_report": "logs.join_report",
    "clicks.join_steps": "logs.joins",
    "clicks.joins": "logs.join_expressions",
    "clicks.json_lines": "logs.json_lines",
    "clicks.judgement_files": "logs.imports",
    "clicks.labels": "logs.labels",
    "clicks.log_files": "logs.log_files",
    "clicks.models": "simulate.click_models",
    "clicks.outages": "simulate.shop_log",
    "clicks.schema": "logs.schema",
    "clicks.sessions": "logs.joins",
    "clicks.shop": "simulate.shop_log",
    "clicks.shop_actions": "simulate.shop_actions",
    "clicks.simulation": "simulate.shop_log",
    "clicks.snapshots": "logs.snapshots",
    "clicks.tally": "logs.tally",
    "clicks.ubi": "logs.ubi",
    "compilation": "core.compilation",
    "data.batches": "data.tables",
    "data.columns": "data.tables",
    "data.engines": "data.backends",
    "data.letor": "data.collections",
    "data.planting": "simulate.rankings",
    "data.slabs": "data.svmlight",
    "data.streams": "core.streams",
    "data.summary": "data.ranking",
    "data.svmlight_blocks": "data.svmlight",
    "data.svmlight_text": "data.svmlight",
    "data.synthetic": "simulate.rankings",
    "data.times": "core.times",
    "errors": "core.errors",
    "evaluation.decay_fits": "logs.decay_fits",
    "evaluation.guard": "rerank.guard",
    "evaluation.log_facts": "logs.facts",
    "evaluation.log_sections": "logs.facts",
    "evaluation.rendering": "core.tables",
    "evaluation.search_kinds": "rerank.search_kinds",
    "evaluation.significance": "core.statistics",
    "evaluation.trial_loop": "evaluation.tuning",
    "features.files": "features.spec",
    "features.folding": "core.folding",
    "features.lists": "features.columns",
    "feco.counts": "feco.score",
    "feco.events": "feco.score",
    "feco.exposure": "feco.risk",
    "feco.incidents": "feco.alerts",
    "feco.intervals": "core.statistics",
    "feco.judgements": "feco.alerts",
    "feco.movers": "feco.trend",
    "feco.plans": "feco.sampling",
    "feco.references": "feco.limits",
    "feco.results": "feco.score",
    "feco.store": "feco.history",
    "places.engines.postgres_statements": "places.engines.postgres",
    "places.engines.sqlite_scoring": "places.engines.sqlite",
    "places.engines.sqlite_typos": "places.engines.sqlite_index",
    "places.folding": "core.folding",
    "places.keystrokes": "simulate.people",
    "places.people": "simulate.people",
    "places.engines.choice": "rerank.engines",
    "places.preset": "places.presets",
    "places.reranking": "rerank.reranker",
    "places.simulation": "simulate.places_log",
    "places.thesis": "places.presets",
    "rankers.bags": "rankers.networks",
    "rankers.ensembles": "rankers.networks",
    "rankers.lgbm_text": "rankers.lgbm",
    "rankers.xgb_data": "rankers.xgb",
    "report.claims": "report.mixture_figures",
    "report.dark_features": "report.places_page",
    "report.figure_files": "report.figures",
    "report.mixture_shares": "report.mixture_figures",
    "report.panels": "report.pages",
    "report.places_words": "report.places_page",
    "report.rank_figures": "report.figures",
    "report.result_page": "report.pages",
    "report.trend_figures": "report.coverage_figures",
    "studies.coverage_cells": "studies.coverage_drop",
    "studies.places_reranker": "studies.places",
    "studies.table1_cells": "studies.table1",
    "studies.table1_folds": "studies.table1",
    "studies.table1_paper": "studies.table1_result",
    "threads": "core.threads",
}


class OldModules(Loader):
    """Finds modules under the names that they had; put at the end of `sys.meta_path`, it is asked last."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """The old name's spec, or None for a name that never was one."""
        home = MOVED.get(name.removeprefix("placings.")) if name.startswith("placings.") else None
        if home is None:
            return None
        return ModuleSpec(name, self, is_package="." not in home)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """An empty module, as Python makes it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Let the module ask the new one for everything."""
        home = "placings." + MOVED[module.__name__.removeprefix("placings.")]
        warnings.warn(
            f"{module.__name__} is now {home}; the old name goes in version 0.3. Import from placings, or "
            f"from the room {'.'.join(home.split('.')[:2])}.",
            DeprecationWarning,
            stacklevel=2,
        )
        vars(module)["__getattr__"] = lambda name: getattr(import_module(home), name)


def keep_old_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` under which renamed things still answer to their old names, with a warning."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is now called {names[name]}; the old name goes in version 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(sys.modules[module], names[name])

    return find


def take_renamed(function: str, name: str, value: Any, old: str, given: Any) -> Any:
    """The value of a renamed keyword: `value`, or what its old name was given, with a warning."""
    if given is None:
        return value
    warnings.warn(
        f"{function}({old}=…) is now {name}=…; the old name goes in version 0.3.",
        DeprecationWarning,
        stacklevel=3,
    )
    return given


def find_old_modules() -> None:
    """Let the old names of modules be imported."""
    if not any(isinstance(finder, OldModules) for finder in sys.meta_path):
        sys.meta_path.append(OldModules())
