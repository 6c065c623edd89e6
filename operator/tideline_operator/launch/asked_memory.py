"""Memory that pods ask for, as limits on it count: that of all their containers. Pure.

What the operator's own template adds to pods is its administrator's business, and not counted.
"""

from __future__ import annotations

from tideline.ingest.operation.operation import Operation
from tideline_operator.launch.driver_job import memory_asked_bytes, moves_rows
from tideline_operator.launch.pod_template import besides_engine_bytes
from tideline_operator.resources.quantity import memory_bytes
from tideline_operator.resources.resolved import ResolvedTable


def operation_memory_bytes(operation: Operation, table: ResolvedTable) -> int:
    """Memory that the operation's pods may ask for together. Raises ConfigError."""
    pods = 1 + (table.spec.resources.executor.max if moves_rows(operation) else 0)
    besides = besides_engine_bytes(table.spec.pod_template)
    return memory_asked_bytes(operation, table) + pods * besides


def worker_memory_bytes(table: ResolvedTable) -> int:
    """Memory that a worker for the table's operations asks for. Raises ConfigError."""
    besides = besides_engine_bytes(table.spec.pod_template)
    return memory_bytes(table.spec.resources.driver.memory) + besides
