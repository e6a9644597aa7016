"""PostgresEngine: places in PostgreSQL, found by pg_trgm, near ones first where earthdistance is there."""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from placings.core import EARTH_KM, BadInput, escape_line, fold_text, need_library, spell_once
from placings.places.engines.deadlines import Deadline, run_within
from placings.places.engines.requests import ServerFailed, check_place, check_request, clean_value
from placings.places.engines.secrets import Secrets, list_login
from placings.places.place import Place, split_locality
from placings.rerank import BadHit, Focus, Hit, HitReader

SHORT = 3  # texts up to here have indexes of their own, by weight: too many names begin with them
TEXTS = ("id", "name", "type", "locality", "street", "neighbourhood", "borough", "country", "zone")
COLUMNS = ("number", *TEXTS, "names", "lat", "lon", "weight", "fields", "words")

TABLES = """
CREATE TABLE {places} (
    number integer NOT NULL, id text NOT NULL, name text NOT NULL, type text NOT NULL, locality text NOT NULL,
    street text NOT NULL, neighbourhood text NOT NULL, borough text NOT NULL, country text NOT NULL,
    zone text NOT NULL, names text[] NOT NULL, lat double precision NOT NULL, lon double precision NOT NULL,
    weight double precision NOT NULL, fields jsonb NOT NULL, words text NOT NULL
);
CREATE TABLE {names} (
    place integer NOT NULL, name text NOT NULL, own boolean NOT NULL, weight double precision NOT NULL
)
"""
INDEXES = """
ALTER TABLE {places} ADD PRIMARY KEY (number);
ALTER TABLE {places} ADD UNIQUE (id);
CREATE INDEX ON {places} USING gin (words gin_trgm_ops);
CREATE INDEX ON {names} USING gin (name gin_trgm_ops);
CREATE INDEX ON {names} (name text_pattern_ops);
CREATE INDEX ON {names} (place);
CREATE INDEX ON {names} ("left"(name, 1), weight DESC);
CREATE INDEX ON {names} ("left"(name, 2), weight DESC);
CREATE INDEX ON {names} ("left"(name, 3), weight DESC);
"""
NEAR_INDEX = {
    True: "CREATE INDEX ON {places} USING gist (ll_to_earth(lat, lon))",
    False: "CREATE INDEX ON {places} (lat)",
}
DISTANCE = {  # kilometres on our globe; the one of earthdistance is a little larger
    True: f"earth_distance(ll_to_earth(p.lat, p.lon), ll_to_earth(%(lat)s, %(lon)s)) / earth() * {EARTH_KM}",
    False: f"""{2 * EARTH_KM} * asin(least(1, sqrt(power(sind((p.lat - %(lat)s) / 2), 2)
        + cosd(p.lat) * cosd(%(lat)s) * power(sind((p.lon - %(lon)s) / 2), 2))))""",
}
NEAR = {
    True: f"""earth_box(ll_to_earth(%(lat)s, %(lon)s), %(near)s * earth() / {EARTH_KM})
        @> ll_to_earth(p.lat, p.lon)""",
    False: """p.lat BETWEEN %(lat)s - %(near)s / 111.0 AND %(lat)s + %(near)s / 111.0
        AND {distance} <= %(near)s""",
}
LIKENESS = """CASE WHEN n.name = %(text)s THEN CASE WHEN n.own THEN %(exact)s ELSE %(exact_other)s END
    ELSE CASE WHEN n.own THEN %(begun)s ELSE %(begun_other)s END END"""
WANTED = "(%(layers)s::text[] IS NULL OR p.type = ANY(%(layers)s::text[]))"
SEARCH = """
WITH found AS (SELECT place, max(likeness) AS likeness FROM ({sources}) AS matches GROUP BY place)
SELECT {columns}, %(text_weight)s * found.likeness
    + %(popularity)s * ln(1 + p.weight) / greatest(%(largest)s, 1e-9)
    + {closeness} AS score
FROM found JOIN {places} AS p ON p.number = found.place
WHERE {wanted}
ORDER BY score DESC, p.weight DESC, p.id COLLATE "C"
LIMIT %(k)s
"""
BEGINS = "SELECT n.place, {likeness} AS likeness FROM {names} AS n WHERE n.name LIKE %(prefix)s"
BEGINS_SHORT = """(SELECT n.place, {likeness} AS likeness
    FROM {names} AS n JOIN {places} AS p ON p.number = n.place
    WHERE "left"(n.name, {length}) = %(text)s AND {wanted} ORDER BY n.weight DESC LIMIT %(pool)s)"""
BEGINS_NEAR = """(SELECT n.place, {likeness} AS likeness
    FROM {places} AS p JOIN {names} AS n ON n.place = p.number
    WHERE {near} AND "left"(n.name, {length}) = %(text)s AND {wanted} ORDER BY {distance} LIMIT %(pool)s)"""
WORDS = "SELECT p.number AS place, %(worded)s AS likeness FROM {places} AS p WHERE {patterns}"
FUZZY = """
SELECT p.number AS place, %(fuzzy)s - %(unlike)s * (1 - word_similarity(%(text)s, p.words)) AS likeness
    FROM {places} AS p WHERE %(text)s <%% p.words
UNION ALL SELECT n.place, %(fuzzy)s - %(unlike)s * (1 - similarity(n.name, %(text)s)) AS likeness
    FROM {names} AS n WHERE n.name %% %(text)s"""


@dataclass(frozen=True)
class Mix:
    """What counts how much in the score of PostgreSQL's places.

    score = text · likeness + popularity · ln(1 + w) / ln(1 + largest w) + distance / (1 + d/scale)

    `likeness` is 1 for the place's own name and `other` less for another of its names, `begun` for a name
    that begins with the text, `worded` where every word begins a word of name, locality, street,
    neighbourhood or borough, and `fuzzy` − `unlike` · (1 − trigram similarity) for what is only similar
    (from `similar` on). `d` is the distance to the focus in kilometres; closeness is a half at `scale`.
    """

    text: float = 1.0
    popularity: float = 1.0
    distance: float = 0.7
    scale: float = 10.0
    begun: float = 0.75
    worded: float = 0.65
    other: float = 0.1
    fuzzy: float = 0.1
    unlike: float = 1.0
    similar: float = 0.4


def choose_values(
    mix: Mix, folded: str, focus: Focus | None, k: int, layers: Sequence[str] | None, largest: float
) -> dict[str, Any]:
    """The parameters of a search for a folded text; `largest` is ln(1 + the largest weight)."""
    words = {f"word{i}": f"% {_escape(word)}%" for i, word in enumerate(folded.split())}
    likeness = {
        "exact": 1.0,
        "exact_other": 1.0 - mix.other,
        "begun": mix.begun,
        "begun_other": mix.begun - mix.other,
        "worded": mix.worded,
        "fuzzy": mix.fuzzy,
        "unlike": mix.unlike,
    }
    place = {"lat": focus[0], "lon": focus[1], "near": 3.0 * mix.scale} if focus is not None else {}
    return {
        **words,
        **likeness,
        **place,
        "text": folded,
        "prefix": _escape(folded) + "%",
        "pool": max(10 * k, 400),
        "k": k,
        "layers": None if layers is None else list(layers),
        "text_weight": mix.text,
        "popularity": mix.popularity,
        "distance": mix.distance,
        "scale": mix.scale,
        "largest": largest,
    }


def write_search(folded: str, *, near: bool, earth: bool, fuzzy: bool) -> str:
    """The statement for a folded text: only its length and its number of words shape it.

    `near` says that there is a focus, `earth` that earthdistance is there, `fuzzy` that similar names count.
    {places} and {names} are left for the tables' names.
    """
    closeness = f"%(distance)s / (1 + ({DISTANCE[earth]}) / %(scale)s)" if near else "0"
    pieces = {
        "sources": "\nUNION ALL ".join(_choose_sources(folded, near) + [FUZZY] * fuzzy),
        "patterns": " AND ".join(f"p.words LIKE %(word{i})s" for i in range(len(folded.split()))),
        "length": str(len(folded)),
        "closeness": closeness,
        "columns": ", ".join(f"p.{column}" for column in COLUMNS[1:-1]),
        "near": NEAR[earth],
        "likeness": LIKENESS,
        "wanted": WANTED,
        "distance": DISTANCE[earth],
    }
    statement = SEARCH
    for name, piece in pieces.items():
        statement = statement.replace("{" + name + "}", piece)
    return statement


def _choose_sources(folded: str, near: bool) -> list[str]:
    if len(folded) > SHORT:
        return [BEGINS, WORDS]
    return [BEGINS_SHORT] + [BEGINS_NEAR] * near + [WORDS] * (len(folded) == SHORT)


def _escape(text: str) -> str:
    """The text as a LIKE pattern that matches only itself. Folded text has no signs; this holds without."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


ADDRESS = "PLACINGS_POSTGRES"
BATCH = 20_000
LONGEST, MOST_WORDS = 200, 20  # what is read of a text
LONGEST_WAIT = 86_400.0  # seconds


class PostgresEngine:
    """Places in a PostgreSQL database with the extension pg_trgm, and earthdistance where it can be had.

    `address` is a connection string (postgresql://user:password@host/database, or key=value pairs); without
    one the environment's PLACINGS_POSTGRES is used. It is never shown: errors name host and database only.
    `load` makes the table `table` and a second one of names beside it. `earthdistance=False` does without the
    extension, by plain arithmetic; None takes it where it is installed. A search takes `timeout` seconds at
    most, connecting included, and a load `load_timeout`: then the connection is cut, even if the server is
    frozen. Every value is a parameter, never part of a statement. Threads take turns on one connection. A
    place that is off the globe, comes twice or has no finite score is left out, with a warning.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        table: str = "places",
        mix: Mix | None = None,
        earthdistance: bool | None = None,
        timeout: float = 10.0,
        load_timeout: float = 3600.0,
    ) -> None:
        address = os.environ.get(ADDRESS) if address is None else address
        if not address:
            raise BadInput(f"no database is named. Give an address, or set {ADDRESS}=postgresql://…")
        if not 1 <= len(table.encode()) <= 40 or "\0" in table:
            raise BadInput(f"a table's name must have 1 to 40 bytes. Got {table!r}.")
        for name, seconds in (("timeout", timeout), ("load_timeout", load_timeout)):
            if not 0 < seconds <= LONGEST_WAIT:
                raise BadInput(f"{name} must be above 0 seconds, a day at most. Got {seconds!r}.")
        self.table, self.mix, self.timeout, self.load_timeout = table, mix or Mix(), timeout, load_timeout
        self._address, self._wish = address, earthdistance
        self._connection: Any = None
        self._largest: float | None = None
        self._earth, self._fresh = False, False
        self._turn = threading.Lock()
        known = self._read_address()
        self._secrets = Secrets(
            [
                address,
                *list_login(None, known.get("password")),
                known.get("sslpassword"),
                os.environ.get("PGPASSWORD"),
            ]
        )
        self._reader = HitReader(f"PostgreSQL at {self._say_where()}", quote=self._secrets.quote)

    def __repr__(self) -> str:
        return f"PostgresEngine({self._say_where()!r}, table={self.table!r})"

    def load(self, places: Iterable[Place], *, progress: Callable[[int], object] | None = None) -> int:
        """Write places into the table by COPY, in place of what was in it, and give their number.

        All or nothing: a search sees the old places until the last index is made. `progress` hears how many
        were sent. Ids must differ. Needs the right to create tables, and pg_trgm installed or installable.
        """
        new = {"places": f"{self.table}_new", "names": f"{self.table}_names_new"}
        with (
            self._told_as_ours(),
            self._within(Deadline(self.load_timeout)) as connection,
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            self._install(cursor)
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(self._fill("DROP TABLE IF EXISTS {places}, {names}", new))
            cursor.execute(self._fill(TABLES, new))
            count, waiting = 0, iter(places)
            while chunk := list(islice(waiting, BATCH)):
                self._copy(cursor, chunk, count, new)
                count += len(chunk)
                if progress is not None:
                    progress(count)
            cursor.execute(self._fill(INDEXES, new))
            cursor.execute(self._fill(NEAR_INDEX[self._earth], new))
            cursor.execute(self._fill("ANALYZE {places}; ANALYZE {names}", new))
            cursor.execute(self._fill("DROP TABLE IF EXISTS {places}, {names}"))
            for part, name in new.items():
                final = self._names()[part]
                cursor.execute(self._fill("ALTER TABLE {old} RENAME TO {new}", {"old": name, "new": final}))
        self._largest = None
        return count

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits by falling score; an empty text, or `layers=[]`, finds nothing.

        Names that begin with the text and places with a word for each word of it come first; if these are
        fewer than `k`, similar ones fill up. Of a text longer than 200 characters or 20 words the rest is not
        looked at.
        """
        text = check_request(text, focus, k, layers)
        folded = " ".join(fold_text(text[:LONGEST]).split()[:MOST_WORDS])
        if not folded or (layers is not None and not layers):
            return []
        deadline = Deadline(self.timeout)
        with self._told_as_ours():
            try:
                found = self._search(folded, focus, k, layers, deadline)
            except self._lost():  # the server was restarted, or somebody ended the session: once more
                if self._connection is None or not self._connection.closed:
                    raise
                found = self._search(folded, focus, k, layers, deadline)
        try:
            return self._reader.read(found, _read_hit)
        except BadHit as error:
            problem = str(error)
        raise ServerFailed(
            f"PostgreSQL at {self._say_where()} answered with {problem}. Load the places again."
        )

    def _search(
        self, folded: str, focus: Focus | None, k: int, layers: Sequence[str] | None, deadline: Deadline
    ) -> list[Sequence[Any]]:
        found: list[Sequence[Any]] = []
        with self._within(deadline) as connection:
            values = choose_values(self.mix, folded, focus, k, layers, self._find_largest())
            for fuzzy in (False, True):
                statement = write_search(folded, near=focus is not None, earth=self._earth, fuzzy=fuzzy)
                found = connection.execute(self._fill(statement), values).fetchall()
                if len(found) >= k or len(folded) <= 2:
                    break
        return found

    @contextmanager
    def _within(self, deadline: Deadline) -> Iterator[Any]:
        """The connection, for this thread alone; when the deadline is over, it is cut.

        A statement's own time-out is kept by the server: a frozen one, or one behind a dead line, keeps none.
        """
        late = ServerFailed(
            f"PostgreSQL at {self._say_where()} gave no answer within {deadline.seconds:g} seconds. Is it "
            "frozen, or too busy? A larger timeout waits longer."
        )
        if not self._turn.acquire(timeout=deadline.left):
            raise late
        over = threading.Event()
        try:
            connection = self._connect(deadline, late)
            line = socket.socket(fileno=os.dup(connection.fileno()))

            def cut() -> None:
                over.set()
                with suppress(OSError):  # gone already
                    line.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for it

            timer = threading.Timer(deadline.left, cut)
            timer.daemon = True
            timer.start()
            try:
                self._prepare(connection)
                yield connection
            finally:
                timer.cancel()
                timer.join()
                line.close()
                if over.is_set():
                    connection.close()
        except need_library("psycopg", "the PostgreSQL engine", "places").Error:
            if not over.is_set():
                raise
        finally:
            self._turn.release()
        if over.is_set():
            raise late

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _names(self) -> dict[str, str]:
        return {"places": self.table, "names": f"{self.table}_names"}

    def _fill(self, statement: str, names: dict[str, str] | None = None) -> Any:
        from psycopg import sql

        chosen = {key: sql.Identifier(name) for key, name in (names or self._names()).items()}
        return sql.SQL(statement).format(**chosen)

    def _copy(self, cursor: Any, places: list[Place], start: int, tables: dict[str, str]) -> None:
        from psycopg.types.json import Jsonb

        own = [spell_once(place.name) for place in places]
        bare = [spell_once(split_locality(place.name, place.locality)) for place in places]
        around = [
            spell_once(" ".join((place.locality, place.street, place.neighbourhood, place.borough)))
            for place in places
        ]
        others = (spell_once(name) for place in places for name in place.names)
        with cursor.copy(self._fill(f"COPY {{places}} ({', '.join(COLUMNS)}) FROM STDIN", tables)) as copy:
            for row, place in enumerate(places):
                check_place(place)
                texts = [clean_value(getattr(place, name)) for name in TEXTS]
                known = [clean_value(name) for name in place.names]
                words = " ".join(["", *own[row], *around[row]])
                numbers = (place.lat, place.lon, place.weight)
                copy.write_row(
                    [start + row, *texts, known, *numbers, Jsonb(clean_value(place.fields)), words]
                )
        with cursor.copy(self._fill("COPY {names} (place, name, own, weight) FROM STDIN", tables)) as copy:
            for row, place in enumerate(places):
                further = [name for _ in place.names for name in next(others)]
                spelled = dict.fromkeys(further, False) | dict.fromkeys(own[row] + bare[row], True)
                for name, is_own in spelled.items():
                    copy.write_row([start + row, name, is_own, place.weight])

    def _install(self, cursor: Any) -> None:
        import psycopg

        try:
            with cursor.connection.transaction():
                cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except psycopg.Error as error:
            raise ServerFailed(
                f"PostgreSQL at {self._say_where()} has no pg_trgm and cannot install it: {self._say(error)} "
                "Install PostgreSQL's contrib package there, or have an owner run CREATE EXTENSION pg_trgm."
            ) from None
        if self._wish is not False and not self._earth:
            try:
                with cursor.connection.transaction():
                    cursor.execute("CREATE EXTENSION IF NOT EXISTS earthdistance CASCADE")
                self._earth = True
            except psycopg.Error as error:
                if self._wish:
                    raise ServerFailed(
                        f"PostgreSQL at {self._say_where()} cannot install earthdistance: {self._say(error)} "
                        "Leave earthdistance=None to do without."
                    ) from None

    def _find_largest(self) -> float:
        if self._largest is None:
            found = self._connection.execute(self._fill("SELECT max(weight) FROM {places}")).fetchone()[0]
            self._largest = math.log1p(found or 0.0)
        return self._largest

    def _connect(self, deadline: Deadline, late: ServerFailed) -> Any:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        psycopg = need_library("psycopg", "the PostgreSQL engine", "places")
        if not self._read_address():
            raise BadInput(
                "the database's address cannot be read. It must be postgresql://user@host/database or pairs "
                "such as host=… dbname=…. It is not shown here, since it may hold a password."
            )
        wait = max(2, math.ceil(deadline.left))  # libpq takes no less
        try:
            self._connection = run_within(
                deadline.left,
                lambda: psycopg.connect(
                    self._address, autocommit=True, connect_timeout=wait, prepare_threshold=None
                ),
                lambda connection: connection.close(),
            )
        except (TimeoutError, psycopg.errors.ConnectionTimeout):
            self._connection = None
        if self._connection is None:
            raise late
        self._fresh = True
        return self._connection

    def _prepare(self, connection: Any) -> None:
        """Settings of a connection that was just made."""
        if not self._fresh:
            return
        settings = {
            "statement_timeout": str(round(1000 * self.timeout)),
            "pg_trgm.similarity_threshold": str(self.mix.similar),
            "pg_trgm.word_similarity_threshold": str(self.mix.similar),
        }
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        known = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'earthdistance'").fetchone()
        self._earth = known is not None and self._wish is not False
        self._fresh = False

    @staticmethod
    def _lost() -> type[Exception]:
        from psycopg import OperationalError

        return OperationalError

    @contextmanager
    def _told_as_ours(self) -> Iterator[None]:
        """psycopg's errors as ours, without the address and its password."""
        psycopg = need_library("psycopg", "the PostgreSQL engine", "places")
        told: Exception | None = None
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            told = BadInput(f"places must have different ids. {self._say(error)}")
        except psycopg.errors.UndefinedTable:
            told = ServerFailed(
                f"PostgreSQL at {self._say_where()} has no table {self.table!r}. Make it with load(places)."
            )
        except psycopg.Error as error:
            told = ServerFailed(
                f"PostgreSQL at {self._say_where()} failed, {type(error).__name__}: {self._say(error)}"
            )
        if told is not None:  # outside, so that it does not carry libpq's own words along
            raise told

    def _say_where(self) -> str:
        known = self._read_address()
        host = known.get("host") or known.get("hostaddr") or "the local socket"
        port = f":{known['port']}" if known.get("port") else ""
        return f"{host}{port}/{known.get('dbname') or ''}"

    def _read_address(self) -> dict[str, Any]:
        try:
            from psycopg.conninfo import conninfo_to_dict

            return dict(conninfo_to_dict(self._address))
        except Exception:  # ImportError, or libpq's complaint, which quotes the address
            return {}

    def _say(self, error: Any) -> str:
        detail = getattr(getattr(error, "diag", None), "message_detail", None)
        words = " ".join(str(detail or error).split()).rstrip(".")
        return f"{escape_line(self._secrets.quote(words))}."


def _read_hit(row: Sequence[Any], rank: int) -> Hit:
    known = dict(zip(COLUMNS[1:-1], row, strict=False))
    return Place(**{**known, "names": tuple(known["names"])}).to_hit(float(row[-1]), rank)


def open_postgres(address: str, **settings: Any) -> PostgresEngine:
    """The engine behind `postgresql://user@host/database`; nothing is the address in PLACINGS_POSTGRES."""
    return PostgresEngine(f"postgresql:{address}" if address.strip("/") else None, **settings)
