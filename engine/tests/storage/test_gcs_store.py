"""The store contract on the XML API of Google Cloud Storage, and what only that does."""

from __future__ import annotations

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.remote_contract import RemoteContract
from tideline.testing.store_contract import StoreContract


class TestGcsStore(StoreContract):
    @pytest.fixture
    def location(self, gcs_location: StoreLocation) -> StoreLocation:
        return gcs_location


class TestGcs(RemoteContract):
    credentials = (("GOOGLE_BEARER_TOKEN", "wrong-token-0123"),)
    missing_bucket = "gs://no-such-bucket/table"

    @pytest.fixture
    def location(self, gcs_location: StoreLocation) -> StoreLocation:
        return gcs_location
