"""The store contract on Azurite, and what only Azure does."""

from __future__ import annotations

import base64

import pytest

from tideline.errors import InvalidDataError
from tideline.storage.location import StoreLocation
from tideline.testing.remote_contract import RemoteContract
from tideline.testing.store_contract import StoreContract

pytestmark = pytest.mark.azurite

WRONG_KEY = base64.b64encode(b"wrong-key-of-the-account-0123456").decode()


class TestAzureStore(StoreContract):
    not_kept = frozenset({"...", "back\\slash"})

    @pytest.fixture
    def location(self, azure_location: StoreLocation) -> StoreLocation:
        return azure_location


class TestAzure(RemoteContract):
    credentials = (("AZURE_STORAGE_ACCOUNT_KEY", WRONG_KEY),)
    missing_bucket = "abfss://no-such-bucket@tideacct.dfs.core.windows.net/table"
    bucket_word = "container"
    next_page = "comp=list"  # Its pages are longer than what is written here.
    refuses_lists_that_are_none = True

    @pytest.fixture
    def location(self, azure_location: StoreLocation) -> StoreLocation:
        return azure_location


@pytest.mark.parametrize("path", ["a\\b", "city=St./part", "ends.", "a/.../b"])
def test_names_that_azure_changes_are_refused(azure_location: StoreLocation, path: str) -> None:
    store = azure_location.open()
    with pytest.raises(InvalidDataError, match="Azure keeps no names with a backslash"):
        store.put(path, b"x")
    with pytest.raises(InvalidDataError, match="Azure keeps no names with a backslash"):
        store.open_writer(path).__enter__()
