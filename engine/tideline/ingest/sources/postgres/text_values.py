"""Values as the server writes them, as Arrow columns; which of them are none, and why.

1. A column is read all at once.
2. Where that fails it is halved until the values at fault stand alone: those are null in what is
   given back, and named.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import ConfigError

BOOL_OID = 16
_BOXES_OID = 1020
"""Arrays of boxes have semicolons between elements, all others commas."""
_FAULTS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)


def read_values(
    values: pa.Array, kind: pa.DataType, type_oid: int, column: str
) -> tuple[pa.Array, dict[int, str]]:
    """Values of one column, and the reasons of bad ones by their numbers. Raises ConfigError for
    types that no text is read as."""
    if pa.types.is_map(kind) or pa.types.is_struct(kind):
        message = f"column {column}: values of Postgres are not read as {kind}: declare a string"
        raise ConfigError(message, value=column)
    bad: dict[int, str] = {}
    return pa.concat_arrays(_read(values, 0, kind, type_oid, bad) or [pa.array([], kind)]), bad


def _read(
    values: pa.Array, first: int, kind: pa.DataType, type_oid: int, bad: dict[int, str]
) -> list[pa.Array]:
    if not len(values):
        return []
    try:
        return [_typed(values, kind, type_oid)]
    except _FAULTS as error:
        if len(values) == 1:
            bad[first] = f"{_shown(values[0].as_py())} is no {kind}: {str(error).splitlines()[0]}"
            return [pa.nulls(1, kind)]
    middle = len(values) // 2
    return [
        *_read(values[:middle], first, kind, type_oid, bad),
        *_read(values[middle:], first + middle, kind, type_oid, bad),
    ]


def _typed(values: pa.Array, kind: pa.DataType, type_oid: int) -> pa.Array:
    if pa.types.is_string(kind):
        return _words(values) if type_oid == BOOL_OID else values
    if pa.types.is_boolean(kind):
        return _flags(values)
    if pa.types.is_timestamp(kind):
        return _moments(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([_bytes(text) for text in values.to_pylist()], kind)
    if pa.types.is_list(kind):
        return _lists(values, kind, type_oid)
    if pa.types.is_floating(kind):
        # The server writes Infinity.
        values = pc.replace_substring(values, "Infinity", "inf")
    return values.cast(kind)


def _flags(values: pa.Array) -> pa.Array:
    number = pc.index_in(values, pa.array(["f", "t", "false", "true"]))
    if number.null_count != values.null_count:
        raise ValueError("expected t or f")
    return pc.equal(pc.bit_wise_and(number, 1), 1)


def _words(values: pa.Array) -> pa.Array:
    return pc.if_else(
        pc.equal(values, "t"), "true", pc.if_else(pc.equal(values, "f"), "false", values)
    )


def _moments(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The session's zone is UTC."""
    plain = pc.replace_substring_regex(values, r"\+00$", "")
    found = plain.cast(pa.timestamp("us"))
    return found if kind.tz is None else found.cast(pa.timestamp("us", tz="UTC"))


def _bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()


def _lists(values: pa.Array, kind: pa.DataType, type_oid: int) -> pa.Array:
    between = ";" if type_oid == _BOXES_OID else ","
    lists = [
        None if text is None else list(_elements(text, between)) for text in values.to_pylist()
    ]
    texts = [text for found in lists for text in found or ()]
    ends = [0]
    for found in lists:
        ends.append(ends[-1] + len(found or ()))
    # The elements of an array of flags are written as flags are.
    inner = _typed(pa.array(texts, pa.string()), kind.value_type, type_oid)
    offsets = pa.array(ends, pa.int32())
    mask = pa.array([found is None for found in lists])
    return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=mask)


def _elements(text: str, between: str) -> Iterator[str | None]:
    """Those of an array of one dimension: `{1,NULL,"a b"}`. Raises ValueError."""
    if not text.startswith("{") or not text.endswith("}"):
        raise ValueError("expected an array that begins at 1")
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == '"':
            at, element = _quoted(text, at + 1)
            yield element
        elif text[at] == "{":
            raise ValueError("expected an array of one dimension")
        else:
            next_one = text.find(between, at)
            stop = end if next_one < 0 else next_one
            word = text[at:stop]
            yield None if word == "NULL" else word
            at = stop
        at += 1


def _quoted(text: str, at: int) -> tuple[int, str]:
    """The element that begins here, and where it ends."""
    letters = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        letters.append(text[at])
        at += 1
    return at + 1, "".join(letters)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
