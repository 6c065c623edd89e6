"""Offsets of zones for many times at once, against those that zoneinfo gives one by one."""

from __future__ import annotations

import random
import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import available_timezones

import numpy as np
import pytest

from tideline.hudi.keys.zone_offsets import ZoneOffsets

EPOCH = datetime(1970, 1, 1)
NAMES = sorted(name for name in available_timezones() if name[0].isupper() and "/" in name)
DAY = 86_400
HEADER = struct.Struct(">4sc15x6l")


def changes(name: str) -> list[int]:
    """The seconds at which the file of a zone has its offset change."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    _, _, isut, isstd, leap, times, kinds, letters = HEADER.unpack_from(data)
    second = HEADER.size + 5 * times + 6 * kinds + letters + 8 * leap + isstd + isut
    *_, times, kinds, _ = HEADER.unpack_from(data, second)
    start = second + HEADER.size
    moments = struct.unpack_from(f">{times}q", data, start)
    numbers = data[start + 8 * times : start + 9 * times]
    offsets = [
        struct.unpack_from(">l", data, start + 9 * times + 6 * kind)[0] for kind in range(kinds)
    ]
    known = [offsets[number] for number in numbers]
    return [moment for moment, (old, new) in zip(moments[1:], pairwise(known), strict=True)
            if old != new]  # fmt: skip


def test_no_zone_changes_its_offset_twice_in_a_day() -> None:
    assert len(NAMES) > 400
    gaps = {name: [b - a for a, b in pairwise(changes(name))] for name in NAMES}
    assert min(min(found, default=DAY) for found in gaps.values()) >= DAY


def test_offsets_are_those_of_the_zone() -> None:
    shuffled = random.Random(3)
    for name in NAMES:
        zone = ZoneOffsets.of(name)
        assert zone is not None, name
        at = changes(name)[-150:]
        near = [moment + step for moment in shuffled.sample(at, min(len(at), 8))
                for step in (-DAY, -3601, -1, 0, 1, 3600)]  # fmt: skip
        seconds = [*near, *(shuffled.randrange(-6 * 10**9, 10**11) for _ in range(20))]
        millis = np.array([second * 1000 + shuffled.randrange(1000) for second in seconds])
        moments = [EPOCH + timedelta(seconds=second) for second in seconds]
        expected = [
            candidate.replace(tzinfo=UTC).astimezone(zone.zone).utcoffset() for candidate in moments
        ]
        assert zone.of_moments(millis).tolist() == [_millis(candidate) for candidate in expected], (
            name
        )
        expected = [candidate.replace(tzinfo=zone.zone).utcoffset() for candidate in moments]
        assert zone.of_local_times(millis).tolist() == [
            _millis(candidate) for candidate in expected
        ], name


@pytest.mark.parametrize(
    ("name", "hours"), [("UTC", 0), ("GMT", 0), ("GMT+8", 8), ("GMT-09:30", -9.5), ("GMT+1800", 18)]
)
def test_fixed_offsets_are_zones(name: str, hours: float) -> None:
    zone = ZoneOffsets.of(name)
    assert zone is not None
    assert zone.of_moments(np.array([-(10**15), 0, 10**15])).tolist() == [hours * 3_600_000] * 3


@pytest.mark.parametrize(
    "name", ["PST", "EST", "UTC+8", "GMT+8:0", "GMT+18:01", "+08:00", "europe/berlin", "A/../B", ""]
)
def test_names_with_several_meanings_are_no_zones(name: str) -> None:
    assert ZoneOffsets.of(name) is None


def _millis(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(milliseconds=1)
