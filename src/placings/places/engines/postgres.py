"""PostgresEngine: places in PostgreSQL, found by pg_trgm, near ones first where earthdistance is there."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from placings.errors import BadInput, MissingExtra
from placings.places.engines.postgres_statements import (
    COLUMNS,
    INDEXES,
    NEAR_INDEX,
    TABLES,
    TEXTS,
    Mix,
    choose_values,
    write_search,
)
from placings.places.engines.requests import ServerFailed, check_place, check_request
from placings.places.folding import find_variants, fold_all, fold_text, split_locality
from placings.places.place import Focus, Hit, Place

ADDRESS = "PLACINGS_POSTGRES"
BATCH = 20_000
LONGEST, MOST_WORDS = 200, 20  # what is read of a text


class PostgresEngine:
    """Places in a PostgreSQL database with the extension pg_trgm, and earthdistance where it can be had.

    `address` is a connection string (postgresql://user:password@host/database, or key=value pairs); without
    one the environment's PLACINGS_POSTGRES is used. It is never shown: errors name host and database only.
    `load` makes the table `table` and a second one of names beside it. `earthdistance=False` does without the
    extension, by plain arithmetic; None takes it where it is installed. Statements are ended after
    `timeout` seconds. Every value is a parameter, never part of a statement.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        table: str = "places",
        mix: Mix | None = None,
        earthdistance: bool | None = None,
        timeout: float = 10.0,
    ) -> None:
        address = os.environ.get(ADDRESS) if address is None else address
        if not address:
            raise BadInput(f"no database is named. Give an address, or set {ADDRESS}=postgresql://…")
        if not 1 <= len(table.encode()) <= 40 or "\0" in table:
            raise BadInput(f"a table's name must have 1 to 40 bytes. Got {table!r}.")
        if not timeout > 0:
            raise BadInput(f"timeout must be above 0 seconds. Got {timeout!r}.")
        self.table, self.mix, self.timeout = table, mix or Mix(), timeout
        self._address, self._wish = address, earthdistance
        self._connection: Any = None
        self._largest: float | None = None
        self._earth = False

    def __repr__(self) -> str:
        return f"PostgresEngine({self._say_where()!r}, table={self.table!r})"

    def load(self, places: Iterable[Place], *, progress: Callable[[int], object] | None = None) -> int:
        """Write places into the table by COPY, in place of what was in it, and give their number.

        All or nothing: a search sees the old places until the last index is made. `progress` hears how many
        were sent. Ids must differ. Needs the right to create tables, and pg_trgm installed or installable.
        """
        new = {"places": f"{self.table}_new", "names": f"{self.table}_names_new"}
        with self._told_as_ours(), self._connect().transaction(), self._connection.cursor() as cursor:
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
        check_request(text, focus, k, layers)
        folded = " ".join(fold_text(text[:LONGEST]).split()[:MOST_WORDS])
        if not folded or (layers is not None and not layers):
            return []
        with self._told_as_ours():
            try:
                found = self._search(folded, focus, k, layers)
            except self._lost():  # the server was restarted, or somebody ended the session: once more
                if self._connection is None or not self._connection.closed:
                    raise
                found = self._search(folded, focus, k, layers)
        return [Hit(_read_place(row), float(row[-1]), rank) for rank, row in enumerate(found, 1)]

    def _search(
        self, folded: str, focus: Focus | None, k: int, layers: Sequence[str] | None
    ) -> list[Sequence[Any]]:
        connection = self._connect()
        values = choose_values(self.mix, folded, focus, k, layers, self._find_largest())
        found: list[Sequence[Any]] = []
        for fuzzy in (False, True):
            statement = write_search(folded, near=focus is not None, earth=self._earth, fuzzy=fuzzy)
            found = connection.execute(self._fill(statement), values).fetchall()
            if len(found) >= k or len(folded) <= 2:
                break
        return found

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

        own = _spell_all(place.name for place in places)
        bare = _spell_all(split_locality(place.name, place.locality) for place in places)
        around = _spell_all(
            " ".join((place.locality, place.street, place.neighbourhood, place.borough)) for place in places
        )
        others = iter(_spell_all(name for place in places for name in place.names))
        with cursor.copy(self._fill(f"COPY {{places}} ({', '.join(COLUMNS)}) FROM STDIN", tables)) as copy:
            for row, place in enumerate(places):
                check_place(place)
                texts = [_clean(getattr(place, name)) for name in TEXTS]
                known = [_clean(name) for name in place.names]
                words = " ".join(["", *own[row], *around[row]])
                numbers = (place.lat, place.lon, place.weight)
                copy.write_row([start + row, *texts, known, *numbers, Jsonb(place.fields), words])
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
                f"PostgreSQL at {self._say_where()} has no pg_trgm and cannot install it: {_say(error)} "
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
                        f"PostgreSQL at {self._say_where()} cannot install earthdistance: {_say(error)} "
                        "Leave earthdistance=None to do without."
                    ) from None

    def _find_largest(self) -> float:
        if self._largest is None:
            found = self._connection.execute(self._fill("SELECT max(weight) FROM {places}")).fetchone()[0]
            self._largest = math.log1p(found or 0.0)
        return self._largest

    def _connect(self) -> Any:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra("the PostgreSQL engine", "psycopg", "places") from error
        if not self._read_address():
            raise BadInput(
                "the database's address cannot be read. It must be postgresql://user@host/database or pairs "
                "such as host=… dbname=…. It is not shown here, since it may hold a password."
            )
        wait = max(2, math.ceil(self.timeout))
        self._connection = psycopg.connect(
            self._address, autocommit=True, connect_timeout=wait, prepare_threshold=None
        )
        settings = {
            "statement_timeout": str(round(1000 * self.timeout)),
            "pg_trgm.similarity_threshold": str(self.mix.similar),
            "pg_trgm.word_similarity_threshold": str(self.mix.similar),
        }
        for name, value in settings.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        known = self._connection.execute(
            "SELECT 1 FROM pg_extension WHERE extname = 'earthdistance'"
        ).fetchone()
        self._earth = known is not None and self._wish is not False
        return self._connection

    @staticmethod
    def _lost() -> type[Exception]:
        from psycopg import OperationalError

        return OperationalError

    @contextmanager
    def _told_as_ours(self) -> Iterator[None]:
        """psycopg's errors as ours, without the address and its password."""
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra("the PostgreSQL engine", "psycopg", "places") from error
        try:
            yield
        except psycopg.errors.UniqueViolation as error:
            raise BadInput(f"places must have different ids. {_say(error)}") from None
        except psycopg.errors.UndefinedTable:
            raise ServerFailed(
                f"PostgreSQL at {self._say_where()} has no table {self.table!r}. Make it with load(places)."
            ) from None
        except psycopg.Error as error:
            raise ServerFailed(
                f"PostgreSQL at {self._say_where()} failed, {type(error).__name__}: "
                f"{self._hide_secrets(_say(error))}"
            ) from None

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

    def _hide_secrets(self, text: str) -> str:
        secrets = [self._address, str(self._read_address().get("password") or "")]
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return text


def _spell_all(texts: Iterable[str]) -> list[list[str]]:
    """The folded spellings of each text; none of a text of which nothing is left."""
    given = list(texts)
    plain = fold_all(given)
    variants = find_variants(given, plain) if given else {}
    return [[text, *variants.get(row, ())] if text else [] for row, text in enumerate(plain)]


def _clean(text: str) -> str:
    return text.replace("\0", "")  # PostgreSQL holds every letter but this one


def _read_place(row: Sequence[Any]) -> Place:
    known = dict(zip(COLUMNS[1:-1], row, strict=False))
    return Place(**{**known, "names": tuple(known["names"])})


def _say(error: Any) -> str:
    detail = getattr(getattr(error, "diag", None), "message_detail", None)
    words = " ".join(str(detail or error).split()).rstrip(".")
    return f"{words[:300]}."
