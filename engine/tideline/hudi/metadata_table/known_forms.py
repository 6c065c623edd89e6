"""Which protocol a metadata table of a layout has."""

from __future__ import annotations

from tideline.hudi.metadata_table.form import MetadataForm
from tideline.hudi.metadata_table.form_by_commit import BY_COMMIT
from tideline.hudi.metadata_table.form_by_slice import BY_SLICE
from tideline.hudi.table.layout.table_layout import TableLayout


def form_of(layout: TableLayout) -> MetadataForm:
    """The protocol of metadata tables of a layout."""
    return BY_SLICE if layout.names.logs_name_slice else BY_COMMIT
