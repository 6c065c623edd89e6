"""A page as Chromium shows it: what is in it once its scripts have run."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

_LOOK = "setTimeout(() => { %s }, 1500)"


@dataclass(frozen=True, slots=True)
class Seen:
    """The document as HTML, and what the browser wrote to its console."""

    document: str
    console: str


def shown(url: str, folder: Path, *, width: int = 1_200) -> Seen:
    """What a browser makes of the page at `url`; `folder` keeps its profile.

    Skips the test where there is no Chromium, except in CI.
    """
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    seen = subprocess.run(
        [
            program,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--v=0"),
            f"--user-data-dir={folder / 'browser'}",
            f"--window-size={width},2400",
            "--virtual-time-budget=4000",
            "--dump-dom",
            url,
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    console = "\n".join(line for line in seen.stderr.splitlines() if "CONSOLE" in line)
    return Seen(seen.stdout, console)


def with_look(page: str, statements: str) -> str:
    """The page with a script that runs after its own, which its policy allows as well."""
    script = _LOOK % statements
    digest = b64encode(sha256(script.encode()).digest()).decode()
    whole, end, after = page.rpartition("</body>")
    allowed = whole.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    return f"{allowed}<script>{script}</script>{end}{after}"
