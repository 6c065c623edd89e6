"""The process Spark forks its Python workers from, with what every task needs imported already.

Spark's own daemon imports nothing, so each worker of a session spends its first second importing
Arrow. Only imports happen here, no work: threads that a library starts do not survive the fork.
"""

from __future__ import annotations

import os
from importlib import import_module

from tideline.masked_stream import mask_standard_error

_PRELOADED = ("numpy", "pandas", "pyarrow.compute", "pyarrow.parquet", "pyspark.worker")


def main() -> None:
    """Import what tasks need, then be Spark's daemon."""
    # Errors of tasks go to the driver, and into the executor's log.
    mask_standard_error()
    # One thread is enough where every core has a worker, and none is left behind by the fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in _PRELOADED:
        import_module(name)
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
