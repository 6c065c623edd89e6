"""The README of test support has every module once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SUPPORT = (
    ROOT / "engine" / "tideline" / "testing",
    ROOT / "operator" / "tideline_operator" / "testing",
)


def test_each_module_stands_in_the_readme_once() -> None:
    tables = (SUPPORT[0] / "README.md").read_text("utf-8").partition("\n## ")[2]
    named = Counter(re.findall(r"`([a-z]\w+)`", tables))
    modules = {
        path.stem
        for folder in SUPPORT
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules - {"__init__"} == set(named)
    assert [name for name, times in named.items() if times > 1] == []
