"""S3Proxy, a gateway of Java that serves a folder, or Azure's storage, by the protocol of S3. It is
published on Maven Central.

Over a folder it compares the condition of a write and then writes, with nothing between that keeps
others out. Over Azure it hands the condition on.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.cache_directory import cache_directory
from tideline.spark.session.connectors import MavenArtifact
from tideline.spark.session.java_runtime import prepare_java
from tideline.testing.azurite_server import ACCOUNT, AzuriteServer, build
from tideline.testing.maven_jars import fetched_jars
from tideline.testing.s3_server import S3Process

VERSION = "4.1.0"
_ARTIFACTS = (
    MavenArtifact(
        "org.gaul", "s3proxy", VERSION, without=("*",), classifier="jar-with-dependencies"
    ),
)
_MAIN_CLASS = "org.gaul.s3proxy.Main"


class S3ProxyServer(S3Process):
    """Over a folder; `over_azure` over an Azurite of its own."""

    name = f"S3Proxy {VERSION}"

    def __init__(self, *, over_azure: bool = False) -> None:
        super().__init__()
        self._azurite = AzuriteServer() if over_azure else None

    def prepare(self) -> None:
        jars = fetched_jars(f"s3proxy-{VERSION}", _ARTIFACTS)
        self._class_path = ":".join(map(str, sorted(jars.glob("*.jar"))))
        self._java = prepare_java(cache_directory()) / "bin" / "java"
        if self._azurite is not None:
            build()
            self._azurite.__enter__()

    def __exit__(self, *given: object) -> None:
        super().__exit__(None, None, None)
        if self._azurite is not None:
            self._azurite.__exit__(None, None, None)

    def command(self) -> list[str]:
        settings = self.folder / "s3proxy.conf"
        given = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.identity": self.access_key,
            "s3proxy.credential": self.secret_key,
            **self._backend(),
        }
        settings.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
        return [
            *(str(self._java), "-Xmx512m", "-cp", self._class_path, _MAIN_CLASS),
            *("--properties", str(settings)),
        ]

    def _backend(self) -> Mapping[str, str]:
        if self._azurite is None:
            data = self.folder / "data"
            data.mkdir(exist_ok=True)
            return {
                "jclouds.provider": "filesystem-nio2",
                "jclouds.filesystem.basedir": str(data),
            }
        return {
            "jclouds.provider": "azureblob-sdk",
            "jclouds.endpoint": self._azurite.endpoint,
            "jclouds.identity": ACCOUNT,
            "jclouds.credential": self._azurite.account_key,
        }
