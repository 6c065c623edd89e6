"""Real reading processes: they see what this one sees, have nothing that they need not, and one
table that hangs or eats its memory takes nothing from others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.sources.files.listing import FileListing
from tideline.storage.location import StoreLocation
from tideline.storage.remote.client import RequestLimits
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.patience import PATIENCE_S
from tideline_operator.api_objects import LeadershipLostError
from tideline_operator.observe.table_identity import identity_of
from tideline_operator.reading.access import Access
from tideline_operator.reading.deleted_table import Removal
from tideline_operator.reading.landlock import landlock_version
from tideline_operator.reading.reader_processes import ReaderProcesses
from tideline_operator.reading.starting import limits_of
from tideline_operator.reading.table_reading import TableReading
from tideline_operator.report.status import owned_table
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.testing.dripping_store import DrippingStore
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.table_states import EMPTY, resolved, resolved_iceberg, with_landing

HERE = Access(allows_local=True)
CLOCK = SystemClock()
MEMORY_BYTES = 160 * 1024 * 1024
SECRET = "hunter2-of-the-controller"
LIMITS = RequestLimits(read_timeout_s=30.0)


@contextmanager
def processes(
    deadline_s: float = 60.0, environment: Mapping[str, str] | None = None
) -> Iterator[ReaderProcesses]:
    given = {
        "TIDELINE_READER_MEMORY": str(MEMORY_BYTES),
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "PYTHONSTARTUP": "/nowhere",
        **(environment or {}),
    }
    reader = ReaderProcesses(CLOCK, given, deadline_s=deadline_s)
    try:
        yield reader
    finally:
        reader.stop()


def declared(folder: Path, name: str = "people", namespace: str = "lake") -> ResolvedTable:
    table = resolved()
    metadata = replace(table.resource.metadata, name=name, namespace=namespace)
    return replace(
        with_landing(table, Location(f"file://{folder}/{name}-landing")),
        resource=replace(table.resource, metadata=metadata),
        location=Location(f"file://{folder}/{name}"),
    )


def created(table: ResolvedTable) -> HoodieTable:
    location = StoreLocation.of(table.location.uri)
    definition = TableDefinition(
        name="people", record_key=("id",), partition_by=("city",), ordering=("ts",), table_version=6
    )
    create_table(location.open(), definition, CLOCK)
    hoodie = open_table(location, CLOCK)
    commit(hoodie, CommitMetadata({}, "UPSERT", {"a": "b"}).encode())
    return hoodie


def commit(hoodie: HoodieTable, body: bytes, day: int = 1) -> None:
    time = InstantTime.parse(f"202601{day:02}000000000")
    instant = hoodie.timelines.create_requested(time, Action.COMMIT)
    hoodie.timelines.complete(hoodie.timelines.to_inflight(instant), body)


def eats_memory(table: ResolvedTable) -> None:
    """Its newest commit is within the limits on metadata, and 300 MB in memory."""
    values = b"[" + b"[]," * 5_000_000 + b"[]]"
    commit(created(table), b'{"partitionToWriteStats": {"a": ' + values + b"}}", day=2)


def dripping(store: DrippingStore, name: str, namespace: str = "lake") -> ResolvedTable:
    table = resolved_iceberg()
    metadata = replace(table.resource.metadata, name=name, namespace=namespace)
    options = (("allow_http", "true"), ("endpoint", store.url))
    location = Location("s3://bucket/table", options)
    return replace(table, resource=replace(table.resource, metadata=metadata), location=location)


def with_keys() -> Access:
    return Access(StoreConnection(S3Credentials("key", SECRET), limits=LIMITS))


def reading_pids(reader: ReaderProcesses) -> list[int]:
    parent = reader.supervisor_pid
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(name) for name in found if is_alive(int(name))]


def is_healthy(reader: ReaderProcesses, table: ResolvedTable) -> bool:
    observed = reader.observe(HERE, table, EMPTY)
    return observed.problem is None and observed.table is not None


def test_a_table_is_seen_as_in_this_process(tmp_path: Path) -> None:
    table = declared(tmp_path)
    created(table)
    (tmp_path / "people-landing").mkdir()
    (tmp_path / "people-landing" / "a.parquet").write_bytes(b"rows")
    with processes() as reader:
        seen = reader.observe(HERE, table, EMPTY, running=frozenset({"x"}))
        assert seen == TableReading(CLOCK).observe(HERE, table, EMPTY, running=frozenset({"x"}))
        assert seen.table is not None
        available = seen.sources["landing"].available
        assert isinstance(available, FileListing)
        assert available.files
        # Its files are counted once: the process remembers the table until that is forgotten.
        assert reader.observe(HERE, table, EMPTY).table == replace(seen.table, counts=None)
        reader.forget(table)
        again = reader.observe(HERE, table, EMPTY).table
        assert again is not None
        assert again.counts is not None


def test_a_process_has_neither_token_nor_environment_nor_files_of_the_controller(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    opened = os.open(secret, os.O_RDONLY)
    os.set_inheritable(opened, True)
    try:
        with processes() as reader:
            reader.observe(HERE, declared(tmp_path), EMPTY)
            (pid,) = reading_pids(reader)
            for entry in (pid, reader.supervisor_pid):
                if entry == pid and os.getuid() != 0:
                    # Not even its own user looks into it.
                    with pytest.raises(PermissionError):
                        Path(f"/proc/{pid}/environ").read_bytes()
                    continue
                environment = Path(f"/proc/{entry}/environ").read_bytes()
                for name in (SECRET, "KUBERNETES", "PYTHON", "AWS_SECRET"):
                    assert name.encode() not in environment
                folder = Path(f"/proc/{entry}/fd")
                files = {at.name: str(at.readlink()) for at in folder.iterdir()}
                assert str(secret) not in files.values()
                if entry == pid:
                    assert {files[number] for number in "01"} == {"/dev/null"}
                    assert all(files[at].startswith("socket:") for at in files if int(at) > 2)
                assert Path(f"/proc/{entry}/cwd").readlink() == Path("/")
            status = Path(f"/proc/{pid}/status").read_text()
            assert "NoNewPrivs:\t1" in status
            limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
            core = next(line for line in limits if line.startswith("Max core file size"))
            assert core.split()[4:6] == ["0", "0"]
            data = next(line for line in limits if line.startswith("Max data size"))
            assert MEMORY_BYTES < int(data.split()[3]) < MEMORY_BYTES + 200 * 1024 * 1024
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            assert command[1] == b"-I"
    finally:
        os.close(opened)


def test_each_namespace_has_a_process_and_tables_of_one_share_it(tmp_path: Path) -> None:
    with processes() as reader:
        for namespace in ("lake", "lake", "sea"):
            for name in ("people", "orders"):
                reader.observe(HERE, declared(tmp_path, name, namespace), EMPTY)
        assert len(reading_pids(reader)) == 2


def test_a_table_that_eats_its_memory_is_set_aside_alone(tmp_path: Path) -> None:
    hungry, healthy = declared(tmp_path, "hungry"), declared(tmp_path, "healthy")
    elsewhere = declared(tmp_path, "elsewhere", "sea")
    eats_memory(hungry)
    created(healthy)
    created(elsewhere)
    with processes() as reader:
        assert is_healthy(reader, healthy)
        assert is_healthy(reader, elsewhere)
        problem = reader.observe(HERE, hungry, EMPTY).problem
        assert problem is not None
        assert problem.reason == "ReadingFailed"
        assert "memory" in problem.message
        assert not problem.is_transient
        assert is_healthy(reader, healthy)
        assert is_healthy(reader, elsewhere)
        eventually(lambda: len(reading_pids(reader)) == 2, "it has ended")
        before = set(reading_pids(reader))
        assert reader.observe(HERE, hungry, EMPTY).problem == problem
        assert set(reading_pids(reader)) == before


def test_a_table_on_a_store_that_drips_is_set_aside_alone(tmp_path: Path) -> None:
    healthy, elsewhere = declared(tmp_path), declared(tmp_path, "elsewhere", "sea")
    created(healthy)
    created(elsewhere)
    with DrippingStore() as store, processes(deadline_s=5.0) as reader:
        assert is_healthy(reader, healthy)
        slow = dripping(store, "slow")
        started_s = time.monotonic()
        first = reader.observe(with_keys(), slow, EMPTY).problem
        assert first is not None
        assert first.is_transient
        assert "took more than 5 s" in first.message
        assert is_healthy(reader, healthy)
        second = reader.observe(with_keys(), slow, EMPTY).problem
        assert time.monotonic() - started_s < 30
        assert second is not None
        assert (second.reason, second.is_transient) == ("ReadingFailed", False)
        asked = store.requests
        assert reader.observe(with_keys(), slow, EMPTY).problem == second
        assert store.requests == asked
        assert is_healthy(reader, healthy)
        assert is_healthy(reader, elsewhere)
        # Another spec is read at once.
        spec = replace(slow.resource.spec, location="memory://moved")
        changed = replace(slow, resource=replace(slow.resource, spec=spec))
        reader.observe(with_keys(), changed, EMPTY)
        assert store.requests > asked


def test_neighbours_in_flight_are_read_again_at_once(tmp_path: Path) -> None:
    """The process ends under two looks: both tables are read alone, in the same turn."""
    healthy = declared(tmp_path)
    created(healthy)
    answers = []
    with DrippingStore() as store, processes(deadline_s=30.0) as reader:
        assert is_healthy(reader, healthy)
        (pid,) = reading_pids(reader)
        slow = dripping(store, "slow")
        look = threading.Thread(
            target=lambda: answers.append(reader.observe(with_keys(), slow, EMPTY)), daemon=True
        )
        look.start()
        eventually(lambda: store.requests, "it is read")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: store.requests > 1, "it is read again, alone")
        assert is_healthy(reader, healthy)
        assert len(reading_pids(reader)) == 2
        assert reader.set_aside.is_alone(("table", "lake", "slow"))
        assert not reader.set_aside.is_alone(("table", "lake", "people"))


def test_a_supervisor_that_ended_is_started_again(tmp_path: Path) -> None:
    healthy = declared(tmp_path)
    created(healthy)
    with processes() as reader:
        assert is_healthy(reader, healthy)
        pids = reading_pids(reader)
        supervisor = reader.supervisor_pid
        assert supervisor is not None
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, pids)), "they end with it")
        assert is_healthy(reader, healthy)


def test_all_end_with_the_controller(tmp_path: Path) -> None:
    with processes() as reader:
        reader.observe(HERE, declared(tmp_path), EMPTY)
        pids = [*reading_pids(reader), reader.supervisor_pid or 0]
        assert all(map(is_alive, pids))
    eventually(lambda: not any(map(is_alive, pids)), "they end with it")


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_there_are_only_so_many_processes_and_idle_ones_make_room(tmp_path: Path) -> None:
    tables = [declared(tmp_path, namespace=f"n{number}") for number in range(5)]
    with (
        DrippingStore() as store,
        processes(environment={"TIDELINE_READER_PROCESSES_MAX": "2"}) as reader,
    ):
        for table in tables:
            assert reader.observe(HERE, table, EMPTY).problem is None
        eventually(lambda: len(reading_pids(reader)) == 2, "others have ended")
        for number in range(2):
            slow = dripping(store, "slow", f"n{number}")
            look = partial(reader.observe, with_keys(), slow, EMPTY)
            threading.Thread(target=look, daemon=True).start()
        eventually(lambda: store.requests >= 2, "both are at work")
        problem = reader.observe(HERE, tables[4], EMPTY).problem
        assert problem is not None
        assert (problem.reason, problem.is_transient) == ("ReaderUnavailable", True)


def test_a_table_is_deleted_while_this_controller_may_write(tmp_path: Path) -> None:
    table = declared(tmp_path)
    hoodie = created(table)
    owned = owned_table(table, identity_of(hoodie.config))
    status = replace(EMPTY, owned=owned)
    folder = tmp_path / "people"
    before = sorted(folder.rglob("*"))

    def lost() -> None:
        raise LeadershipLostError("another leads")

    with processes() as reader:
        assert reader.check_deletion(HERE, table, status).objection is None
        with pytest.raises(LeadershipLostError):
            reader.remove(Access(may_write=lost, allows_local=True), table, Removal("uid", owned))
        assert sorted(folder.rglob("*")) == before
        other = replace(owned, identity="another")
        assert reader.remove(HERE, table, Removal("uid", other)).is_other
        assert sorted(folder.rglob("*")) == before
        step = reader.remove(HERE, table, Removal("uid", owned))
        assert step.is_done
        assert step.deleted > 0
        assert not reader.check_deletion(HERE, table, status).has_table


def test_a_store_that_is_left_alone_gets_no_request() -> None:
    class Closed:
        def refusal(self, server: str, *, writes: bool) -> str | None:
            asked.append((server, writes))
            return "it does not answer"

        def note(self, server: str, problem: str | None) -> None:
            asked.append((server, problem))

    asked: list[tuple[str, object]] = []
    connection = StoreConnection(S3Credentials("key", SECRET), limits=LIMITS, gate=Closed())
    with DrippingStore() as store, processes() as reader:
        table = dripping(store, "slow")
        problem = reader.observe(Access(connection), table, EMPTY).problem
        assert problem is not None
        assert problem.reason == "StorageUnavailable"
        assert "it does not answer" in problem.message
        with pytest.raises(StorageUnavailableError):
            reader.probe(Access(connection), table, table.location)
        assert asked == [(store.url, False), (store.url, False)]
        assert store.requests == 0


def test_all_processes_together_have_a_limit_which_the_largest_pays_for(tmp_path: Path) -> None:
    hungry, healthy = declared(tmp_path, "hungry", "sea"), declared(tmp_path)
    eats_memory(hungry)
    created(healthy)
    given = {"TIDELINE_READER_MEMORY": "4Gi", "TIDELINE_READER_MEMORY_TOTAL": "180Mi"}
    with processes(environment=given) as reader:
        assert is_healthy(reader, healthy)
        before = reading_pids(reader)
        problem = reader.observe(HERE, hungry, EMPTY).problem
        assert problem is not None
        assert problem.reason == "ReadingFailed"
        assert "most of the memory of all readers" in problem.message
        assert is_healthy(reader, healthy)
        eventually(lambda: reading_pids(reader) == before, "it has ended")


def test_a_user_who_is_not_the_controllers_gets_no_process(tmp_path: Path) -> None:
    table = declared(tmp_path)
    created(table)
    mine = str(os.getuid() or 1)
    for uid, is_served in ((mine, os.getuid() != 0), ("4242", False)):
        with processes(environment={"TIDELINE_READER_CLIENT_UID": uid}) as reader:
            assert is_healthy(reader, table) is is_served


def test_no_code_comes_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = declared(tmp_path)
    created(table)
    for name in ("json.py", "tideline_operator.py", "sitecustomize.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'was-run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    # As `python -m` has it.
    monkeypatch.syspath_prepend(str(tmp_path))
    with processes(environment={"PYTHONPATH": str(tmp_path)}) as reader:
        assert is_healthy(reader, table)
    assert not (tmp_path / "was-run").exists()


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    for name in ("MEMORY", "MEMORY_TOTAL", "PROCESSES_MAX", "CLIENT_UID"):
        variable = f"TIDELINE_READER_{name}"
        with pytest.raises(ConfigError, match=variable):
            ReaderProcesses(CLOCK, {variable: "much"})
        with pytest.raises(ConfigError, match=variable):
            limits_of({variable: "much"})
    done = subprocess.run(
        [sys.executable, "-m", "tideline_operator", "reader", "--socket", str(tmp_path / "s")],
        env={**os.environ, "TIDELINE_READER_MEMORY": "much"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "TIDELINE_READER_MEMORY" in done.stderr) == (2, True)


def test_the_command_is_what_the_controller_finds_at_the_socket(tmp_path: Path) -> None:
    table = declared(tmp_path)
    location = created(table).location
    path = tmp_path / "reader.sock"
    command = [sys.executable, "-m", "tideline_operator", "reader", "--socket", str(path)]
    environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET}
    process = subprocess.Popen(command, env=environment)
    try:
        eventually(path.exists, "it listens")
        reader = ReaderProcesses(CLOCK, {}, socket_path=path)
        assert is_healthy(reader, table)
        assert SECRET.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
        assert path.stat().st_mode & 0o777 == 0o660
        if landlock_version() > 0:
            # In a cluster no reader changes files, and so nobody replaces the socket.
            before = sorted((tmp_path / "people").rglob("*"))
            owned = owned_table(table, identity_of(open_table(location, CLOCK).config))
            with pytest.raises(TidelineError):
                reader.remove(Access(), table, Removal("uid", owned))
            assert sorted((tmp_path / "people").rglob("*")) == before
        # A pod ends: the controller, which completes its turns, is served.
        process.terminate()
        time.sleep(0.5)
        assert is_healthy(reader, table)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait(PATIENCE_S)
