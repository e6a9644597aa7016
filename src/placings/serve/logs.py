"""The service's own log: JSON lines on standard error, without keys, typed texts or raw controls."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from placings.core import escape_line


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "what": escape_line(record.getMessage())[:2000],
            "process": record.process,
        }
        if record.exc_info is not None:
            told["error"] = escape_line(self.formatException(record.exc_info))[-2000:]
        return json.dumps(told, ensure_ascii=True)


def write_logs(level: int = logging.INFO) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("placings")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
