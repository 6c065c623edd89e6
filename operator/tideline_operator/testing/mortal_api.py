"""A controller that dies at a chosen write: cut off from the API server for good, just before the
write arrives or just after. What it knew is lost with it."""

from __future__ import annotations

import threading
from typing import Any

from tideline_operator.api_objects import ApiUnavailableError
from tideline_operator.controller.controller import Controller
from tideline_operator.kube import KubeApi
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase, controller_settings

_READS = ("get", "list", "watch")


class MortalApi(KubeApi):
    """Works until its `writes`-th write: that one arrives or not, and nothing works afterwards."""

    writes_left: int | None = None
    last_arrives = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.died = threading.Event()
        self._counting = threading.Lock()

    def _send(self, verb: str, *arguments: Any, **options: Any) -> Any:
        if self.died.is_set():
            raise ApiUnavailableError("cut off")
        if verb in _READS or self.writes_left is None:
            return super()._send(verb, *arguments, **options)
        with self._counting:
            self.writes_left -= 1
            is_last = self.writes_left == 0
            if is_last and not self.last_arrives:
                self.died.set()
                raise ApiUnavailableError("cut off before the write")
            answer = super()._send(verb, *arguments, **options)
            if is_last:
                self.died.set()
                raise ApiUnavailableError("cut off after the write")
            return answer


def start_mortal(
    case: ControllerCase, api_server: ApiServer, writes: int, *, last_arrives: bool
) -> tuple[Controller, MortalApi]:
    api = MortalApi.from_environment(api_server.kubeconfig)
    assert isinstance(api, MortalApi)
    api.writes_left, api.last_arrives = writes, last_arrives
    controller = Controller(api, controller_settings(case.namespace), allows_local=True)
    assert controller.start(timeout_s=30.0)
    return controller, api


def replace_dead(case: ControllerCase, mortal: Controller, api: MortalApi) -> None:
    """Let it die, at the latest now: the last deaths of a series may not happen."""
    api.died.wait(2.0)
    api.died.set()
    mortal.stop(5.0)
    case.start()
