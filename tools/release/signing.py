"""Signatures, by cosign: of the checksums, and so of every file, and of what is in a registry.

With a key, whose password is in COSIGN_PASSWORD, nothing else is contacted. Without one cosign
signs with the identity of a CI run, as its OpenID token says it, and enters that in the public log.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tools.release.programs import run_program
from tools.release.release import Release, ReleaseError
from tools.release.statements import CHECKSUMS, PROVENANCE

PUBLIC_KEY = "cosign.pub"
_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL"
"""What hosted CI gives a run that may sign as itself."""


@dataclass(frozen=True, slots=True)
class Signer:
    """`key` is a file, or a reference to one in a key management service; None: an identity."""

    key: str | None

    @classmethod
    def of_environment(cls) -> Signer:
        """COSIGN_KEY, or the identity of this CI run. Raises ReleaseError without either."""
        key = os.environ.get("COSIGN_KEY")
        if not key and _TOKEN not in os.environ:
            raise ReleaseError(
                "nothing to sign with: set COSIGN_KEY to a key of `cosign generate-key-pair`,"
                " and COSIGN_PASSWORD to its password"
            )
        return cls(key or None)

    def sign_checksums(self, release: Release) -> None:
        """Write the signature beside them, and the public key where there is one."""
        checksums = release.folder / CHECKSUMS
        bundle = f"--bundle={checksums}.cosign.json"
        run_program("cosign", "sign-blob", "--yes", *self._by, bundle, str(checksums))
        if self.key is not None:
            public = run_program("cosign", "public-key", "--key", self.key)
            (release.folder / PUBLIC_KEY).write_text(public, "utf-8")

    def sign(self, release: Release, reference: str) -> None:
        """Sign what a reference by digest names in the registry."""
        run_program("cosign", "sign", "--yes", *self._by, *_connection(release), reference)

    def attest(self, release: Release, reference: str, kind: str, predicate: Path) -> None:
        """Attach a signed statement of a kind that cosign has, about what is in the registry."""
        about = ("--type", kind, "--predicate", str(predicate))
        run_program(
            "cosign", "attest", "--yes", *self._by, *_connection(release), *about, reference
        )

    @property
    def _by(self) -> tuple[str, ...]:
        return () if self.key is None else ("--key", self.key, "--tlog-upload=false")


def write_predicate(release: Release, target: Path) -> Path:
    """The predicate of the provenance alone, which is what cosign takes."""
    statement = json.loads((release.folder / PROVENANCE).read_text("utf-8"))
    target.write_text(json.dumps(statement["predicate"]), "utf-8")
    return target


def _connection(release: Release) -> tuple[str, ...]:
    if not release.is_local:
        return ()
    return ("--allow-http-registry", "--allow-insecure-registry")
