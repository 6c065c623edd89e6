"""Bad rows of a source with an order, kept in a folder of the lake: no part is ever left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.locate import locate
from tideline.ingest.location import Location


def refused_part(name: str, reason: str, content: str, uri: str) -> ConfigError:
    """Why a part with this content cannot be set aside: later rows would be taken in before earlier
    ones."""
    return ConfigError(
        f"{name} cannot be taken in: {reason}; set single {content} aside with onBadRow: "
        "Quarantine and source.setAside",
        path=uri,
    )


def keep_bad_rows(folder: Location, path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """One object, a JSON object a line: writing it again writes the same."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    locate(folder).open().put(path, "\n".join([*lines, ""]).encode())
