"""Words of a server, or of a table, as part of our own messages: short, in one line, no secrets.

A server may repeat in its refusal what it was sent, may send escape sequences for terminals, and
as much of both as it likes. Pure, but for the secret values that are known.
"""

from __future__ import annotations

from tideline.secret_values import masked

LENGTH_MAX = 300
_READ_MAX = 20_000


def quoted(words: object) -> str:
    """`words` in one line of at most `LENGTH_MAX` characters, with known secret values masked."""
    text = masked(str(words)[:_READ_MAX])
    line = "".join(character if character.isprintable() else " " for character in text)
    line = masked(" ".join(line.split()))
    return line if len(line) <= LENGTH_MAX else f"{line[:LENGTH_MAX]}..."
