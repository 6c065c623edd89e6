"""What libpq reads from files alone, as files that are nowhere but in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tideline.ingest.sources.postgres.credentials import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    note_key,
)
from tideline.ingest.sources.wire.memory_file import memory_file


@contextmanager
def files_of(variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The options that name them, of those that the variables have; as long as this lasts."""
    note_key(variables)
    named = {"sslrootcert": AUTHORITIES, "sslcert": CERTIFICATE, "sslkey": KEY}
    with ExitStack() as opened:
        files: dict[str, str] = {}
        for option, name in named.items():
            if variables.get(name):
                text = f"{variables[name].strip()}\n"
                files[option] = opened.enter_context(memory_file(option, text))
        yield files
