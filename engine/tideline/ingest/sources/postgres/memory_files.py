"""What libpq reads from files alone, as files that are nowhere but in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tideline.ingest.sources.postgres.credentials import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    note_key,
)


@contextmanager
def files_of(variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The options that name them, of those that the variables have; as long as this lasts."""
    note_key(variables)
    named = {"sslrootcert": AUTHORITIES, "sslcert": CERTIFICATE, "sslkey": KEY}
    with ExitStack() as opened:
        files: dict[str, str] = {}
        for option, name in named.items():
            if variables.get(name):
                descriptor = os.memfd_create(option)
                opened.callback(os.close, descriptor)
                # libpq refuses keys that others may read.
                os.fchmod(descriptor, 0o600)
                os.write(descriptor, f"{variables[name].strip()}\n".encode())
                files[option] = f"/proc/self/fd/{descriptor}"
        yield files
