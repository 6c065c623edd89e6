"""The README's flights, the quickstart and the pages of clouds, as they are but for locations and
the environment, on Google's and on Azure's storage."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tideline.errors import StorageUnavailableError
from tideline.spark.session.connector_jars import install_jars
from tideline.spark.session.connectors import ABFS, GCS, Connector
from tideline.storage.location import StoreLocation
from tideline.testing.azurite_server import ACCOUNT, AzuriteServer
from tideline.testing.followed_page import Block, blocks_of
from tideline.testing.gcs_server import GcsServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
WAIT_S = 400.0
BUCKETS = ("lake", "landing")
PEOPLE = {"id": ["a", "b"], "name": ["Ada", "Bob"], "at": [1, 1]}
sys.path.append(str(EXAMPLES / "flights"))
import make_landing  # noqa: E402
import queries  # noqa: E402


@dataclass(frozen=True, slots=True)
class Cloud:
    """A store of a kind: its page in the docs, how its locations begin, how it is reached."""

    page: Path
    scheme: str
    options: Mapping[str, str]
    endpoint: str
    connector: Connector

    def place(self, path: str) -> StoreLocation:
        return StoreLocation.of(f"{self.scheme}://{path}", self.options)

    def blocks(self, language: str, word: str) -> Block:
        """The one block of the page with a word."""
        (found,) = [block for block in blocks_of(self.page.read_text("utf-8"))
                    if block.language == language and word in block.code]  # fmt: skip
        return found

    def store(self) -> dict[str, Any]:
        """The LakeStore of the page, at this server."""
        documents = yaml.safe_load_all(self.blocks("yaml", "kind: LakeTable").code)
        (store,) = [document for document in documents if document["kind"] == "LakeStore"]
        ((kind, given),) = store["spec"].items()
        account = {"account": ACCOUNT} if "account" in given else {}
        return {**store, "spec": {kind: {**account, "endpoint": self.endpoint}}}


@pytest.fixture(params=["google", pytest.param("azure", marks=pytest.mark.azurite)])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A server of its own, with the containers that the pages name; credentials and endpoint in
    the environment."""
    if request.param == "azure":
        request.getfixturevalue("azurite_server")  # Skipped where it cannot be.
        with AzuriteServer() as azure:
            for name in BUCKETS:
                azure.create_container(name)
            options = {**azure.storage_options(), "azure_account": ACCOUNT}
            given = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, **azure.environment()}
            yield opened("on-azure", "az", options, given, monkeypatch)
        return
    # Unsigned: Spark takes no token as it is, and reads the quickstart's CSV.
    with GcsServer(*BUCKETS) as google:
        yield opened("on-google-cloud-storage", "gs", google.storage_options(),
                     google.environment(), monkeypatch)  # fmt: skip


def opened(
    page: str,
    scheme: str,
    options: Mapping[str, str],
    given: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cloud:
    (endpoint,) = [name for name in options if name.endswith("_endpoint")]
    reached = {f"TIDELINE_{endpoint.upper()}": options[endpoint], "TIDELINE_ALLOW_HTTP": "true"}
    for name, value in {**given, **reached}.items():
        monkeypatch.setenv(name, value)
    connector = ABFS if scheme == "az" else GCS
    return Cloud(DOCS / "tasks" / f"{page}.md", scheme, options, options[endpoint], connector)


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A clone of the examples, with flights of January and July landed, and with the source cut to
    them. Flights that are scheduled once more after they were cancelled are left out: that they
    are back needs the compactions of a whole year."""
    source = make_landing.load_flights()
    days = source["scheduled_departure"]
    some = (days < "2013-01-20") | (days > "2013-07-01") & (days < "2013-07-14")
    chosen = source[some.to_numpy(bool) & ~make_landing.is_sent_again(source)]
    monkeypatch.setattr(make_landing, "load_flights", lambda: chosen.copy())
    land_flights(chosen, tmp_path / "out" / "flights" / "landing")
    for name in ("flights", "iceberg"):
        (tmp_path / "examples" / name).mkdir(parents=True)
    return tmp_path


def land_flights(chosen: pd.DataFrame, folder: Path) -> None:
    make_landing.write_landing(make_landing.feed_reports(chosen), folder)


def run(folder: Path, *command: str) -> str:
    """What a command prints, which shows no credentials."""
    done = subprocess.run(
        [sys.executable, "-m", "tideline", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert os.environ.get("AZURE_STORAGE_ACCOUNT_KEY", "no key") not in shown
    return done.stdout


def commands_of(block: Block) -> list[list[str]]:
    """The commands of Tideline in a block, but for what downloads jars."""
    lines = (shlex.split(line, comments=True) for line in block.code.splitlines())
    return [
        words[1:] for words in lines if words[:1] == ["tideline"] and "install-jars" not in words
    ]


@pytest.mark.parametrize("example", ["flights/laketable.yaml", "iceberg/flights.yaml"])
def test_the_flights_are_the_same_there(cloud: Cloud, flights: Path, example: str) -> None:
    told = yaml.safe_load(cloud.blocks("yaml", "/flights").code)["spec"]
    assert set(told) == {"location", "storeRef"}
    declared = yaml.safe_load((EXAMPLES / example).read_text())
    declared["spec"] |= told
    file = flights / "examples" / example
    file.write_text(yaml.safe_dump_all([declared, cloud.store()]))
    for command in commands_of(cloud.blocks("bash", "queries.py")):
        if command[0] == "run":
            command[command.index("-f") + 1] = str(file)
        said = run(flights, *command)
    assert "arrived" in said
    answered = queries.by_duckdb(told["location"], cloud.options)
    expected = queries.expected_flights()
    assert expected.num_rows > 20_000
    wrong = [query.question for query in queries.QUERIES
             if not queries.check(answered(query.sql), query, expected)]  # fmt: skip
    assert not wrong
    assert "nothing to do" in run(flights, "run", "-f", str(file), "--once")


def test_the_page_is_followed(cloud: Cloud, tmp_path: Path) -> None:
    with cloud.place("landing/people").open().open_writer("1.parquet") as sink:
        pq.write_table(pa.table(PEOPLE), sink)
    for command in commands_of(cloud.blocks("bash", "check-store")):
        said = run(tmp_path, *command)
    assert "Ada" in said and "Bob" in said
    with cloud.place("lake/landing").open().open_writer("1.parquet") as sink:
        pq.write_table(pa.table({**PEOPLE, "name": ["Eve", "Bob"], "at": [2, 1]}), sink)
    text = cloud.blocks("yaml", "kind: LakeTable").code
    (table,) = [document for document in yaml.safe_load_all(text)
                if document["kind"] == "LakeTable"]  # fmt: skip
    (tmp_path / "people.yaml").write_text(yaml.safe_dump_all([table, cloud.store()]))
    run(tmp_path, "run", "-f", "people.yaml", "--once")
    said = run(tmp_path, "read", table["spec"]["location"])
    assert "Eve" in said and "Ada" not in said


@pytest.mark.spark
def test_the_quickstart_is_followed(cloud: Cloud, tmp_path: Path) -> None:
    """With locations there in the place of the folder, and of the bucket of S3."""
    try:
        install_jars(cloud.connector)
    except StorageUnavailableError as error:
        pytest.skip(f"the connector cannot be downloaded: {error.message}")
    landing = b"order_id;day;amount;updated_at\n1;2024-05-01;10.5;2024-05-01 10:00:00\n"
    cloud.place("lake/orders/landing").open().put("1.csv", landing)
    place = f"{cloud.scheme}://lake/orders"
    run(tmp_path, "init", f"{place}/landing", "--partition-by", "day", "--yes")
    run(tmp_path, "run", "-f", "laketable.yaml", "--once")
    quickstart = [*blocks_of((DOCS / "quickstart.md").read_text("utf-8"))]
    looks = [command for block in quickstart if "out/flights/table" in block.code
             for command in commands_of(block)]  # fmt: skip
    assert len(looks) >= 9
    instant = ""
    for command in looks:
        table = [word.replace("out/flights/table", f"{place}/table") for word in command]
        words = [word.replace("INSTANT", instant).replace("status", "day") for word in table]
        said = run(tmp_path, *words)
        if command[0] == "list-instants":
            instant = said.splitlines()[1].split()[0]
    assert (tmp_path / "table.html").stat().st_size > 100_000
    (tmp_path / "orders" / "landing").mkdir(parents=True)
    (tmp_path / "orders" / "landing" / "1.csv").write_bytes(landing)
    (writes,) = [block for block in quickstart if "tideline create s3://" in block.code]
    for command in commands_of(writes):
        words = [word.replace("s3://lake/orders", f"{place}-written") for word in command]
        said = run(tmp_path, *words)
    assert "10.5" in said
