"""Which of two versions of a row is older, by their ordering values.

Values of several ordering fields are compared one after another; a null decides nothing. Text is
compared by UTF-8 bytes, which differs from Java's order only between characters above U+FFFF and
from U+E000 on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Flags = npt.NDArray[np.bool_]


def is_lower(new: Sequence[pa.Array], old: Sequence[pa.Array], count: int) -> Flags:
    """For each of `count` pairs whether the new ordering values are lower than the old.

    `new` and `old` have an array for each ordering field, of one type each; where a value of either
    is null the new row is not lower.
    """
    lower = np.zeros(count, dtype=np.bool_)
    undecided = np.ones(count, dtype=np.bool_)
    for new_values, old_values in zip(new, old, strict=True):
        is_less, is_equal = _compare(new_values, old_values)
        lower |= undecided & is_less
        undecided &= is_equal
    return lower


def _compare(new: pa.Array, old: pa.Array) -> tuple[Flags, Flags]:
    """Where `new` is lower than, and where it equals `old`; neither where one is null."""
    if types.is_boolean(new.type):
        new, old = new.cast(pa.int8()), old.cast(pa.int8())
    lower, equal = pc.less(new, old), pc.equal(new, old)
    if types.is_floating(new.type):
        # In Java's order NaN is the greatest value and equals itself.
        new_nan, old_nan = pc.is_nan(new), pc.is_nan(old)
        lower = pc.or_(lower, pc.and_(old_nan, pc.invert(new_nan)))
        equal = pc.or_(equal, pc.and_(old_nan, new_nan))
    return _flags(lower), _flags(equal)


def _flags(array: pa.Array) -> Flags:
    mask: Flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask
