"""The bloom filter of record keys as the footer of a base file has it: a text that is not decoded.

Needs no Arrow. What the text says is in `bloom`.
Source: Hudi's HoodieBloomFilterWriteSupport.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.parquet.stored_footer import FooterField, ReadRange, read_stored_footer

BLOOM_FILTER_KEY = "org.apache.hudi.bloomfilter"
BLOOM_FILTER_TYPE_KEY = "hoodie_bloom_filter_type_code"
_KEY, _VALUE = 1, 2
"""The fields of an entry of a footer."""


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """The code of a filter's type, and its text in base64."""

    type_code: str
    text: bytes


def read_stored_filter(
    read: ReadRange, size_bytes: int, *, path: object = None
) -> StoredFilter | None:
    """The filter of a base file of so many bytes; None where it has none, or one of no known type.

    Raises as `read_stored_footer`.
    """
    footer = read_stored_footer(read, size_bytes, path=path)
    entries = footer.struct.get(FooterField.KEY_VALUES)
    found = {item.get(_KEY): item.get(_VALUE) for item in entries.items} if entries else {}
    text = found.get(BLOOM_FILTER_KEY.encode())
    type_code = found.get(BLOOM_FILTER_TYPE_KEY.encode())
    if not text or not type_code:
        return None
    return StoredFilter(type_code.decode("utf-8", "replace"), text)
