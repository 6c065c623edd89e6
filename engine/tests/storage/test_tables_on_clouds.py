"""Tables of both formats on Google's and on Azure's storage, by the library and by the commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline import LakeTable
from tideline.cli.main import run
from tideline.iceberg_lake_table import create_iceberg, open_iceberg
from tideline.storage.location import StoreLocation
from tideline.testing.gcs_server import GcsServer
from tideline.testing.peer_environment import prepare_hudi_peer

Command = Callable[..., str]

PEOPLE = [{"id": f"{number:02}", "name": f"n{number}", "at": 1} for number in range(20)]
CHANGED = [{"id": f"{number:02}", "name": "changed", "at": 2} for number in range(5, 25)]
EXPECTED = {row["id"]: row["name"] for row in [*PEOPLE, *CHANGED]}


@pytest.fixture(params=["gcs_location", pytest.param("azure_location", marks=pytest.mark.azurite)])
def location(request: pytest.FixtureRequest) -> StoreLocation:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, StoreLocation)
    return found


@pytest.fixture
def tideline(
    location: StoreLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Runs a command, which gets the endpoint from its environment; returns what it prints."""
    options = dict(location.options)
    for name in ("gcs_endpoint", "azure_endpoint"):
        if name in options:
            monkeypatch.setenv(f"TIDELINE_{name.upper()}", options[name])
    monkeypatch.setenv("TIDELINE_ALLOW_HTTP", "true")

    def ran(*arguments: str) -> str:
        capsys.readouterr()
        code = run(arguments)
        shown = capsys.readouterr()
        assert code == 0, shown
        return shown.out

    return ran


def read(tideline: Command, location: StoreLocation) -> Mapping[str, str]:
    """The names by id, as the command reads them."""
    shown = tideline("read", location.uri, "--json", "--limit", "all")
    return names_of(pa.Table.from_pylist(json.loads(shown)["rows"]))


def names_of(table: pa.Table) -> Mapping[str, str]:
    ids, names = (table.column(column).to_pylist() for column in ("id", "name"))
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, names, strict=True))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_hudi_table_lives(location: StoreLocation, tideline: Command, table_type: str) -> None:
    options = dict(location.options)
    table = LakeTable.create(
        location.uri,
        name="people",
        record_key="id",
        ordering="at",
        table_type=table_type,
        storage_options=options,
    )
    table.write(PEOPLE)
    landing = f"{location.uri.removesuffix('/table')}/landing"
    with StoreLocation.of(landing, options).open().open_writer("1.parquet") as sink:
        pq.write_table(pa.Table.from_pylist(CHANGED), sink)
    tideline("write", location.uri, "--source", landing)
    assert read(tideline, location) == EXPECTED
    done = LakeTable.open(location.uri, storage_options=options)
    assert names_of(done.to_arrow()) == EXPECTED
    if table_type == "MERGE_ON_READ":
        assert done.compact() is not None
    else:
        done.cluster()
    done.clean()
    assert read(tideline, location) == EXPECTED
    assert json.loads(tideline("check", location.uri, "--json"))["findings"] == []


def test_an_iceberg_table_lives(location: StoreLocation, tideline: Command) -> None:
    options = dict(location.options)
    rows = pa.Table.from_pylist(PEOPLE)
    table = create_iceberg(location.uri, rows.schema, key="id", storage_options=options)
    table.write(PEOPLE[:5])
    table.write(CHANGED)
    assert names_of(open_iceberg(location.uri, storage_options=options).to_arrow()) == EXPECTED
    assert open_iceberg(location.uri, storage_options=options).metadata.location == location.uri
    tideline("iceberg", "rewrite", location.uri, "--option", "rewrite-all=true")
    tideline("iceberg", "expire", location.uri, "--yes", "--older-than", "0s")
    assert read(tideline, location) == EXPECTED
    files = {info.path for info in location.open().list("data")}
    assert len(files) == 1


@pytest.mark.interop
def test_hudi_rs_reads_it(
    location: StoreLocation, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It takes no token as it is.
    monkeypatch.setattr(gcs_server, "token", None)
    options = dict(location.options)
    LakeTable.create(location.uri, record_key="id", storage_options=options).write(PEOPLE)
    hudi = prepare_hudi_peer()
    program = "import hudi, sys; table = hudi.HudiTableBuilder.from_base_uri(sys.argv[1]).build(); "
    program += "print(sum(batch.num_rows for batch in table.read()))"
    _, _, path = location.uri.partition("://")
    place = path.replace("@tideacct.dfs.core.windows.net", "")
    uri = f"gs://{place}" if location.scheme == "gs" else f"az://{place}"
    done = subprocess.run(
        [str(hudi.python), "-c", program, uri],
        env={**hudi.process_environment(), **settings_of_object_store(location)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip() == str(len(PEOPLE)), done.stderr


def settings_of_object_store(location: StoreLocation) -> Mapping[str, str]:
    """What clients of the library object_store read in the environment, besides credentials."""
    options = dict(location.options)
    if location.scheme == "gs":
        key = {"gcs_base_url": options["gcs_endpoint"], "disable_oauth": True}
        names = {"client_email": "", "private_key": "", "private_key_id": ""}
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**key, **names})}
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": "tideacct",
        "AZURE_STORAGE_ENDPOINT": options["azure_endpoint"],
        "AZURE_ALLOW_HTTP": "true",
    }


@pytest.mark.slow_with("azure_location")
def test_the_judge_of_stores_passes_it(location: StoreLocation, tideline: Command) -> None:
    found = json.loads(tideline("check-store", location.uri, "--json"))
    assert {found["outcome"], *(check["outcome"] for check in found["checks"])} == {"passed"}
    assert [*location.open().list()] == []
