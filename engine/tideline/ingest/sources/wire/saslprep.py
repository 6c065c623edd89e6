"""How a password is written before it is hashed (RFC 4013), as servers do that store its hash."""

from __future__ import annotations

import stringprep
import unicodedata

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepared(password: str) -> str:
    """One that may not be written so stays as it is: servers hash it as it is, too."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(letter) else letter
        for letter in password
        if not stringprep.in_table_b1(letter)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(found(letter) for letter in normal for found in _PROHIBITED):
        return password
    if any(map(stringprep.in_table_a1, normal)) or not _has_one_direction(normal):
        return password
    return normal


def _has_one_direction(text: str) -> bool:
    right = [stringprep.in_table_d1(letter) for letter in text]
    if not any(right):
        return True
    return right[0] and right[-1] and not any(map(stringprep.in_table_d2, text))
