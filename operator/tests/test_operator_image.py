"""The operator's image: small, and everything that the operator does starts with what is in it."""

from __future__ import annotations

import importlib.metadata
import pkgutil
import re
import runpy
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tideline_operator
from tideline.distribution import DISTRIBUTION
from tideline.testing.trace_receiver import TraceReceiver
from tideline_operator.testing.image_packages import (
    LOCK,
    ROOT,
    UNUSED_FILES,
    UNUSED_PACKAGES,
    image_packages,
    run_isolated,
)

PACKAGES_BYTES_MAX = 134_000_000
"""Of the 200 MB that the image may have Debian with Python takes 44, our own code 16, and what else
pip installs the rest."""
SOURCES = (ROOT / "engine", ROOT / "operator")
PROGRAMS = ("tideline", "tideline-operator", "kubectl-tideline")
LATE = re.compile(r"^\s+from (tideline(?:_operator)?[\w.]*) import", re.MULTILINE)
OF_PODS = {"tideline.iceberg.table.catalog_sql", "tideline.iceberg.table.catalog_hive"}
"""Catalogs whose clients the image has no room for; it looks at Hive's in its own requests."""


@pytest.fixture(scope="module")
def packages() -> Path:
    return image_packages()


def loaded_bytes(file: Path) -> int:
    """The size of a file, of a shared object without what `strip` takes away: behind the segments
    that are loaded come symbols and debugging information.
    """
    with file.open("rb") as opened:
        header = opened.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            return file.stat().st_size
        (at,) = struct.unpack_from("<Q", header, 32)
        entry, number = struct.unpack_from("<HH", header, 54)
        opened.seek(at)
        table = opened.read(entry * number)
    starts = range(0, len(table), entry)
    ends: Iterator[int] = (sum(struct.unpack_from("<Q16xQ", table, start + 8)) for start in starts)
    return max(ends)


def test_the_packages_keep_the_image_below_200_mb(packages: Path) -> None:
    sizes: dict[str, int] = {}
    for file in packages.rglob("*"):
        if file.is_file():
            part = file.relative_to(packages).parts[0]
            sizes[part] = sizes.get(part, 0) + loaded_bytes(file)
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:8]
    assert sum(sizes.values()) < PACKAGES_BYTES_MAX, largest


def test_nothing_is_unused_in_vain() -> None:
    """A name on a list that no package has any more is taken off it."""
    unused = {part for part in UNUSED_PACKAGES.read_text().split("\n") if part and part[0] != "#"}
    tested = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    assert unused <= tested
    assert not unused & set(re.findall(r"^([a-z0-9._-]+)==", LOCK.read_text(), re.M))
    names = [
        file.as_posix()
        for name in re.findall(r"^([a-z0-9._-]+)==", LOCK.read_text(), re.M)
        for file in importlib.metadata.files(name) or ()
    ]
    for pattern in UNUSED_FILES.read_text().splitlines():
        if not pattern.startswith("#"):
            wanted = re.compile(_regular(pattern) + "(/|$)")
            assert any(wanted.match(name) for name in names), pattern


def _regular(pattern: str) -> str:
    """A pattern of the shell's as a regular expression."""
    found = re.split(r"(\*|\[![a-z_]+\])", pattern)
    parts = {"*": "[^/]*"} | {part: f"[^{part[2:]}" for part in found if part.startswith("[!")}
    return "".join(parts.get(part) or re.escape(part) for part in found)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_starts(packages: Path, program: str) -> None:
    (entry,) = importlib.metadata.distribution(DISTRIBUTION).entry_points.select(name=program)
    code = f"sys.argv = [{program!r}, '--help']\nfrom {entry.module} import {entry.attr}\nmain()"
    assert entry.attr == "main"
    done = run_isolated(code, packages, *SOURCES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: ")


def imported_by_the_operator() -> Iterator[str]:
    """Its modules, and those of the engine that it loads when it needs them."""
    for module in pkgutil.walk_packages(tideline_operator.__path__, "tideline_operator."):
        if ".testing" not in module.name:
            yield module.name
    for source in (ROOT / "operator" / "tideline_operator").rglob("*.py"):
        if "testing" not in source.parts:
            yield from LATE.findall(source.read_text("utf-8"))


def test_everything_that_the_operator_loads_is_there(packages: Path) -> None:
    tables = (
        f"tideline.iceberg.table.{found.stem}"
        for found in (ROOT / "engine" / "tideline" / "iceberg" / "table").glob("[a-z]*.py")
    )
    modules = sorted({*imported_by_the_operator(), *tables} - OF_PODS)
    assert len(modules) > 150
    code = f"import importlib\nfor name in {modules!r}:\n    importlib.import_module(name)\n"
    done = run_isolated(code, packages, *SOURCES)
    assert done.returncode == 0, done.stderr


def test_histories_and_compressed_manifests_are_read(packages: Path) -> None:
    """What is loaded for a table only when it has it: Arrow, Zstandard, bitmaps."""
    code = """
from tideline.formats.history_file import COMMITS, WHOLE, encode_history_file, read_history_file
row = dict.fromkeys(WHOLE, "1") | {"metadata": b"m", "plan": None}
(read,) = read_history_file(encode_history_file([row]), COMMITS, path="p")
assert read == {name: row[name] for name in COMMITS}, read
from tideline.bounded.parsing import _zstandard
import zstandard
assert _zstandard(zstandard.compress(b"12345"), 10) == b"12345"
import pyiceberg.table.puffin, pyroaring
assert 3 in pyroaring.BitMap64([3])
"""
    done = run_isolated(code, packages, *SOURCES)
    assert done.returncode == 0, done.stderr


def test_spans_are_sent(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
from tideline.tracing import AttemptSpans, record_span, send_spans
place = AttemptSpans.of("uid", "operation", 1).reconcile
record_span("reconcile", place, started_ms=1, ended_ms=2, attributes={}, failure="no room")
send_spans()
"""
    receiver = TraceReceiver()
    with receiver.serve() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        done = run_isolated(code, packages, *SOURCES)
    assert done.returncode == 0, done.stderr
    assert receiver.named("reconcile").error == "no room"


@pytest.mark.skipif(shutil.which("strip") is None, reason="strip is not installed")
def test_stripped_libraries_load(packages: Path, tmp_path: Path) -> None:
    """As the image has them; some tools leave libraries that cannot be stripped."""
    stripped = Path(shutil.copytree(packages, tmp_path / "stripped"))
    libraries = [path for path in stripped.rglob("*.so*") if path.is_file()]
    subprocess.run(["strip", "--strip-unneeded", *map(str, libraries)], check=True)
    assert not [
        path.name for path in libraries if path.stat().st_size > loaded_bytes(path) + 200_000
    ]
    modules = ["pyarrow.parquet", "pyarrow.dataset", "fastavro", "obstore.store", "pydantic"]
    modules += [
        "zstandard",
        "pyroaring",
        "yaml",
        "mmh3",
        "pyiceberg.avro.file",
        "kubernetes.config",
    ]
    code = f"import importlib\nfor name in {modules!r}:\n    importlib.import_module(name)\n"
    done = run_isolated(code, stripped, *SOURCES)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def root(packages: Path, tmp_path: Path) -> Path:
    """Folders like those of the image before its last step."""
    root = tmp_path / "root"
    site = root / "opt/tideline/lib/python3.11/site-packages"
    (site / "pyarrow").mkdir(parents=True)
    (parquet,) = (packages / "pyarrow").glob("_parquet.*.so")
    shutil.copy(parquet, site / "pyarrow")
    for name in (
        *("usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.1", "usr/lib/x86_64-linux-gnu/libapt.so.6"),
        *("usr/lib/x86_64-linux-gnu/gconv/EUC.so", "usr/share/doc/bash/changelog.gz"),
        *("usr/share/doc/bash/copyright", "usr/share/zoneinfo/UTC", "usr/share/info/dir"),
        *("usr/lib/python3.11/idlelib/help.py", "usr/lib/python3.11/json/decoder.py"),
        *("usr/lib/python3.11/lib-dynload/_ssl.so", "usr/lib/python3.11/lib-dynload/_curses.so"),
        "opt/tideline/lib/python3.11/site-packages/tzdata/zoneinfo/UTC",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / "usr/lib/x86_64-linux-gnu/libstdc++.so.6").symlink_to("libstdc++.so.6.0.1")
    return root


def test_what_nothing_loads_is_reduced_away(root: Path) -> None:
    script = ROOT / "images" / "operator" / "reduce.py"
    runpy.run_path(str(script))["reduce"](root)
    left = {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}
    left = {name for name in left if not name.startswith("opt")}
    assert left == {
        *("usr/lib/x86_64-linux-gnu/libstdc++.so.6", "usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.1"),
        *("usr/share/doc/bash/copyright", "usr/lib/python3.11/json/decoder.py"),
        *("usr/lib/python3.11/lib-dynload/_ssl.so", "usr/share/zoneinfo"),
    }
    zones = root / "usr/share/zoneinfo"
    assert (root / str(zones.readlink()).lstrip("/") / "UTC").is_file()


def test_libraries_that_a_library_names(packages: Path) -> None:
    needed = runpy.run_path(str(ROOT / "images" / "operator" / "reduce.py"))["needed"]
    (parquet,) = (packages / "pyarrow").glob("libparquet.so.*")
    names = needed(parquet)
    assert {"libstdc++.so.6", "libc.so.6"} < set(names)
    assert any(name.startswith("libarrow.so.") for name in names)
    assert needed(Path(__file__)) == []
