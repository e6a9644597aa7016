"""The service's own log: JSON lines on standard error, without keys, typed texts or raw controls."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from placings.core import escape_line

OURS = ("placings", "uvicorn.error")  # the second is told of requests that are no HTTP


class JsonLines(logging.Formatter):
    """One JSON object a line; what a record brings as `told` stands beside it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "what": escape_line(record.getMessage())[:2000],
            "process": record.process,
            **getattr(record, "told", {}),
        }
        if record.exc_info is not None:
            told["error"] = escape_line(self._say_where(record.exc_info))[-2000:]
        return json.dumps(told, ensure_ascii=True)

    def _say_where(self, told: object) -> str:
        """The files and lines of an error, and its kind; its message may hold what somebody typed."""
        import traceback

        kind, _, trace = told if isinstance(told, tuple) else (None, None, None)
        frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(trace)]
        return f"{kind.__name__ if kind is not None else 'error'} at {' < '.join(reversed(frames[-8:]))}"


def write_logs(level: int = logging.INFO) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in OURS:
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.setLevel(level if name == "placings" else logging.WARNING)
        log.propagate = False
