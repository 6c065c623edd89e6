"""A real Kubernetes API server without a cluster: etcd and kube-apiserver on this machine only.

    python -m tideline_operator.testing.api_server    run one until interrupted

No controllers run and no pod ever starts, so a test plays the part of the Job controller: it serves
tests of schemas, rules, access rights, watches and concurrent writes. The two programs are built
by `python -m e2e.build api-server`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from Crypto.PublicKey import RSA

from tideline.testing.free_port import free_ports
from tideline.testing.patience import PATIENCE_S
from tideline_operator.kube import KubeApi

ADMIN = "admin"
OPERATOR = "system:serviceaccount:tideline-system:tideline-operator"
ENGINE = "system:serviceaccount:lake:tideline-engine"
STRANGER = "stranger"
USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    OPERATOR: ("system:serviceaccounts", "system:serviceaccounts:tideline-system"),
    ENGINE: ("system:serviceaccounts", "system:serviceaccounts:lake"),
    STRANGER: (),
}
"""Who can sign in, with their groups; rights come from the roles a test creates."""

_PROGRAMS = ("etcd", "kube-apiserver")
_START_ATTEMPTS = 3
_START_TIMEOUT_S = 90.0
_LOG_TAIL_BYTES = 4_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer."""

    status: int
    content: Any

    @property
    def message(self) -> str:
        """The message of a refusal."""
        return str(self.content["message"]) if isinstance(self.content, dict) else self.content


def programs_folder() -> Path | None:
    """Where the newest built programs are; None when they have not been built."""
    home = os.environ.get("HOME") or str(Path.home())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "tideline"
    folders = [
        folder
        for folder in cache.glob("kubernetes-*/bin")
        if all((folder / name).exists() for name in _PROGRAMS)
    ]
    return max(folders, key=_version, default=None)


class ApiServer:
    """An empty API server for the length of a `with` block.

    Raises FileNotFoundError when the programs have not been built.
    """

    def __init__(self) -> None:
        self._tokens = {user: secrets.token_hex(16) for user in USERS}
        self._folder = Path()
        self._port = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        programs = programs_folder()
        if programs is None:
            raise FileNotFoundError("etcd and kube-apiserver: python -m e2e.build api-server")
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._folder = Path(tempfile.mkdtemp(prefix="tideline-api-"))
            self._start(programs)
            if self._becomes_ready():
                return self
            log = self._log_tail()
            self.stop()
            if attempt == _START_ATTEMPTS:
                raise RuntimeError(f"the API server did not start:\n{log}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.kubeconfig_of(ADMIN)

    @property
    def port(self) -> int:
        return self._port

    def kubeconfig_of(self, user: str, port: int | None = None) -> Path:
        """A kubeconfig of one of USERS; `port` is that of a proxy before the server."""
        name = user.replace(":", "-") + (f"-{port}" if port else "")
        path = self._folder / f"{name}.kubeconfig"
        url = f"https://127.0.0.1:{port or self._port}"
        cluster = {"server": url, "certificate-authority": str(self.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "api", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "api", "context": {"cluster": "api", "user": user}}],
            "current-context": "api",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content), "utf-8")
        return path

    def token_of(self, user: str) -> str:
        """What one of USERS signs in with."""
        return self._tokens[user]

    def api(self, user: str = ADMIN, port: int | None = None) -> KubeApi:
        """A client that is signed in as `user`, and reaches the server by the `port` of a proxy."""
        return KubeApi.from_environment(self.kubeconfig_of(user, port))

    def request(
        self,
        method: str,
        path: str,
        content: Mapping[str, Any] | None = None,
        *,
        user: str = ADMIN,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> Answer:
        """One plain request, for what the client does not do."""
        headers = {
            "Authorization": f"Bearer {self._tokens[user]}",
            "Accept": accept,
            "Content-Type": content_type,
        }
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        trust = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trust) as response:
                return Answer(response.status, _content(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _content(error.read()))

    def restart(self) -> None:
        """Another process in the server's place, on the same data: it knows no version from before.

        Raises RuntimeError when it does not start.
        """
        server = self._processes.pop()
        server.kill()
        server.wait()
        program, *arguments = cast(list[str], server.args)
        self._launch(Path(program), *arguments)
        if not self._becomes_ready():
            raise RuntimeError(f"the API server did not start again:\n{self._log_tail()}")

    def stop(self) -> None:
        """End the server and forget its data."""
        # No orderly shutdown: the data is deleted as well.
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def authority(self) -> Path:
        """The certificate the server made for itself, with its authority."""
        return self._folder / "certificates" / "apiserver.crt"

    def _start(self, programs: Path) -> None:
        etcd_port, peer_port, self._port = free_ports(3)
        etcd_url, peer_url = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        self._launch(
            programs / "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        tokens, key = self._folder / "tokens.csv", self._folder / "service-accounts.pem"
        tokens.touch(mode=0o600)
        tokens.write_text("".join(_token_line(user, token) for user, token in self._tokens.items()))
        key.touch(mode=0o600)
        key.write_bytes(RSA.generate(2048).export_key())
        self._launch(
            programs / "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.authority.parent}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            # Where a store that trusts this issuer finds its keys.
            f"--service-account-jwks-uri={self.url}/openid/v1/jwks",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # No controller gives namespaces their default account.
            "--disable-admission-plugins=ServiceAccount",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            "--profiling=false",
        )

    def _launch(self, program: Path, *arguments: str) -> None:
        with (self._folder / f"{program.name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(program), *arguments],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    cwd=self._folder,
                )
            )

    def _becomes_ready(self) -> bool:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if any(process.poll() is not None for process in self._processes):
                return False
            with suppress(OSError):
                # Waits for the default roles as well, without which every user is refused.
                if self.request("GET", "/readyz").status == 200:
                    return True
            time.sleep(0.1)
        return False

    def _log_tail(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        tails = (path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace") for path in logs)
        return "\n".join(tails)


def _content(body: bytes) -> Any:
    """The body as JSON, or as text."""
    text = body.decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


def _token_line(user: str, token: str) -> str:
    groups = ",".join(USERS[user])
    return f'{token},{user},{user},"{groups}"\n'


def _version(folder: Path) -> tuple[int, ...]:
    words = folder.parent.name.removeprefix("kubernetes-").split(".")
    return tuple(int(word) for word in words if word.isdecimal())


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ApiServer() as server:
        print(f"export KUBECONFIG={server.kubeconfig}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
