"""Which of two rows with one key stays: the table's merge mode, and no custom code."""

from __future__ import annotations

from tideline.settings.entries import refused, settles, stored, word
from tideline.settings.setting import Risk

_PROPERTY = "hoodie.record.merge.property."
_RULES = "rows are merged by event time or by commit time, as the table's merge mode says; "

SETTINGS = (
    word(
        "hoodie.table.partial.update.mode",
        "",
        ("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
        "in tables of version 9: rows are filled up from the rows they win against, where they "
        "have a null (IGNORE_DEFAULTS) or the marker of a value that was not available "
        "(FILL_UNAVAILABLE)",
        settles_table=True,
    ),
    settles(
        f"{_PROPERTY}hoodie.write.partial.update.unavailable.value",
        "the marker of a value that was not available, for FILL_UNAVAILABLE",
    ),
    stored(
        f"{_PROPERTY}hoodie.payload.delete.field",
        "the column that marks rows that delete, in tables of version 9",
    ),
    stored(
        f"{_PROPERTY}hoodie.payload.delete.marker",
        "the text in it, in tables of version 9",
    ),
    *refused(
        _RULES + "leave it out, and write tables that need it with Hudi",
        "hoodie.datasource.write.record.merger.impls",
        "hoodie.write.record.merge.custom.implementation.classes",
        "hoodie.write.partial.update.unavailable.value",
        "hoodie.record.merge.property.*",
        risk=Risk.MERGING,
    ),
    *refused(
        _RULES + "of equal ordering values the later write wins",
        "hoodie.payload.update.on.same.ordering.field",
        unless=("true",),
        risk=Risk.MERGING,
    ),
)
