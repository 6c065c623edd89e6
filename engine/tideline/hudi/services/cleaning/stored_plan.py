"""Plans of cleans that are still to be executed, of ours and of Hudi's."""

from __future__ import annotations

from tideline.hudi.services.cleaning.plan import CleaningPlan
from tideline.hudi.services.past_cleans import read_planned_clean
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Instant


def read_cleaning_plan(table: HoodieTable, instant: Instant) -> CleaningPlan:
    """The plan of a clean.

    Raises CorruptTableError naming instant and path when it is cut short.
    """
    return read_planned_clean(table, instant, CleaningPlan.from_avro)
