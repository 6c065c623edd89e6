"""Kubernetes quantities, such as `500m` of CPU and `2Gi` of memory, as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tideline.errors import ConfigError

_MEANING = "a Kubernetes quantity such as 500m or 2Gi"
QUANTITY: Mapping[str, Any] = {
    "pattern": r"[0-9]{1,12}(\.[0-9]{1,6})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?",
    "pattern_meaning": _MEANING,
    "length_max": 32,
}
"""What resources take as a quantity: constraints for `described`."""

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_FACTORS = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTP", start=1)},
    **{
        f"{unit}i": Decimal(1024) ** power
        for power, unit in enumerate(("K", "M", "G", "T", "P"), start=1)
    },
}
_MIB = 1024 * 1024


def parse_quantity(text: str) -> Decimal:
    """The number `text` stands for. Raises ConfigError when it is not a quantity."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"must be {_MEANING}", value=text)
    return Decimal(match[1]) * _FACTORS[match[2] or ""]


def memory_bytes(text: str) -> int:
    """A quantity of memory in bytes, rounded down."""
    return int(parse_quantity(text))


def memory_text(size_bytes: int) -> str:
    """Bytes as a quantity, in whole Mi where that is exact."""
    return f"{size_bytes // _MIB}Mi" if size_bytes % _MIB == 0 else str(size_bytes)
