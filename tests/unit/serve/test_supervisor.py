"""Models are changed on all workers or on none; a copy is kept; operators need a token."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_dark_features import make_reranker

from placings.core import BadBundle, BadInput
from placings.serve import supervisor as supervisors
from placings.serve.admin import make_admin
from placings.serve.kept_models import drop_models, keep_model
from placings.serve.settings import ServeSettings
from placings.serve.supervisor import ReloadFailed, Supervisor, hold_lock, listen

TOKEN = "t" * 20


class FakeProcess:
    returncode: int | None = None

    def kill(self) -> None:
        self.returncode = -9


class FakeChild:
    """A worker that does as it is told, or refuses one command."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.process = refuses, FakeProcess()
        self.prepared: Any = None
        self.models: Any = "old"
        self.heard: list[str] = []

    async def ask(self, command: Mapping[str, Any], seconds: float = 1.0) -> dict[str, Any]:
        self.heard.append(command["do"])
        if command["do"] == self.refuses:
            raise ReloadFailed("it scores its sample differently.")
        if command["do"] == "prepare":
            self.prepared = command["models"]
        elif command["do"] == "commit":
            self.models, self.prepared = self.prepared, None
        elif command["do"] == "abort":
            self.prepared = None
        return {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    async def try_nothing(path: str, digest: str | None) -> str:
        return str(digest)

    monkeypatch.setattr(supervisors, "try_model", try_nothing)
    (tmp_path / "data").mkdir()
    for name in ("one", "two"):
        reranker = make_reranker()
        reranker.pool = {"one": 10, "two": 20}[name]  # so that their digests differ
        reranker.save(tmp_path / "models" / name)
    return tmp_path


def make_supervisor(home: Path, *children: FakeChild, token: str | None = TOKEN) -> Supervisor:
    settings = ServeSettings(
        model=str(home / "models" / "one"), data=str(home / "data"), model_root=str(home / "models")
    )
    found = Supervisor(settings, token)
    found.models = {"model": keep_model(settings.model, found.home)}
    found.children = list(children)  # type: ignore[arg-type]
    return found


def test_all_workers_change_together_and_one_step_back_brings_the_former(home: Path) -> None:
    async def go() -> None:
        one, two = FakeChild(), FakeChild()
        found = make_supervisor(home, one, two)
        first = found.models["model"]
        told = await found.reload({"model": (str(home / "models" / "two"), None)})
        assert one.models == two.models == found.models
        assert told["model"] == found.models["model"][1] != first[1]
        assert await found.go_back() == {"model": first[1]}
        assert one.models == two.models == {"model": first}
        assert Path(first[0]).is_dir()

    asyncio.run(go())


def test_a_worker_that_refuses_keeps_all_as_they_were(home: Path) -> None:
    async def go() -> None:
        good, bad = FakeChild(), FakeChild("prepare")
        found = make_supervisor(home, good, bad)
        before = dict(found.models)
        with pytest.raises(ReloadFailed, match="1 of 2 workers could not: it scores its sample differently."):
            await found.reload({"model": (str(home / "models" / "two"), None)})
        assert (good.models, bad.models, found.models) == ("old", "old", before)
        assert good.heard == ["prepare", "abort"]
        with pytest.raises(ReloadFailed, match="no model before"):
            await found.go_back()

    asyncio.run(go())


def test_a_worker_that_fails_once_all_is_decided_is_started_again_with_the_new(home: Path) -> None:
    async def go() -> None:
        good, bad = FakeChild(), FakeChild("commit")
        found = make_supervisor(home, good, bad)
        await found.reload({"model": (str(home / "models" / "two"), None)})
        assert good.models == found.models
        assert bad.process.returncode == -9  # `_keep_alive` starts it with `found.models`

    asyncio.run(go())


@pytest.mark.parametrize("stuck", [0.0, 1e6, None], ids=["well", "in one call", "no sign of life"])
def test_a_worker_that_hangs_is_ended(
    home: Path, stuck: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisors, "CARE", 0.0)
    asked = asyncio.Event()

    class Hanging(FakeChild):
        lock = asyncio.Lock()

        async def ask(self, command: Mapping[str, Any], seconds: float = 1.0) -> dict[str, Any]:
            asked.set()
            if stuck is None:
                raise TimeoutError
            return {"stuck": stuck}

    async def go() -> int | None:
        child = Hanging()
        task = asyncio.create_task(make_supervisor(home, child)._look_after(0))
        await asked.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        return child.process.returncode

    assert asyncio.run(go()) == (None if stuck == 0.0 else -9)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda home: {"model": ("/etc", None)}, "must lie below"),
        (lambda home: {"model": (str(home / "models" / ".." / "data"), None)}, "must lie below"),
        (lambda home: {"model": (str(home / "models" / "three"), None)}, "holds no re-ranker"),
        (lambda home: {"model": (str(home / "models" / "two"), "0" * 64)}, "digest"),
        (lambda home: {"other": (str(home / "models" / "two"), None)}, "no model 'other'"),
    ],
)
def test_a_reload_that_cannot_be_leaves_the_last_good_model(
    home: Path, change: Callable[[Path], Any], problem: str
) -> None:
    async def go() -> None:
        child = FakeChild()
        found = make_supervisor(home, child)
        before = dict(found.models)
        with pytest.raises((ReloadFailed, BadBundle), match=problem):
            await found.reload(change(home))
        assert (found.models, child.heard) == (before, [])

    asyncio.run(go())


def test_a_model_that_kills_its_process_is_found_in_a_child(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    make_reranker().save(path)
    weights = next(each for each in (path / "model").iterdir() if each.suffix in (".npz", ".json"))
    weights.write_bytes(b"\0" * 10)
    with pytest.raises(ReloadFailed, match=str(path)):
        asyncio.run(supervisors.try_model(str(path), None))


def test_a_copy_outlives_the_folder_that_it_came_from(home: Path) -> None:
    import shutil

    path, digest = keep_model(str(home / "models" / "one"), home / "data")
    shutil.rmtree(home / "models" / "one")
    from placings.rerank import load_reranker

    assert load_reranker(path, digest=digest).digest_ == digest
    other = keep_model(str(home / "models" / "two"), home / "data")
    drop_models(home / "data", [other[1]])
    assert (Path(path).exists(), Path(other[0]).exists()) == (False, True)


def test_a_model_with_a_link_in_it_is_refused(home: Path) -> None:
    (home / "models" / "one" / "model" / "more").symlink_to("/etc/passwd")
    with pytest.raises(BadBundle, match="is a link"):
        keep_model(str(home / "models" / "one"), home / "data")


def test_two_services_cannot_have_one_folder(tmp_path: Path) -> None:
    with hold_lock(tmp_path):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(BadInput, match="in use by another service"), hold_lock(tmp_path):
            pass
    with hold_lock(tmp_path):
        pass


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(BadInput, match="cannot be listened on"):
        listen("127.0.0.1", taken.getsockname()[1])


def ask_admin(found: Supervisor, method: str, path: str, **said: Any) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(make_admin(found))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **said)

    return asyncio.run(go())


@pytest.mark.parametrize("path", ["/v1/reload", "/v1/back"])
def test_nothing_is_changed_without_the_token(home: Path, path: str) -> None:
    child = FakeChild()
    found = make_supervisor(home, child)
    body = {"model": str(home / "models" / "two")}
    for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN}):
        assert ask_admin(found, "POST", path, json=body, headers=headers).status_code == 401
    none = make_supervisor(home, child, token=None)
    for given in ("", "Bearer ", "Bearer None"):
        assert ask_admin(none, "POST", path, json=body, headers={"authorization": given}).status_code == 401
    assert child.heard == []


def test_operators_reload_over_http_and_are_told_what_is_wrong(home: Path) -> None:
    found, headers = make_supervisor(home, FakeChild()), {"authorization": f"Bearer {TOKEN}"}
    for body in ({}, {"model": 3}, {"model": "x", "digest": 3}, {"model": "x", "name": []}, [1]):
        assert ask_admin(found, "POST", "/v1/reload", json=body, headers=headers).status_code == 400
    bad = ask_admin(found, "POST", "/v1/reload", json={"model": "/etc"}, headers=headers)
    assert (bad.status_code, "must lie below" in bad.json()["error"]) == (409, True)
    good = ask_admin(
        found, "POST", "/v1/reload", json={"model": str(home / "models" / "two")}, headers=headers
    )
    assert (good.status_code, good.json()["models"]["model"]) == (200, found.models["model"][1])
    assert ask_admin(found, "POST", "/v1/back", headers=headers).status_code == 200
    rebound = ask_admin(found, "GET", "/metrics", headers={"host": "evil.example"})
    assert rebound.status_code == 421


def test_leftovers_of_a_killed_service_are_swept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    found = make_supervisor(home)
    (found.home / "metrics").mkdir()
    (found.home / "metrics" / "counter_123.db").write_bytes(b"old")
    found._sweep()
    assert list((found.home / "metrics").iterdir()) == []
    assert (found.home / "metrics").stat().st_mode & 0o777 == 0o700
    assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(found.home / "metrics")


# -- the gate ----------------------------------------------------------------------------------------------


def write_gate_log(home: Path) -> Path:
    """Lists whose cheapest item, at place 2, is clicked; people look half as often at each further place."""
    import numpy as np
    import pandas as pd

    from placings.logs import ClickLog

    lists = 60
    rows = pd.DataFrame({
        "search_id": np.repeat([f"s{number}" for number in range(lists)], 4),
        "item_id": np.tile(list("abcd"), lists), "position": np.tile([1, 2, 3, 4], lists),
        "price": np.tile([2.0, 1.0, 3.0, 4.0], lists), "rating": 4.0,
        "propensity": np.tile([1.0, 0.5, 0.25, 0.125], lists),
        "label": [float(place == 2 and number % 2 == 0) for number in range(lists) for place in (1, 2, 3, 4)],
    })  # fmt: skip
    ClickLog(rows).write(home / "week.parquet")
    return home / "week.parquet"


def make_priced_reranker(sign: float) -> Any:
    """Cheapest first for −1, dearest first for +1."""
    import numpy as np
    import pandas as pd

    from placings.features import FeatureSet
    from placings.features.number import Number
    from placings.rankers.linear import LinearRanker
    from placings.rerank import Reranker

    price = np.tile([1.0, 2.0, 3.0, 4.0], 20)
    rows = pd.DataFrame({
        "search_id": np.repeat(np.arange(20), 4), "item_id": np.arange(80),
        "position": np.tile([1, 2, 3, 4], 20), "price": price, "label": 5.0 + sign * price,
    })  # fmt: skip
    features = FeatureSet([Number("price")]).fit(rows)
    return Reranker(features, LinearRanker("ridge").fit(features.to_ranking(rows)), None)


@pytest.mark.slow  # five processes that load their libraries
def test_a_reload_asks_the_gate_and_can_be_forced(tmp_path: Path) -> None:
    """The judging is done for real, in a child process; only the workers are made up."""
    (tmp_path / "data").mkdir()
    for name, sign in (("one", -1.0), ("cheap", -1.0), ("dear", 1.0)):
        reranker = make_priced_reranker(sign)
        reranker.pool = {"one": 10, "cheap": 20, "dear": 30}[name]
        reranker.save(tmp_path / "models" / name)
    settings = ServeSettings(
        model=str(tmp_path / "models" / "one"), data=str(tmp_path / "data"),
        model_root=str(tmp_path / "models"), gate_log=str(write_gate_log(tmp_path)),
    )  # fmt: skip
    found = Supervisor(settings, TOKEN)
    found.models = {"model": keep_model(settings.model, found.home)}
    child = FakeChild()
    found.children = [child]  # type: ignore[list-item]
    headers = {"authorization": f"Bearer {TOKEN}"}

    def reload(name: str, **more: Any) -> httpx.Response:
        body = {"model": str(tmp_path / "models" / name), **more}
        return ask_admin(found, "POST", "/v1/reload", json=body, headers=headers)

    refused = reload("dear")
    assert refused.status_code == 409
    assert refused.json()["error"].startswith("Shown worse: clicks@10 would have been")
    assert child.heard == []
    assert reload("dear", force="yes").status_code == 400
    passed = reload("cheap")
    assert (passed.status_code, child.heard) == (200, ["prepare", "commit"])
    assert reload("dear", force=True).status_code == 200
    Path(settings.gate_log or "").unlink()
    gone = reload("cheap")
    assert (gone.status_code, "week.parquet: no such file" in gone.json()["error"]) == (409, True)


def test_a_candidate_is_judged_where_it_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from placings.serve.try_model import try_loading

    log = str(write_gate_log(tmp_path))
    good = make_priced_reranker(-1.0).save(tmp_path / "cheap")
    assert (try_loading(str(tmp_path / "cheap"), good, log), capsys.readouterr().out.strip()) == (0, good)
    bad = make_priced_reranker(1.0).save(tmp_path / "dear")
    assert try_loading(str(tmp_path / "dear"), bad, log) == 3
    assert capsys.readouterr().err.startswith("Shown worse: clicks@10 would have been")
    assert try_loading(str(tmp_path / "dear"), bad) == 0  # without a log there is no gate


def test_a_reload_hands_the_log_on_unless_it_is_forced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    async def judge(path: str, digest: str | None, *, log: str | None = None) -> str:
        asked.append(log)
        if log is not None:
            raise ReloadFailed("Not shown non-inferior: …")
        return str(digest)

    monkeypatch.setattr(supervisors, "try_model", judge)
    child = FakeChild()
    found = make_supervisor(home, child)
    found.settings = dataclasses.replace(found.settings, gate_log="week.parquet")
    wanted = {"model": (str(home / "models" / "two"), None)}
    with pytest.raises(ReloadFailed, match="Not shown non-inferior"):
        asyncio.run(found.reload(wanted))
    assert (asked, child.heard) == (["week.parquet"], [])
    asyncio.run(found.reload(wanted, force=True))
    assert (asked, child.heard) == (["week.parquet", None], ["prepare", "commit"])


def test_the_gates_log_survives_the_way_to_a_worker() -> None:
    settings = ServeSettings(model="m", gate_log="/logs/week.parquet")
    assert ServeSettings.from_dict(settings.to_dict()).gate_log == "/logs/week.parquet"
