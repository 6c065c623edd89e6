"""The contracts of stores on SeaweedFS, and what it does with its default flags."""

from __future__ import annotations

import pytest

from tideline.errors import InvalidDataError
from tideline.testing.s3_peer_contract import S3PeerContract, store_report
from tideline.testing.s3_peers import PlaceAtPeer

pytestmark = pytest.mark.slow


class TestSeaweedFS(S3PeerContract):
    peer = "seaweedfs"
    # It removes emptied folders some minutes later.
    shows_emptied_folders = True
    refuses_conditions_first = True


def test_without_its_flag_a_backslash_is_refused(place_at_peer: PlaceAtPeer) -> None:
    location = place_at_peer("seaweedfs-by-default")
    with pytest.raises(InvalidDataError, match="takes a backslash for a slash"):
        location.open().put("part=a\\b/file", b"x")
    report = store_report(location)
    assert report.complaints == ()
    (note,) = report.notes
    assert "values of partitions" in note
    assert "-s3.allowBackslashInKey" in note
    assert [*location.open().list()] == []
