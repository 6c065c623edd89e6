"""Keys that are numbers as bytes, beside values in Avro.

Kafka's `LongSerializer` writes eight bytes, the highest first. Those of a number below 2^56 begin
as an Avro record does, with a zero and the number of a schema. Which of both they are is shown by
records that have a value: theirs is one that has the number.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_LENGTH = 8
_LOOKED_AT_MAX = 1_000
IS_NUMBER = (
    "the key is a number as bytes (LongSerializer), which names no row: write it as text or in Avro"
)


def may_be_number(key: bytes | None) -> bool:
    """Whether it may be one, where it may be Avro."""
    return key is not None and len(key) == _LENGTH and key[0] == 0


def are_numbers(keys: Iterable[bytes | None], values: pa.ChunkedArray) -> bool:
    """Whether a topic has numbers for keys, by records with these keys, and these values in the
    column of the record key."""
    looked_at = 0
    for key, value in zip(keys, values, strict=True):
        if may_be_number(key):
            assert key is not None
            if int.from_bytes(key) == value.as_py():
                return True
            looked_at += 1
            if looked_at == _LOOKED_AT_MAX:
                break
    return False
