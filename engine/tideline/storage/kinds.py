"""The kinds of stores: a new one is a folder here, and a line in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConfigError
from tideline.secret_values import sounds_secret
from tideline.storage.azure.kind import AZURE
from tideline.storage.gcs.kind import GCS
from tideline.storage.local.kind import LOCAL
from tideline.storage.memory.kind import MEMORY
from tideline.storage.s3.kind import S3
from tideline.storage.store_kind import StoreKind

KINDS = {kind.scheme: kind for kind in (LOCAL, S3, GCS, AZURE, MEMORY)}


def kind_of(scheme: str) -> StoreKind | None:
    """The kind whose URIs begin so, in any case; None where there is none."""
    wanted = scheme.lower()
    return next((kind for kind in KINDS.values() if wanted in (kind.scheme, *kind.aliases)), None)


def is_remote(uri: str) -> bool:
    """Whether a URI is of a store that other machines reach."""
    kind = kind_of(uri.partition(":")[0])
    return kind is not None and kind.is_remote


def option_names() -> tuple[str, ...]:
    """What locations may say, whatever their kind."""
    return tuple(dict.fromkeys(name for kind in KINDS.values() for name in kind.option_names))


def checked_options(kind: StoreKind, given: Mapping[str, str | bool]) -> dict[str, str]:
    """Options for a location of this kind, which keeps its own alone. Those of others are checked
    all the same. Raises ConfigError, above all for credentials."""
    known = option_names()
    for name in given:
        if name in known:
            continue
        if sounds_secret(name):
            raise ConfigError(
                f"storage option {name!r} looks like a credential: "
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_KEY in the environment "
                "instead"
            )
        raise ConfigError(f"unknown storage option {name!r}: choose from {', '.join(known)}")
    for other in KINDS.values():
        if other is not kind and other.option_names:
            other.checked({name: given[name] for name in other.option_names if name in given})
    own = {name: given[name] for name in kind.option_names if name in given}
    return kind.checked(own)
