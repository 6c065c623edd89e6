"""A shared access signature of Azure that ends in the middle of a write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tideline import LakeTable
from tideline.errors import UnknownOutcomeError
from tideline.storage.location import StoreLocation
from tideline.storage.remote.store import RemoteStore
from tideline.testing.azurite_server import AzuriteServer

pytestmark = [pytest.mark.azurite, pytest.mark.slow]
LASTS_S = 6.0


def opened(location: StoreLocation) -> LakeTable:
    return LakeTable.open(location.uri, storage_options=dict(location.options))


def ids(location: StoreLocation) -> list[str]:
    return sorted(opened(location).to_arrow(["id"])["id"].to_pylist())


def late(create: Callable[..., Any]) -> Callable[..., Any]:
    """The create that publishes the commit, when the signature has ended."""

    def created(store: RemoteStore, path: str, body: bytes, **given: Any) -> Any:
        if path.endswith(".commit"):
            time.sleep(LASTS_S + 1)
        return create(store, path, body, **given)

    return created


def test_nothing_is_half_there_and_the_next_writer_continues(
    azure_location: StoreLocation, azurite_server: AzuriteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the last request is no proof that none before it took effect: the outcome is
    unknown, and that is what the writer says."""
    options = dict(azure_location.options)
    LakeTable.create(azure_location.uri, record_key="id", storage_options=options)
    opened(azure_location).write([{"id": "before"}])
    signature = azurite_server.signature(lasts_s=LASTS_S)
    with monkeypatch.context() as ended:
        ended.delenv("AZURE_STORAGE_ACCOUNT_KEY")
        ended.setenv("AZURE_STORAGE_SAS_TOKEN", signature)
        ended.setattr(RemoteStore, "put_if_absent", late(RemoteStore.put_if_absent))
        with pytest.raises(UnknownOutcomeError, match=r"access denied.*\(403") as caught:
            opened(azure_location).write([{"id": "during"}])
        assert signature.rpartition("sig=")[2] not in str(caught.value)
    assert ids(azure_location) == ["before"]
    opened(azure_location).write([{"id": "after"}])
    assert ids(azure_location) == ["after", "before"]
