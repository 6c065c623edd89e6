"""What a REST catalog's answer vends to read and write the files of a table: keys of S3. Pure.

Credentials stand in `storage-credentials`, each for a prefix of locations, and in `config` for all
others. Beside them stand the endpoint and region that they are for, which count for them alone.
Source: Iceberg's REST specification (LoadTableResult, LoadCredentialsResponse) and its S3 file IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tideline.errors import UnsupportedTableError
from tideline.iceberg.table.s3_properties import OWN_KEYS, S3Properties, is_of_s3, text_of
from tideline.storage.named_places import is_below, normalised
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.kind import S3

SETTING = "header.X-Iceberg-Access-Delegation"
"""The property of a catalog that says whether it is asked for credentials."""
PREFIXES_MAX = 1_000
_KEY, _SECRET, _TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.session-token"
_END = "s3.session-token-expires-at-ms"
_SIGNING = "s3.remote-signing-enabled"
_ANYWHERE = ("", *(f"{scheme}{end}" for scheme in (S3.scheme, *S3.aliases) for end in ("", ":")))
_END_MS_MAX = 250_000_000_000_000
"""In the year 9892: what ends later has no end."""


@dataclass(frozen=True, slots=True)
class VendedKeys:
    """Keys for the locations below `prefix`, "" for all; `ends_ms` is None where the answer does
    not say it. `properties` are those of a client that the answer gives beside them."""

    prefix: str
    credentials: S3Credentials = field(repr=False)
    ends_ms: int | None = None
    properties: S3Properties = field(default_factory=S3Properties)

    def covers(self, place: str) -> bool:
        """Whether a location, as `normalised` spells it, lies below the prefix."""
        return not self.prefix or is_below(place, self.prefix)


@dataclass(frozen=True, slots=True)
class Vended:
    """The keys of one answer. `signs_requests`: the catalog would sign each request itself."""

    keys: tuple[VendedKeys, ...] = ()
    signs_requests: bool = False

    @classmethod
    def of(
        cls,
        config: Mapping[str, object],
        credentials: Iterable[tuple[str, Mapping[str, object]]] = (),
    ) -> Vended:
        """Those of an answer's `config` and `storage-credentials`. What is no key of S3 is left
        out. Raises UnsupportedTableError for too many of them."""
        listed = list(credentials)
        if len(listed) > PREFIXES_MAX:
            message = f"the catalog vends credentials for more than {PREFIXES_MAX:,} prefixes"
            raise UnsupportedTableError(message, value=len(listed))
        found = [_keys(prefix, given, config) for prefix, given in (*listed, ("", config))]
        return cls(
            tuple(keys for keys in found if keys is not None),
            str(config.get(_SIGNING, "")).lower() == "true",
        )

    def covering(self, place: str) -> VendedKeys | None:
        """Those of the longest prefix around a location; of equal ones those that end last."""
        found = (keys for keys in self.keys if keys.covers(place))
        return max(found, key=lambda keys: (len(keys.prefix), keys.ends_ms or 0), default=None)


def beside_keys(config: Mapping[str, object]) -> dict[str, object]:
    """What an answer's `config` says of a client beside its keys."""
    return {
        name: value
        for name, value in config.items()
        if is_of_s3(name) and name not in (*OWN_KEYS, _END)
    }


def _keys(
    prefix: str, given: Mapping[str, object], config: Mapping[str, object]
) -> VendedKeys | None:
    key, secret, token = (text_of(given.get(name)) for name in (_KEY, _SECRET, _TOKEN))
    if key is None or secret is None:
        return None
    return VendedKeys(
        "" if prefix.rstrip("/").lower() in _ANYWHERE else normalised(prefix),
        S3Credentials(key, secret, token),
        _end_ms(text_of(given.get(_END)) or ""),
        S3Properties.of(given, config),
    )


def _end_ms(text: str) -> int | None:
    number = int(text) if text.isdecimal() and len(text) <= len(str(_END_MS_MAX)) else _END_MS_MAX
    return number if number < _END_MS_MAX else None
