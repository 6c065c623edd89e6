"""What commands print: rich tables on a terminal, plain aligned lines in a pipe, or one JSON value.

Words are never broken, so that instants and paths can be copied: text goes on in the next line of
its cell after a space, and lines of a table whose words do not fit are longer than the terminal.
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

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tideline.cli.progress import end_progress

_PIPE_WIDTH = 100_000


def print_json(document: object) -> None:
    """Print one JSON document on one line."""
    end_progress()
    print(json.dumps(json_value(document), ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headers; numbers are aligned to the right."""
    cells = [tuple(row) for row in rows]
    on_terminal = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, header_style="bold" if on_terminal else "")
    for position, header in enumerate(headers):
        numeric = all(_is_number(row[position]) for row in cells) and bool(cells)
        longest = _longest_word((header, *(cell_text(row[position]) for row in cells)))
        table.add_column(header, justify="right" if numeric else "left", min_width=longest)
    for row in cells:
        table.add_row(*(Text(cell_text(value)) for value in row))
    _print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Print `name  value` lines; None is left out, a list takes one line per item."""
    grid = Table.grid(padding=(0, 2))
    rows = [
        ("" if position else name, cell_text(item))
        for name, value in facts.items()
        if value is not None
        for position, item in enumerate(value if isinstance(value, (list, tuple)) else [value])
    ]
    grid.add_column(style="bold" if sys.stdout.isatty() else "", no_wrap=True)
    grid.add_column(min_width=_longest_word(text for _, text in rows))
    for name, text in rows:
        grid.add_row(name, Text(text))
    _print(grid)


def print_line(text: str = "") -> None:
    """Print one line, as it is."""
    end_progress()
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
    end_progress()
    console = Console(highlight=False)
    if not sys.stdout.isatty():
        console.width = _PIPE_WIDTH
    else:
        console.width = max(console.width, _least_width(renderable))
    # Through print(): rich's own handling of a closed pipe ends the process.
    with console.capture() as capture:
        console.print(renderable)
    print(capture.get(), end="")


def _longest_word(texts: Iterable[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def _least_width(table: Table) -> int:
    """What the table takes with every cell broken at each space."""
    names = [column for column in table.columns if column.no_wrap]
    widths = sum(column.min_width or 0 for column in table.columns)
    widths += sum(max((cell_len(str(cell)) for cell in one.cells), default=0) for one in names)
    _, right, _, left = table.padding
    return widths + (left + right) * len(table.columns)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
