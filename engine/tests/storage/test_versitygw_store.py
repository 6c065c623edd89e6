"""The contracts of stores on VersityGW, and two gateways that serve one folder."""

from __future__ import annotations

import pytest

from tideline.storage.location import StoreLocation
from tideline.storage.probe.race import THOROUGH
from tideline.storage.probe.report import StorePromise
from tideline.storage.probe.run import check_store
from tideline.testing.s3_peer_contract import S3PeerContract
from tideline.testing.s3_server import BUCKET
from tideline.testing.versity_server import VersityServer

pytestmark = pytest.mark.slow

RACES = (StorePromise.CREATE_RACE, StorePromise.REPLACE_RACE, StorePromise.COUNTER)


class TestVersityGW(S3PeerContract):
    peer = "versitygw"


@pytest.mark.parametrize("locks_files", [True, False])
def test_races_through_two_gateways_show_what_one_hides(
    locks_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = VersityServer(locks_files=locks_files)
    with server, VersityServer(beside=server, locks_files=locks_files) as other_server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        places = [
            StoreLocation.of(f"s3://{BUCKET}/trial", server.storage_options())
            for server in (server, other_server)
        ]
        alone = [places[0].open() for _ in range(THOROUGH.racers)]
        assert check_store(alone, promises=RACES).complaints == ()
        both = [places[number % 2].open() for number in range(THOROUGH.racers)]
        lost = check_store(both, promises=RACES).complaints
        assert bool(lost) is not locks_files, lost
