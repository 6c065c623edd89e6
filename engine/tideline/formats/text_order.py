"""The order of texts by code points, which is that of their bytes in UTF-8, and Java's.

Java compares units of UTF-16: a character above U+FFFF has two, both below U+E000. So of two texts
with characters above U+DFFF either may be first there; all others are in one order.
"""

from __future__ import annotations

_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CHARACTER = 0x10FFFF
_FIRST_BYTE_AFTER_SURROGATES = 0xEE
"""In UTF-8: characters above U+DFFF begin with this byte or a greater one, no other byte is as
great."""


def has_own_order_in_java(text: bytes) -> bool:
    """Whether Java may sort a text in UTF-8 otherwise, beside another one of that kind."""
    return max(text, default=0) >= _FIRST_BYTE_AFTER_SURROGATES


def java_order(text: bytes) -> bytes:
    """What sorts texts in UTF-8 as Java does."""
    return text.decode(errors="surrogateescape").encode("utf-16-be", "surrogatepass")


def text_after(prefix: str) -> str | None:
    """The least text that is above all texts with this prefix; None where there is none."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return None
    last = ord(kept[-1])
    raised = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
    return kept[:-1] + chr(raised)
