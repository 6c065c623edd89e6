"""buildah with its own storage in the cache; it leaves no mount behind, even when killed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.build.versions import images_folder

_STORAGE_BYTES_MAX = 15_000_000_000


class Buildah:
    """Builds Dockerfiles as root, without a daemon and without a registry."""

    def __init__(self) -> None:
        self._storage = images_folder() / "storage"
        self._storage.mkdir(parents=True, exist_ok=True)

    def has(self, image: str) -> bool:
        return self._run(["inspect", "--type", "image", image], check=False).returncode == 0

    def build(
        self,
        image: str,
        dockerfile: Path,
        context: Path,
        *,
        arguments: Mapping[str, str] | None = None,
        volumes: Mapping[Path, str] | None = None,
        ignore: Path | None = None,
        epoch_s: int | None = None,
    ) -> None:
        """Build an image; unchanged steps come from the storage.

        With `epoch_s` every step is done again, and every file gets this time.
        """
        options = [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        options += [f"--volume={path}:{inside}:ro" for path, inside in (volumes or {}).items()]
        options += [f"--ignorefile={ignore}"] if ignore is not None else []
        options += ["--no-cache", f"--timestamp={epoch_s}"] if epoch_s is not None else []
        # Chroot is enough to run package managers, and needs no control groups.
        self._run(
            ["build", "--quiet", "--layers", "--isolation=chroot", "--network=host",
             "--format=docker", "--pull-never", f"--tag={image}", f"--file={dockerfile}",
             *options, str(context)]
        )  # fmt: skip

    def save(self, image: str, archive: Path) -> None:
        """Write an image as an archive whose layers are not compressed."""
        written = archive.with_suffix(".part")
        written.unlink(missing_ok=True)
        self._run(["push", "--quiet", image, f"docker-archive:{written}:{image}"])
        written.replace(archive)

    def prune(self) -> None:
        """Delete the steps of earlier builds once they are many; the next build takes longer.

        Builds that were killed leave containers, which would hold on to their steps. What cannot be
        removed is reported and stays: it only costs disk space.
        """
        du = ["du", "--summarize", "--block-size=1", "--one-file-system", str(self._storage)]
        listed = subprocess.run(du, capture_output=True, text=True)
        size_bytes, _, _ = listed.stdout.partition("\t")
        if int(size_bytes or 0) > _STORAGE_BYTES_MAX:
            for arguments in (["rm", "--all"], ["rmi", "--prune"]):
                done = self._run(arguments, check=False)
                if done.returncode != 0:
                    print(f"buildah {' '.join(arguments)}: {done.stderr.strip()[-1000:]}")

    def _run(
        self, arguments: Sequence[str], *, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(dir=images_folder(), prefix="run-") as state:
            done = subprocess.run(
                ["unshare", "--mount", "buildah", f"--root={self._storage}", f"--runroot={state}",
                 "--storage-driver=overlay", *arguments],
                capture_output=True,
                text=True,
            )  # fmt: skip
        if check and done.returncode != 0:
            raise RuntimeError(f"buildah {arguments[0]}:\n{(done.stdout + done.stderr)[-4000:]}")
        return done
