"""The JSON API of Google Cloud Storage, as far as Spark's connector reads by it: lists, the
metadata of an object, its bytes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from urllib.parse import unquote

from tideline.testing.object_server import ObjectBucket, ObjectHandler, StoredObject

_ROOTS = ("/download/storage/v1/b/", "/storage/v1/b/")
_PAGE_OBJECTS = 1000


def resource_of(path: str) -> tuple[str, str | None] | None:
    """The bucket that a path is for, and the object, empty for a list of them, None for the bucket
    itself; None for a path of another API."""
    for root in _ROOTS:
        if path.startswith(root):
            name, *below = path.removeprefix(root).split("/", 2)
            return unquote(name), unquote(below[1]) if below[1:] else ("" if below else None)
    return None


def answer(
    handler: ObjectHandler,
    bucket: ObjectBucket,
    resource: tuple[str, str | None],
    query: Mapping[str, str],
) -> None:
    """Answer a read of a bucket, of a list, or of an object."""
    name, key = resource
    if handler.command != "GET":
        _refuse(handler, 501)
    elif key is None:
        _show(handler, {"kind": "storage#bucket", "name": name, "id": name})
    elif not key:
        _show(handler, _page(name, bucket, query))
    elif (found := bucket.objects.get(key)) is None:
        _refuse(handler, 404)
    elif query.get("alt") == "media":
        handler.answer_bytes(found)
    else:
        _show(handler, _object(name, key, found))


def _page(name: str, bucket: ObjectBucket, query: Mapping[str, str]) -> dict[str, object]:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after, first = query.get("pageToken", ""), query.get("startOffset", "")
    with bucket.lock:
        objects = dict(bucket.objects)
    shown: dict[str, StoredObject | None] = {}
    for key in sorted(key for key in objects if key.startswith(prefix) and key >= first):
        below, cut, rest = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        group = f"{prefix}{below}{delimiter}" if cut else ""
        if cut and not rest and query.get("includeTrailingDelimiter") == "true":
            shown[key] = objects[key]
        elif cut:
            shown[group] = None
        else:
            shown[key] = objects[key]
    names = [key for key in sorted(shown) if key > after]
    most = int(query.get("maxResults") or _PAGE_OBJECTS)
    page = {key: shown[key] for key in names[:most]}
    found: dict[str, object] = {
        "kind": "storage#objects",
        "items": [_object(name, key, stored) for key, stored in page.items() if stored is not None],
        "prefixes": [key for key, stored in page.items() if stored is None],
    }
    if names[most:]:
        found["nextPageToken"] = names[most - 1]
    return found


def _object(bucket: str, key: str, found: StoredObject) -> dict[str, object]:
    stored = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.stored_s))
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": key,
        "size": str(len(found.body)),
        "generation": str(found.generation),
        "metageneration": "1",
        "timeCreated": stored,
        "updated": stored,
        "contentType": found.kept.get("content-type", "application/octet-stream"),
    }


def _show(handler: ObjectHandler, found: Mapping[str, object]) -> None:
    handler.answer(200, json.dumps(found).encode(), **{"Content-Type": "application/json"})


def _refuse(handler: ObjectHandler, status: int) -> None:
    error = {"code": status, "message": "no", "errors": [{"message": "no", "reason": "notFound"}]}
    body = json.dumps({"error": error}).encode()
    handler.answer(status, body, **{"Content-Type": "application/json"})
