"""A kind of store that only a test has: a second scheme over the memory of this process.

Locations, the probe of stores and what Spark is told need nothing but its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.lake_table import LakeTable
from tideline.storage import kinds
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.named_places import NamedPlaces, checked_place
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written
from tideline.storage.probe.run import probe_conditional_writes
from tideline.storage.store_kind import Options, StoreKind, bucket_and_prefix, bucket_uri


def opened(uri: str, options: Options, connection: Any) -> ObjectStore:
    name, prefix = bucket_and_prefix(uri)
    return MemoryStore(f"{options.get('realm', 'none')}-{connection}-{name}", prefix)


def checked(given: Mapping[str, str | bool]) -> dict[str, str]:
    if given.get("realm") == "nowhere":
        raise ConfigError("there is no such realm")
    return {name: str(value) for name, value in given.items()}


TOY = StoreKind(
    "toy",
    lambda _, rest, __: bucket_uri("toy", rest),
    opened,
    aliases=("toys",),
    option_names=("realm",),
    checked=checked,
    is_remote=True,
    server=lambda uri, options: f"https://{options.get('realm')}/{bucket_and_prefix(uri)[0]}",
    hadoop_scheme="toyfs",
    hadoop_settings=lambda uri, _: {f"fs.toy.{bucket_and_prefix(uri)[0]}.on": "true"},
)


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kinds.KINDS, "toy", TOY)


def test_a_location_is_parsed_by_the_declaration() -> None:
    found = StoreLocation.of("TOYS://box//a/b/", {"realm": "attic"})
    assert found == StoreLocation("toy://box/a/b", (("realm", "attic"),))
    assert (found.scheme, found.kind, found.server()) == ("toy", TOY, "https://attic/box")
    assert StoreLocation.of("/data/t", {"realm": "attic"}).options == ()
    with pytest.raises(ConfigError, match="no such realm"):
        StoreLocation.of("toy://box", {"realm": "nowhere"})
    with pytest.raises(ConfigError, match=r"choose from endpoint, .*realm"):
        StoreLocation.of("toy://box", {"colour": "red"})


def test_what_a_table_names_in_its_bucket_is_read() -> None:
    named = NamedPlaces.of("TOYS://box/sales/orders/", declared=())
    assert named.root_of("toy://box/sales/orders/data/a") == "toy://box/sales/orders"
    assert named.root_of("toys://box/elsewhere/a") == "toy://box"
    assert named.root_of("toy://crate/a") is None
    assert checked_place("toys://crate/a") == "toy://crate/a"


def test_spark_is_told_what_the_declaration_says() -> None:
    found = StoreLocation.of("toy://box/a")
    assert found.spark_uri("t") == "toyfs://box/a/t"
    assert found.hadoop_settings() == {"fs.toy.box.on": "true"}


def test_the_contract_of_a_store_holds() -> None:
    location = StoreLocation.of("toy://contract/t")
    store = location.open()
    first = store.put_if_absent("a", b"1")
    assert isinstance(first, Written)
    assert isinstance(store.put_if_absent("a", b"2"), AlreadyExists)
    assert isinstance(store.put_if_match("a", b"3", version=first.version), Written)
    assert isinstance(store.put_if_match("a", b"4", version=first.version), Changed)
    assert location.open().get("a") == b"3"
    assert location.open("another").head("a") is None


def test_the_probe_takes_it_and_a_table_lives_on_it() -> None:
    probe_conditional_writes(StoreLocation.of("toy://probed").open())
    table = LakeTable.create("toy://lake/people", name="people", record_key=["id"])
    table.write([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    assert LakeTable.open("toys://lake/people").to_arrow(columns=["id"]).num_rows == 2
