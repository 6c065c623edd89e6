"""What the objects of a timeline say about the zone of its instants."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from random import Random

import pytest

from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import SAMPLES_MAX, KnownZone, ZoneBasis, zone_of_objects
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
START_MS = round(datetime(2026, 6, 10, 12, 7, 31, tzinfo=UTC).timestamp() * 1000)
HOURLY = [START_MS + n * HOUR_MS for n in range(12)]
ONCE = [START_MS]
WITHIN_A_MINUTE = [START_MS, START_MS + 20_000, START_MS + 55_000]


def known(
    zone: str, begun: Iterable[int], *, late_ms: int = 800, copied_at: int | None = None
) -> KnownZone:
    """Of writes begun at these moments by engines whose clock is in `zone`."""
    return zone_of_objects(objects(zone, begun, late_ms=late_ms, copied_at=copied_at))


def objects(
    zone: str, begun: Iterable[int], *, late_ms: int = 800, copied_at: int | None = None
) -> dict[Instant, int]:
    found = {}
    for moment in begun:
        time = TimelineZone.parse(zone).instant_at(moment)
        for state, took_ms in ((State.REQUESTED, 0), (State.COMPLETED, 40 * MINUTE_MS)):
            made_ms = moment + late_ms + took_ms
            instant = Instant(time, Action.DELTACOMMIT, state)
            found[instant] = made_ms if copied_at is None else copied_at + took_ms // 1000
    return found


@pytest.mark.parametrize("begun", [HOURLY, ONCE, WITHIN_A_MINUTE])
def test_writers_in_utc_are_seen_to_be(begun: list[int]) -> None:
    found = known("UTC", begun)
    assert (found.basis, found.zone) == (ZoneBasis.SEEN, UTC_ZONE)
    assert found.knows_age
    assert found.refusal is None
    assert found.warning is None


@pytest.mark.parametrize("begun", [HOURLY, ONCE, WITHIN_A_MINUTE])
@pytest.mark.parametrize(
    ("zone", "ahead"),
    [
        ("America/Los_Angeles", "-07:00"),
        ("Asia/Kolkata", "+05:30"),
        ("Asia/Kathmandu", "+05:45"),
        ("America/St_Johns", "-02:30"),
        ("Pacific/Kiritimati", "+14:00"),
        ("-12:00", "-12:00"),
    ],
)
def test_writers_elsewhere_are_refused_with_both_numbers(
    zone: str, ahead: str, begun: list[int]
) -> None:
    found = known(zone, begun)
    assert found.basis is ZoneBasis.NOT_UTC
    assert not found.knows_age
    assert found.reading_zone.name == ahead
    refusal = found.refusal or ""
    assert str(TimelineZone.parse(zone).instant_at(begun[-1])) in refusal
    assert f"{datetime.fromtimestamp((begun[-1] + 800) / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z" in refusal
    assert f"{ahead} from UTC" in refusal
    assert "tideline.timezone" in refusal


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/London", "Australia/Lord_Howe"])
@pytest.mark.parametrize("change", [(2026, 3, 8), (2026, 4, 5), (2026, 10, 25), (2026, 11, 1)])
def test_a_change_of_daylight_saving_does_not_hide_a_zone(
    zone: str, change: tuple[int, int, int]
) -> None:
    middle = round(datetime(*change, 9, tzinfo=UTC).timestamp() * 1000)
    begun = [middle + n * 11 * HOUR_MS for n in range(-9, 9)]
    found = known(zone, begun)
    offsets = {TimelineZone.parse(zone).instant_at(number).epoch_ms() - number for number in begun}
    if offsets == {0}:
        assert found.basis is ZoneBasis.SEEN
    elif zone != "Australia/Lord_Howe" or len(offsets) == 1:
        assert found.basis is ZoneBasis.NOT_UTC
    else:  # the one zone whose clocks move by half an hour
        assert found.basis is not ZoneBasis.SEEN


@pytest.mark.parametrize("off_ms", [-5 * MINUTE_MS, 6 * MINUTE_MS])
def test_clocks_may_be_off_by_minutes(off_ms: int) -> None:
    assert known("UTC", HOURLY, late_ms=off_ms).basis is ZoneBasis.SEEN
    assert known("Asia/Kolkata", HOURLY, late_ms=off_ms).basis is ZoneBasis.NOT_UTC
    assert known("UTC", ONCE, late_ms=off_ms).basis is ZoneBasis.UNSURE


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
@pytest.mark.parametrize("after_ms", [7 * HOUR_MS, 30 * DAY_MS])
def test_copied_objects_say_nothing(zone: str, after_ms: int) -> None:
    found = known(zone, HOURLY, copied_at=HOURLY[-1] + after_ms)
    assert found.basis is ZoneBasis.UNSURE
    assert found.refusal is None
    assert "taken for UTC" in (found.warning or "")
    assert not found.knows_age
    assert found.zone == UTC_ZONE


def test_a_young_table_that_was_copied_is_seldom_taken_for_another_zone() -> None:
    copied = [known("UTC", ONCE, copied_at=START_MS + n * 7 * MINUTE_MS) for n in range(1, 101)]
    assert sum(found.basis is not ZoneBasis.UNSURE for found in copied) <= 20


def test_copies_of_two_instants_an_hour_apart_are_no_change_of_daylight_saving() -> None:
    copied_at = START_MS + 9 * HOUR_MS + 7 * MINUTE_MS
    assert known("UTC", HOURLY[:2], copied_at=copied_at).basis is ZoneBasis.UNSURE


def test_nothing_written_says_nothing() -> None:
    assert known("UTC", []).basis is ZoneBasis.UNSURE


def test_a_utc_writer_does_not_hide_one_elsewhere() -> None:
    made = objects("America/Los_Angeles", HOURLY[::2]) | objects("UTC", HOURLY[1::2])
    assert zone_of_objects(made).reading_zone.name == "-07:00"


def test_writers_that_are_slow_to_begin_are_none_of_another_zone() -> None:
    made = objects("UTC", HOURLY)
    begun = sorted(candidate for candidate in made if candidate.state is State.REQUESTED)
    for instant, late_min in zip(begun, (0, 17, 0, 0, 21, 0, 0, 30, 0, 0, 0, 0), strict=True):
        made[instant] += late_min * MINUTE_MS
    assert zone_of_objects(made).basis is not ZoneBasis.NOT_UTC


def test_plans_of_clusterings_say_nothing_next_to_writes() -> None:
    made = objects("UTC", HOURLY)
    for moment in HOURLY:
        time = InstantTime.from_epoch_ms(moment + MINUTE_MS)
        planned = Instant(time, Action.REPLACECOMMIT, State.REQUESTED)
        made[planned] = moment + 16 * MINUTE_MS
    assert zone_of_objects(made).basis is ZoneBasis.SEEN


def test_replacing_writes_do_where_there_are_no_others() -> None:
    made = {
        Instant(instant.time, Action.REPLACECOMMIT, instant.state): moment
        for instant, moment in objects("Asia/Kolkata", HOURLY).items()
    }
    assert zone_of_objects(made).reading_zone.name == "+05:30"


def test_instants_that_only_follow_others_say_nothing() -> None:
    """A writer in UTC takes the next free time for as long as one further east is ahead."""
    made = objects("Asia/Kolkata", HOURLY[:1])
    newest = max(made).time
    for n, moment in enumerate(HOURLY[1:6]):
        newest = InstantTime.from_epoch_ms(newest.epoch_ms() + 1)
        made[Instant(newest, Action.DELTACOMMIT, State.REQUESTED)] = moment + n
    assert zone_of_objects(made).reading_zone.name == "+05:30"


def test_scattered_times_say_nothing() -> None:
    random = Random(4)
    made = {}
    for moment in HOURLY:
        time = InstantTime.from_epoch_ms(moment)
        late_ms = random.randrange(11 * HOUR_MS)
        made[Instant(time, Action.COMMIT, State.REQUESTED)] = moment + late_ms
    assert zone_of_objects(made).basis is ZoneBasis.UNSURE


def test_a_few_odd_ones_change_nothing() -> None:
    made = objects("America/Los_Angeles", HOURLY)
    odd = next(instant for instant in made if instant.state is State.REQUESTED)
    made[odd] += 100 * MINUTE_MS
    assert zone_of_objects(made).basis is ZoneBasis.NOT_UTC


def test_plans_that_take_long_to_make_say_nothing() -> None:
    made = objects("UTC", HOURLY)
    for action in (Action.CLEAN, Action.COMPACTION):
        for moment in HOURLY:
            time = InstantTime.from_epoch_ms(moment + MINUTE_MS)
            made[Instant(time, action, State.REQUESTED)] = moment + 2 * HOUR_MS
    assert zone_of_objects(made).basis is ZoneBasis.SEEN


def test_only_the_newest_count() -> None:
    old = [START_MS - 300 * DAY_MS + n * HOUR_MS for n in range(40)]
    new = [START_MS + n * HOUR_MS for n in range(SAMPLES_MAX)]
    made = objects("America/Los_Angeles", old) | objects("UTC", new)
    assert zone_of_objects(made).basis is ZoneBasis.SEEN


def test_digits_that_are_no_date_are_passed_over() -> None:
    made = objects("Asia/Kolkata", HOURLY)
    made[Instant(InstantTime("20269999999999999"), Action.COMMIT, State.REQUESTED)] = START_MS
    made[Instant(InstantTime("00000000000000010"), Action.COMMIT, State.REQUESTED)] = START_MS
    assert zone_of_objects(made).basis is ZoneBasis.NOT_UTC
