"""Search ids that only this service can have given out: signed, with the list they stand for, and their age.

An id is `random.time.list.signature`, in letters that need no escaping in an address. The signature covers
the other three. Feedback brings the id back: a forged one is told from ours without a look at the disk, and
so is one for a list of other items.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from placings.core import BadFile, sync_folder

KEY_FILE = "signing.key"
KEY_BYTES = 32
LONGEST = 200  # letters of an id that are looked at
LIFETIME = 7 * 86_400.0  # seconds in which feedback is taken
AHEAD = 300.0  # seconds that another worker's clock may be ahead
FORGED, EXPIRED, FUTURE = "forged", "expired", "future"


@dataclass(frozen=True)
class OpenedId:
    """What an id says once its signature is found to be ours."""

    search_id: str
    time: float
    items: str  # a digest of the items and their order


class Signer:
    """Signs and checks search ids with a key that all workers, and all restarts, share."""

    def __init__(self, key: bytes, *, lifetime: float = LIFETIME) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a key must have {KEY_BYTES} bytes or more. Got {len(key)}.")
        self.lifetime = lifetime
        self._begun = hmac.new(key, digestmod="sha256")  # a copy of it is quicker than to begin anew

    def __repr__(self) -> str:
        return "Signer(…)"  # never the key

    def sign(self, items: Sequence[str], *, now: float | None = None) -> str:
        """A new id for a list of items, in the order in which they are shown.

        >>> signer = Signer(b"0" * 32)
        >>> found = signer.open(signer.sign(["a", "b"], now=1000.0), now=1060.0)
        >>> found.time, found.items == digest_items(["a", "b"])
        (1000.0, True)
        >>> signer.open("forged.1.2.3") is None
        True
        """
        moment = time() if now is None else now
        told = f"{secrets.token_urlsafe(12)}.{int(moment * 1000):x}.{digest_items(items)}"
        return f"{told}.{self._sign(told)}"

    def open(self, search_id: object, *, now: float | None = None) -> OpenedId | None:
        """What an id says; None if it is not ours, too old, or from the future."""
        found, problem = self.check(search_id, now=now)
        return None if problem else found

    def check(self, search_id: object, *, now: float | None = None) -> tuple[OpenedId | None, str]:
        """What an id of ours says, and why it is not good now: forged, expired, future, or "" if it is.

        An id from the future is one that was given out before the clock was set back.
        """
        if not isinstance(search_id, str) or len(search_id) > LONGEST or not search_id.isascii():
            return None, FORGED
        told, _, signature = search_id.rpartition(".")
        if told.count(".") != 2 or not hmac.compare_digest(signature, self._sign(told)):
            return None, FORGED
        _, moment, items = told.split(".")
        at = int(moment, 16) / 1000
        age = (time() if now is None else now) - at
        problem = EXPIRED if age > self.lifetime else FUTURE if age < -AHEAD else ""
        return OpenedId(search_id, at, items), problem

    def _sign(self, told: str) -> str:
        mac = self._begun.copy()
        mac.update(told.encode("ascii"))
        return _as_letters(mac.digest()[:16])


def digest_items(items: Sequence[str]) -> str:
    """Eleven letters that stand for items in their order."""
    names = [item.encode("utf-8", "replace") for item in items]
    joined = b"".join([part for name in names for part in (len(name).to_bytes(4, "big"), name)])
    return _as_letters(hashlib.sha256(joined).digest()[:8])


def read_key(folder: Path) -> bytes:
    """The key of a folder, made at the first start; only its owner may read it."""
    path = folder / KEY_FILE
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(handle, secrets.token_bytes(KEY_BYTES))
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(folder)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise BadFile(
            path,
            f"must hold {KEY_BYTES} bytes. Got {len(key)}. Remove it; ids given out before are then unknown.",
        )
    if path.stat().st_mode & 0o077:
        raise BadFile(path, f"may be read by others. Say: chmod 600 {path}")
    return key


def _as_letters(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode("ascii")
