"""Are the table's properties whole and understood?

A backup next to them is what is left of an update that died; opening takes the sound one of the
two, and the next update takes the backup away.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error, note, warning
from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.table.java_properties import parse_properties
from tideline.hudi.table.properties import BACKUP_PATH, PROPERTIES_PATH, table_checksum
from tideline.hudi.table.table_config import (
    CHECKSUM,
    KEY_GENERATOR_CLASS,
    KEY_GENERATOR_TYPE,
    KEY_SPELLING_CHECKED,
    KeyGeneratorKind,
    TableConfig,
)
from tideline.hudi.write.config import WriteConfig
from tideline.settings.gate import stored_problems

NAME = "properties"
_RESTORE = Repair(RepairKind.RESTORE_PROPERTIES)


def check_properties(seen: Inspection) -> Iterator[Finding]:
    """Findings about `hoodie.properties`."""
    if PROPERTIES_PATH not in seen.objects:
        yield error(NAME, "the properties are missing", path=PROPERTIES_PATH, repair=_RESTORE)
    else:
        try:
            stored = parse_properties(seen.table.store.get(PROPERTIES_PATH))
        except (CorruptTableError, UnsupportedTableError) as broken:
            yield error(NAME, str(broken), path=PROPERTIES_PATH, repair=_RESTORE)
            stored = {}
        written = stored.get(CHECKSUM)
        if stored and written is not None and written.strip() != table_checksum(stored):
            yield error(NAME, "the checksum is wrong", path=PROPERTIES_PATH, repair=_RESTORE)
    if BACKUP_PATH in seen.objects:
        yield warning(
            NAME, "an update of the properties did not finish", path=BACKUP_PATH, repair=_RESTORE
        )
    for problem in stored_problems(seen.table.config.properties):
        found, what = (
            (error, "stops every writer")
            if problem.stops_writers
            else (warning, "has no effect here")
        )
        yield found(
            NAME,
            f"a setting {what}: {problem.message}",
            path=PROPERTIES_PATH,
            advice="remove it there, or write the table with an engine that understands it",
        )
    yield from _refused_by_hudi(seen.table.config)
    try:
        WriteConfig.from_properties(seen.table.config.properties)
    except ConfigError as wrong:
        yield error(
            NAME,
            f"a setting stops every writer: {wrong}",
            path=PROPERTIES_PATH,
            advice="correct it there",
        )


def _refused_by_hudi(config: TableConfig) -> Iterator[Finding]:
    """A table that Hudi 1.1 and later write only if a setting says that keys are spelled alike."""
    named = config.properties.keys() & {KEY_GENERATOR_CLASS, KEY_GENERATOR_TYPE}
    is_doubted = config.properties.get(KEY_SPELLING_CHECKED, "true").lower() != "false"
    try:
        is_complex = config.key_generator is KeyGeneratorKind.COMPLEX
    except UnsupportedTableError:
        return
    if named and is_complex and is_doubted and len(config.record_key_fields) == 1:
        yield note(
            NAME,
            "writers of Hudi 1.1 and later refuse it: Hudi 0.14.1 to 1.0.2 spelled keys of one "
            "column with a complex key generator in another way",
            path=PROPERTIES_PATH,
            advice=f"where none of these wrote to it, give Hudi {KEY_SPELLING_CHECKED}=false",
        )
