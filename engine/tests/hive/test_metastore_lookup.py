"""A metastore is read in our own requests, whatever it answers: lies, and answers without end."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hive_metastore.ttypes import MetaException, NoSuchObjectException

from tideline.bounded.read_limits import SETTING
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.errors import UnsupportedTableError as Unsupported
from tideline.hive.address import ADDRESSES_MAX, HiveAddress, hive_addresses
from tideline.hive.connection import CheckedClient, Connection
from tideline.hive.lookup import MetastoreLookup, StoredTable
from tideline.testing.free_port import free_port
from tideline.testing.hostile_metastore import HostileMetastore, replied, stored_table

ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://lake/t/metadata/0.metadata.json"}
REPLY = struct.pack("!I", 0x80010002) + b"\0\0\0\x09get_table" + struct.pack("!i", 0)
STOP = b"\0"
UNKNOWN_DATABASE = replied("get_table_objects_by_name", []).partition(b"\x0f")[0] + (
    b"\x0c\0\x03" + b"\x0b\0\x01\0\0\0\x04shop" + STOP + STOP
)
"""Hive 2.3 declares this error, PyIceberg's classes do not."""
Ask = Callable[[str], Any]


@pytest.fixture
def metastore() -> Iterator[HostileMetastore]:
    with HostileMetastore() as running:
        yield running


def lookup(uri: str, timeout_s: float = 10.0, user: tuple[str, ...] = ()) -> MetastoreLookup:
    return MetastoreLookup(hive_addresses(uri), timeout_s, user)


def by_lookup(uri: str) -> Any:
    return lookup(uri).table("shop", "orders")


def by_connection(uri: str) -> Any:
    with Connection(hive_addresses(uri), CheckedClient) as client:
        return client.get_table("shop", "orders")


def answering(table: Any, _: Any) -> Any:
    return table


WAYS = pytest.mark.parametrize("ask", [by_lookup, by_connection])


def test_what_there_is_is_read(metastore: HostileMetastore) -> None:
    tables = {f"t{number:03}": stored_table("shop", f"t{number:03}", **ICEBERG)
              for number in range(250)}  # fmt: skip
    metastore.answers = {
        "get_all_databases": lambda _: ["default", "shop"],
        "get_all_tables": lambda _: list(tables),
        "get_table_objects_by_name": lambda asked: [tables[name] for name in asked.tbl_names],
        "get_table": lambda _: stored_table("shop", "orders", **ICEBERG, note="ä€"),
        "set_ugi": lambda _: [],
    }
    found = lookup(metastore.uri(), user=("trips", "hadoop"))
    assert found.databases() == ["default", "shop"]
    assert found.table("Shop", "ORDERS") == StoredTable("shop", "orders", {**ICEBERG, "note": "ä€"})
    assert [table.name for table in found.tables("shop")] == list(tables)
    assert [len(asked.tbl_names) for name, asked in metastore.asked if "objects" in name] == [
        100,
        100,
        50,
    ]
    (user, *_) = [asked for name, asked in metastore.asked if name == "set_ugi"]
    assert (user.user_name, user.group_names) == ("trips", ["hadoop"])


def test_what_there_is_not(metastore: HostileMetastore) -> None:
    metastore.answers = {
        "get_table": lambda _: NoSuchObjectException("shop.orders table not found"),
        "get_all_tables": lambda _: ["gone"],
        "get_table_objects_by_name": lambda _: UNKNOWN_DATABASE,
        "get_all_databases": lambda _: MetaException("the database is down"),
    }
    found = lookup(metastore.uri())
    assert found.table("shop", "orders") is None
    assert list(found.tables("shop")) == []
    with pytest.raises(StorageUnavailableError, match="the metastore fails: the database is down"):
        found.databases()


@WAYS
def test_a_table_that_was_not_asked_for_is_not_taken(ask: Ask, metastore: HostileMetastore) -> None:
    for given in (("shop", "others"), ("bank", "orders"), ("", "")):
        metastore.answers["get_table"] = partial(answering, stored_table(*given))
        with pytest.raises(StorageUnavailableError, match="another table than was asked"):
            ask(metastore.uri())


def test_tables_that_were_not_asked_for_are_not_listed(metastore: HostileMetastore) -> None:
    others = [stored_table("shop", "orders"), stored_table("bank", "orders"),
              stored_table("shop", "secret")]  # fmt: skip
    metastore.answers = {
        "get_all_tables": lambda _: ["orders"],
        "get_table_objects_by_name": lambda _: others,
    }
    found = list(lookup(metastore.uri()).tables("shop"))
    assert [(table.database, table.name) for table in found] == [("shop", "orders")]


def test_a_server_without_the_call_is_named_with_what_to_do(metastore: HostileMetastore) -> None:
    with pytest.raises(Unsupported, match=r"Hive 4\.0\.1 and later do.*type: rest") as caught:
        by_lookup(metastore.uri())
    assert "Invalid method name: 'get_table'" in str(caught.value)


TEXT, STRUCT, MAP, LIST = b"\x0b", b"\x0c", b"\x0d", b"\x0f"
SUCCESS = STRUCT + b"\0\0"


def deep(levels: int, kind: bytes) -> bytes:
    """Values within values, in a field that no table has."""
    if kind == STRUCT:
        return SUCCESS + (STRUCT + b"\0\x63") * levels + STOP * (levels + 2)
    inner = LIST + struct.pack("!i", 1)
    return SUCCESS + LIST + b"\0\x63" + inner * levels + b"\x03\0\0\0\0" + STOP * 2


LIES = {
    "a text of gigabytes": SUCCESS + TEXT + b"\0\x01" + struct.pack("!i", 2**31 - 1),
    "a text of less than nothing": SUCCESS + TEXT + b"\0\x01" + struct.pack("!i", -1),
    "a list without end": SUCCESS + LIST + b"\0\x08" + STRUCT + struct.pack("!i", 2**31 - 1),
    "a list of less than nothing": SUCCESS + LIST + b"\0\x08" + STRUCT + struct.pack("!i", -1),
    "a map without end": SUCCESS + MAP + b"\0\x09" + TEXT + TEXT + struct.pack("!i", 2**30),
    "a type that there is not": SUCCESS + b"\x7f\0\x01" + STOP * 2,
    "levels of structures": deep(100_000, STRUCT),
    "levels of lists": deep(100_000, LIST),
}


@WAYS
@pytest.mark.parametrize("lie", LIES)
def test_an_answer_that_makes_no_sense_is_an_error(
    lie: str, ask: Ask, metastore: HostileMetastore
) -> None:
    metastore.answers["get_table"] = lambda _: REPLY + LIES[lie]
    started_s = time.monotonic()
    with pytest.raises(Exception) as caught:
        ask(metastore.uri())
    assert not isinstance(caught.value, MemoryError | RecursionError)
    if ask is by_lookup:
        assert isinstance(caught.value, TidelineError)
    assert time.monotonic() - started_s < 5


@WAYS
def test_values_are_counted_over_the_whole_answer(
    ask: Ask, metastore: HostileMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of it would be an object of a hundred."""
    monkeypatch.setenv(SETTING, "64Ki")
    nested = LIST + b"\0\x08" + STRUCT + struct.pack("!i", 900) + STOP * 900
    metastore.answers["get_table"] = lambda _: REPLY + SUCCESS + nested * 6 + STOP * 2
    with pytest.raises(Unsupported, match="are more than the 4,096 that are read"):
        ask(metastore.uri())


@WAYS
def test_bytes_are_counted_over_the_whole_answer(
    ask: Ask, metastore: HostileMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "64Ki")
    long = {f"p{number}": "x" * 30_000 for number in range(4)}
    metastore.answers["get_table"] = lambda _: stored_table("shop", "orders", **long)
    with pytest.raises(Unsupported, match="the metastore's answer is larger than the 65"):
        ask(metastore.uri())


def test_more_than_was_asked_for_is_not_taken_for_the_next_answer(
    metastore: HostileMetastore,
) -> None:
    of_others = replied("get_table_objects_by_name", [stored_table("shop", "orders")])
    metastore.answers["get_all_tables"] = lambda _: (
        replied("get_all_tables", ["orders"]) + of_others
    )
    with pytest.raises(StorageUnavailableError, match="more in it than was asked for"):
        list(lookup(metastore.uri()).tables("shop"))


def test_an_answer_to_another_call_is_not_taken(metastore: HostileMetastore) -> None:
    metastore.answers["get_table"] = lambda _: replied("get_all_tables", ["orders"])
    with pytest.raises(StorageUnavailableError, match="it is for another call"):
        by_lookup(metastore.uri())


@pytest.mark.parametrize("found", [[], ["t"]], ids=["a list", "a list of texts"])
def test_an_answer_of_another_type_is_not_taken(
    found: list[str], metastore: HostileMetastore
) -> None:
    body = replied("get_all_tables", found).replace(b"get_all_tables", b"get_table")
    metastore.answers = {
        "get_table": lambda _: body.replace(b"\0\0\0\x0eget_table", b"\0\0\0\x09get_table"),
        "get_all_databases": lambda _: replied("get_table", stored_table("a", "b")).replace(
            b"\0\0\0\x09get_table", b"\0\0\0\x11get_all_databases"
        ),
    }
    with pytest.raises(StorageUnavailableError, match=r"another table|cannot be read"):
        by_lookup(metastore.uri())
    with pytest.raises(StorageUnavailableError, match="it is no list of names"):
        lookup(metastore.uri()).databases()


OTHERS = {
    b"\x15\x03\x01\x00\x02\x02\x28": "speaks TLS",
    b"\x04\x00\x00\x00\x13Invalid status -128": "demands Kerberos",
    b"HTTP/1.1 400 Bad Request\r\n\r\n": "speaks HTTP",
    b"SSH-2.0-OpenSSH_9.2\r\n": "is no Hive metastore",
}


@WAYS
@pytest.mark.parametrize("said", OTHERS, ids=OTHERS.get)
def test_a_server_of_another_protocol_is_named(
    said: bytes, ask: Ask, metastore: HostileMetastore
) -> None:
    metastore.answers["get_table"] = lambda _: said
    with pytest.raises(ConfigError, match=OTHERS[said]):
        ask(metastore.uri())


@WAYS
def test_a_server_that_closes_the_connection(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()

        threading.Thread(target=close, daemon=True).start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(StorageUnavailableError, match="Kerberos or TLS, which are not") as got:
            ask(uri)
        assert isinstance(got.value.__cause__, OSError)
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("is_alive", [True, False], ids=["a byte at a time", "silent"])
def test_an_answer_without_end_is_given_up(is_alive: bool) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(REPLY + SUCCESS + TEXT + b"\0\x01\0\x10\0\0")
                    while not stop.wait(0.02):
                        if is_alive:
                            connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        started_s = time.monotonic()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(StorageUnavailableError, match="no whole answer in time"):
            lookup(uri, timeout_s=0.1).table("shop", "orders")
        stop.set()
        took_s = time.monotonic() - started_s
        assert (0.25 if is_alive else 0.05) < took_s < 3


def test_the_first_address_that_takes_a_connection_is_asked(metastore: HostileMetastore) -> None:
    metastore.answers["get_table"] = lambda _: stored_table("shop", "orders")
    dead = f"thrift://127.0.0.1:{free_port()}"
    found = by_lookup(f"{dead}, {metastore.uri()}")
    assert found.name == "orders"
    with pytest.raises(StorageUnavailableError, match="no connection to 127") as caught:
        by_lookup(dead)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    "uri",
    [
        "thrift+ssl://host:9083",
        "https://host:9083",
        "host:9083",
        "thrift://user:password@host:9083",
        "thrift://host:9083/path",
        ",".join(["thrift://host"] * (ADDRESSES_MAX + 1)),
    ],
)
def test_what_is_no_address(uri: str) -> None:
    with pytest.raises(ConfigError, match="Hive metastore") as caught:
        hive_addresses(uri)
    assert "password" not in str(caught.value)


def test_an_address_of_this_protocol() -> None:
    assert str(HiveAddress("host")) == "host:9083"
