"""The pure parts of a release: versions that agree, notes, the chart's archive, image archives."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import subprocess
import tarfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.build.image_archive import write_reproducible_archive
from tideline_operator.testing.helm_chart import helm_program, install_files, rendered
from tideline_operator.testing.manifests import manifests_in
from tools.class_list import kept
from tools.release.chart import pack_chart, write_chart
from tools.release.image_archives import ImageDigests
from tools.release.manifests import pack_example
from tools.release.next_version import name_next_version
from tools.release.notes import changes, has_section, section
from tools.release.olm_bundle import bundle
from tools.release.release import IMAGES, Release, ReleaseError
from tools.release.source_tree import disagreements, version_of

ROOT = Path(__file__).resolve().parents[3]
VERSION = version_of(ROOT)
DIGESTS = {name: f"sha256:{number:064x}" for number, name in enumerate(IMAGES, 1)}
KINDS = {"LakeTable", "LakeStore", "LakeCatalog", "LakeSource"}
CHANGELOG = """\
# Changelog

## [Unreleased]

## [0.2.0] - 2027-01-31

### Security

- **Breaking**: each namespace lets
  the operator in ([decision](docs/x.md)). More of it.

### Fixed

- `a` is b; c.

## [0.1.0] - 2026-11-28

- First.
"""


@pytest.fixture
def release(tmp_path: Path) -> Release:
    folder = tmp_path / "files"
    folder.mkdir()
    return Release(VERSION, "c" * 40, 1_764_300_000, "registry.example:5000/tideline", folder)


@pytest.fixture
def digests(release: Release) -> ImageDigests:
    return ImageDigests(release, DIGESTS)


def test_this_tree_names_one_version_everywhere() -> None:
    assert disagreements(ROOT, VERSION) == []


def test_the_next_version_is_named_where_the_last_one_was(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    pages = {name for name in tracked if name.startswith(("docs/", "examples/", "charts/"))}
    pages |= {"pyproject.toml", "README.md", "RELEASE.md", "CHANGELOG.md"}
    for name in pages:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text("## [Unreleased]\n\n### Added\n\n- That.\n\n## [0.0.1] - 2026-01-01\n")
    name_next_version(tree, "7.8.9", date(2027, 2, 3))
    assert disagreements(tree, "7.8.9") == []
    assert changelog.read_text() == (
        "## [Unreleased]\n\n## [7.8.9] - 2027-02-03\n\n### Added\n\n- That.\n\n"
        "## [0.0.1] - 2026-01-01\n"
    )
    left = [
        f"{name}: {line}"
        for name in pages
        # What `make install-yaml` renders, and numbers of decisions.
        if not name.startswith(("charts/tideline/operator.yaml", "docs/decisions/"))
        and (tree / name).suffix in (".md", ".yaml", ".toml")
        for line in (tree / name).read_text("utf-8").splitlines()
        if re.search(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.])", line)
    ]
    assert left == []
    with pytest.raises(ReleaseError, match="nothing below"):
        name_next_version(tree, "7.8.10", date(2027, 2, 4))
    assert disagreements(tree, "7.8.9") == []


def test_each_place_of_another_version_is_named() -> None:
    found = disagreements(ROOT, "9.9.9")
    assert [place.partition(" is ")[0] for place in found[:3]] == [
        "version in pyproject.toml",
        "version in Chart.yaml",
        "appVersion in Chart.yaml",
    ]
    assert found[3:] == ["CHANGELOG.md has no section [9.9.9] with a date"]


@pytest.mark.parametrize(
    ("version", "registry"),
    [
        ("v0.1.0", "registry.example/a"),
        ("0.1", "registry.example/a"),
        ("0.1.0; rm", "registry.example/a"),
        (VERSION, ""),
        (VERSION, "https://registry.example/a"),
        (VERSION, "Registry.example/A"),
        (VERSION, "registry.example/a b"),
        (VERSION, "registry.example/$(id)"),
    ],
)
def test_what_is_no_version_or_no_place_of_images_is_refused(
    version: str, registry: str, tmp_path: Path
) -> None:
    with pytest.raises(ReleaseError, match="give"):
        Release(version, "c" * 40, 0, registry, tmp_path)


def test_only_a_registry_on_this_machine_does_without_tls(tmp_path: Path) -> None:
    def is_local(registry: str) -> bool:
        return Release(VERSION, "c" * 40, 0, registry, tmp_path).is_local

    assert is_local("127.0.0.1:5000/tideline")
    assert is_local("localhost/tideline")
    assert not is_local("127.0.0.1.example/tideline")
    assert not is_local("registry.example/localhost")


def test_notes_are_the_section_of_the_version() -> None:
    assert section(CHANGELOG, "0.1.0") == "- First."
    assert section(CHANGELOG, "0.2.0").startswith("### Security")
    assert "First" not in section(CHANGELOG, "0.2.0")
    assert has_section(CHANGELOG, "0.2.0")
    assert not has_section(CHANGELOG, "Unreleased")
    assert not has_section(CHANGELOG, "0.3.0")
    with pytest.raises(ReleaseError, match=r"no section \[0\.3\.0\]"):
        section(CHANGELOG, "0.3.0")


def test_changes_are_first_sentences_by_kind() -> None:
    assert changes(section(CHANGELOG, "0.2.0")) == [
        {
            "kind": "security",
            "description": "Breaking: each namespace lets the operator in (decision)",
        },
        {"kind": "fixed", "description": "a is b"},
    ]


def test_the_chart_names_images_by_digest_and_says_what_artifact_hub_shows(
    digests: ImageDigests, tmp_path: Path
) -> None:
    chart = write_chart(ROOT, digests, tmp_path / "first")
    values = yaml.safe_load((chart / "values.yaml").read_text())
    place = digests.release.registry
    for image, name in ((values["image"], "operator"), (values["engine"]["image"], "engine")):
        assert (image["registry"], image["digest"]) == (place, DIGESTS[name])
    own = (ROOT / "charts/tideline/values.yaml").read_text()
    comments = [line for line in own.splitlines() if line.lstrip().startswith("#")]
    assert comments == [
        line
        for line in (chart / "values.yaml").read_text().splitlines()
        if line.lstrip().startswith("#")
    ]
    annotations = yaml.safe_load((chart / "Chart.yaml").read_text())["annotations"]
    shown = yaml.safe_load(annotations["artifacthub.io/images"])
    assert [item["image"] for item in shown] == [
        digests.reference("operator"),
        digests.reference("engine"),
    ]
    kinds = {item["kind"] for item in yaml.safe_load(annotations["artifacthub.io/crds"])}
    assert kinds == KINDS
    listed = yaml.safe_load(annotations["artifacthub.io/changes"])
    assert listed
    allowed = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert {item["kind"] for item in listed} <= allowed


@pytest.mark.skipif(helm_program() is None, reason="Helm is not built")
def test_what_the_chart_renders_runs_these_images(digests: ImageDigests, tmp_path: Path) -> None:
    chart = write_chart(ROOT, digests, tmp_path)
    found = set(re.findall(r'registry\.example:5000/[^"\s]+', rendered(chart)))
    assert found == {digests.reference("operator"), digests.reference("engine")}


def test_the_same_chart_is_packed_into_the_same_bytes(
    release: Release, digests: ImageDigests, tmp_path: Path
) -> None:
    first = pack_chart(release, write_chart(ROOT, digests, tmp_path / "a")).read_bytes()
    archive = pack_chart(release, write_chart(ROOT, digests, tmp_path / "b"))
    assert archive.read_bytes() == first
    assert archive.stat().st_mtime == release.epoch_s
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert names[0] == "tideline/Chart.yaml"
    assert "tideline/crds/laketables.tideline.dev.yaml" in names
    assert "tideline/operator.yaml" not in names


def test_values_without_a_place_for_an_image_are_refused(
    digests: ImageDigests, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "charts", source / "charts")
    shutil.copy(ROOT / "CHANGELOG.md", source)
    values = source / "charts/tideline/values.yaml"
    values.write_text(values.read_text().replace("repository: tideline-engine", "repository: x"))
    with pytest.raises(ReleaseError, match="0 places for the image of the engine"):
        write_chart(source, digests, tmp_path / "chart")


def test_the_example_has_its_image_by_digest_and_what_lands_files(digests: ImageDigests) -> None:
    archive = pack_example(ROOT, digests)
    with tarfile.open(archive) as tar:
        names = {Path(name).name for name in tar.getnames()}
        read = tar.extractfile(f"tideline-example-{VERSION}/kustomization.yaml")
        assert read is not None
        kustomization = yaml.safe_load(read.read())
    assert kustomization["images"] == [
        {
            "name": "tideline-minio",
            "newName": "registry.example:5000/tideline/tideline-minio",
            "digest": DIGESTS["minio"],
        }
    ]
    assert {*kustomization["resources"], "land.py", "make_landing.py"} <= names
    assert not any(name.endswith(".env") for name in names)


def test_a_list_of_classes_has_none_that_are_generated_and_lambdas_last() -> None:
    lines = [
        "# NOTE: Do not modify this file.",
        "@lambda-proxy scala/A apply ()Lb; (I)V REF_invokeStatic scala/A f (I)V (I)V",
        "org/apache/spark/B id: 12",
        "java/lang/Object id: 3",
        "jdk/proxy2/$Proxy15",
        "jdk/jfr/internal/handlers/EventHandler23151_1795849256512-31119",
        "own/Loader id: 7 super: 1 source: /tmp/x.jar",
        "org/apache/spark/B",
    ]
    assert kept(lines) == ["java/lang/Object", "org/apache/spark/B", lines[1]]
    assert kept(reversed(lines)) == kept(lines)


def test_the_list_of_the_engines_image_is_one() -> None:
    packed = (ROOT / "images/engine/classes.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    assert kept(lines) == lines
    assert "org/apache/spark/sql/SparkSession" in lines


def test_an_image_archive_keeps_what_containers_get_and_nothing_of_the_build(
    tmp_path: Path,
) -> None:
    archives = []
    for run in ("first", "second"):
        saved = saved_image(tmp_path / f"{run}-saved.tar", host=run)
        archives.append(tmp_path / f"{run}.tar")
        write_reproducible_archive(saved, "image:1", archives[-1], {"version": "1"})
    first, second = (path.read_bytes() for path in archives)
    assert first == second
    with tarfile.open(archives[0]) as tar:
        config = member(tar, "config.json")
        (manifest,) = member(tar, "manifest.json")
        layer = tar.extractfile(manifest["Layers"][0])
        assert layer is not None
        assert layer.read() == b"layer"
    assert config["config"] == {
        "Env": ["A=b"],
        "User": "1:1",
        "Labels": {"title": "t", "version": "1"},
    }
    assert manifest["RepoTags"] == ["image:1"]
    assert "host" not in json.dumps(config)


def saved_image(path: Path, host: str) -> Path:
    config = {
        "created": "2026-11-28T00:00:00Z", "architecture": "amd64", "os": "linux",
        "container": f"host-{host}", "parent": f"host-{host}",
        "config": {
            "Hostname": f"host-{host}", "Env": ["A=b"], "User": "1:1", "Cmd": None,
            "Labels": {"io.buildah.version": host, "title": "t"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:1"]},
        "history": [{"created": "2026-11-28T00:00:00Z", "comment": f"FROM host-{host}"}],
    }  # fmt: skip
    manifest = [{"Config": "c.json", "RepoTags": ["x"], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for name, data in (
            ("manifest.json", json.dumps(manifest).encode()),
            ("c.json", json.dumps(config).encode()),
            ("layer.tar", b"layer"),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def member(tar: tarfile.TarFile, name: str) -> Any:
    read = tar.extractfile(name)
    assert read is not None
    return json.load(read)


@pytest.mark.skipif(helm_program() is None, reason="Helm is not built")
def test_a_bundle_has_what_the_chart_has(digests: ImageDigests, tmp_path: Path) -> None:
    chart = write_chart(ROOT, digests, tmp_path)
    plain = manifests_in(install_files(chart)["install.yaml"])
    examples = [{"kind": "LakeTable"}]
    files = bundle(plain, examples, digests)
    service = files["tideline.clusterserviceversion.yaml"]
    assert service["metadata"]["name"] == f"tideline.v{VERSION}"
    assert json.loads(service["metadata"]["annotations"]["alm-examples"]) == examples
    install = service["spec"]["install"]["spec"]
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in plain}
    (deployment,) = install["deployments"]
    assert deployment["spec"] == by_name["Deployment", "tideline-operator"]["spec"]
    assert str(deployment).count("@sha256:") == 3  # operator and reader, and the engine's name
    (cluster,), (own,) = install["clusterPermissions"], install["permissions"]
    assert cluster["rules"] == by_name["ClusterRole", "tideline-operator"]["rules"]
    assert own["rules"] == by_name["Role", "tideline-operator-lease"]["rules"]
    given = {cluster["serviceAccountName"], own["serviceAccountName"]}
    assert given == {deployment["spec"]["template"]["spec"]["serviceAccountName"]}
    # Every other role of the cluster, and every definition, is a file of its own.
    beside = {(item["kind"], item["metadata"]["name"]): item for item in files.values()}
    for key, item in by_name.items():
        if key[0] in ("ClusterRole", "CustomResourceDefinition"):
            assert key == ("ClusterRole", "tideline-operator") or beside[key] == item
    owned = service["spec"]["customresourcedefinitions"]["owned"]
    assert {item["kind"] for item in owned} == KINDS
