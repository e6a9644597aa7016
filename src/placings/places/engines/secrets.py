"""Keys and passwords, taken out of everything that an engine says."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
SHORT = 4  # letters; a shorter secret cannot be told from ordinary words
QUOTED = 300  # letters of a server's words that are shown


class Secrets:
    """What must not be in any message, in each form in which a server may send it back.

    A secret is hidden as it is, encoded for an address, in JSON, in base64 and in hexadecimal digits, in any
    case. One of three letters or fewer is not looked for in our own words; words of a server that hold it
    are not shown at all.

    >>> secrets = Secrets(["s3cret/key"])
    >>> print(secrets.hide("no key S3CRET%2Fkey, nor czNjcmV0L2tleQ=="))
    no key ***, nor ***
    """

    def __init__(self, known: Iterable[str | None]) -> None:
        plain = sorted({each for each in known if each})
        self._short = [each for each in plain if len(each) < SHORT]
        forms = {form for each in plain if len(each) >= SHORT for form in _list_forms(each)}
        ordered = sorted(forms, key=len, reverse=True)  # the longest first: a secret may hold another
        self._longest = len(ordered[0]) if ordered else 0
        self._pattern = re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE) if ordered else None

    def __repr__(self) -> str:
        return "Secrets()"

    def hide(self, text: object) -> str:
        """The text with every secret as ***."""
        return str(text) if self._pattern is None else self._pattern.sub(HIDDEN, str(text))

    def quote(self, words: object, most: int = QUOTED) -> str:
        """The first letters of a server's words; what is hidden is hidden before they are cut."""
        text = str(words)[: most * max(self._longest, 1) + self._longest]
        if any(each.lower() in text.lower() for each in self._short):
            return "(its words are not shown: they hold the key or password)"
        return self.hide(text)[:most]


def list_login(user: str | None, password: str | None) -> list[str]:
    """The secrets of a login: the password, both together, and a user without a password, who is a key."""
    if not password:
        return [user] if user else []
    return [password, f"{user or ''}:{password}"]


def strip_address(url: str) -> str:
    """An address as far as it may be shown: without what stands before an @ or after a ? or #.

    >>> strip_address("https://me:secret@host/x?api_key=secret")
    'https://host/x'
    """
    head, sign, rest = url.partition("://")
    shown = re.split("[?#]", (rest if sign else head).rsplit("@", 1)[-1], maxsplit=1)[0]
    return f"{head}://{shown}" if sign else shown


def name_host(url: str) -> str:
    """Scheme and host of an address, for what a server says; "elsewhere" if it has none.

    >>> name_host("https://me:pw@other.example:8080/v1?api_key=k"), name_host("/v1/search?api_key=k")
    ('https://other.example', 'elsewhere')
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    return f"{parts.scheme}://{host}" if host and parts.scheme in ("http", "https") else "elsewhere"


def _list_forms(secret: str) -> set[str]:
    forms = {secret, unquote(secret)}
    for each in list(forms):
        raw = each.encode("utf-8", "surrogatepass")
        forms |= {quote(raw), quote(raw, safe=""), quote_plus(raw), raw.hex(), repr(each)[1:-1]}
        forms |= {json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1]}
        for code in (b64encode(raw), urlsafe_b64encode(raw)):
            forms |= {code.decode(), code.decode().rstrip("="), quote(code, safe="")}
    return {form for form in forms if len(form) >= SHORT}
