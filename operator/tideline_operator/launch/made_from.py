"""What a Job was made from, as a digest in a label: a Job whose driver never ran is replaced when
it would be made differently now. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tideline_operator.resources.parsing import to_json_object
from tideline_operator.resources.resolved import ResolvedTable

MADE_FROM_LABEL = "tideline.dev/made-from"
"""Of a Job alone, not of its pods."""


def made_from(table: ResolvedTable, settings: Mapping[str, Any]) -> str:
    """A digest of a table's spec, its LakeStores and the operator's `settings` of Jobs."""
    content = {
        "spec": to_json_object(table.spec),
        "stores": {name: to_json_object(store) for name, store in table.stores.items()},
        "settings": settings,
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
