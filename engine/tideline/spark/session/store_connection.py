"""How Spark reaches a store: Hadoop's connector to it, set up from a store location.

A session may use several stores. Credentials come from the environment of the driver and of the
executors, by the same rules as everywhere (`storage/<kind>/identity.py`), and are never part of a
setting.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tideline.cache_directory import cache_directory
from tideline.errors import ConfigError
from tideline.spark.session.connectors import Connector, connector_of
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.egress.java_key_store import key_store_settings, write_key_store
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No secret: Java wants a password on every key store. The file holds public certificates.
_TRUST_STORE_WORD = "changeit"
_TRUST_STORE = "javax.net.ssl.trustStore"

_VARIABLE = re.compile(r"\$\{env\.(\w+)\}")

_trusted_bundles: set[str] = set()
_shown: dict[ClientFiles, TemporaryDirectory[str]] = {}
"""What this driver's Java shows, and where that is until the process ends."""


def connect_store(spark: SparkSession, location: StoreLocation) -> None:
    """Make a running session reach the location; nothing to do unless its store needs a
    connector.

    Raises ConfigError when the session was started without the connector's jars, or before the
    credentials were in the environment, and as `StoreLocation.hadoop_settings`.
    """
    connector = connector_of(location.kind)
    if connector is None:
        return
    if not _is_loaded(spark, connector):
        raise ConfigError(
            f"this Spark session has no connector to {connector.stores}: install it with "
            f"`{connector.install_command}`, then start a new session with tideline.spark_session",
            value=location.uri,
        )
    settings = connector_settings(location)
    _check_variables(spark, location, settings)
    # Spark's public Python API has no way to Hadoop's configuration.
    hadoop: Any = spark.sparkContext._jsc
    for name, text in settings.items():
        hadoop.hadoopConfiguration().set(name, text)
    if ca_bundle := dict(location.options).get("ca_bundle"):
        trust_ca_bundle(spark, ca_bundle)
    if files := ClientFiles.of(dict(location.options)):
        show_certificate(spark, files)


def connector_settings(location: StoreLocation) -> dict[str, str]:
    """What Hadoop must be set to for a location; nothing where it needs no connector. Raises as
    `StoreLocation.hadoop_settings`."""
    connector = connector_of(location.kind)
    return {} if connector is None else {**dict(connector.settings), **location.hadoop_settings()}


def trust_ca_bundle(spark: SparkSession, ca_bundle: str) -> None:
    """Make the driver's Java trust the certificates (PEM) in addition to those it trusts already.

    Must come before the first request to the store. Executors in other processes are not reached:
    they need the certificates in their own trust store. Raises ConfigError when the file holds no
    certificates.
    """
    try:
        content = Path(ca_bundle).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read ca_bundle: {error.strerror}", path=ca_bundle) from error
    digest = hashlib.sha256(content).hexdigest()[:16]
    if digest in _trusted_bundles:
        return
    jvm: Any = spark._jvm
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    try:
        certificates = factory.generateCertificates(jvm.java.io.ByteArrayInputStream(content))
    except Py4JJavaError as error:
        raise ConfigError("ca_bundle holds no certificates in PEM", path=ca_bundle) from error
    path = cache_directory() / f"trust-{digest}.p12"
    _write_trust_store(spark, certificates, path)
    jvm.java.lang.System.setProperty(_TRUST_STORE, str(path))
    jvm.java.lang.System.setProperty(f"{_TRUST_STORE}Type", "PKCS12")
    jvm.java.lang.System.setProperty(f"{_TRUST_STORE}Password", _TRUST_STORE_WORD)
    _trusted_bundles.add(digest)


def show_certificate(spark: SparkSession, files: ClientFiles) -> None:
    """Make the driver's Java show a certificate to servers that demand one.

    As with authorities it counts from the first request on, for as long as this Java runs, and
    executors in other processes have a key store of their own. Raises ConfigError for files that
    are no certificate with its key, and for another certificate than the one that is shown.
    """
    if files in _shown:
        return
    if _shown:
        raise ConfigError(
            "one process shows one client certificate: use a process for each store",
            path=files.certificate,
        )
    folder = TemporaryDirectory(prefix="tideline-key-store-")
    path = Path(folder.name) / "client.jks"
    write_key_store(ClientCertificate.of_files(files), path)
    jvm: Any = spark._jvm
    for name, text in key_store_settings(path).items():
        jvm.java.lang.System.setProperty(name, text)
    _shown[files] = folder


def _write_trust_store(spark: SparkSession, certificates: Iterable[Any], path: Path) -> None:
    """A key store at `path` of the certificates and of those that are trusted already."""
    gateway: Any = spark.sparkContext._gateway
    java = gateway.jvm.java
    word = gateway.new_array(gateway.jvm.char, len(_TRUST_STORE_WORD))
    for position, character in enumerate(_TRUST_STORE_WORD):
        word[position] = character
    store = java.security.KeyStore.getInstance("PKCS12")
    store.load(None, word)
    home = java.lang.System.getProperty("java.home")
    own = f"{home}/lib/security/cacerts"
    trusted = java.io.File(java.lang.System.getProperty(_TRUST_STORE) or own)
    if trusted.exists():
        known = java.security.KeyStore.getInstance(trusted, word)
        for alias in java.util.Collections.list(known.aliases()):
            store.setCertificateEntry(alias, known.getCertificate(alias))
    for number, certificate in enumerate(certificates):
        store.setCertificateEntry(f"{path.stem}-{number}", certificate)
    output = java.io.FileOutputStream(str(path))
    store.store(output, word)
    output.close()


def _is_loaded(spark: SparkSession, connector: Connector) -> bool:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(connector.file_system, False, loader)
    except Exception:
        return False
    return True


def _check_variables(
    spark: SparkSession, location: StoreLocation, settings: Mapping[str, str]
) -> None:
    """Raises ConfigError for a setting that names a variable which Java was started without."""
    jvm: Any = spark._jvm
    for text in settings.values():
        for name in _VARIABLE.findall(text):
            if jvm.java.lang.System.getenv(name) is None:
                raise ConfigError(
                    f"{name} was not in the environment when Spark started: start a new session",
                    value=location.uri,
                )
