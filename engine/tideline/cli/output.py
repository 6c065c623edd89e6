"""What commands print: rich tables on a terminal, plain aligned lines in a pipe, or one JSON value.

Only results go to stdout; progress, warnings and errors go to stderr.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 100_000


def print_json(document: object) -> None:
    """Print one JSON document on one line."""
    print(json.dumps(json_value(document), ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headers; numbers are aligned to the right."""
    cells = [tuple(row) for row in rows]
    on_terminal = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, header_style="bold" if on_terminal else "")
    for position, header in enumerate(headers):
        numeric = all(_is_number(row[position]) for row in cells) and bool(cells)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell_text(value)) for value in row))
    _print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Print `name  value` lines; None is left out, a list takes one line per item."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold" if sys.stdout.isatty() else "")
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is None:
            continue
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        for position, item in enumerate(items):
            grid.add_row("" if position else name, Text(cell_text(item)))
    _print(grid)


def print_line(text: str = "") -> None:
    """Print one line, as it is."""
    print(text)


def cell_text(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(json_value(value), ensure_ascii=False)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    return str(value)


def json_value(value: Any) -> Any:
    """The value in JSON's terms: times as ISO 8601, decimals as text, bytes as base64."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item) for item in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return json_value(value.value)
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _print(renderable: Table) -> None:
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False)
    # Through print(): rich's own handling of a closed pipe ends the process.
    with console.capture() as capture:
        console.print(renderable)
    print(capture.get(), end="")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
