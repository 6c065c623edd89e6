"""The engine that a LakeTable wants for small work, as the setting of both table formats."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.settings.small_engine import SMALL_ENGINE, SmallEngine
from tideline_operator.resources.engine import SmallWork
from tideline_operator.resources.lake_table import LakeTableSpec

_SMALL_WORK: Mapping[SmallWork, SmallEngine] = {
    SmallWork.IN_PROCESS: SmallEngine.IN_PROCESS,
    SmallWork.SPARK: SmallEngine.SPARK,
}


def engine_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The setting that says which engine does small work, if the spec does.

    It goes with each operation and is not stored in the table, so that it may change.
    """
    small = spec.engine.small
    return {} if small is None else {SMALL_ENGINE: _SMALL_WORK[small].value}
