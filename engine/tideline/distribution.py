"""The distribution: what package managers know Tideline by.

The import name and the command are `tideline`; that name on PyPI belongs to another project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version

from tideline.errors import ConfigError

DISTRIBUTION = "tideline-lakehouse"


@cache
def installed_version() -> str:
    """That of this installation: `0.1.0`."""
    return version(DISTRIBUTION)


def installation(extra: str) -> str:
    """The command that adds an extra to this installation, wherever it was installed from."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


@contextmanager
def with_extra(extra: str, needing: str) -> Iterator[None]:
    """Raises ConfigError, such as `catalogs need the extra iceberg`, where importing within fails
    because the extra is not installed."""
    try:
        yield
    except ImportError as error:
        message = f"{needing} the extra {extra}: {installation(extra)}"
        raise ConfigError(message, value=str(error)) from error


def what_to_install(missing: ImportError) -> str | None:
    """A message about an import that failed for want of an extra; None where no extra brings it."""
    package = (missing.name or "").partition(".")[0]
    extra = _EXTRAS.get(package) if isinstance(missing, ModuleNotFoundError) else None
    return extra and f"this needs {package}: {installation(extra)}"


_EXTRAS: Mapping[str, str] = {
    "confluent_kafka": "kafka",
    "duckdb": "sql",
    "hive_metastore": "hive",
    "kubernetes": "operator",
    "numpy": "spark",
    "openlineage": "lineage",
    "opentelemetry": "tracing",
    "pandas": "spark",
    "polars": "polars",
    "psycopg": "postgres",
    "prometheus_client": "operator",
    "pyarrow": "spark",
    "pyiceberg": "iceberg",
    "pyroaring": "spark",
    "pyspark": "spark",
    "thrift": "hive",
}
"""The smallest extra that brings a package for work with rows; by the name it is imported by."""
