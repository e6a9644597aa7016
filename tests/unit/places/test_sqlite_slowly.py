"""The embedded engine against its formula as first written: every question asked, every row read anew."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterator
from math import log10
from pathlib import Path
from typing import Any

import pytest

from placings.core import measure_km
from placings.places.engines import sqlite as engine
from placings.places.engines.sqlite import POOL, Reading, SqliteEngine, build_index
from placings.places.engines.sqlite_index import JOINT, TYPE_WORDS
from placings.places.engines.sqlite_kept import BOXES, CROWD, OVERHEAD, Around, KeptIndex, Store, make_boxes
from placings.places.place import Place
from placings.rerank import Focus

ROWS = "SELECT text.* FROM found JOIN text ON text.number = found.rowid WHERE found MATCH ? LIMIT ?"
WITHIN = "south >= ? AND north <= ? AND west >= ? AND east <= ?"
CROWDED = f"SELECT count(*) FROM (SELECT 1 FROM spot WHERE {WITHIN} LIMIT ?)"
NEARBY = f"""
SELECT number, popularity, lat, lon, main, other, context, layer FROM (
    SELECT text.*, replace(text.main || text.other, char(10), ' ') || text.context AS words
    FROM spot CROSS JOIN text ON text.number = spot.number WHERE {WITHIN} LIMIT {CROWD}
) WHERE """


class SlowSearch(engine._Search):
    """The same readings of a text; candidates and scores without memory, shortcuts or numbers at hand."""

    def gather(self, reading: Reading) -> None:
        words = engine._match_words(reading)
        if self.ask(words, reading) < self.pool:
            return
        wholes = [whole.replace(" ", JOINT) for whole in reading.wholes]
        exact = " OR ".join(f'"{whole}"' for whole in wholes)
        beginning = " OR ".join(f'"{whole}" *' for whole in wholes)
        for match in (
            f"name : ({exact})", f"{{name names}} : ({exact})", f"name : ({beginning})",
            f"{{name names}} : ({beginning})", f"{{name word}} : ({words})",
            f"{{name word names words}} : ({words})",
        ):  # fmt: skip
            self.ask(match, reading)
        if self.focus is not None:
            self.look_around(reading, self.focus)

    def ask(self, match: str, reading: Reading) -> int:
        rows = self.connection.execute(ROWS, (f"({match}){self.only}", self.pool)).fetchall()
        self.judge_slowly(rows, reading)
        return len(rows)

    def look_around(self, reading: Reading, focus: Focus) -> None:
        chosen = make_boxes(focus, BOXES[0])
        for half in BOXES:
            boxes = make_boxes(focus, half)
            if max(self.connection.execute(CROWDED, (*box, CROWD)).fetchone()[0] for box in boxes) == CROWD:
                break
            chosen = boxes
        tests, values = [is_layer(self.kinds)], []
        for at, group in enumerate(reading.groups):
            texts = [f" {word}{'' if reading.is_beginning(at) else ' '}" for word in group]
            kinds = [
                n for n, words in self.kinds.items() if any(text in f" {' '.join(words)} " for text in texts)
            ]
            test = ["instr(words, ?)"] * len(texts) + ([is_layer(kinds)] if kinds else [])
            tests.append(f"({' OR '.join(test)})")
            values += texts
        for box in chosen:
            rows = self.connection.execute(NEARBY + " AND ".join(tests), (*box, *values)).fetchall()
            self.judge_slowly(rows, reading)

    def judge_slowly(self, rows: list[Any], reading: Reading) -> None:
        for number, popularity, lat, lon, main, other, context, layer in rows:
            text = judge_text(main, other, context, reading, self.kinds[layer])
            self.exact = self.exact or (reading.cost == 0.0 and text >= engine.EXACT)
            score = text + engine.POPULARITY * popularity - reading.cost
            if self.focus is not None:
                km = measure_km(*self.focus, lat, lon)
                score += engine.DISTANCE * log10((engine.HALFWAY + engine.NEAR) / (km + engine.NEAR))
            self.scores[number] = max(score, self.scores.get(number, -math.inf))


def is_layer(numbers: Any) -> str:
    return f"layer IN ({', '.join(map(str, numbers))})"


def judge_text(main: str, other: str, context: str, reading: Reading, kinds: tuple[str, ...]) -> float:
    sides = (
        (main, engine.WORDS_MAIN, engine.EXACT_MAIN, engine.PREFIX_MAIN),
        (other, engine.WORDS_OTHER, engine.EXACT_OTHER, engine.PREFIX_OTHER),
    )
    for names, _, exact, _ in sides:
        if any(f"\n{whole}\n" in names for whole in reading.wholes):
            return exact
    for names, _, _, prefix in sides:
        for whole in reading.wholes:
            if f"\n{whole}" in names:
                return prefix + measure_share(names, whole)
    mixed = False
    for names, words, exact, prefix in sides:
        spaced = names.replace("\n", " ")
        inside = [find_word(spaced, reading, at) for at in range(len(reading.groups))]
        lacking = [at for at, word in enumerate(inside) if word is None]
        if len(lacking) == len(inside):
            continue
        if all(find_word(f"{context}{' '.join(kinds)} ", reading, at) for at in lacking):
            return judge_words(names, inside, words, exact, prefix)
        mixed = True
    return engine.WORDS_OTHER if mixed else engine.AROUND


def measure_share(names: str, text: str) -> float:
    name = next(name for name in names.split("\n")[1:] if name.startswith(text))
    return engine.WHOLENESS * len(text) / len(name)


def find_word(words: str, reading: Reading, at: int) -> str | None:
    end = "" if reading.is_beginning(at) else " "
    return next((word for word in reading.groups[at] if f" {word}{end}" in words), None)


def judge_words(names: str, inside: list[str | None], words: float, exact: float, prefix: float) -> float:
    kept = [word for word in inside if word is not None]
    text, off = " ".join(kept), engine.ELSEWHERE if len(kept) < len(inside) else 0.0
    if off and f"\n{text}\n" in names:
        return exact - off
    if off and f"\n{text}" in names:
        return prefix + measure_share(names, text) - off
    if any(sorted(name.split()) == sorted(kept) for name in names.split("\n")[1:-1]):
        return exact - engine.SHUFFLED - off
    return words + engine.WHOLENESS * min(1.0, len(text) / len(names.split("\n")[1])) - off


# -- towns -------------------------------------------------------------------------------------------------

HEADS = (
    "Alt",
    "Alten",
    "Bad ",
    "Ber",
    "Berg",
    "Bären",
    "Karls",
    "Kar",
    "Klein ",
    "Neu",
    "Neuen",
    "Sankt ",
    "Süd",
)
TAILS = (
    "au",
    "bach",
    "berg",
    "burg",
    "dorf",
    "hausen",
    "heim",
    "lin",
    "ruhe",
    "stadt",
    "wörth",
    "zell (Süd)",
)
STOPS = ("Hbf", "Markt", "Kaiserstr. 12", "Alter Markt", "Karlstor", "Zoo", "L'Abbé")
CITY = (49.0, 8.4)


def make_places(source: random.Random) -> list[Place]:
    """Towns of like names, many known by others too; a crowd of stops near one of them; some at the edge."""
    places = []
    for number in range(1500):
        name = source.choice(HEADS) + source.choice(TAILS)
        others = tuple(source.choice(HEADS) + source.choice(TAILS) for _ in range(source.randrange(3)))
        at = source.uniform(-60, 70), source.uniform(-180, 180)
        if number % 5 == 0:
            at = CITY[0] + source.uniform(-0.5, 0.5), CITY[1] + source.uniform(-0.5, 0.5)
        weight = float(round(10 ** source.uniform(0, 6), source.randrange(2)))
        fields = {"parts": ["Gleis 1"]} if number % 50 == 0 else {"region": source.choice(("Baden", "Bern"))}
        places.append(
            Place(
                f"t{number}",
                name,
                *at,
                "locality",
                country="Land",
                weight=weight,
                names=others,
                fields=fields,
            )
        )
    for number in range(CROWD):
        town = source.choice(places[:40]).name
        at = CITY[0] + source.uniform(-0.1, 0.1), CITY[1] + source.uniform(-0.1, 0.1)
        kind = source.choice(("stop", "station"))
        places.append(Place(f"s{number}", f"{source.choice(STOPS)}, {town}", *at, kind, town))
    places += [
        Place(f"e{n}", f"Neuau {n}", -17.0, 179.99 - 0.2 * n % 360 - 180, "locality") for n in range(9)
    ]
    return places


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteEngine]:
    path = build_index(make_places(random.Random(0)), tmp_path_factory.mktemp("towns") / "towns.db")
    with SqliteEngine(path) as opened:
        yield opened


def draw_texts(source: random.Random, count: int) -> Iterator[str]:
    """Beginnings, whole names, names and towns, words in another order, misspelt and joined ones."""
    for _ in range(count):
        name = source.choice(HEADS) + source.choice(TAILS)
        stop = f"{source.choice(STOPS)} {name}"
        swapped = " ".join(reversed(stop.split()))
        typo = name[:2] + name[3:]
        yield source.choice(
            (name[: source.randrange(1, 5)], name[: source.randrange(1, 9)], name, stop, stop[:-3], swapped,
             typo, name.replace(" ", ""), f"{name} land", f"bahnhof {name[:5]}", f"{name} xq",
             "kaiserstraße 12")
        )  # fmt: skip


def search_slowly(opened: SqliteEngine, text: str, focus: Focus | None, k: int, layers: Any) -> list[Any]:
    reading = engine.read_text(text)
    if reading is None:
        return []
    wanted = opened._find_layers(layers)
    kinds = {number: TYPE_WORDS.get(opened._types[number], ()) for number in wanted}
    connection = sqlite3.connect(f"file:{opened.path}?mode=ro", uri=True)
    try:
        limited = len(wanted) < len(opened._types)
        search = SlowSearch(connection, KeptIndex(), kinds, focus, max(POOL, k), limited)
        search.run(reading)
        best = sorted(search.scores, key=lambda number: (-search.scores[number], number))[:k]
        ids = dict(connection.execute("SELECT number, id FROM place"))
    finally:
        connection.close()
    return [(ids[number], search.scores[number]) for number in best]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_hits_and_scores_are_those_of_the_formula(towns: SqliteEngine, seed: int) -> None:
    source = random.Random(seed)
    whole = {place.id: place for place in towns.places()}
    full = 0
    for text in draw_texts(source, 100):
        anywhere = source.uniform(-80, 80), source.uniform(-180, 180)
        focus = source.choice((None, CITY, CITY, (-17.0, 179.9), anywhere))
        k, layers = (
            source.choice((1, 10, 40, 200)),
            source.choice((None, None, ["locality"], ["stop", "station"])),
        )
        hits = towns.search(text, focus, k, layers)
        expected = search_slowly(towns, text, focus, k, layers)
        assert [hit.id for hit in hits] == [each for each, _ in expected], (text, focus, k, layers)
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-9)
        assert [Place.of_hit(hit) for hit in hits] == [whole[hit.id] for hit in hits]
        assert all(hit.fields == whole[hit.id].to_hit(0, 0).fields for hit in hits)
        full += len(expected) >= 40
    assert full > 5  # long lists took part


# -- what is kept --------------------------------------------------------------------------------------------


def test_changing_a_hit_changes_no_later_one(towns: SqliteEngine) -> None:
    hit = next(hit for hit in towns.search("gleis", k=40) if "parts" in hit.fields)
    hit.fields["parts"].append("mine")  # type: ignore[index]
    hit.fields["name"] = "mine"  # type: ignore[index]
    again = next(each for each in towns.search("gleis", k=40) if each.id == hit.id)
    assert again.fields["parts"] == ["Gleis 1"]
    assert again.fields["name"] != "mine"


def test_a_store_forgets_what_was_not_used_for_longest_and_keeps_nothing_too_large() -> None:
    store: Store[str, int] = Store(most=3 * OVERHEAD + 30)
    for place, name in enumerate(("a", "b", "c")):
        store.put(name, place, 10)
    store.get("a")
    store.put("d", 3, 10)
    assert [store.get(name) for name in ("a", "b", "c", "d")] == [0, None, 2, 3]
    store.put("huge", 9, 3 * OVERHEAD)
    assert (len(store), store.get("huge")) == (3, None)
    store.put("a", 5, 2 * OVERHEAD)
    assert store.pick(["a", "c", "d"]) == ([5], ["c", "d"])


def test_words_around_are_found_in_their_own_lines_only() -> None:
    around = Around([(7, 0, " alt au "), (8, 0, " au berg "), (9, 1, " berg ")])
    assert around.find([" au "]) == {0, 1}
    assert around.find([" berg", " alt"]) == {0, 1, 2}
    assert around.find([" au  au"]) == around.find([" berg  berg"]) == set()
    assert Around([]).find([" au"]) == set()


def test_an_index_in_use_remembers_no_more_than_its_bounds(tmp_path: Path) -> None:
    path = build_index(make_places(random.Random(1))[:300], tmp_path / "few.db")
    with SqliteEngine(path) as opened:
        opened._kept.rows.most = opened._kept.places.most = 50 * OVERHEAD
        before = [opened.search(text, CITY, 40) for text in ("ber", "alt", "neu", "ber")]
        assert max(len(opened._kept.rows), len(opened._kept.places)) <= 50
        opened._kept = KeptIndex()
        assert before == [opened.search(text, CITY, 40) for text in ("ber", "alt", "neu", "ber")]
