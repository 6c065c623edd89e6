"""Warm workers: pods that stay for the next operation of any table that fits them."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass

from tideline_operator.resources.field import described
from tideline_operator.resources.quantity import QUANTITY, memory_bytes
from tideline_operator.resources.schedule import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """Warm workers, and how many of them. Limits are of a namespace."""

    idle: Duration = described(
        "How long a worker stays without an operation.", default=Duration(300_000), length_max=16
    )
    lifetime: Duration = described(
        "After this a worker takes no more operations, and a new one replaces it.",
        default=Duration(4 * 3_600_000),
        length_max=16,
    )
    max_workers: int = described(
        "Most workers in the namespace.", default=2, minimum=1, maximum=1_000
    )
    max_memory: str | None = described(
        "Most memory that the workers of the namespace ask for together; without it only their "
        "number is limited.",
        default=None,
        **QUANTITY,
    )
    max_bytes: str = described(
        "Operations that may read more than this get a Job of their own, with executors: an ingest "
        "by the size of its files, a service that moves rows by the size of its table.",
        default="256Mi",
        **QUANTITY,
    )

    @property
    def memory_bytes_max(self) -> int | None:
        return None if self.max_memory is None else memory_bytes(self.max_memory)

    @property
    def operation_bytes_max(self) -> int:
        return memory_bytes(self.max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEngine:
    """How operations are carried out."""

    warm: Warm | None = described(
        "Keep drivers for the next operation of any table that names the same image, account, "
        "Secrets and pod settings; {} for the defaults. Without it pods exist only while there is "
        "work.",
        default=None,
    )
