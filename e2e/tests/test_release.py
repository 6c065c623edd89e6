"""A release of HEAD: made twice, pushed to a registry, verified, installed without a checkout.

The commands of docs/install.md run as they stand there, but for options that a registry without TLS
needs.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e.harness.cluster import Cluster
from e2e.harness.installation import NAMESPACE, Operator
from e2e.harness.lake import run_hudi_rs
from e2e.harness.made_release import Made
from e2e.harness.object_store import reader_environment
from tideline.testing.followed_page import blocks_of
from tideline.testing.peer_environment import PeerEnvironment
from tools.release.source_tree import version_of

pytestmark = pytest.mark.release

ROOT = Path(__file__).resolve().parents[2]
VERSION = version_of(ROOT)
WITHOUT_TLS = "--allow-http-registry --allow-insecure-registry"
TABLE = "flights"


def test_the_same_commit_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    made.done(made.release("build", tmp_path))
    again = tmp_path / VERSION
    signed = ("SHA256SUMS.cosign.json",)
    names = sorted(path.name for path in made.folder.iterdir() if path.name not in signed)
    assert names == sorted(path.name for path in again.iterdir() if path.name not in signed)
    differing = [
        name for name in names if (made.folder / name).read_bytes() != (again / name).read_bytes()
    ]
    shutil.rmtree(again)
    assert not differing, ", ".join(differing)


def test_pushing_again_changes_nothing_and_another_content_is_refused(made: Made) -> None:
    before = made.done(f"crane digest {made.place}/tideline-engine:{VERSION}")
    made.done(made.release("publish", made.folder.parent))
    assert made.done(f"crane digest {made.place}/tideline-engine:{VERSION}") == before

    tag = f"{made.place}/tideline-operator:{VERSION}"
    own = made.done(f"crane digest {tag}").strip()
    made.done(f"crane mutate --label planted=yes -t {tag} {tag}")
    refused = made.run(made.release("publish", made.folder.parent))
    assert refused.returncode == 1
    assert "a version is released once" in refused.stderr
    made.done(f"crane tag {made.place}/tideline-operator@{own} {VERSION}")


def test_what_is_documented_verifies_a_release_and_refuses_one_that_was_tampered_with(
    made: Made, tmp_path: Path
) -> None:
    files, registry = verifying_commands()
    made.done(files)
    made.done(registry)

    copied = shutil.copytree(
        made.folder, tmp_path / "files", ignore=shutil.ignore_patterns("*.tar")
    )
    with (copied / "install.yaml").open("a") as manifest:
        manifest.write("# planted\n")
    refused = made.run(files, copied)
    assert refused.returncode != 0
    assert "install.yaml: FAILED" in refused.stdout
    made.done("sha256sum install.yaml > planted; grep -v ' install.yaml$' SHA256SUMS >> planted;"
              " mv planted SHA256SUMS", copied)  # fmt: skip
    assert made.run(files, copied).returncode != 0, "checksums of somebody else"

    for name in ("tideline-engine", "charts/tideline"):
        tag = f"{made.place}/{name}:{VERSION}"
        own = made.done(f"crane digest {tag}").strip()
        made.done(f"crane mutate --annotation planted=yes -t {tag} {tag}")
        refused = made.run(registry)
        assert refused.returncode != 0, name
        assert "no signatures found" in refused.stderr, refused.stderr
        made.done(f"crane tag {made.place}/{name}@{own} {VERSION}")
    made.done(registry)


@pytest.mark.parametrize("image", ["operator", "engine"])
def test_every_package_of_an_image_has_a_wheel_for_arm64(image: str, tmp_path: Path) -> None:
    """Or is Python and Java alone: pyspark, which comes as an sdist."""
    locked = (ROOT / "images" / image / "requirements.lock").read_text("utf-8")
    names = [line.split()[0] for line in locked.splitlines() if re.match(r"[a-z]", line)]
    assert names
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("\n".join(name for name in names if not name.startswith("pyspark==")))
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(5, 37)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"),
            *(f"--target={tmp_path / 'none'}", "--only-binary=:all:", "--implementation=cp"),
            *("--python-version=3.11", "--platform=manylinux2014_aarch64", *platforms),
            *("--requirement", str(wanted)),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_wheel_alone_runs_what_the_readme_begins_with(made: Made, tmp_path: Path) -> None:
    (wheel,) = made.folder.glob("*.whl")
    made.done(f"{sys.executable} -m venv {tmp_path}/venv")
    made.done(f"{tmp_path}/venv/bin/pip install --quiet '{wheel}[spark,sql,java,report]'")
    path = f"{tmp_path}/venv/bin:{os.environ['PATH']}"
    user = replace(made, folder=tmp_path, environment={**os.environ, "PATH": path})
    blocks = (block.code for block in blocks_of((ROOT / "README.md").read_text("utf-8")))
    typed = next(code for code in blocks if "tideline create" in code).splitlines()
    lines = [line for line in typed if "activate" not in line and "tideline ui" not in line]
    printed = user.done("\n".join(lines).replace("/tmp/lake", f"{tmp_path}/lake"))
    assert "17.75" in printed
    assert (tmp_path / "orders.html").is_file()


def test_a_stranger_installs_it_and_reads_rows(
    made: Made, cluster: Cluster, operator: Operator, hudi_rs: PeerEnvironment, tmp_path: Path
) -> None:
    kubernetes = {"KUBECONFIG": str(cluster.kubeconfig.resolve())}
    stranger = replace(made, folder=tmp_path, environment={**made.environment, **kubernetes})
    example = f"tideline-example-{VERSION}.tar.gz"
    shutil.copy(made.folder / example, tmp_path)
    operator.remove()
    try:
        with made.registry.served_on_node(cluster):
            stranger.done(
                f"helm install tideline oci://{made.place}/charts/tideline --plain-http"
                f" --version {VERSION} --namespace {NAMESPACE} --create-namespace"
                " --wait --timeout 3m"
            )
            stranger.done(f"tar -xf {example}")
            folder = tmp_path / f"tideline-example-{VERSION}"
            credentials = {
                "AWS_ACCESS_KEY_ID": "lake",
                "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
            }
            (folder / "credentials.env").write_text(
                "".join(f"{name}={value}\n" for name, value in credentials.items())
            )
            stranger.done("kubectl apply --server-side -k .", folder)
            stranger.done("kubectl -n lake rollout status deployment/minio --timeout=2m")
            with cluster.forwarded("lake", "service/minio", 9000) as address:
                land(stranger, folder, address, credentials)
                stranger.done(
                    f"kubectl -n lake wait --for=condition=Ready laketable/{TABLE} --timeout=5m"
                )
                cluster.wait_until(
                    lambda: len(rows(hudi_rs, address, credentials)) == 2,
                    "the rows that landed are there",
                    timeout_s=240,
                    every_s=3,
                )
            digests = running_digests(cluster)
            own = {made.done(f"crane digest {made.place}/tideline-{name}:{VERSION}").strip()
                   for name in ("operator", "minio")}  # fmt: skip
            assert own <= digests, "pods run something else"
            stranger.done("kubectl delete -k . --wait=true --timeout=2m", folder)
            stranger.done(f"helm uninstall tideline --namespace {NAMESPACE} --wait")
    finally:
        operator.install()


def verifying_commands() -> tuple[str, str]:
    """The commands of install.md about files, and those about the registry."""
    blocks = [block.code for block in blocks_of((ROOT / "docs/install.md").read_text("utf-8"))]
    files = next(code for code in blocks if "cosign verify-blob" in code)
    registry = next(code for code in blocks if "cosign verify-attestation" in code)
    without_assignment = re.sub(r"^export .*\n", "", files)
    return without_assignment, re.sub(r"cosign (verify\S*)", rf"cosign \1 {WITHOUT_TLS}", registry)


def land(made: Made, folder: Path, endpoint: str, credentials: dict[str, str]) -> None:
    """Two flights, in the columns that the example names, by the example's own program."""
    flights = [
        {
            "carrier": "TL", "flight": number, "origin": "JFK", "month": "2013-01",
            "scheduled_departure": f"2013-01-0{number}T08:00", "updated_at": 1,
        }
        for number in (1, 2)
    ]  # fmt: skip
    landing = folder / "landing"
    landing.mkdir()
    pq.write_table(pa.Table.from_pylist(flights), landing / "first.parquet")
    program = f"{sys.executable} land.py landing --endpoint {endpoint.removeprefix('http://')}"
    replace(made, environment={**made.environment, **credentials}).done(program, folder)


def rows(hudi_rs: PeerEnvironment, endpoint: str, credentials: dict[str, str]) -> list[str]:
    """The table's rows as hudi-rs reads them; none while there is no table."""
    variables = reader_environment(credentials, endpoint)
    done = run_hudi_rs(hudi_rs, f"s3://lake/{TABLE}", variables)
    return done.stdout.splitlines() if done.returncode == 0 else []


def running_digests(cluster: Cluster) -> set[str]:
    """Of the images of all pods in both namespaces."""
    return {
        status["imageID"].rpartition("@")[2]
        for namespace in (NAMESPACE, "lake")
        for pod in cluster.list("Pod", namespace)
        for status in pod["status"].get("containerStatuses", ())
    }
