"""How Spark reaches S3: Hadoop's S3A connector, set up per bucket from a store location.

Settings are per bucket, so one session may use several stores. Credentials come from the
environment of the driver and of the executors, by the same rules as everywhere
(`storage/s3/identity.py`), and are never part of a setting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tideline.cache_directory import cache_directory
from tideline.errors import ConfigError
from tideline.spark.session.s3a_jars import INSTALL_COMMAND
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"

# No secret: Java wants a password on every key store. The file holds public certificates.
_TRUST_STORE_WORD = "changeit"
_TRUST_STORE = "javax.net.ssl.trustStore"

_trusted_bundles: set[str] = set()


def connect_s3a(spark: SparkSession, location: StoreLocation) -> None:
    """Make a running session reach the location; nothing to do unless its store
    needs a connector.

    Raises ConfigError when the session was started without the S3A jars, and as `check_reached`.
    """
    check_reached(location)
    if not location.kind.needs_connector:
        return
    if not _is_loaded(spark):
        raise ConfigError(
            "this Spark session has no S3A connector: install it with "
            f"`{INSTALL_COMMAND}`, then start a new session with tideline.spark_session",
            value=location.uri,
        )
    # Spark's public Python API has no way to Hadoop's configuration.
    hadoop: Any = spark.sparkContext._jsc
    for name, text in location.hadoop_settings().items():
        hadoop.hadoopConfiguration().set(name, text)
    if ca_bundle := dict(location.options).get("ca_bundle"):
        trust_ca_bundle(spark, ca_bundle)


def check_reached(location: StoreLocation) -> None:
    """Raises ConfigError for a store that no connector reaches."""
    if location.kind.is_remote and not location.kind.needs_connector:
        raise ConfigError(
            "Spark does not reach this store yet, and this work is not done without it: give less "
            "of it at a time (maxFilesPerCommit of an ingest), without tideline.engine.small=spark "
            "(engine.small of a LakeTable)",
            value=location.uri,
        )


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
        for alias in known.aliases():
            store.setCertificateEntry(alias, known.getCertificate(alias))
    for number, certificate in enumerate(certificates):
        store.setCertificateEntry(f"{path.stem}-{number}", certificate)
    output = java.io.FileOutputStream(str(path))
    store.store(output, word)
    output.close()


def _is_loaded(spark: SparkSession) -> bool:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(S3A_CLASS, False, loader)
    except Exception:
        return False
    return True


def _bucket(location: StoreLocation) -> str:
    return location.uri.partition("://")[2].partition("/")[0]
