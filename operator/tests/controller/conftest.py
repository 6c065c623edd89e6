"""What tests of the controller have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.decide import planner
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase


@pytest.fixture
def case(
    api_server: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ControllerCase]:
    """A controller that looks at tables soon after it could not; a file may have one of its own."""
    monkeypatch.setattr(planner, "OBSERVE_RETRY_MS", 1_000)
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case
