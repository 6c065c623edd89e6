"""Definitions of indexes of the metadata table, which Hudi keeps apart from the indexes themselves.

In version 9 each says its own version, and one without is refused; earlier versions know the first
alone. The indexes go with the metadata table whenever a table's version changes, and with them the
definitions that queries believe (metadata/index_definitions.py).
Source: Hudi's HoodieIndexMetadata, UpgradeDowngradeUtils.dropNonV1IndexPartitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.index_definitions import DEFINED, definitions_path
from tideline.hudi.table.hoodie_table import HoodieTable

_FIRST = "V1"


def adapt_index_definitions(table: HoodieTable, version: int) -> None:
    """Write them as a table of `version` needs them. Call under the table lock, before the version
    changes. Died after: the version that the table still has reads them as well.

    Raises CorruptTableError for definitions that are not understood.
    """
    path = definitions_path(table)
    if table.store.head(path) is None:
        return
    content = parse_json(table.store.get(path), path=path, what="index definitions")
    defined = content.get(DEFINED) if isinstance(content, dict) else None
    if not isinstance(defined, dict) or not all(isinstance(one, dict) for one in defined.values()):
        raise CorruptTableError(
            "the definitions of indexes are not understood", table=table.uri, path=path
        )
    adapted = adapted_definitions(defined, version)
    if adapted != defined:
        body = json.dumps({**content, DEFINED: adapted}, indent=2)
        table.store.put(path, body.encode())


def adapted_definitions(
    defined: Mapping[str, Mapping[str, Any]], version: int
) -> dict[str, Mapping[str, Any]]:
    """Definitions by name, as a table of `version` has them."""
    if version >= 9:
        return {
            name: {**one, "version": one.get("version") or _FIRST} for name, one in defined.items()
        }
    return {name: one for name, one in defined.items() if (one.get("version") or _FIRST) == _FIRST}
