"""Input that makes much of few bytes: refused by name, before the memory is taken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pytest
import zstandard

from tideline.bounded import snappy
from tideline.bounded.parsing import decompress_bounded, parse_json
from tideline.bounded.read_limits import SETTING, read_limits
from tideline.errors import CorruptTableError, TidelineError, UnsupportedTableError
from tideline.formats.avro import decode_container, decode_records, encode_long
from tideline.formats.avro_container import open_container
from tideline.formats.log_block import (
    MAGIC,
    BlockKind,
    encode_block,
    read_frames,
    split_avro_content,
)

_MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "1Mi")


def _deflated(body: bytes) -> bytes:
    stream = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return stream.compress(body) + stream.flush()


def _snapped(body: bytes) -> bytes:
    """One literal and as many copies of it as it takes."""
    parts, left = [encode_length(len(body)), b"\x00", body[:1]], len(body) - 1
    while left:
        count = min(left, 64)
        parts.append(bytes([(count - 1) << 2 | 2, 1, 0]))
        left -= count
    return b"".join(parts) + zlib.crc32(body).to_bytes(4, "big")


def encode_length(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": _deflated,
    "snappy": _snapped,
    "zstandard": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESS)
def test_decompression_stops_at_the_limit(codec: str) -> None:
    """Within the limit every codec is read; beyond it a few times the limit is the most taken."""
    fits = b"a" * _MIB
    assert decompress_bounded(codec, COMPRESS[codec](fits)) == fits
    bomb = COMPRESS[codec](bytes(40 * _MIB))

    def read() -> None:
        with pytest.raises(UnsupportedTableError, match=f"{SETTING} higher") as raised:
            decompress_bounded(codec, bomb, path="some/path")
        assert raised.value.path == "some/path"

    assert peak_bytes(read) < 12 * _MIB


@pytest.mark.parametrize("codec", COMPRESS)
def test_cut_and_broken_streams_are_corrupt(codec: str) -> None:
    whole = COMPRESS[codec](bytes(range(256)) if codec != "snappy" else b"a" * 256)
    for broken in (whole[:-3], whole[:4], b"", b"\xff" + whole[1:]):
        with pytest.raises(CorruptTableError) as raised:
            decompress_bounded(codec, broken, path="some/path")
        assert raised.value.path == "some/path"


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(3 * _MIB))
    monkeypatch.setenv(SETTING, "4Mi")
    assert len(decompress_bounded("gzip", bomb)) == 3 * _MIB
    monkeypatch.delenv(SETTING)
    assert read_limits().object_bytes_max == 256 * _MIB


def test_snappy_blocks_with_literals_and_overlapping_copies() -> None:
    block = bytes([11, 4 << 2]) + b"abcde" + bytes([0 << 2 | 1 | 0 << 5, 5, 1 << 2 | 2, 1, 0])
    assert snappy.decompress(block) == b"abcdeabcdd"[:9] + b"dd"


@pytest.mark.parametrize(
    "body",
    [b"[" * 400_000, b'{"a":' * 100_000, b'{"a":[{"b":' * 200 + b"1" + b"}]}" * 200],
    ids=["brackets", "objects", "sound"],
)
def test_deep_json_is_corrupt(body: bytes) -> None:
    with pytest.raises((CorruptTableError, UnsupportedTableError)) as raised:
        parse_json(body, path="some/path")
    assert raised.value.path == "some/path"


def test_brackets_in_strings_are_no_depth() -> None:
    text = json.dumps({"schema": '{"a":[' * 300 + '\\"[[' * 100, "b": [[{"c": 1}]]})
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "body", [b"9" * 30, b'{"a":1' + b"0" * 5000 + b"}", b"[1e999, NaN"], ids=["30", "5000", "cut"]
)
def test_numbers_that_no_field_can_hold_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptTableError):
        parse_json(body)


def test_json_of_many_small_values_is_refused_before_it_is_parsed() -> None:
    body = b"[" + b"{}," * (_MIB // 4) + b"{}]"

    def read() -> None:
        with pytest.raises(UnsupportedTableError):
            parse_json(body)

    assert peak_bytes(read) < 4 * _MIB


def _container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    texts = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    header = [encode_long(len(texts))]
    for key, text in texts.items():
        header += [encode_long(len(key)), key.encode(), encode_long(len(text)), text.encode()]
    marker = bytes(range(16))
    parts = [b"Obj\x01", *header, encode_long(0), marker]
    for count, block in blocks:
        parts += [encode_long(count), encode_long(len(block)), block, marker]
    return b"".join(parts)


def _record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    return {"type": "record", "name": "r", "fields": fields}


_NOTHINGS = {"type": "array", "items": "null"}
_DOUBLING: Any = "null"
for _level in range(60):
    _DOUBLING = {
        "type": "record",
        "name": f"level{_level}",
        "fields": [
            {"name": "a", "type": _DOUBLING},
            {"name": "b", "type": f"level{_level - 1}" if _level else "null"},
        ],
    }


def _nested(levels: int) -> Any:
    kind: Any = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return _record(kind)


HOSTILE_CONTAINERS = {
    "nothing, without end": _container(
        _record(_NOTHINGS), (1, encode_long(1 << 40) + encode_long(0))
    ),
    "a type that contains itself": _container(
        _record(["null", "r"]), (1, encode_long(1) * 500_000 + encode_long(0))
    ),
    "types that double": _container(_record(_DOUBLING), (1, b"")),
    "records without bytes": _container(_record(), (1 << 40, b"")),
    "a number without end": _container(_record("long"), (1, b"\xff" * 500_000)),
    "a deep schema": _container(_nested(200), (1, b"")),
    "deflate bomb": _container(
        _record("bytes"),
        (1, _deflated(encode_long(40 * _MIB) + bytes(40 * _MIB))),
        codec="deflate",
    ),
    "small records": _container(
        _record({"type": "array", "items": {**_record("int"), "name": "i"}}),
        (1, _deflated(encode_long(900_000) + bytes(900_000) + encode_long(0))),
        codec="deflate",
    ),
}


@pytest.mark.parametrize("name", HOSTILE_CONTAINERS)
def test_hostile_avro_is_refused_within_bounds(name: str) -> None:
    body = HOSTILE_CONTAINERS[name]

    def read() -> None:
        with pytest.raises(TidelineError) as raised:
            decode_container(body, path="some/path")
        assert raised.value.path == "some/path"
        with pytest.raises(TidelineError):
            list(open_container(body, path="p").records())
        with pytest.raises(TidelineError):
            list(open_container(body, path="p").records(lambda _: True))

    assert peak_bytes(read) < 24 * _MIB


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_manifests_of_every_codec_are_read(codec: str) -> None:
    body = BytesIO()
    records = [{"f0": number, "f1": "x" * number} for number in range(100)]
    schema = _record("long", "string")
    fastavro.writer(body, schema, records, codec=codec, sync_interval=500)
    container = open_container(body.getvalue())
    assert list(container.records()) == records
    assert [record["f0"] for record in container.records(lambda field: field["name"] == "f0")] == [
        *range(100)
    ]
    assert decode_container(body.getvalue()) == records[0]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_manifests_in_snappy_and_zstandard_are_read(codec: str) -> None:
    block = encode_long(4) + b"aaaa"
    compressed = _snapped_literal(block) if codec == "snappy" else zstandard.compress(block)
    body = _container(_record("string"), (1, compressed), codec=codec)
    assert list(open_container(body).records()) == [{"f0": "aaaa"}]


def _snapped_literal(block: bytes) -> bytes:
    literal = encode_length(len(block)) + bytes([(len(block) - 1) << 2]) + block
    return literal + zlib.crc32(block).to_bytes(4, "big")


def test_recursive_schemas_of_log_blocks_are_refused() -> None:
    with pytest.raises(CorruptTableError):
        decode_records(json.dumps(_record(["null", "r"])), [encode_long(1) * 500_000])


def _with_header_count(count: int) -> bytes:
    block = bytearray(encode_block(BlockKind.COMMAND, {}, b""))
    struct.pack_into(">i", block, len(MAGIC) + 8 + 8, count)
    return bytes(block)


@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
def test_a_log_block_with_an_impossible_number_of_headers_is_corrupt(count: int) -> None:
    body = _with_header_count(count)
    with pytest.raises(CorruptTableError) as raised:
        read_frames(lambda offset, length: body[offset : offset + length], len(body), path="p")
    assert raised.value.path == "p"


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">iii", 3, 2**31 - 1, -4),
        struct.pack(">ii", 3, -1),
        struct.pack(">iii", 3, 1, -5),
        b"",
    ],
)
def test_lengths_that_go_backwards_end_at_once(content: bytes) -> None:
    with pytest.raises(CorruptTableError):
        split_avro_content(content, path="p")
