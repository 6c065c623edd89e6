"""What is called harmless: Hudi itself writes the same rows to as many files with it as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.settings.gate import check_given
from tideline.settings.registry import find_setting
from tideline.settings.setting import SettingPlace, Support
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import typed_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow]

DESCRIPTION = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
}
HARMLESS = {
    "hoodie.insert.shuffle.parallelism": "7",
    "hoodie.upsert.shuffle.parallelism": "3",
    "hoodie.delete.shuffle.parallelism": "5",
    "hoodie.datasource.write.row.writer.enable": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.fail.job.on.duplicate.data.file.detection": "true",
    "hoodie.block.writes.on.speculative.execution": "false",
    "hoodie.rollback.using.markers": "false",
    "hoodie.avro.schema.validate": "true",
    "hoodie.embed.timeline.server": "false",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.memory.merge.fraction": "0.3",
    "hoodie.write.executor.type": "BOUNDED_IN_MEMORY",
}


def test_what_is_harmless_changes_neither_rows_nor_files_in_hudi_itself(
    tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    for name in HARMLESS:
        setting = find_setting(name)
        assert setting is not None and setting.support is Support.HARMLESS, name
    assert check_given(HARMLESS, SettingPlace.WRITE) == HARMLESS
    seen = []
    for name, options in (("plain", {}), ("tuned", HARMLESS)):
        uri = tmp_path / name
        described = {**DESCRIPTION, **options}
        for operation, rows in (
            ("insert", typed_rows(range(30), version=1)),
            ("upsert", typed_rows(range(20, 50), version=2)),
            ("delete", typed_rows(range(0, 50, 7), version=2)),
        ):
            hudi_peer.write(str(uri), rows, operation=operation, options=described)
        answer = hudi_peer.read(str(uri)).select(["id", "region", "ts"])
        stored = sorted(map(str, answer.to_pylist()))
        files = sorted(str(path.parent.relative_to(uri)) for path in uri.rglob("*_*.parquet"))
        left = list((uri / ".hoodie" / ".temp").rglob("*.marker*"))
        seen.append((stored, files, left))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 42
