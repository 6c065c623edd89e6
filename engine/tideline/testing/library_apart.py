"""Libraries of extras that are not in the product's own environment.

They are large, or ask for other versions of what the environment has. Each is installed without
what it depends on, into a folder of the user's cache, and costs nothing when it is there.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.peer_environment import only_builder, run_step

# Not in this environment: botocore and the client of Kubernetes ask for other versions of dateutil.
BOTO3 = ("boto3==1.44.8", "botocore==1.44.8", "jmespath==1.1.0", "s3transfer==0.19.3")


def prepare_library(requirements: Sequence[str]) -> Path:
    """The folder to import them from, named after the first, filled if need be.

    Raises PeerUnavailableError with the failing step's output.
    """
    folder = cache_directory() / "libraries" / requirements[0]
    with only_builder(f"library-{requirements[0]}"):
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                target = Path(scratch) / "site"
                install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
                run_step([*install, "--target", str(target), *requirements])
                shutil.move(target, folder)
    return folder


def import_from(folder: Path, module: str) -> None:
    """Let this process import from a folder as long as it lives, unless it has the module."""
    if importlib.util.find_spec(module) is None:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
