"""Texts that callers give a commit: the token that names it, and metadata of their own."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError

_TOKEN_LENGTH_MAX = 200


def require_token(token: str) -> None:
    """Raises ConfigError for a token that is no text, empty, too long or not printable."""
    is_text = isinstance(token, str)
    if not is_text or not 0 < len(token) <= _TOKEN_LENGTH_MAX or not token.isprintable():
        raise ConfigError(
            f"a token has 1 to {_TOKEN_LENGTH_MAX} printable characters",
            value=token[:_TOKEN_LENGTH_MAX] if is_text else repr(token),
        )


def require_texts(metadata: Mapping[str, str]) -> None:
    """Raises ConfigError for extra metadata whose names and values are not texts."""
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigError("extra metadata is texts by texts", value=f"{name!r}: {value!r}")
