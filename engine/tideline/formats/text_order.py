"""The order of texts by code points, which is that of their bytes in UTF-8."""

from __future__ import annotations

_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CHARACTER = 0x10FFFF


def text_after(prefix: str) -> str | None:
    """The least text that is above all texts with this prefix; None where there is none."""
    kept = prefix.rstrip(chr(_LAST_CHARACTER))
    if not kept:
        return None
    last = ord(kept[-1])
    raised = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
    return kept[:-1] + chr(raised)
