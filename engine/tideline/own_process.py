"""A process that only carries out operations: how it allocates and collects.

The process of somebody who uses the library is left as it is.
"""

from __future__ import annotations

import gc
from typing import Final

ALLOCATION: Final = {
    # Rows of a batch come into the memory of those before. Memory that is returned to the kernel
    # between two steps is cleared page by page when it comes back: an eighth of an ingest.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    # Its threads wait in a loop, and nothing here multiplies matrices.
    "OPENBLAS_NUM_THREADS": "1",
}
"""Variables that libraries read before Python runs. Those of the user's environment come first."""

_NEW_OBJECTS = 50_000
_YOUNG_COLLECTIONS = 20
_MIDDLE_COLLECTIONS = 50


def collect_rarely() -> None:
    """Leave what was imported out of collections, and collect less often: a batch of records is
    thousands of objects that live for a moment, in no cycle."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
