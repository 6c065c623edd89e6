"""One key, one text: record keys and partition paths of every type are Hudi's, over their range."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.key_values import key_values

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KEYGEN, WRITE = "org.apache.hudi.keygen.", "hoodie.datasource.write."
SQL = "org.apache.spark.sql.hudi.command.SqlKeyGenerator"
PART = (PartitionField("v"),)
SIMPLE = KeyGenerator(("v",), PART, qualified=False)
GENERATORS = {
    f"{KEYGEN}SimpleKeyGenerator": SIMPLE,
    f"{KEYGEN}ComplexKeyGenerator": KeyGenerator(("n", "v"), PART, qualified=True, url_encode=True),
    f"{KEYGEN}NonpartitionedKeyGenerator": KeyGenerator(("v",), (), qualified=False),
    SQL: replace(SIMPLE, paths_are_of_sql=True, hive_style=True),
}
FORMS = ("avro", "unsafe")


def options_of(keys: KeyGenerator, column: pa.Array, *, as_text: bool) -> dict[str, str]:
    kinds = {"timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz"}
    return {
        f"{WRITE}recordkey.field": ",".join(keys.record_fields),
        f"{WRITE}partitionpath.field": ",".join(part.field for part in keys.partition_fields),
        f"{WRITE}partitionpath.urlencode": str(keys.url_encode).lower(),
        f"{WRITE}hive_style_partitioning": str(keys.hive_style).lower(),
        f"{WRITE}keygenerator.consistent.logical.timestamp.enabled": str(as_text).lower(),
        "hoodie.sql.origin.keygen.class": f"{KEYGEN}SimpleKeyGenerator",
        "hoodie.sql.partition.schema": f"v {kinds.get(str(column.type), 'string')}",
    }


@pytest.mark.parametrize("name", key_values())
def test_the_text_of_every_value_is_that_of_hudi(hudi_peer: HudiPeer, name: str) -> None:
    column = key_values()[name]
    rows = pa.table({"n": pa.array(range(len(column)), pa.int32()), "v": column})
    batch = rows.combine_chunks().to_batches()[0]
    for generator, keys in GENERATORS.items():
        for as_text in (False, True) if name.startswith("timestamp") else (False,):
            options = options_of(keys, column, as_text=as_text)
            theirs = hudi_peer.key_texts(rows, options, generator)
            for form in FORMS:
                # A bulk insert by rows has times as text whatever the properties say.
                texts = as_text or form == "unsafe"
                spelled = replace(keys, timestamps_as_text=texts)
                ours = {"key": record_keys(batch, spelled), "path": partition_paths(batch, spelled)}
                for part, made in ours.items():
                    found = theirs.column(f"{form}_{part}")
                    compare(column, made.cast(pa.string()), found, (generator, form, part))


def compare(
    column: pa.Array, ours: pa.Array, theirs: pa.ChunkedArray, what: tuple[str, str, str]
) -> None:
    """Where both have a text it is one. Without are nulls, what has two texts, and times before
    1582-10-15, which are half of the times of SQL."""
    pairs = list(zip(column, ours.to_pylist(), theirs.to_pylist(), strict=True))
    # A path that ends with a slash is refused here.
    known = [pair for pair in pairs if None not in pair[1:] and not pair[1].endswith("/")]
    if pa.types.is_binary(column.type) and what[1] == "unsafe":
        # What a bulk insert by rows makes of binary columns is the address of an object.
        known = [pair for pair in known if "B@" not in pair[2]]
    else:
        assert len(known) > len(pairs) / 3, what
    assert [pair for pair in known if pair[1] != pair[2]][:5] == [], what
