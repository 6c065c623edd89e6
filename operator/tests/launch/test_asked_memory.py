"""Limits on memory count every container that a table's template brings."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline_operator.launch.asked_memory import worker_memory_bytes
from tideline_operator.launch.pod_template import besides_engine_bytes, confined_template
from tideline_operator.testing.table_states import resolved

MIB = 1024 * 1024
SIDECARS: dict[str, Any] = {
    "containers": [
        {"name": "engine", "resources": {"requests": {"memory": "900Gi"}}},
        {"name": "proxy", "resources": {"requests": {"memory": "64Mi"}, "limits": {"cpu": 1}}},
        {"name": "none"},
    ],
    "initContainers": [
        {"name": "logs", "restartPolicy": "Always", "resources": {"limits": {"memory": "32Mi"}}},
        {"name": "first", "resources": {"limits": {"memory": 16 * MIB}}},
        {"name": "second", "resources": {"limits": {"memory": "8Mi"}}},
    ],
}


def test_containers_besides_the_engines_count() -> None:
    assert besides_engine_bytes({"spec": SIDECARS}) == (64 + 32 + 16) * MIB
    assert besides_engine_bytes({}) == 0
    table = resolved(resources={"driver": {"memory": "2Gi"}}, podTemplate={"spec": SIDECARS})
    assert worker_memory_bytes(table) == (2048 + 112) * MIB


def test_memory_that_cannot_be_counted_is_refused() -> None:
    users = {"containers": [{"name": "more", "resources": {"limits": {"memory": "9e12"}}}]}
    with pytest.raises(ConfigError, match=r"containers\[0\]\.resources\.limits\.memory: must be"):
        confined_template({"spec": users}, {})
