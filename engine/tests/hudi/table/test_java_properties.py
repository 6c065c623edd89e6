"""The text of `hoodie.properties` is read as Java reads it and written so that Java reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError
from tideline.hudi.table.java_properties import format_properties, parse_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a:b", {"a": "b"}),
        (b"a b c", {"a": "b c"}),
        (b"  a \t =  b \n", {"a": "b "}),
        (b"a", {"a": ""}),
        (b"a=", {"a": ""}),
        (b"a==b", {"a": "=b"}),
        (b"a\\=b=c", {"a=b": "c"}),
        (b"a\\:b\\ c:d", {"a:b c": "d"}),
        (b"a=b\\:c\\=d", {"a": "b:c=d"}),
        (b"a=\\u00e9\\u65E5", {"a": "é日"}),
        (b"a=\\uD83D\\uDE00", {"a": "\N{GRINNING FACE}"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a=b\\\n   c", {"a": "bc"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=b\\\n#c", {"a": "b#c"}),
        (b"#a=b\n!c=d\n\n  # e=f\ng=h", {"g": "h"}),
        (b"#a\\\nb=c", {"b": "c"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=x\\ty\\qz", {"a": "x\tyqz"}),
        (b"a=b\\", {"a": "b"}),
        (b"", {}),
    ],
)
def test_reads_as_java_does(body: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(body) == expected


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=6))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties, updated_at_ms=0)) == properties


def test_is_written_sorted_in_ascii_below_an_updated_at_header() -> None:
    body = format_properties(
        {"z": " \u00e9", "a": '{"name":"t"}', "empty": ""}, updated_at_ms=1758572497375
    )
    assert body == (
        b'#Updated at 2025-09-22T20:21:37.375Z\na={"name"\\:"t"}\nempty=\nz=\\ \\u00E9\n'
    )


@pytest.mark.parametrize("body", [b"a=\\u12", b"a=\\uzzzz", b"a\\u 123=b"])
def test_a_malformed_escape_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptTableError, match="escape"):
        parse_properties(body)
