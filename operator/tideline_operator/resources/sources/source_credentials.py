"""Where the credentials of a source are: a Secret, or variables of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tideline.ingest.sources.kafka.credentials import SECRET_KEYS
from tideline.ingest.sources.postgres.credentials import CONNECTION, secret_keys
from tideline_operator.resources.field import CelRule, described

_PREFIX = "POSTGRES_"
_FROM_SECRET = f"begins with {_PREFIX} where it is a key of a Secret"
FROM_SECRET_RULE = CelRule(
    "!has(self.credentials) || !has(self.connectionVariable) || "
    f"self.connectionVariable.startsWith('{_PREFIX}')",
    _FROM_SECRET,
    field="connectionVariable",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCredentials:
    """Where the credentials for brokers, or for a server of Postgres, are."""

    secret_name: str = described(
        f"Secret in the same namespace with any of the keys {', '.join(SECRET_KEYS)} for kafka; "
        f"for postgres {', '.join(secret_keys(CONNECTION))}, the first one named as "
        "connectionVariable says. CA, CERTIFICATE and KEY are PEM texts. `tideline run` reads the "
        "environment variables of those names instead.",
        length_max=253,
    )


def secret_fault(
    credentials: SourceCredentials | None, connection_variable: str | None
) -> Iterator[tuple[str, str]]:
    """What FROM_SECRET_RULE refuses."""
    if credentials is not None and not (connection_variable or _PREFIX).startswith(_PREFIX):
        yield "connectionVariable", _FROM_SECRET
