"""The bucket index: a record key's hash names its file group.

A partition has a fixed number of buckets and at most one live file group per bucket; the first
eight characters of the file id are the bucket id in decimal.
Source: Hudi `BucketIdentifier`, `KeyGenUtils.extractRecordKeysByFields` (1.x), `List.hashCode`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tideline.errors import CorruptTableError
from tideline.hudi.index.partition_rules import PartitionRules

BUCKETS_DEFAULT = 256
BUCKETS_MAX = 65_536
"""More buckets in one partition are not expected; a random file id hardly ever begins with a
decimal number as small as that."""

NULL_KEY_VALUE = "__null__"
EMPTY_KEY_VALUE = "__empty__"

_BUCKET_DIGITS = 8
_INT_MASK = 0xFFFFFFFF
_POSITIVE_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class BucketHash:
    """Which bucket of its partition a record key belongs to.

    Empty `fields` hash every record key field. `rules` give some partitions another number.
    """

    num_buckets: int = BUCKETS_DEFAULT
    fields: tuple[str, ...] = ()
    rules: PartitionRules = field(default_factory=PartitionRules)

    def count_in(self, partition: str) -> int:
        """Number of buckets of the partition at this path."""
        return self.rules.count_in(partition) or self.num_buckets

    def bucket(self, partition: str, record_key: str) -> int:
        """Bucket of a stored record key."""
        return bucket_id_of_record_key(record_key, self.fields, self.count_in(partition))


def java_string_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit integer: 31 * h + unit over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _INT_MASK
    return value


def bucket_id(key_values: Sequence[str | None], num_buckets: int) -> int:
    """Bucket of the key made of `key_values`."""
    return key_hash(key_values) % num_buckets


def key_hash(key_values: Sequence[str | None]) -> int:
    """Java's list hash of the values, null being 0, without its sign."""
    value = 1
    for key_value in key_values:
        item = 0 if key_value is None else java_string_hash(key_value)
        value = (31 * value + item) & _INT_MASK
    return value & _POSITIVE_MASK


def bucket_id_of_record_key(record_key: str, hash_fields: Sequence[str], num_buckets: int) -> int:
    """Bucket of a stored record key; an empty `hash_fields` hashes every field."""
    return bucket_id(record_key_values(record_key, hash_fields), num_buckets)


def record_key_values(record_key: str, fields: Sequence[str] = ()) -> tuple[str | None, ...]:
    """Values of `field:value,field:value` keys, only of `fields` when given, in key order.

    A key without both separators is one value as it stands. Values may hold either separator: a
    value ends at the last comma before a colon that starts the next field.
    """
    if "," not in record_key or ":" not in record_key:
        return (record_key,)
    wanted = frozenset(fields)
    values = tuple(
        _key_value(value) for field, value in _pairs(record_key) if not wanted or field in wanted
    )
    return values or (record_key,)


def new_file_id_prefix(bucket: int, fresh_uuid: str) -> str:
    """Prefix of a new file id: `fresh_uuid` with its first eight characters the bucket id."""
    return f"{bucket:0{_BUCKET_DIGITS}d}{fresh_uuid[_BUCKET_DIGITS:]}"


def bucket_of_file_id(file_id: str) -> int:
    """Bucket a file group belongs to. Raises CorruptTableError when its file id names none."""
    number = _leading_number(file_id)
    if number is None:
        raise CorruptTableError(
            "file id of a bucket index does not start with a bucket", value=file_id
        )
    return number


def small_bucket_number(file_id: str) -> int | None:
    """The bucket a file id may begin with; None for one that no bucket index of Hudi gives."""
    number = _leading_number(file_id)
    return number if number is not None and number < BUCKETS_MAX else None


def file_ids_by_bucket(partition: str, file_ids: Iterable[str]) -> dict[int, str]:
    """Live file groups of one partition by bucket.

    Raises CorruptTableError when two of them claim one bucket, because rows would be in either.
    """
    found: dict[int, str] = {}
    for file_id in file_ids:
        bucket = bucket_of_file_id(file_id)
        if bucket in found:
            raise CorruptTableError(
                f"two file groups for bucket {bucket}: {found[bucket]} and {file_id}",
                path=partition or ".",
            )
        found[bucket] = file_id
    return found


def _pairs(record_key: str) -> Iterable[tuple[str, str]]:
    start = 0
    while start < len(record_key):
        colon = record_key.find(":", start)
        if colon < 0:
            return
        end = _value_end(record_key, colon)
        yield record_key[start:colon], record_key[colon + 1 : end]
        start = end + 1


def _value_end(record_key: str, colon: int) -> int:
    """Where the value after `colon` ends: before the comma that separates the next field."""
    next_colon = record_key.find(":", colon + 1)
    while next_colon >= 0:
        comma = record_key.rfind(",", colon, next_colon)
        if comma >= 0:
            return comma
        next_colon = record_key.find(":", next_colon + 1)
    return len(record_key)


def _key_value(text: str) -> str | None:
    if text == NULL_KEY_VALUE:
        return None
    return "" if text == EMPTY_KEY_VALUE else text


def _leading_number(file_id: str) -> int | None:
    digits = file_id[:_BUCKET_DIGITS]
    is_number = len(digits) == _BUCKET_DIGITS and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None
