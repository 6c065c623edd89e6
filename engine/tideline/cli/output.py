"""What commands print: rich tables on a terminal, plain aligned lines in a pipe, or one JSON value.

Words are never broken, so that instants and paths can be copied: text continues in the next line of
its cell after a space, and lines of a table whose words do not fit are longer than the terminal.
Only results go to stdout; progress, warnings and errors go to stderr. Known secret values are
masked, but for `are_rows`: rows of a table are printed as they are.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tideline.cli.progress import end_progress
from tideline.formats.calendar_days import FarTime
from tideline.secret_values import masked, masked_json
from tideline.wording import counted

if TYPE_CHECKING:
    # Brings in Arrow.
    from tideline.hudi.read.shown_rows import ShownRows

_PIPE_WIDTH = 100_000
_GAP = 2


def print_json(document: object, *, are_rows: bool = False) -> None:
    """Print one JSON document on one line."""
    end_progress()
    value = json_value(document)
    print(json.dumps(value if are_rows else masked_json(value), ensure_ascii=False))


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, are_rows: bool = False
) -> None:
    """Print rows under headers; numbers are aligned to the right."""
    cells = [tuple(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold" if sys.stdout.isatty() else "")
    for position, header in enumerate(headers):
        numeric = all(_is_number(row[position]) for row in cells) and bool(cells)
        table.add_column(header, justify="right" if numeric else "left", no_wrap=True)
    texts = [
        tuple(cell_text(value) if are_rows else masked(cell_text(value)) for value in row)
        for row in cells
    ]
    for row in _wrapped(texts, headers):
        table.add_row(*map(Text, row))
    _print(table)


def print_rows(rows: ShownRows, limit: int | None, *, as_json: bool) -> None:
    """Print rows of a table, as they are, and say when `limit` cut them off."""
    if as_json:
        print_json(shown_document(rows), are_rows=True)
        return
    if not rows.columns:
        print_line("Nothing was written yet.")
        return
    print_table(rows.columns, rows.rows, are_rows=True)
    if not rows.complete:
        print_line(f"... the first {counted(limit or 0, 'row')}; --limit all prints all.")


def shown_document(rows: ShownRows) -> dict[str, object]:
    """The same as a JSON document."""
    found = [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]
    return {"columns": rows.columns, "rows": found, "complete": rows.complete}


def print_facts(facts: Mapping[str, object]) -> None:
    """Print `name  value` lines; None is left out, a list takes one line per item."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold" if sys.stdout.isatty() else "", no_wrap=True)
    grid.add_column(no_wrap=True)
    rows = [
        ("" if position else name, masked(cell_text(item)))
        for name, value in facts.items()
        if value is not None
        for position, item in enumerate(value if isinstance(value, (list, tuple)) else [value])
    ]
    for row in _wrapped(rows, ("", "")):
        grid.add_row(*map(Text, row))
    _print(grid)


def print_line(text: str = "") -> None:
    """Print one line, as it is, with secrets masked."""
    end_progress()
    print(masked(text))


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
    if isinstance(value, (datetime, date, time, FarTime)):
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


def _print(table: Table) -> None:
    end_progress()
    # As wide as it comes out: what fits has been settled.
    console = Console(width=_PIPE_WIDTH, highlight=False)
    # Through print(): rich's own handling of a closed pipe ends the process.
    with console.capture() as capture:
        console.print(table)
    print(capture.get(), end="")


def _wrapped(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The cells with line breaks at spaces, as far as the terminal's width asks for them.

    The widest columns give way first, and none becomes narrower than its longest word.
    """
    if not sys.stdout.isatty() or not rows:
        yield from map(tuple, rows)
        return
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    excess = sum(widths) + _GAP * (len(widths) - 1) - shutil.get_terminal_size().columns
    for position in sorted(range(len(widths)), key=lambda number: -widths[number]):
        words = (word for text in columns[position] for word in text.split())
        least = max((cell_len(word) for word in words), default=0)
        given = max(min(excess, widths[position] - least), 0)
        widths[position] -= given
        excess -= given
    for row in rows:
        yield tuple(_broken(text, width) for text, width in zip(row, widths, strict=True))


def _broken(text: str, width: int) -> str:
    lines = (
        wrap(line, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
        for line in text.splitlines()
    )
    return "\n".join(line for found in lines for line in found)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
