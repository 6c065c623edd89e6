"""Values of every type that record keys and partition paths can be made of: the ends of the type,
every decade or power of ten, and what is printed in a way of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from functools import cache

import numpy as np
import pyarrow as pa

_SEED = 36
_DAY_S, _DAYS_TO_1970 = 86_400, 719_162
_MICROS = 1_000_000
_DECIMALS = ((5, 0), (7, 6), (8, 7), (10, 2), (18, 9), (38, 0), (38, 18), (38, 38))
_CHANGES_S = (1_710_054_000, 1_730_613_600, 1_711_846_800, 1_325_239_200)
"""Moments at which clocks change in New York, Berlin and Apia."""


@cache
def key_values() -> Mapping[str, pa.Array]:
    """The values by the name of their type, each with a null at its end."""
    wholes = {f"int{bits}": _wholes(bits) for bits in (8, 16, 32, 64)}
    decimals = {f"decimal_{size}_{scale}": _decimals(size, scale) for size, scale in _DECIMALS}
    micros = pa.array([*_micros(), None], pa.int64())
    return {
        **wholes,
        **decimals,
        "float": _floats(np.float32, -45, 38),
        "double": _floats(np.float64, -324, 308),
        "boolean": pa.array([True, False, None]),
        "string": pa.array([*_texts(), None], pa.string()),
        "binary": pa.array([*_bytes(), None], pa.binary()),
        "date": pa.array([*_days(), None], pa.int32()).cast(pa.date32()),
        "timestamp": micros.cast(pa.timestamp("us", "UTC")),
        "timestamp_ntz": micros.cast(pa.timestamp("us")),
    }


def _around(numbers: Iterable[int]) -> list[int]:
    signed = [sign * number for number in numbers for sign in (1, -1)]
    return sorted({number + step for number in signed for step in (-1, 0, 1)})


def _wholes(bits: int) -> pa.Array:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    inside = [n for n in _around([0, *(10**power for power in range(19))]) if low <= n <= high]
    ends = [low, low + 1, high - 1, high]
    return pa.array([*dict.fromkeys([*ends, *inside]), None], pa.int64()).cast(f"int{bits}")


def _floats(kind: type[np.floating], lowest: int, highest: int) -> pa.Array:
    limits = np.finfo(kind)
    powers = [
        f"{sign}{digits}e{power}"
        for power in range(lowest, highest + 1)
        for sign, digits in (("", "1"), ("-", "9"), ("", "1.23"))
    ]
    some = random.Random(_SEED)
    ordinary = [some.uniform(-1, 1) * 10 ** some.randrange(-20, 15) for _ in range(200)]
    cents = [some.randrange(-(10**6), 10**6) / 100 for _ in range(100)]
    ends = [limits.max, limits.min, limits.tiny, limits.smallest_subnormal, np.nan, np.inf, -np.inf]
    ends += [0.0, -0.0, 1e-3, 9.999e-4, 1e7, 9_999_999.0, 2.0**24, 2.0**53, 2.0**-40, 8.41e21]
    values = np.array([*ends, *map(float, powers), *ordinary, *cents])
    with np.errstate(over="ignore"):
        known = pa.array(values.astype(kind)).unique()
    return pa.concat_arrays([known, pa.nulls(1, known.type)])


def _decimals(size: int, scale: int) -> pa.Array:
    unscaled = [n for n in _around([0, *(10**power for power in range(size))]) if abs(n) < 10**size]
    unscaled += [10**size - 1, 1 - 10**size]
    exact = Context(prec=size)
    values = [Decimal(number).scaleb(-scale, exact) for number in dict.fromkeys(unscaled)]
    return pa.array([*values, None], pa.decimal128(size, scale))


def _texts() -> list[str]:
    marks = [chr(code) for code in (*range(1, 0x80), 0xA0, 0xDF, 0x130, 0x2028, 0xFFFD, 0x1F600)]
    return ["", "007", "1e3", "a:b,c:d", "k=v/x", "__null__", "é", "e\u0301", *marks]


def _bytes() -> list[bytes]:
    return [b"", b"\0", b"\xff\xfe", "é".encode(), bytes(range(256))]


def _days() -> list[int]:
    """A day of every decade of the years -300 to 12000, and of every power of ten."""
    decades = [round(year * 365.2425) - _DAYS_TO_1970 for year in range(-300, 12_000, 10)]
    ends = [-(1 << 31), (1 << 31) - 1, 2_932_896, 2_932_897, -719_528, -719_529]
    ends += [-141_428, -141_427]
    powers = _around(10**power for power in range(10))
    return list(dict.fromkeys([*ends, *powers, *decades]))


def _micros() -> list[int]:
    some = random.Random(_SEED)
    days = [day * _DAY_S for day in _days() if abs(day) < 100_000_000]
    moments = [second * _MICROS for second in days[::3]]
    within = [moment + some.choice((1, 10, 1_000, 123_000, 999_999)) for moment in moments]
    clocks = [(second + step) * _MICROS for second in _CHANGES_S for step in (-1, 0, 1_800, -1_800)]
    ends = [-(1 << 63), (1 << 63) - 1, -1, 0, 1, -1_000, -1_001, 999, 1_000]
    powers = _around(10**power for power in range(19))
    return list(dict.fromkeys([*ends, *clocks, *powers, *moments, *within]))
