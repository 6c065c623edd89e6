"""A folder as a clone is after `make run`, for tests that follow a page of the docs in it.

1. Its `.venv` has Tideline and everything of this environment, and is apart from it: what a page
   installs there is only there.
2. `pip install` finds what PACKAGES name, of these releases, in folders of the user's cache: a
   page may be followed without a package registry, and other packages are refused.
3. DuckDB's extensions lie where `INSTALL` would put them: it finds them, and downloads nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.library_apart import prepare_library
from tideline.testing.peer_environment import DUCKDB, DUCKDB_REQUIREMENTS

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "duckdb": DUCKDB_REQUIREMENTS,
    "polars": ("polars==2.1.0", "polars-runtime-32==2.1.0"),
}
"""What pip installs here by which name."""

_EXTENSIONS = ("avro", "iceberg")
_PIP = """\
#!{python}
import json, sys

folders = json.loads({folders!r})
command, *names = sys.argv[1:]
unknown = [name for name in names if name not in folders]
if command != "install" or unknown:
    sys.exit(f"not prepared: pip {{command}} {{' '.join(unknown)}}")
with open({path_file!r}, "a") as paths:
    paths.writelines(f"{{folders[name]}}\\n" for name in names)
"""


def make_clone(folder: Path, table: Path) -> dict[str, str]:
    """Make it, with a copy of a flights table; the environment variables of its user."""
    shutil.copytree(table, folder / "out" / "flights" / "table")
    _make_environment(folder / ".venv")
    home = folder / "home"
    _place_extensions(home)
    variables = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(cache_directory().parent)}
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        variables.pop(name, None)
    return variables


def _make_environment(folder: Path) -> None:
    venv.create(folder, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    here = sysconfig.get_path("purelib")
    (site / "of-this-environment.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    python = folder / "bin" / "python"
    _write_program(
        folder / "bin" / "tideline",
        f"#!{python}\nimport sys\n\nfrom tideline.cli.main import main\n\nsys.exit(main())\n",
    )
    folders = {name: str(prepare_library(wanted)) for name, wanted in PACKAGES.items()}
    path_file = str(site / "installed.pth")
    filled = _PIP.format(python=python, folders=json.dumps(folders), path_file=path_file)
    _write_program(folder / "bin" / "pip", filled)


def _write_program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def _place_extensions(home: Path) -> None:
    library = prepare_library(PACKAGES["duckdb"])
    asked = "import duckdb; print(duckdb.sql('pragma platform').fetchone()[0])"
    platform = subprocess.run(
        [sys.executable, "-c", asked],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(library)},
    ).stdout.strip()
    version = f"v{DUCKDB}"
    place = home / ".duckdb" / "extensions" / version / platform
    place.mkdir(parents=True)
    for name in _EXTENSIONS:
        file = f"{name}.duckdb_extension"
        held = library / f"duckdb_extension_{name}" / "extensions" / version / file
        (place / file).symlink_to(held)
