"""What `/readyz` says: what is missing before the first turn, and that tables wait for long.

Neither ends the process.
"""

from __future__ import annotations

import pytest

from tideline.testing.fake_clock import FakeClock
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller.controller import STARVING_S, Controller
from tideline_operator.controller.main import ControllerProcess
from tideline_operator.testing.api_server import STRANGER, ApiServer
from tideline_operator.testing.controller_case import controller_settings

pytestmark = pytest.mark.api_server


class FilledController(Controller):
    """One whose caches count as filled, and whose workers never come."""

    def missing(self) -> list[str]:
        return []


def test_a_table_that_waits_for_long_is_a_matter_of_readiness_not_of_life(
    api_server: ApiServer, namespace: str
) -> None:
    clock, settings = FakeClock(), controller_settings(namespace)
    process = ControllerProcess(api_server.api(), settings)
    process._controller = controller = FilledController(api_server.api(), settings, clock=clock)
    # Of a clock that leaps every watch would be stuck.
    controller._reflectors = []
    controller.queue.add(("lake", "people"))
    clock.advance(STARVING_S)
    assert process._readyz()[0] == 200
    clock.advance(5.0)
    assert process._readyz() == (503, "a table has waited for a worker for 35 s\n")
    clock.advance(3_600.0)
    assert process._healthz() == (200, "ok\n")
    # A turn that takes an hour is no reason for a restart either.
    assert controller.queue.get(PATIENCE_S) == ("lake", "people")
    clock.advance(3_600.0)
    assert process._healthz() == (200, "ok\n")
    assert process._readyz()[0] == 200


def test_a_right_that_is_missing_at_the_start_is_named(
    api_server: ApiServer, namespace: str
) -> None:
    api, settings = api_server.api(STRANGER), controller_settings(namespace)
    process = ControllerProcess(api, settings)
    process._controller = controller = Controller(api, settings)
    try:
        assert not controller.start(timeout_s=1.0)
        code, text = process._readyz()
        assert code == 503
        assert f"lakestores.tideline.dev in {namespace} have not been listed yet: " in text
        assert 'cannot list resource "lakestores"' in text
    finally:
        controller.stop(1.0)
