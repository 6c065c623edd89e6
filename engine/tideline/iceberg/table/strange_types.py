"""Column types that PyIceberg does not parse, put in words that it does.

PyIceberg refuses the metadata of a table with a column of type variant, or of geometry or geography
as newer versions of the specification spell them. Such a type goes through it as a geometry whose
coordinate system is the type's text, percent-encoded, and comes out as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from tideline.iceberg.metadata.field_type import OPAQUE

_PLACES = ("type", "element", "key", "value")
_MAY_BE = re.compile(rb"\"variant\"|\"geometry\(|\"geography\(")
_BEFORE, _AFTER = "geometry('tideline:", "')"


def with_stand_ins(body: bytes) -> bytes:
    """A JSON document, which was parsed before, in PyIceberg's words."""
    if not _MAY_BE.search(body):
        return body
    return json.dumps(_changed(json.loads(body), _stand_in)).encode()


def in_own_words(body: bytes) -> bytes:
    """What PyIceberg wrote, with the types as they were."""
    if _BEFORE.encode() not in body:
        return body
    return json.dumps(without_stand_ins(json.loads(body))).encode()


def without_stand_ins(document: Any) -> Any:
    """A parsed document in the words that it came in."""
    return _changed(document, _original)


def _stand_in(text: str) -> str:
    return f"{_BEFORE}{quote(text, safe='')}{_AFTER}" if OPAQUE.fullmatch(text) else text


def _original(text: str) -> str:
    if text.startswith(_BEFORE) and text.endswith(_AFTER):
        return unquote(text[len(_BEFORE) : -len(_AFTER)])
    return text


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: change(item) if name in _PLACES and isinstance(item, str) else _changed(item, change)
        for name, item in value.items()
    }
