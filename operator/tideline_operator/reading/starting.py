"""Starting the supervisor: in an environment of its own, from nothing but the installed packages.

In a cluster its container runs `tideline-operator reader`, which replaces itself by such a process.
Elsewhere the controller starts one, which ends with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from tideline.bounded.read_limits import SETTING
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline_operator.reading.supervisor import ReaderLimits, Supervisor
from tideline_operator.resources.variables import Variables

SOCKET_NAME: Final = "reader.sock"
MEMORY: Final = "TIDELINE_READER_MEMORY"
MEMORY_TOTAL: Final = "TIDELINE_READER_MEMORY_TOTAL"
PROCESSES_MAX: Final = "TIDELINE_READER_PROCESSES_MAX"
CLIENT_UID: Final = "TIDELINE_READER_CLIENT_UID"
AMBIENT_NAMESPACES: Final = "TIDELINE_AMBIENT_IDENTITY_NAMESPACES"
_KEPT: Final = (SETTING, EXTRA_LOCATIONS, MEMORY, MEMORY_TOTAL, PROCESSES_MAX, CLIENT_UID,
                "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                "LANG", "LC_ALL", "TZ")  # fmt: skip
_NO_MACHINE: Final = {"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true"}
"""Nothing is taken from the machine that it runs on."""
_IDENTITY_PREFIX: Final = "AWS_"
_SET: Final = {
    # Threads and arenas reserve memory, which counts against the limit of a process.
    "MALLOC_ARENA_MAX": "2",
    "TOKIO_WORKER_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "HOME": "/nonexistent",
    "PATH": "/usr/bin:/bin",
}
_PROGRAM: Final = (
    "import sys; arguments = sys.argv[1:]; sys.path[:] = arguments[1:]; "
    "from tideline_operator.reading.starting import serve; sys.exit(serve(arguments[0]))"
)
_LIFELINE: Final = "TIDELINE_READER_LIFELINE"
_END_S: Final = 5.0


def reader_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What of an environment the readers need. Its identity at stores is there only where some
    namespace may use it."""
    kept = {name: given[name] for name in _KEPT if given.get(name)}
    if not given.get(AMBIENT_NAMESPACES):
        return {**_SET, **_NO_MACHINE, **kept}
    identity = {name: given[name] for name in given if name.startswith(_IDENTITY_PREFIX)}
    return {**_SET, **identity, **kept}


def limits_of(given: Mapping[str, str]) -> ReaderLimits:
    """The limits that an environment sets. Raises ConfigError naming the variable."""
    read = Variables(given)
    return ReaderLimits(
        memory_bytes=read.memory(MEMORY),
        memory_bytes_total=read.memory(MEMORY_TOTAL),
        processes_max=read.number(PROCESSES_MAX) or ReaderLimits().processes_max,
        client_uid=read.number(CLIENT_UID),
    )


def become_supervisor(socket_path: Path) -> NoReturn:
    """Replace this process by a supervisor. Raises ConfigError for a wrong setting."""
    limits_of(os.environ)
    command = _command(socket_path)
    os.execve(command[0], command, reader_environment(os.environ))


def serve(socket_path: str) -> int:
    """Be the supervisor, in the process that is one already."""
    lifeline = 0 if os.environ.pop(_LIFELINE, "") else None
    return Supervisor(Path(socket_path), limits_of(os.environ), lifeline).run()


class OwnSupervisor:
    """A supervisor that this process starts, and that ends with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises ConfigError for a wrong setting."""
        limits_of(environment)
        self._environment = {**reader_environment(environment), _LIFELINE: "1"}
        self._folder = tempfile.TemporaryDirectory(prefix="tideline-reader-")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self.path = Path(self._folder.name) / SOCKET_NAME

    def ensure(self) -> bool:
        """Start it, or another one when it has ended; False after `stop`."""
        with self._lock:
            if self._is_stopped:
                return False
            if self._process is not None:
                if self._process.poll() is None:
                    return True
                _hang_up(self._process)
            self._process = subprocess.Popen(
                _command(self.path), env=self._environment, stdin=subprocess.PIPE, cwd="/"
            )
            return True

    @property
    def pid(self) -> int | None:
        """Of the process, None where there is none."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End it, and with it all that read."""
        with self._lock:
            self._is_stopped = True
            if self._process is not None:
                _hang_up(self._process)
                try:
                    self._process.wait(_END_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._process = None
        self._folder.cleanup()


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    """Close what tells the supervisor that this process is there."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()


def _command(socket_path: Path) -> list[str]:
    """Without the working directory, variables and the user's packages: `-I`."""
    here = os.getcwd()  # noqa: PTH109
    found = [folder for folder in sys.path if Path(folder).is_absolute() and folder != here]
    return [sys.executable, "-I", "-c", _PROGRAM, str(socket_path), *found]
