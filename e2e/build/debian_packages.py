"""Programs that come with Debian: apt installs what is missing and changes nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
"""A program, and the package that has it."""
POLICY_PACKAGES = {"ipset": "ipset"}
IMAGE_PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap", "runc": "runc"}

_APT = threading.Lock()
"""apt does not wait for another apt."""
_ADMINISTRATOR_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def install(packages: Mapping[str, str]) -> None:
    """Install the packages whose program is missing."""
    with _APT:
        missing = sorted({packages[name] for name in packages if find(name) is None})
        if missing:
            _install(missing)


def find(program: str) -> Path | None:
    """Where a program is; administrators' folders count even when they are not on the PATH."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_ADMINISTRATOR_PATH}")
    return Path(found) if found else None


def _install(missing: Sequence[str]) -> None:
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=300"]
    subprocess.run([*as_root, "apt-get", "update", *quiet], check=True, env=environment)
    command = [*as_root, "apt-get", "install", "--no-install-recommends", "-y", *quiet, *missing]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
