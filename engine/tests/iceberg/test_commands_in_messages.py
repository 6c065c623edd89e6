"""Commands that messages name are commands that work, for tables of catalogs and of folders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.errors import FailedAfterCommitError, StorageUnavailableError, UnknownOutcomeError
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_model import IcebergModel

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from tideline.testing.served_catalog import ServedCatalog, refusal

NAME = "shop.orders"
VERBS = {
    "rewrite": ("--local", "--option", "rewrite-all=true"),
    "rewrite-deletes": ("--option", "rewrite-all=true"),
    "rewrite-manifests": (),
    "expire": ("--retain-last", "1", "--older-than", "2100-01-01", "--yes"),
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def served() -> Iterator[ServedCatalog]:
    with ServedCatalog() as catalog:
        table = DeleteTable(catalog.create(NAME))
        for name in "abc":
            table.append(name, range(9))
        for at in range(3):
            table.delete({"a": [at], "b": [at]})
        yield catalog


def answering(catalog: ServedCatalog, *, is_done: bool) -> Callable[[Received], Answer]:
    """Commits end with 500."""

    def reply(request: Received) -> Answer:
        if request.kind != "commit":
            return catalog.honest(request)
        if is_done:
            catalog.honest(request)
            catalog.rename(NAME, "shop.away")  # nobody can look whether it was done
        return refusal(500, "Broken")

    return reply


def command_in(message: str) -> list[str]:
    """The arguments of the one command of Tideline in a message."""
    (command,) = re.findall(r"`tideline ([^`]+)`", message)
    return shlex.split(command)


def fails(capsys: Capture, exit_code: int, *words: str) -> str:
    """What a command that ends so says."""
    assert run(["iceberg", *words]) == exit_code
    return capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_that_shows_an_unknown_outcome_works(
    verb: str, served: ServedCatalog, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    for is_configured in (False, True):
        named = served.url
        if is_configured:
            named = "lake"
            monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", served.url)
        served.reply = answering(served, is_done=False)
        said = fails(
            capsys, UnknownOutcomeError.exit_code, verb, NAME, "--catalog", named, *VERBS[verb]
        )
        served.reply = served.honest
        arguments = command_in(said)
        assert arguments[:5] == ["iceberg", "show", NAME, "--catalog", named]
        assert run(arguments) == 0
        shown = capsys.readouterr().out
        if verb == "expire":
            assert served.tables[NAME].metadata.table_uuid in shown
        else:
            assert shown == f"Snapshot {arguments[-1]} is not part of the table.\n"


def test_the_command_that_shows_a_snapshot_that_was_made_works(
    served: ServedCatalog, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    served.reply = answering(served, is_done=True)
    said = fails(capsys, 5, "rewrite-manifests", NAME, "--catalog", served.url)
    served.reply = served.honest
    served.rename("shop.away", NAME)
    assert run(command_in(said)) == 0
    assert " is part of the table." in capsys.readouterr().out


class Fading:
    """Deletes what it is asked to, until it may not any more."""

    def __init__(self, store: type[Any], patched: pytest.MonkeyPatch, left: int) -> None:
        self.left, delete = left, store.delete

        def fading(this: Any, path: str) -> None:
            self.left -= 1
            if self.left < 0:
                raise StorageUnavailableError("access denied", path=path)
            delete(this, path)

        patched.setattr(store, "delete", fading)


def assert_rest_goes(capsys: Capture, monkeypatch: pytest.MonkeyPatch, *named: str) -> None:
    """A deletion that fails names the command that deletes the rest."""
    with monkeypatch.context() as patched:
        for store in (MemoryStore, LocalStore):
            Fading(store, patched, 3)
        said = fails(capsys, FailedAfterCommitError.exit_code, "expire", *named, *VERBS["expire"])
    arguments = command_in(said)
    assert arguments[:2] == ["iceberg", "remove-orphans"]
    assert run([*arguments, "--yes"]) == 0
    capsys.readouterr()
    assert run([*arguments, "--yes", "--force", "--older-than", "2100-01-01"]) == 0
    assert "Deleted 0 files" not in capsys.readouterr().out
    assert run([*arguments, "--dry-run", "--force", "--older-than", "2100-01-01"]) == 0
    assert "Would delete 0 files" in capsys.readouterr().out


def test_the_command_that_deletes_the_rest_works_in_a_catalog(
    served: ServedCatalog, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_rest_goes(capsys, monkeypatch, NAME, "--catalog", served.url)


def test_the_command_that_deletes_the_rest_works_in_a_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder's name"
    model = IcebergModel.create()
    for number in range(5):
        model.append([number])
    for info in model.location.open().list():
        path = folder / info.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model.location.open().get(info.path))
    assert_rest_goes(capsys, monkeypatch, str(folder))


def test_the_command_names_the_file_of_an_sql_catalog(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path}/c.db"
    catalog = SqlCatalog("default", uri=uri, warehouse=f"file://{tmp_path}/house")
    catalog.create_namespace("shop")
    table = catalog.create_table(NAME, pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number]}))

    def broken(*_: object) -> None:
        raise CommitStateUnknownException("gateway timeout")

    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", lambda _: None)
        patched.setattr(SqlCatalog, "commit_table", broken)
        expire = ("expire", NAME, "--catalog", uri, *VERBS["expire"])
        said = fails(capsys, UnknownOutcomeError.exit_code, *expire)
    assert command_in(said)[2:] == [NAME, "--catalog", uri]
    assert run(command_in(said)) == 0
