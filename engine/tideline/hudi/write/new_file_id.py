"""Random ids of new file groups in tables without buckets."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from tideline.hudi.index.bucket import small_bucket_number


def new_file_id(fresh: Callable[[], UUID] = uuid4) -> str:
    """A file id, without the number behind it.

    One in 40,000 would begin as a bucket's: a table with a file group of such a name alone looks
    like one with buckets.
    """
    file_ids = map(str, iter(fresh, None))
    return next(file_id for file_id in file_ids if small_bucket_number(file_id) is None)
