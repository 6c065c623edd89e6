"""Which files of a table hold a text: as bytes, and in what containers compress."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import BytesIO

import fastavro
import pyarrow.parquet as pq

from tideline.storage.object_store import ObjectStore


def files_with_text(store: ObjectStore, texts: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """Paths below the store's root, `.hoodie` included, with those of the texts they hold."""
    for info in store.list():
        held = _text_of(store.get(info.path), info.path)
        found = sorted(text for text in texts if text in held)
        if found:
            yield info.path, found


def _text_of(body: bytes, path: str) -> str:
    text = body.decode("latin-1")
    if path.endswith(".parquet"):
        text += str(pq.ParquetFile(BytesIO(body)).read().to_pylist())
    elif body.startswith(b"Obj\x01"):
        text += str(list(fastavro.reader(BytesIO(body))))
    return text
