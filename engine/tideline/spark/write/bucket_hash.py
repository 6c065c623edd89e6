"""The bucket of a record key in Spark expressions; `tideline.hudi.index.bucket` is the reference.

Java's String.hashCode comes from the JVM itself, through `java_method`. Lambda functions cannot
call it, so the hash of a list is unrolled, as far as keys have fields. A value may look as if it
held more pairs of a field: for such lists the hash is computed from the text's UTF-16 units.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.index.hash_ring import RingHash
from tideline.hudi.keys.key_generator import EMPTY_KEY, NULL_KEY
from tideline.spark.write.batch import PARTITION_PATH

_VALUES = "_tideline_key_values"
_UNSIGNED = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
# The comma between two `field:value` pairs, in text that begins with the first pair's colon.
_NEXT_PAIR = ",(?=[^,:]*:)"


def with_bucket_id(
    rows: DataFrame, name: str, hash_fields: tuple[str, ...], num_buckets: Column
) -> DataFrame:
    """`rows` with a column `name`: the bucket of `RECORD_KEY`.

    That is Java's list hash of the key's values, modulo `num_buckets`. The values are those of the
    `field:value` pairs of `hash_fields`; a key without such pairs is one value.
    """
    key = F.col(RECORD_KEY)
    has_pairs = key.contains(",") & key.contains(":")
    values = F.filter(_pairs(key), lambda pair: _field(pair).isin(*hash_fields))
    values = F.transform(F.when(has_pairs, values), _value)
    values = F.when(F.size(values) > 0, values).otherwise(F.array(key))
    code = _list_hash(F.col(_VALUES), len(hash_fields))
    bucket = (code.bitwiseAND(F.lit(_POSITIVE)) % num_buckets).cast("int")
    return rows.withColumn(_VALUES, values).withColumn(name, bucket).drop(_VALUES)


def with_ring_bucket(rows: DataFrame, name: str, hashed: RingHash) -> DataFrame:
    """`rows` with a column `name`: the CONSISTENT_HASHING bucket of `RECORD_KEY`.

    The hash has no Spark expression. It is computed in Python of the keys alone, once per key.
    """
    keys = rows.select(RECORD_KEY, PARTITION_PATH).distinct()
    answer = T.StructType([*keys.schema, T.StructField(name, T.IntegerType())])

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            key, partition = batch.column(0), batch.column(1)
            buckets = hashed.buckets(partition.to_pylist(), key.to_pylist())
            yield pa.RecordBatch.from_arrays(
                [key, partition, pa.array(buckets, pa.int32())], names=answer.names
            )

    return rows.join(keys.mapInArrow(place, answer), [RECORD_KEY, PARTITION_PATH], "left")


def _list_hash(values: Column, usual_length_max: int) -> Column:
    """List.hashCode as an unsigned 32-bit number: start at 1, `31 * h + hash` for every value."""
    start = code = F.lit(1).cast("bigint")
    for position in range(usual_length_max):
        is_there = F.size(values) > position
        step = F.when(is_there, _string_hash(F.get(values, F.lit(position)))).otherwise(F.lit(0))
        factor = F.when(is_there, F.lit(31)).otherwise(F.lit(1))
        code = (code * factor + step).bitwiseAND(F.lit(_UNSIGNED))
    longer = F.aggregate(
        values, start, lambda code, text: _step(code, F.coalesce(_hash_of_units(text), F.lit(0)))
    )
    return F.when(F.size(values) <= usual_length_max, code).otherwise(longer)


def _string_hash(text: Column) -> Column:
    """Unsigned 32-bit String.hashCode; 0 for null, as in a list."""
    found = F.java_method(F.lit("java.util.Objects"), F.lit("hashCode"), text)
    return F.coalesce(found.cast("bigint").bitwiseAND(F.lit(_UNSIGNED)), F.lit(0).cast("bigint"))


def _hash_of_units(text: Column) -> Column:
    """The same from the text's UTF-16 units, four hex digits each; for lambda functions."""
    digits = F.hex(F.encode(text, "UTF-16BE"))

    def unit(start: Column) -> Column:
        return F.conv(F.substr(digits, start, F.lit(4)), 16, 10).cast("bigint")

    starts = F.sequence(F.lit(1), F.length(digits), F.lit(4))
    found = F.aggregate(
        starts, F.lit(0).cast("bigint"), lambda code, start: _step(code, unit(start))
    )
    return F.when(text == "", F.lit(0).cast("bigint")).otherwise(found)


def _step(code: Column, item: Column) -> Column:
    return (code * 31 + item).bitwiseAND(F.lit(_UNSIGNED))


def _pairs(key: Column) -> Column:
    """The key cut into `field:value` pairs, as `tideline.hudi.index.bucket.record_key_values` does.
    The key cut into `field:value` pairs, as `tideline.hudi.index.bucket.record_key_values` does."""
    first_field = F.substring_index(key, ":", 1)
    rest = F.substr(key, F.length(first_field) + 1)
    return F.transform(
        F.split(rest, _NEXT_PAIR),
        lambda pair, number: F.when(number == 0, F.concat(first_field, pair)).otherwise(pair),
    )


def _field(pair: Column) -> Column:
    return F.substring_index(pair, ":", 1)


def _value(pair: Column) -> Column:
    text = F.substr(pair, F.length(_field(pair)) + 2)
    return F.when(text == EMPTY_KEY, F.lit("")).otherwise(F.when(text != NULL_KEY, text))
