"""A server of one process on this machine, for the length of a `with` block."""

from __future__ import annotations

import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tideline.testing.free_port import free_port
from tideline.testing.server_process import ServerProcess


class OneProcess(ABC):
    """It has a folder of its own, which goes with it."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self._made = tempfile.TemporaryDirectory(prefix="tideline-server-")
        self.folder = Path(self._made.name)
        log = self.folder / "log"
        self._process = ServerProcess(self.name, self._launched, log, self._answers)

    @abstractmethod
    def prepare(self) -> None:
        """Build or install it, or raise when it has not been installed."""

    @abstractmethod
    def command(self) -> list[str]:
        """What runs it, at its address, with files in `folder` alone."""

    def variables(self) -> Mapping[str, str]:
        """Of its environment, beside those of this process."""
        return {}

    def __enter__(self) -> Self:
        self.prepare()
        self._process.variables = self.variables()
        self._process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._made.cleanup()

    def _launched(self) -> list[str]:
        return self.command()

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it has started."""


class ProcessServer(OneProcess):
    """It listens at `host`."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = free_port()
        super().__init__()

    @property
    def address(self) -> str:
        """host:port"""
        return f"{self._host}:{self._port}"

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((self._host, self._port), timeout=1):
            return True
        return False
