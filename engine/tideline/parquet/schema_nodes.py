"""The columns of a parquet file, spelled so that files can be compared.

Writers annotate types in two ways; the older (converted types) adds nothing to the newer:
only the newer counts where there is one. The root's name and the ids that no reader asks for are
left out. Two files with equal nodes have pages that can stand in one file.

Source: parquet-format, "Logical Types".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tideline.bounded.parsing import faults_named
from tideline.parquet.compact_protocol import Struct
from tideline.parquet.stored_footer import FooterField, StoredFooter


class Physical(IntEnum):
    """How the values of a leaf are stored."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class Repetition(IntEnum):
    """How often a node occurs."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """A leaf or a group of columns, in the file's order; parents come before their children.

    `physical` is None for a group. `meaning` is the logical type such as `timestamp(us, UTC)`,
    empty when there is none.
    """

    name: str
    repetition: Repetition
    physical: Physical | None
    meaning: str = ""
    length: int | None = None
    children: int = 0
    field_id: int | None = None


_UNITS = {1: "ms", 2: "us", 3: "ns"}
_PLAIN = {1: "string", 2: "map", 3: "list", 4: "enum", 6: "date", 11: "unknown", 12: "json",
          13: "bson", 14: "uuid", 15: "float16"}  # fmt: skip
_CONVERTED = {0: "string", 1: "map", 2: "map", 3: "list", 4: "enum", 6: "date", 7: "time(ms, UTC)",
              8: "time(us, UTC)", 9: "timestamp(ms, UTC)", 10: "timestamp(us, UTC)", 19: "json",
              20: "bson"}  # fmt: skip
_INTEGERS = {11: "int(8, unsigned)", 12: "int(16, unsigned)", 13: "int(32, unsigned)",
             14: "int(64, unsigned)", 15: "int(8)", 16: "int(16)", 17: "", 18: ""}  # fmt: skip
_DECIMAL = 5


def schema_nodes(footer: StoredFooter, *, path: object = None) -> tuple[SchemaNode, ...]:
    """All nodes below the root. Raises CorruptTableError naming `path`."""
    with faults_named("the schema of a parquet file is broken", path=path):
        elements = footer.struct.get(FooterField.SCHEMA).items
        return tuple(_node(element) for element in elements[1:])


def leaf_nodes(nodes: tuple[SchemaNode, ...]) -> tuple[SchemaNode, ...]:
    """Those that have values: the columns of row groups."""
    return tuple(node for node in nodes if node.physical is not None)


@dataclass(frozen=True, slots=True)
class ColumnNodes:
    """One column of the top level: its nodes, and the numbers of its leaves in row groups."""

    nodes: tuple[SchemaNode, ...]
    leaves: range


def top_columns(nodes: tuple[SchemaNode, ...]) -> dict[str, ColumnNodes]:
    """The columns of the top level by name, in the file's order."""
    found: dict[str, ColumnNodes] = {}
    start = leaf = 0
    while start < len(nodes):
        end, open_nodes = start, 1
        while open_nodes:
            open_nodes += nodes[end].children - 1
            end += 1
        column = nodes[start:end]
        leaves = range(leaf, leaf + len(leaf_nodes(column)))
        found[nodes[start].name] = ColumnNodes(column, leaves)
        start, leaf = end, leaves.stop
    return found


def _node(element: Struct) -> SchemaNode:
    physical = element.get(1)
    children = element.get(5) or 0
    length = element.get(2)
    is_fixed = physical == Physical.FIXED_LEN_BYTE_ARRAY
    return SchemaNode(
        element.get(4).decode(),
        Repetition(element.get(3)),
        None if children or physical is None else Physical(physical),
        _meaning(element),
        length if is_fixed else None,
        children,
        element.get(9),
    )


def _meaning(element: Struct) -> str:
    logical = element.get(10)
    if logical is not None:
        ((number, (_, value)),) = logical.fields.items()
        return _logical(number, value)
    converted = element.get(6)
    if converted is None:
        return ""
    if converted == _DECIMAL:
        return _decimal(element.get(8), element.get(7))
    return {**_CONVERTED, **_INTEGERS}.get(converted, f"converted type {converted}")


def _logical(number: int, value: Struct) -> str:
    match number:
        case 5:
            return _decimal(value.get(2), value.get(1))
        case 7 | 8:
            (unit,) = value.get(2).fields
            zone = ", UTC" if value.get(1) else ""
            return f"{'time' if number == 7 else 'timestamp'}({_UNITS[unit]}{zone})"
        case 10:
            return _integer(value.get(1), value.get(2))
    return _PLAIN.get(number, f"logical type {number}")


def _integer(bits: int, is_signed: bool) -> str:
    if is_signed and bits in (32, 64):
        return ""
    return f"int({bits})" if is_signed else f"int({bits}, unsigned)"


def _decimal(precision: int, scale: int | None) -> str:
    return f"decimal({precision}, {scale or 0})"
