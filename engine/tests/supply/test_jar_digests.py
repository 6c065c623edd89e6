"""The jars for stores are those that the release was made with, whatever a repository gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import InvalidDataError, StorageUnavailableError
from tideline.spark.session.connector_jars import check_digests, find_jars
from tideline.spark.session.connectors import CONNECTORS, S3A, Connector


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """Links to the installed jars."""
    installed = find_jars(S3A)
    if installed is None:
        pytest.skip("the S3A jars are not installed; run: tideline install-jars")
    for jar in installed:
        (tmp_path / jar.name).symlink_to(jar)
    return tmp_path


@pytest.mark.parametrize("connector", CONNECTORS.values(), ids=CONNECTORS)
def test_every_artifact_is_listed_in_its_version(connector: Connector) -> None:
    assert {artifact.jar for artifact in connector.artifacts} <= connector.digests().keys()


def test_the_jars_of_the_release_are_accepted(jars: Path) -> None:
    check_digests(S3A, jars)


def test_a_changed_jar_is_refused_by_name(jars: Path) -> None:
    jar = jars / "hadoop-aws-3.5.0.jar"
    content = bytearray(jar.read_bytes())
    content[1000] ^= 1
    jar.unlink()
    jar.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"hadoop-aws-3\.5\.0\.jar"):
        check_digests(S3A, jars)


def test_a_jar_that_nobody_asked_for_is_refused(jars: Path) -> None:
    (jars / "more-1.0.jar").write_bytes(b"PK")
    with pytest.raises(InvalidDataError, match=r"more-1\.0\.jar"):
        check_digests(S3A, jars)


def test_a_jar_that_is_missing_is_named(jars: Path) -> None:
    (jars / "utils-2.35.4.jar").unlink()
    with pytest.raises(StorageUnavailableError, match=r"utils-2\.35\.4\.jar"):
        check_digests(S3A, jars)
