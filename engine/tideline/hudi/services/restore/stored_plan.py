"""Plans of restores, of ours and of Hudi's."""

from __future__ import annotations

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.hudi.services.restore.plan import RestorePlan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Instant, State


def read_restore_plan(table: HoodieTable, restore: Instant) -> RestorePlan:
    """The plan of a restore in any state.

    Raises CorruptTableError naming instant and path when it cannot be read or is not there.
    """
    path = table.timelines.path(restore.in_state(State.REQUESTED))
    try:
        return RestorePlan.from_avro(decode_container(table.store.get(path), path=path))
    except (CorruptTableError, ObjectNotFoundError, ValueError) as error:
        raise CorruptTableError(
            f"the plan of this restore cannot be read: {error}",
            table=table.uri,
            instant=restore.time,
            path=path,
        ) from error
