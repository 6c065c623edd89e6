"""Which Glue Data Catalog: region, server, account. Pure.

The names are those of PyIceberg's properties. `client.*` counts where `glue.*` is not set, `uri` is
another name of `glue.endpoint`. Amazon's own addresses say their region.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.trust.foreign_words import quoted
from tideline.trust.server_address import is_plain_url

REGION = "glue.region"
ENDPOINT = "glue.endpoint"
ACCOUNT = "glue.id"
_URI = "uri"
_CLIENT_REGION = "client.region"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_GLUE",)
"""Not AWS_ENDPOINT_URL, which is that of a store for many."""
_REGION = re.compile(r"[a-z]{2}[a-z0-9-]{1,30}")
_ACCOUNT = re.compile(r"[A-Za-z0-9:/_.-]{1,255}")
_OF_AMAZON = re.compile(
    r"https://(?:vpce-[a-z0-9-]+\.)?glue(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?"
    r"(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
_CHINA = "cn-"


@dataclass(frozen=True, slots=True)
class GlueAddress:
    """A catalog; without an `account` that of the credentials. `endpoint` None is Amazon's own of
    the region."""

    region: str
    endpoint: str | None = None
    account: str | None = None

    @classmethod
    def of(
        cls, properties: Mapping[str, object], environment: Mapping[str, str] | None = None
    ) -> GlueAddress:
        """What properties say, and where they do not an environment. Raises ConfigError."""
        variables = environment or {}
        given = {name: str(value) for name, value in properties.items() if value}
        named = [given[name] for name in (ENDPOINT, _URI) if name in given]
        if len(set(named)) > 1:
            raise ConfigError(f"{ENDPOINT} and {_URI} name different servers: leave one out")
        endpoint = named[0] if named else _first(variables, _ENDPOINT_VARIABLES)
        if endpoint and not is_plain_url(endpoint):
            raise ConfigError("the endpoint of a Glue catalog is http(s)://host")
        endpoint = endpoint and endpoint.rstrip("/")
        said = _OF_AMAZON.fullmatch(endpoint or "")
        own = given.get(REGION) or given.get(_CLIENT_REGION)
        region = said[1] if said else own or _first(variables, _REGION_VARIABLES)
        if not region:
            message = (
                "a Glue catalog needs a region: set its uri, as https://glue.eu-central-1"
                ".amazonaws.com, or glue.region, or AWS_REGION"
            )
            raise ConfigError(message)
        if not _REGION.fullmatch(region):
            # It is a part of the server's name.
            message = "a region is a name such as eu-central-1"
            raise ConfigError(message, value=quoted(region))
        account = given.get(ACCOUNT)
        if account and not _ACCOUNT.fullmatch(account):
            message = "glue.id is the number of an account"
            raise ConfigError(message, value=quoted(account))
        return cls(region, endpoint, account)

    @property
    def url(self) -> str:
        """Where requests go."""
        suffix = ".cn" if self.region.startswith(_CHINA) else ""
        return self.endpoint or f"https://glue.{self.region}.amazonaws.com{suffix}"

    def __str__(self) -> str:
        return self.url if self.account is None else f"{self.url} ({self.account})"


def _first(variables: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((variables[name] for name in names if variables.get(name)), None)
