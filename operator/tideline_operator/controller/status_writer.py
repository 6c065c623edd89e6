"""Writing a LakeTable's status: only when it changed, and only over the version that was read.

It is a server-side apply that names the resource version, so it is a compare-and-swap as well: two
controllers can never both record an operation, and fields of other managers stay theirs.

Secrets are masked in the texts of a status that are for people. Names, times, checkpoints, words
that stand for a state and the spec that is kept are left as they are: a tenant whose password is
"Succeeded" must not change what the operator reads there of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.secret_values import masked
from tideline_operator.api_objects import LAKE_TABLES, ApiRefusedError, ApiResource, Manifest
from tideline_operator.controller.object_cache import ObjectCache, without_managed_fields
from tideline_operator.kube import KubeApi
from tideline_operator.resources.bounds import within_bounds
from tideline_operator.resources.parsing import to_json_object
from tideline_operator.resources.status import LakeTableStatus

_TEXTS = ("message", "lastResult")


class StaleStatusError(Exception):
    """The object was changed or deleted since it was read: look again."""


class StatusWriter:
    """Writes statuses and keeps the cache as new as what was written."""

    def __init__(self, api: KubeApi, tables: ObjectCache) -> None:
        self._api = api
        self._tables = tables

    def write(self, item: Manifest, status: LakeTableStatus) -> Manifest:
        """Make `status` that of `item`, if it differs; the object after that.

        Raises StaleStatusError, ApiUnavailableError, and ApiRefusedError when the API server
        refuses it.
        """
        content = status_content(within_bounds(status))
        if _meaning(content) == _meaning(item.get("status") or {}):
            return item
        manifest = status_manifest(LAKE_TABLES, item, content)
        metadata = item["metadata"]
        manifest["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        try:
            written = self._api.apply(
                LAKE_TABLES, manifest, metadata["namespace"], subresource="status"
            )
        except ApiRefusedError as error:
            if error.status in (404, 409):
                raise StaleStatusError(error.message) from error
            raise
        self._tables.put_written(written)
        return without_managed_fields(written)


def status_content(status: object) -> dict[str, Any]:
    """A status as JSON, the texts for people in it masked."""
    content: dict[str, Any] = _masked_texts(to_json_object(status))
    return content


def status_manifest(kind: ApiResource, item: Manifest, status: Mapping[str, Any]) -> Manifest:
    """What is applied to make `status` that of this very object."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {name: item["metadata"][name] for name in ("name", "namespace", "uid")},
        "status": status,
    }


def _masked_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _masked_member(name, item) for name, item in value.items()}


def _masked_member(name: str, item: Any) -> Any:
    if name == "lastValidSpec":
        return item
    if name == "left":
        return {table: masked(why) for table, why in item.items()}
    # Reasons of conditions are single words, those of services are sentences.
    if isinstance(item, str) and (name in _TEXTS or (name == "reason" and " " in item)):
        return masked(item)
    return _masked_texts(item)


def _meaning(status: dict[str, Any]) -> dict[str, Any]:
    """A status without the times of looks that found nothing new: not worth a write each."""
    ingests = {
        name: {field: value for field, value in item.items() if field != "polledAt"}
        for name, item in (status.get("ingest") or {}).items()
    }
    return {**status, "ingest": ingests}
