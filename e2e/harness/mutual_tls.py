"""MinIO of the cluster behind TLS that demands a certificate of its clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tideline.testing
from e2e.harness.installation import IMAGES
from e2e.harness.lake import Lake
from e2e.harness.mutual_tls_server import PORT
from e2e.harness.server_pod import ServerPod, from_secret
from tideline.testing.spy_server import make_certificate

NAME = "demanding"
_PROGRAM = Path(__file__).with_name("mutual_tls_server.py")
_FILES = ("tls_front.py", "loopback_listener.py")
_AUTHORITY, _SHOWN, _OWN = "lake-authority", "lake-client", "lake-server"


class MutualTls:
    """The pod in the namespace of a lake, and the LakeStore of its name."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self._folder = folder
        behind = lake.minio.endpoint.removeprefix("http://")
        secrets = (
            ("TIDELINE_CERTIFICATE", "tls.crt"),
            ("TIDELINE_KEY", "tls.key"),
            ("TIDELINE_AUTHORITY", "client-ca.crt"),
        )
        self._pod = ServerPod(
            lake.cluster,
            lake.namespace,
            NAME,
            _PROGRAM,
            image=IMAGES["tideline-engine"],
            port=PORT,
            environment=[
                {"name": "TIDELINE_BEHIND", "value": behind},
                *(from_secret(variable, _OWN, key) for variable, key in secrets),
            ],
            beside=[Path(tideline.testing.__path__[0]) / name for name in _FILES],
        )
        self.endpoint = self._pod.endpoint.replace("http://", "https://")

    def start(self) -> None:
        """Run it, and apply the Secrets of both sides."""
        host = self.endpoint.removeprefix("https://").rpartition(":")[0]
        authority, own = self._certificate("server", host)
        clients, shown = self._certificate("client", "tideline")
        self._lake.apply_secret({"ca.crt": authority}, _AUTHORITY)
        self._lake.apply_secret(shown, _SHOWN, kind="kubernetes.io/tls")
        self._lake.apply_secret({**own, "client-ca.crt": clients}, _OWN)
        self._pod.start()

    def declare(self, *, shows: bool = True) -> None:
        """Apply its LakeStore, which shows the certificate or none."""
        shown: dict[str, Any] = {"clientCertificate": {"secretName": _SHOWN}} if shows else {}
        self._lake.apply_store(
            NAME, endpoint=self.endpoint, tls={"caSecretName": _AUTHORITY}, **shown
        )

    def _certificate(self, side: str, host: str) -> tuple[str, dict[str, str]]:
        """An authority (PEM), and the files of a certificate that it gave."""
        folder = self._folder / side
        folder.mkdir()
        authority, (certificate, key) = make_certificate(folder, host)
        files = {"tls.crt": certificate.read_text(), "tls.key": key.read_text()}
        return authority.decode(), files
