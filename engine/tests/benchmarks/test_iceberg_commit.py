"""What a commit to a large table writes."""

from __future__ import annotations

from pathlib import Path

from bench.iceberg_commit import commit_once
from bench.iceberg_many_files import ManyFiles


def test_only_manifests_of_replaced_files_are_rewritten(tmp_path: Path) -> None:
    table = ManyFiles(tmp_path / "table", files=2_000, manifests=40)
    table.write()
    _, (replaced, written, kept) = commit_once(table, changed=4)
    assert (replaced, written, kept) == (4, 5, 36)
