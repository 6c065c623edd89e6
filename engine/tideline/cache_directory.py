"""Where Tideline keeps what it can make or download again: Java shims, extra jars, trust stores."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`tideline` in the user's cache folder, made if need be.

    Where that cannot be written (a container with a read-only home) it is a folder of the user's
    own in the folder for temporary files.
    """
    home = environment.get("HOME") or str(Path.home())
    preferred = Path(environment.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "tideline"
    try:
        preferred.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _temporary()
    return preferred if os.access(preferred, os.W_OK | os.X_OK) else _temporary()


def _temporary() -> Path:
    folder = Path(tempfile.gettempdir()) / f"tideline-{_user()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Another user's folder of that name could give us a `java` of their own.
    if folder.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="tideline-"))
    return folder


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
