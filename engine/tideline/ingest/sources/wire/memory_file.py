"""A file that is nowhere but in memory, for libraries that read texts from files alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(name: str, text: str) -> Iterator[str]:
    """Its path, as long as this lasts. Raises OSError."""
    descriptor = os.memfd_create(name)
    try:
        # libpq refuses keys that others may read.
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
