"""Removes from the operator's image what nothing in it loads: `reduce.py ROOT`.

Python is its only program, so all that counts is what Python loads: libraries that no module and no
package names go, and so do parts of the standard library that only people at a terminal, compilers,
databases, mail and texts of East Asia in their old encodings use. Licences stay.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

UNUSED_MODULES = (
    "curses", "dbm", "distutils", "idlelib", "lib2to3", "pydoc_data", "sqlite3", "test", "tkinter",
    "turtledemo", "xmlrpc", "config-3*",
    *(name for module in (
        "_pydecimal", "_pyio", "doctest", "ftplib", "imaplib", "mailbox", "nntplib", "pickletools",
        "poplib", "smtplib", "telnetlib", "turtle",
    ) for name in (f"{module}.py", f"__pycache__/{module}.*")),
    *(f"lib-dynload/{name}*" for name in (
        "_codecs_", "_curses", "_dbm", "_gdbm", "_sqlite3", "_test", "_tkinter", "nis", "readline",
        "xx")),
)  # fmt: skip
_KEPT_SHARES = ("ca-certificates", "common-licenses", "doc", "zoneinfo")
_DYNAMIC, _NEEDED, _STRINGS, _LOADED = 2, 1, 5, 1
"""Types in an ELF file: a segment, two entries of it, another segment."""


def reduce(root: Path) -> None:
    """Do all of that below `root`, which has the packages in `opt`."""
    for library in _standard_libraries(root):
        for pattern in UNUSED_MODULES:
            for path in library.glob(pattern):
                _remove(path)
    for path in (root / "usr/share").iterdir():
        if path.name not in _KEPT_SHARES:
            _remove(path)
    for path in (root / "usr/share/doc").rglob("*"):
        if not path.is_dir() and path.name != "copyright":
            path.unlink()
    _share_zones(root)
    loaded = _loaded_libraries(root)
    for folder in root.glob("usr/lib/*-linux-gnu*"):
        for path in sorted(folder.rglob("*.so*")):
            if path.name not in loaded:
                path.unlink()
        _remove(folder / "gconv")


def needed(file: Path) -> list[str]:
    """The names of the libraries that a program or library names; none for another file."""
    data = file.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    (at,) = struct.unpack_from("<Q", data, 32)
    size, number = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, at + size * index) for index in range(number)]
    found = next((segment for segment in segments if segment[0] == _DYNAMIC), None)
    if found is None:
        return []
    _, _, start, _, _, length = found
    entries = [struct.unpack_from("<QQ", data, start + at) for at in range(0, length, 16)]
    (strings,) = (value for kind, value in entries if kind == _STRINGS)
    # Entries hold addresses in memory, segments say which bytes of the file get there.
    offset = next(
        segment[2] + strings - segment[3]
        for segment in segments
        if segment[0] == _LOADED and segment[3] <= strings < segment[3] + segment[5]
    )
    names = [offset + value for kind, value in entries if kind == _NEEDED]
    return [data[name : data.index(b"\0", name)].decode() for name in names]


def _loaded_libraries(root: Path) -> set[str]:
    """The names of those that Python, its modules and the packages load, and that these load."""
    known = {path.name: path for path in root.glob("usr/lib/*-linux-gnu*/*.so*")}
    todo = [path for folder in ("usr/bin", "usr/local/bin") for path in (root / folder).glob("py*")]
    for folder in (*_standard_libraries(root), root / "opt"):
        todo += [path for path in folder.rglob("*.so*") if path.is_file()]
    todo += list(root.glob("usr/local/lib/*.so*"))
    loaded: set[str] = set()
    while todo:
        for name in needed(todo.pop().resolve()):
            if name in known and name not in loaded:
                loaded |= {name, known[name].resolve().name}
                todo.append(known[name])
    return loaded


def _standard_libraries(root: Path) -> Iterator[Path]:
    yield from root.glob("usr/lib/python3.*")
    yield from root.glob("usr/local/lib/python3.*")


def _share_zones(root: Path) -> None:
    """Time zones are there once: as the package `tzdata`, also for the C library."""
    place = root / "usr/share/zoneinfo"
    for zones in root.glob("opt/*/lib/python3.*/site-packages/tzdata/zoneinfo"):
        _remove(place)
        place.symlink_to(Path("/") / zones.relative_to(root))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inside in path.iterdir():
            _remove(inside)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    reduce(Path(sys.argv[1]).resolve())
    Path(__file__).unlink()
