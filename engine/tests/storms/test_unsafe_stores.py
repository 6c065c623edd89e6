"""What `tideline check-store` refuses loses rows, as a race with the check switched off shows."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest

from tideline.cli.main import run
from tideline.errors import ConfigError, TidelineError
from tideline.hudi import new_table
from tideline.storage.location import StoreLocation
from tideline.testing.kill_storm import AT_A_SERVER
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.store_contract import in_parallel

WRITERS = 8
ROUNDS_MAX = 40
ROUNDS_OF_A_SOUND_STORE = 3
_KEYS_OF_A_WRITE = 3


@pytest.mark.storm
def test_a_store_that_ignores_conditions_is_refused_and_loses_rows(
    moto_location: StoreLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection = ["--endpoint", dict(moto_location.options)["endpoint"], "--allow-http"]
    assert run(["check-store", moto_location.uri, *connection, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    failed = {one["name"]: one["message"] for one in found["checks"] if one["outcome"] == "failed"}
    assert "concurrent writers would lose commits" in failed["create-race"]
    assert "two writers would hold the table lock at once" in failed["replace-race"]
    with pytest.raises(ConfigError, match=r"overwrites an object that must be absent .*refuses"):
        SmallTable.create(moto_location)
    monkeypatch.setattr(new_table, "probe_conditional_writes", lambda _: None)
    table = SmallTable.create(moto_location)
    acknowledged: set[str] = set()
    for number in range(ROUNDS_MAX):
        acknowledged |= race(table, number)
        lost = acknowledged - {key for key, _ in table.values()}
        if lost:
            print(f"{len(lost)} of {len(acknowledged)} rows lost after {number + 1} rounds")
            return
    pytest.fail(f"none of {len(acknowledged)} rows was lost")


@pytest.mark.slow
def test_the_same_race_loses_nothing_on_a_sound_store(gcs_location: StoreLocation) -> None:
    table = SmallTable.create(gcs_location)
    acknowledged: set[str] = set()
    for number in range(ROUNDS_OF_A_SOUND_STORE):
        acknowledged |= race(table, number)
        assert acknowledged == {key for key, _ in table.values()}
    assert acknowledged


def race(table: SmallTable, number: int) -> set[str]:
    """Inserts of several writers at once: the keys of those that were acknowledged."""

    def insert(writer: int) -> Collection[str]:
        start = (number * WRITERS + writer) * _KEYS_OF_A_WRITE
        rows = batch(range(start, start + _KEYS_OF_A_WRITE), number)
        try:
            table.write("insert", rows, options=AT_A_SERVER)
        except TidelineError:
            # A conflict, or a table that is damaged by now.
            return ()
        return set(rows.column("id").to_pylist())

    return set().union(*in_parallel(insert, WRITERS))
