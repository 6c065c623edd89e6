"""Logs as JSON lines on standard error: time, level, message, and which table and operation.

Secrets are masked in the texts, before they become JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from tideline.secret_values import masked

_FIELDS = ("table", "operation", "kind", "attempt", "reason", "seconds")


class JsonLines(logging.Formatter):
    """One line of JSON per record; known `extra` fields become members."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": masked(record.getMessage()),
        }
        for name in _FIELDS:
            if value := getattr(record, name, None):
                # Names are those of Kubernetes: a tenant's key that is spelled like another's
                # table must not take that table out of the log.
                line[name] = masked(value) if name == "reason" else value
        if record.exc_info:
            line["error"] = masked(self.formatException(record.exc_info))
        line["logger"] = record.name
        return json.dumps(line, ensure_ascii=False, default=lambda item: masked(str(item)))


def log_as_json(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send everything the process logs to `stream` (standard error) as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # A connection that was dropped while idle is opened again: not worth a line.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
