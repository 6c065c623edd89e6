"""Resource files as a whole: places, references between documents, what contradicts what."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.kinds import KINDS
from tideline.storage.location import StoreLocation
from tideline_operator.local.table_files import TableFiles
from tideline_operator.resources.lake_store import LakeStore, StoreClientCertificate
from tideline_operator.resources.loading import load_resources
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolving import resolve_table, store_options
from tideline_operator.resources.store_families import FAMILIES
from tideline_operator.resources.table_rules import REMOTE_SCHEMES, store_fault

TABLE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: %(name)s}
spec:
  location: %(location)s
  storeRef: %(store)s
  recordKey: [id]
  ingest:
  - name: landing
    source: {format: parquet, path: %(landing)s}
"""
STORE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {name: minio}
spec:
  endpoint: http://minio:9000
  region: eu-1
  credentials: {secretName: minio-credentials}
"""
CLOUD = STORE[: STORE.index("  endpoint")].replace("minio", "cloud")
GCS, AZURE = f"{CLOUD}  gcs: {{}}\n", f"{CLOUD}  azure: {{}}\n"
ACCOUNT = f"{CLOUD}  azure: {{account: acct, endpoint: 'https://azurite:1/acct'}}\n"
OTHER_ACCOUNT = "abfss://lake@other.dfs.core.windows.net"


def table(
    name: str = "people", location: str = "table", landing: str = "in/", store: str = "null"
) -> str:
    return textwrap.dedent(TABLE) % {
        "name": name, "location": location, "landing": landing, "store": store
    }  # fmt: skip


def write(folder: Path, *documents: str, name: str = "tables.yaml") -> Path:
    path = folder / name
    path.write_text("---\n".join(documents))
    return path


def refusal(*paths: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load_resources(paths)
    return str(raised.value)


def test_relative_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (found,) = load_resources([write(folder, table(location="../data/t", landing="in"))]).tables
    assert found.name == "default/people"
    assert found.location == Location(f"file://{tmp_path}/data/t")
    assert found.sources["landing"].places == (Location(f"file://{folder}/in"),)


def test_a_store_reference_brings_the_connection_and_no_credentials(tmp_path: Path) -> None:
    path = write(
        tmp_path, table(location="s3://lake/t", landing="s3://lake/in", store="minio"), STORE
    )
    (found,) = load_resources([path], ca_bundle="/etc/ca.pem").tables
    assert found.location.uri == "s3://lake/t"
    assert dict(found.location.options) == {
        "endpoint": "http://minio:9000",
        "region": "eu-1",
        "path_style": "true",
        "allow_http": "true",
        "ca_bundle": "/etc/ca.pem",
    }
    assert found.sources["landing"].places[0].options == found.location.options


def test_a_store_says_what_requests_to_it_carry() -> None:
    value = {"sse": "aws:kms", "sseKmsKeyId": "key", "sseBucketKey": False, "requesterPays": True,
             "checksumAlgorithm": "SHA256", "endpoint": "https://gate.test/v1/s3/"}  # fmt: skip
    spec = parse_object(
        LakeStore,
        {"apiVersion": "tideline.dev/v1alpha1", "kind": "LakeStore",
         "metadata": {"name": "lake"}, "spec": value},
    ).spec  # fmt: skip
    options = store_options(spec, ca_bundle=None)
    assert dict(StoreLocation.of("s3://lake/t", options).options) == {
        "endpoint": "https://gate.test/v1/s3",
        "region": "us-east-1",
        "path_style": "true",
        "sse": "aws:kms",
        "sse_kms_key_id": "key",
        "sse_bucket_key": "false",
        "requester_pays": "true",
        "checksum_algorithm": "SHA256",
    }


def test_tideline_run_shows_the_certificate_of_its_environment_where_there_is_tls(
    tmp_path: Path,
) -> None:
    files = ClientFiles("/etc/client.pem")
    text = table(location="s3://lake/t", landing="s3://lake/in", store="minio")
    secured = STORE.replace("http://", "https://")
    assert secured != STORE
    for store, shown in ((STORE, {}), (secured, files.options)):
        path = write(tmp_path, text, store)
        (found,) = load_resources([path], client_files=files).tables
        options = dict(found.location.options)
        assert {name: options[name] for name in files.options if name in options} == shown
        in_operator = resolve_table(found.resource, found.stores, client_files=files)
        assert not files.options.keys() & dict(in_operator.location.options).keys()
    (spec,) = found.stores.values()
    spec = replace(spec, client_certificate=StoreClientCertificate(secret_name="shown"))
    in_operator = resolve_table(found.resource, {"minio": spec}, client_files=files)
    assert files.options.items() <= dict(in_operator.location.options).items()


def test_the_source_of_credentials_is_reported_and_what_is_missing(tmp_path: Path) -> None:
    path = write(
        tmp_path, table(location="s3://lake/t", landing="s3://lake/in", store="minio"), STORE
    )
    files = TableFiles([path], ca_bundle=None)
    (note,) = files.notes({"AWS_ACCESS_KEY_ID": "x"})
    assert "not from Secret minio-credentials; missing: AWS_SECRET_ACCESS_KEY" in note


def test_a_folder_gives_all_its_yaml_files_and_other_kinds_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, table("one", "a", "ia"), name="1.yaml")
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: lake}\n"
    write(tmp_path, namespace, table("two", "b", "ib"), name="2.yml")
    (tmp_path / "notes.txt").write_text("not: yaml: at all")
    found = load_resources([tmp_path])
    assert [item.name for item in found.tables] == ["default/one", "default/two"]
    assert found.skipped == (f"Namespace ({tmp_path / '2.yml'}, document 1)",)


@pytest.mark.parametrize(
    ("documents", "complaint"),
    [
        ((table(), table()), "LakeTable default/people is already in"),
        ((table("one"), table("two", landing="other")), "already belongs to LakeTable default/one"),
        ((table(landing="table/in"),), "spec.ingest[0].source.path: 'table/in' and the table's"),
        ((table(location="data/t", landing="data"),), "overlap; keep them apart"),
        (
            (table(location="s3://lake/t", landing="s3://lake/in", store="ceph"), STORE),
            "spec.location: there is no LakeStore 'ceph' in namespace default; existing ones: min",
        ),
        ((table(landing="s3://lake/in"),), "spec.ingest[0].source.path: a location in a store nee"),
        ((table(location="ftp://x/y"),), "spec.location: unknown storage scheme"),
        ((table(location="az://lake/y", landing="az://lake/in", store="cloud"), AZURE),
         "spec.location: the location names no account of Azure"),
        ((table(location="gs://lake/t", store="minio"), STORE), "spec.location: 'gs://lake/t' is "
         "in Google Cloud Storage, LakeStore 'minio' is a store in S3: name one with spec.gcs"),
        ((table(location="s3://lake/t", store="cloud"), AZURE),
         "LakeStore 'cloud' is a store in Azure: name one without gcs and azure"),
        ((table(location=f"{OTHER_ACCOUNT}/t", store="cloud"), ACCOUNT),
         f"'{OTHER_ACCOUNT}/t' is in another account of Azure than LakeStore 'cloud'"),
        ((table().replace("v1alpha1", "v1"),), "apiVersion: 'tideline.dev/v1'; allowed: tideline."),
        ((table().replace("LakeTable", "LakeTabel"),), "kind: 'LakeTabel'; allowed: LakeTable, "
         "LakeCatalog, LakeSource, LakeStore, did you mean LakeTable?"),
        (("a: 1",), "document 1: apiVersion and kind are required, as text"),
        (("[]",), "document 1: is not a mapping"),
        ((STORE,), "no LakeTable, LakeCatalog or LakeSource (apiVersion tideline.dev/v1alpha1) in"),
        (("apiVersion: v1\nkind: Secret\n",), "no LakeTable"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_with_its_place(
    tmp_path: Path, documents: tuple[str, ...], complaint: str
) -> None:
    path = write(tmp_path, *documents)
    message = refusal(path)
    assert complaint in message
    assert str(path) in message


@pytest.mark.parametrize(
    ("store", "place", "options"),
    [
        (GCS, "gs://lake/t", {}),
        (
            GCS.replace("{}", "{endpoint: 'http://gcs:4443/'}"),
            "gs://lake/t",
            {"gcs_endpoint": "http://gcs:4443", "allow_http": "true"},
        ),
        (
            ACCOUNT,
            "abfss://lake@acct.dfs.core.windows.net/t",
            {"azure_account": "acct", "azure_endpoint": "https://azurite:1/acct"},
        ),
    ],
)
def test_stores_of_other_clouds_have_the_options_of_their_kind(
    tmp_path: Path, store: str, place: str, options: dict[str, str]
) -> None:
    written = place.replace("abfss://lake@acct.dfs.core.windows.net", "az://lake")
    text = table(location=written, landing=f"{written}-in", store="cloud")
    (found,) = load_resources([write(tmp_path, text, store)], ca_bundle="/etc/ca.pem").tables
    assert found.location.uri == place
    assert dict(found.location.options) == {**options, "ca_bundle": "/etc/ca.pem"}
    assert found.sources["landing"].places[0].uri == f"{place}-in"
    in_operator = resolve_table(found.resource, found.stores, ca_bundle=None)
    assert in_operator.location.uri == place
    assert dict(in_operator.location.options) == options


def test_rules_know_the_schemes_of_all_stores_at_servers() -> None:
    at_servers = [kind.scheme for kind in KINDS.values() if kind.is_remote]
    assert at_servers == [*FAMILIES]
    for scheme in ("s3", "s3a", "gs", "gcs", "abfss", "az", "wasbs"):
        assert scheme in REMOTE_SCHEMES
        assert [field for field, _ in store_fault(f"{scheme}://lake/t", None)] == ["storeRef"]
    assert [*store_fault("/lake/t", None)] == []


def emptied(text: str, source: str = "taken: Remove") -> str:
    return text.replace("source: {", "source: {" + source + ", ")


def test_what_is_moved_has_a_place_of_its_own(tmp_path: Path) -> None:
    moved = emptied(table(), "taken: Move, movedTo: ingested/")
    (found,) = load_resources([write(tmp_path, moved)]).tables
    assert Location(f"file://{tmp_path}/ingested") in found.claimed
    for folder, other in (("in/done", "the landing prefix"), ("table/x", "the table's location")):
        wrong = emptied(table(), f"taken: Move, movedTo: {folder}")
        message = refusal(write(tmp_path, wrong))
        assert f"spec.ingest[0].source.movedTo: '{folder}' and {other} overlap" in message
    elsewhere = emptied(table(store="minio"), "taken: Move, movedTo: 's3://lake/x'")
    message = refusal(write(tmp_path, elsewhere, STORE))
    assert "source.movedTo: files are moved within one store" in message


def test_a_landing_prefix_that_is_emptied_has_one_reader(tmp_path: Path) -> None:
    first, second = table("one", "a"), table("two", "b")
    assert len(load_resources([write(tmp_path, first, second)]).tables) == 2
    for pair in (
        (emptied(first), second),
        (first, emptied(second)),
        (emptied(first), emptied(second)),
    ):
        message = refusal(write(tmp_path, *pair))
        assert "is also read by ingest 'landing' of LakeTable default/one" in message
    twice = emptied(first) + first[first.index("  - name: landing") :].replace("landing", "more", 1)
    message = refusal(write(tmp_path, twice))
    assert "spec.ingest[0].source.taken: ingest 'more' reads the same files" in message


def test_a_slot_of_postgres_is_of_one_ingest(tmp_path: Path) -> None:
    source = "source: {format: postgres, table: orders, slot: orders}"
    text = table()
    landing = text[text.index("  - name: landing") :]
    first = f"  - name: landing\n    {source}\n"
    spec = text.replace(landing, first + first.replace("landing", "more"))
    message = refusal(write(tmp_path, spec))
    assert "spec.ingest[0].source.slot: ingest 'more' has the same slot" in message


def test_problems_of_all_files_are_reported_together(tmp_path: Path) -> None:
    first = write(tmp_path, table(location="''"), name="1.yaml")
    second = write(tmp_path, "a: [", name="2.yaml")
    third = tmp_path / "3.yaml"
    message = refusal(first, second, third)
    assert "1.yaml, document 1, line 6: spec.location: is empty" in message
    assert "2.yaml: not valid YAML" in message
    assert "3.yaml: no such file" in message


def test_changed_files_are_read_again_and_a_broken_change_keeps_the_last_state(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, table())
    files = TableFiles([path], ca_bundle=None)
    held: list[str] = []

    def reload() -> bool:
        return files.reload_if_changed(lambda tables: held.extend(item.name for item in tables))

    assert not reload()
    write(tmp_path, table(), table("more", "b", "ib"))
    assert reload()
    assert held == ["default/people", "default/more"]
    path.write_text("a: [")
    with pytest.raises(ConfigError):
        reload()
    assert [item.name for item in files.tables] == ["default/people", "default/more"]
    assert not reload(), "the same broken state is reported once"
