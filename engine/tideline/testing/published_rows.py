"""What readers of Iceberg see of a published table: PyIceberg reads it, by its newest metadata."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from pyiceberg.table import StaticTable

from tideline.lake_table import LakeTable
from tideline.publication.published_table import PublishedTable
from tideline.storage.s3.directory_bucket import is_directory_bucket
from tideline.testing.store_file_io import properties_of
from tideline.testing.storm_states import Values

_PYICEBERG_REACHES = ("file", "s3")


def published_values(lake: LakeTable) -> Values | None:
    """Keys and values; None before it was published. Raises OSError for files that are gone."""
    loaded = PublishedTable(lake.hoodie_table).load()
    if loaded is None or loaded.metadata.snapshot() is None:
        return None
    location = lake.hoodie_table.location
    properties = {
        "s3.endpoint": dict(location.options).get("endpoint", ""),
        "s3.access-key-id": os.environ.get("AWS_ACCESS_KEY_ID", ""),
        "s3.secret-access-key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
    }
    is_reached = location.scheme in _PYICEBERG_REACHES
    if not is_reached or is_directory_bucket(urlsplit(location.uri).netloc):
        properties = properties_of(location)
    table = StaticTable.from_metadata(loaded.metadata_location, properties)
    rows = table.scan(selected_fields=("id", "v")).to_arrow().to_pydict()
    return sorted(zip(rows["id"], rows["v"], strict=True))
