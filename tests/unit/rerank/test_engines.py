"""`open_engine`: one text for each engine, and no password in what it says."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from placings.core.errors import BadFile, BadInput, MissingExtra, PlacingsError, PlacingsWarning, UnknownName
from placings.places.engines.opensearch import OpenSearchEngine
from placings.places.engines.pelias import PeliasEngine
from placings.places.engines.postgres import PostgresEngine
from placings.places.place import Place
from placings.rerank.engines import Engine, HitsFile, open_engine
from placings.rerank.requests import Request

ADDRESS = "postgresql://user:geheim@127.0.0.1:1/db"


def test_sqlite_is_a_path_and_searches(tmp_path: Path) -> None:
    from placings.places.engines.sqlite_index import build_index

    path = tmp_path / "places: all.db"  # a colon and a space are part of the path
    build_index([Place("1", "Ulm", 48.4, 10.0, "city", weight=5.0)], path)
    with closing(open_engine(f"sqlite:{path}")) as engine:  # type: ignore[type-var]
        assert isinstance(engine, Engine)
        assert [hit.name for hit in engine.search("ul")] == ["Ulm"]
    with pytest.raises((BadFile, BadInput), match="nothing.db"):
        open_engine(f"sqlite:{tmp_path}/nothing.db")
    with pytest.raises(BadInput, match="must be followed by an index"):
        open_engine("sqlite:")


@pytest.mark.parametrize(
    ("spec", "kind", "shown"),
    [
        (ADDRESS, PostgresEngine, "PostgresEngine('127.0.0.1:1/db', table='places')"),
        (ADDRESS.replace("postgresql", "postgres"), PostgresEngine, "PostgresEngine('127.0.0.1:1/db', "),
        ("pelias+http://127.0.0.1:4000", PeliasEngine, "PeliasEngine('http://127.0.0.1:4000')"),
        ("pelias+https://u:geheim@h/geo/", PeliasEngine, "PeliasEngine('https://h/geo')"),
        ("opensearch+http://127.0.0.1:9200/stops", OpenSearchEngine, "('http://127.0.0.1:9200', 'stops')"),
        ("Elasticsearch+HTTPS://u:geheim@h/a/b/stops/", OpenSearchEngine, "('https://h/a/b', 'stops')"),
    ],
)
def test_each_kind_opens_without_asking_its_server(spec: str, kind: type, shown: str) -> None:
    with closing(open_engine(spec)) as engine:  # type: ignore[type-var]
        assert isinstance(engine, kind)
        assert shown in repr(engine)
        assert "geheim" not in repr(engine)


def test_settings_are_the_engines_own_keywords() -> None:
    with closing(open_engine(ADDRESS, table="stops")) as engine:  # type: ignore[type-var]
        assert engine.table == "stops"  # type: ignore[attr-defined]
    with closing(open_engine("pelias+http://h", endpoint="search")) as engine:  # type: ignore[type-var]
        assert engine.endpoint == "search"  # type: ignore[attr-defined]


def test_postgresql_alone_takes_the_address_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_POSTGRES", ADDRESS)
    assert repr(open_engine("postgresql:")) == repr(open_engine(ADDRESS))
    monkeypatch.delenv("PLACINGS_POSTGRES")
    with pytest.raises(BadInput, match="no database is named"):
        open_engine("postgresql://")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("places.db", "an engine must be named like sqlite:places.db, .*without a colon"),
        ("sqlight:geheim", "no kind of engine 'sqlight'; did you mean 'sqlite'"),
        ("pelias:http://u:geheim@h", "pelias must be followed by"),
        ("pelias+ftp://u:geheim@h", "Got 'pelias\\+ftp'"),
        ("opensearch+http://u:geheim@h:9200/", "must end in the index's name.*Got 'h' only"),
        ("pelias+http://u:geheim@h/?api_key=geheim", "Got 'http://h/'"),
    ],
)
def test_what_is_wrong_is_said_without_passwords(spec: str, message: str) -> None:
    with pytest.raises(PlacingsError, match=message) as caught:
        open_engine(spec)
    assert "geheim" not in str(caught.value)
    assert isinstance(caught.value, BadInput | UnknownName)


def test_an_engine_whose_library_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("httpx", "psycopg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="the Pelias engine needs httpx. Install .*placings\\[places\\]"):
        open_engine("pelias+http://127.0.0.1:4000")
    with pytest.raises(MissingExtra, match="the OpenSearch engine needs httpx"):
        open_engine("opensearch+http://127.0.0.1:9200/places")
    engine = open_engine(ADDRESS)
    assert "geheim" not in repr(engine)
    with pytest.raises(MissingExtra, match="the PostgreSQL engine needs psycopg"):
        engine.search("ulm")


def write_hits(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_hits_of_a_file_that_no_list_can_hold_are_left_out(tmp_path: Path) -> None:
    good = {"item_id": "a", "score": 2, "lat": 49.0, "lon": 8.4}
    bad = [
        {"item_id": "b", "score": float("inf")},
        {"item_id": "c", "lat": 91.0},
        {"item_id": "d", "lon": float("nan")},
        {"item_id": "e", "score": 10**400},
        {"item_id": "a", "score": 1},
        {"item_id": ""},
    ]
    path = write_hits(
        tmp_path / "hits.jsonl", {"query": "ulm", "hits": [*bad[:4], good, *bad[4:], {"id": 7}]}
    )
    with pytest.warns(PlacingsWarning, match=r"number 1\) with the score inf: 6 of 8 hits are left out"):
        engine = HitsFile(path)
    assert [hit.id for hit in engine.search("ulm")] == ["a", "7"]


@pytest.mark.parametrize(
    ("hit", "problem"),
    [
        ({"item_id": "a", "rank": True}, "whole rank"),
        ({"item_id": "a", "rank": 10**30}, "whole rank"),
        ({"item_id": "a", "rank": -1}, "whole rank"),
        ({"item_id": {}}, "must be a text or a number"),
        ({"item_id": "a", "score": 10**400}, "with the score inf, and no other one"),
    ],
)
def test_a_hit_of_another_shape_is_refused_with_its_line(tmp_path: Path, hit: object, problem: str) -> None:
    path = write_hits(tmp_path / "hits.jsonl", {"query": "a", "hits": []}, {"query": "b", "hits": [hit]})
    with pytest.raises(BadFile, match=f"hits.jsonl:2: .*{problem}"):
        HitsFile(path)


def test_a_hits_file_refuses_deep_json_and_k_over_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "hits.jsonl"
    path.write_text('{"query": "a", "hits": [' + "[" * 50_000)
    with pytest.raises(BadFile, match="hits.jsonl:1: is not JSON"):
        HitsFile(path)
    engine = HitsFile(write_hits(path, {"query": "x" * 600, "hits": [{"id": 1}]}))
    assert [hit.id for hit in engine.search("X" * 600)] == ["1"]
    with pytest.raises(BadInput, match="PLACINGS_LIMIT_K"):
        engine.search("a", k=2**63)


def test_a_request_from_elsewhere_has_as_many_items_as_a_list_may() -> None:
    assert len(Request.from_dict({"items": [{}] * 10_000}).items) == 10_000
    with pytest.raises(BadInput, match="a request: a list of 10,001 results is over the limit of 10,000"):
        Request.from_dict({"items": [{}] * 10_001})
