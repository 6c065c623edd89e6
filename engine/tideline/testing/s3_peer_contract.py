"""The contracts of stores, and what `tideline check-store` finds, for another server of S3."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tideline.storage.location import StoreLocation
from tideline.storage.probe.race import THOROUGH
from tideline.storage.probe.report import StoreReport
from tideline.storage.probe.run import check_store
from tideline.testing.remote_contract import RemoteContract
from tideline.testing.s3_peers import PlaceAtPeer
from tideline.testing.store_contract import StoreContract

_WRONG = "wrong-credential-0123"


class S3PeerContract(RemoteContract, StoreContract):
    """Subclass as `Test...` with the name of a server among `s3_peers.PEERS`."""

    peer: ClassVar[str]
    credentials = (("AWS_SECRET_ACCESS_KEY", _WRONG), ("AWS_ACCESS_KEY_ID", _WRONG))
    missing_bucket = "s3://no-such-bucket/table"
    versions_are_digests = True

    @pytest.fixture
    def location(self, place_at_peer: PlaceAtPeer) -> StoreLocation:
        return place_at_peer(self.peer)

    def test_every_check_of_stores_passes(self, location: StoreLocation) -> None:
        report = store_report(location)
        assert (report.complaints, report.notes) == ((), ())
        assert [*location.open().list()] == []


def store_report(location: StoreLocation) -> StoreReport:
    """What `tideline check-store` finds: each racer has connections of its own."""
    return check_store([location.open() for _ in range(THOROUGH.racers)])
