"""Types for the columns of a sample; none changes the meaning of a value that was read.

A column is a number, a day, a time or a flag where all of its values are, as programs write them;
else it is text, with a note on what most of its values are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.ingest.column_type import plain_name
from tideline.ingest.proposal.sample import Sample
from tideline.wording import counted

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
# Programs write an exponent with a point or a sign before it; codes and serial numbers have none.
_FRACTION = r"^-?(0|[1-9][0-9]*)?\.[0-9]+([eE][+-]?[0-9]+)?$|^-?(0|[1-9][0-9]*)([eE][+-][0-9]+)?$"
_CENTS = r"^-?(0|[1-9][0-9]*)\.[0-9]{2}$"
_NUMERAL = r"^[+-]?[0-9]+(\.[0-9]*)?$"
_COMMA = r"^-?[0-9]{1,3}(\.?[0-9]{3})*,[0-9]+$"
_FLAG = r"^(true|false|TRUE|FALSE|True|False)$"
_DAY = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_TIME = _DAY.removesuffix("$") + rf"[ T]{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?$"
_OTHER_DAY = r"^[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}( .*)?$"
_DIGITS_MAX = 15
_MARKERS = ("NA", "N/A", "NULL", "null", "None", r"\N", "-", "n/a")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLES = 2


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """`source` is its name in the files, `note` evidence, `doubt` what a person should decide."""

    source: str
    type: str
    empty: int = 0
    note: str = ""
    doubt: str = ""


def propose_columns(sample: Sample, null_value: str | None) -> list[ProposedColumn]:
    """A type for every column of csv or JSON; texts that are `null_value` are no values."""
    return [
        _of_json(name, sample.values[name], sample.table[name])
        if sample.values
        else _of_text(name, without_marker(sample.table[name], null_value))
        for name in sample.columns
    ]


def find_null_value(sample: Sample) -> str | None:
    """The one word, such as NA, that columns of numbers, times or flags have where a value is
    missing, and that no column of other texts has."""
    found: Counter[str] = Counter()
    for name in sample.columns:
        texts = sample.table[name].drop_null()
        used = [word for word in _MARKERS if pc.any(pc.equal(texts, word)).as_py()]
        if len(used) > 1:
            return None
        if used and _type_of(without_marker(sample.table[name], used[0]).drop_null()) == "string":
            # All of it may be the word; else it is a text like the others.
            if pc.all(pc.equal(texts, used[0])).as_py():
                continue
            return None
        found.update(used)
    return next(iter(found)) if len(found) == 1 else None


def without_marker(texts: pa.ChunkedArray, null_value: str | None) -> pa.ChunkedArray:
    """The texts, with nulls where they are that word."""
    if null_value is None:
        return texts
    return pc.if_else(pc.equal(texts, null_value), pa.scalar(None, pa.string()), texts)


def _of_text(name: str, texts: pa.ChunkedArray) -> ProposedColumn:
    values = texts.drop_null()
    empty = len(texts) - len(values)
    if not len(values):
        return ProposedColumn(name, "string", empty, doubt="no value in what was read")
    kind = _type_of(values)
    note = f"such as {_examples(values)}"
    if kind == "double" and _share(values, _CENTS) == 1:
        whole = pc.max(pc.utf8_length(values)).as_py()
        doubt = f"decimal({max(whole + 2, 12)},2) would keep it exactly"
        return ProposedColumn(name, kind, empty, note, doubt)
    return ProposedColumn(
        name, kind, empty, note, _doubt_of_text(values) if kind == "string" else ""
    )


def _type_of(values: pa.ChunkedArray) -> str:
    """The type that all of these texts have."""
    if not len(values):
        return "string"
    if _share(values, _WHOLE) == 1:
        return "long"
    if _share(values, _FRACTION) == 1 and _digits_max(values) <= _DIGITS_MAX:
        return "double"
    if _share(values, _FLAG) == 1:
        return "boolean"
    if _share(values, _DAY) == 1:
        return "date" if _is_castable(values, pa.date32()) else "string"
    if _share(values, f"{_DAY}|{_TIME}") == 1:
        return "timestamp"
    return "string"


def _doubt_of_text(values: pa.ChunkedArray) -> str:
    """What the texts of a column might be meant as; nothing where they are plain texts."""
    if _share(values, _COMMA) > 0.5:
        return (
            "numbers with a decimal comma: as numbers with transform, such as "
            "CAST(REPLACE(REPLACE(x, '.', ''), ',', '.') AS decimal(18,2))"
        )
    if _share(values, _NUMERAL) == 1:
        return "digits that a number would not give back, such as leading zeros: kept as text"
    if _share(values, _OTHER_DAY) > 0.5:
        return "days of another form: as days with the read option dateFormat, such as dd.MM.yyyy"
    for what, pattern in (("numbers", f"{_WHOLE}|{_FRACTION}"), ("times", f"{_DAY}|{_TIME}")):
        share = _share(values, pattern)
        if 0.5 < share < 1:
            others = values.filter(pc.invert(pc.match_substring_regex(values, pattern)))
            return (
                f"{counted(len(values) - len(others), 'value')} of {len(values):,} are {what}, "
                f"others are such as {_examples(others)}"
            )
    return ""


def _share(values: pa.ChunkedArray, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(values, pattern)).as_py() or 0)


def _digits_max(values: pa.ChunkedArray) -> int:
    digits = pc.replace_substring_regex(values, r"[eE].*$|[^0-9]|^-?0*\.?0*", "")
    return int(pc.max(pc.utf8_length(digits)).as_py())


def _is_castable(values: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _examples(values: Iterable[Any]) -> str:
    some: list[str] = []
    for value in values:
        text = str(value)
        text = text if len(text) <= 24 else f"{text[:21]}..."
        if text not in some:
            some.append(text)
        if len(some) == _EXAMPLES:
            break
    printed = (
        "".join(character if character.isprintable() else " " for character in text)
        for text in some
    )
    return " and ".join(" ".join(text.split()) for text in printed)


def _of_json(name: str, values: Sequence[Any], texts: pa.ChunkedArray) -> ProposedColumn:
    present = [value for value in values if value is not None]
    empty = len(values) - len(present)
    if not present:
        return ProposedColumn(name, "string", empty, doubt="no value in what was read")
    if all(isinstance(value, str) for value in present):
        kind = _type_of(texts.drop_null())
        # JSON has numbers and flags of its own: a text of digits is meant as one.
        kind = kind if kind in ("date", "timestamp") else "string"
        return ProposedColumn(name, kind, empty, f"such as {_examples(present)}")
    kind = _json_type(present)
    note = f"such as {_examples(texts.drop_null())}"
    if kind != "string":
        return ProposedColumn(name, kind, empty, note)
    kinds = Counter(type(value).__name__ for value in present)
    mixed = "texts of JSON" if kinds.keys() <= {"dict", "list"} else "values of several kinds"
    return ProposedColumn(name, "string", empty, note, f"{mixed}: kept as text")


def _json_type(values: Sequence[Any]) -> str:
    """The type that all of these values of JSON have; string where there is none."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "long" if all(-(2**63) <= value < 2**63 for value in values) else "string"
    if kinds <= {int, float}:
        long = any(type(value) is int and abs(value) >= 10**_DIGITS_MAX for value in values)
        return "string" if long else "double"
    if kinds == {list}:
        elements = [item for value in values for item in value if item is not None]
        return f"array<{_json_type(elements) if elements else 'string'}>"
    if kinds == {dict}:
        return _struct_type(values)
    return "string"


def _struct_type(values: Sequence[dict[str, Any]]) -> str:
    members: dict[str, list[Any]] = {}
    for value in values:
        for name, member in value.items():
            members.setdefault(name, []).append(member)
    if not members or not all(map(_IDENTIFIER.fullmatch, members)):
        return "string"
    if len({name.lower() for name in members}) < len(members):
        return "string"
    parts = []
    for name, found in members.items():
        present = [member for member in found if member is not None]
        parts.append(f"{name}:{_json_type(present) if present else 'string'}")
    return f"struct<{','.join(parts)}>"


def parquet_columns(schema: pa.Schema) -> list[ProposedColumn]:
    """The columns of parquet files, which say what type they have."""
    return [ProposedColumn(item.name, plain_name(str(item.type))) for item in schema]
