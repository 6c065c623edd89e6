"""Writing a LakeTable's status: only when it changed, and only over the version that was read.

It is a server-side apply that names the resource version, so it is a compare-and-swap as well: two
controllers can never both record an operation, and fields of other managers stay theirs.

The watch shows a write before its answer is read, as often as not. Such an event says nothing new.

Secrets are masked in the texts of a status that are for people. Names, times, checkpoints, words
that stand for a state and the spec that is kept are left as they are: a tenant whose password is
"Succeeded" must not change what the operator reads there of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tideline.secret_values import masked
from tideline_operator.api_objects import LAKE_TABLES, ApiRefusedError, ApiResource, Manifest
from tideline_operator.controller.object_cache import ObjectCache, key_of, without_managed_fields
from tideline_operator.controller.work_queue import Key
from tideline_operator.kube import KubeApi
from tideline_operator.resources.bounds import within_bounds
from tideline_operator.resources.parsing import to_json_object
from tideline_operator.resources.status import LakeTableStatus

_TEXTS = ("message", "lastResult")


class StaleStatusError(Exception):
    """The object was changed or deleted since it was read: look again."""


class StatusWriter:
    """Writes statuses, keeps the cache as new as what was written, and says what changed by it."""

    def __init__(
        self,
        api: KubeApi,
        tables: ObjectCache,
        on_written: Callable[[Manifest, Manifest], None] = lambda *_: None,
    ) -> None:
        self._api = api
        self._tables = tables
        self._on_written = on_written
        self._under_way: dict[Key, Mapping[str, Any]] = {}

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
        self._under_way[key_of(item)] = content
        try:
            written = self._api.apply(
                LAKE_TABLES, manifest, metadata["namespace"], subresource="status"
            )
            self._tables.put_written(written)
        except ApiRefusedError as error:
            if error.status in (404, 409):
                raise StaleStatusError(error.message) from error
            raise
        finally:
            del self._under_way[key_of(item)]
        written = without_managed_fields(written)
        self._on_written(item, written)
        return written

    def is_own(self, before: Manifest | None, after: Manifest | None) -> bool:
        """Whether nothing of an object has changed but its status, to what is being written."""
        if before is None or after is None:
            return False
        content = self._under_way.get(key_of(after))
        is_written = content is not None and content == after.get("status")
        return is_written and _but_status(before) == _but_status(after)


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


def _but_status(item: Manifest) -> tuple[object, object]:
    metadata = {**item["metadata"], "resourceVersion": None, "managedFields": None}
    return metadata, item.get("spec")


def _meaning(status: dict[str, Any]) -> dict[str, Any]:
    """A status without the times of looks that found nothing new: not worth a write each."""
    ingests = {
        name: {field: value for field, value in item.items() if field != "polledAt"}
        for name, item in (status.get("ingest") or {}).items()
    }
    return {**status, "ingest": ingests}
