"""The engine that a LakeTable wants for small work, as the setting of both table formats."""

from __future__ import annotations

from tideline.settings.small_engine import SMALL_ENGINE, SmallEngine
from tideline_operator.resources.lake_table import LakeTableSpec


def engine_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The setting that says which engine does small work, if the spec does.

    It goes with each operation and is not stored in the table, so that it may change.
    """
    small = spec.engine.small
    return {} if small is None else {SMALL_ENGINE: SmallEngine[small.name].value}
