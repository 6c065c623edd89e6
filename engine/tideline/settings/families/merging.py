"""Which of two rows with one key stays: the table's merge mode, and no custom code."""

from __future__ import annotations

from tideline.settings.entries import refused, stored
from tideline.settings.setting import Danger

_RULES = "rows are merged by event time or by commit time, as the table's merge mode says; "

SETTINGS = (
    stored(
        "hoodie.table.partial.update.mode",
        "rows are filled up from the rows they replace; where it is set tables are read and "
        "compacted, and not written",
    ),
    *refused(
        _RULES + "leave it out, and write tables that need it with Hudi",
        "hoodie.datasource.write.record.merger.impls",
        "hoodie.write.record.merge.custom.implementation.classes",
        "hoodie.write.partial.update.unavailable.value",
        "hoodie.record.merge.property.*",
        danger=Danger.MERGING,
    ),
    *refused(
        _RULES + "of equal ordering values the later write wins",
        "hoodie.payload.update.on.same.ordering.field",
        unless=("true",),
        danger=Danger.MERGING,
    ),
)
