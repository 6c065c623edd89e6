"""What properties of Iceberg's own S3 clients mean for Tideline's store of S3. Pure.

A catalog's answer has them for the table that it vends keys for, and the configuration of this
process for every table of a catalog. Each one is honoured as an option of the store, or refused by
its name where files would come out otherwise than it says. What only makes a client faster, such as
the size of parts, is passed over. Source: Iceberg's S3FileIOProperties, and PyIceberg's `s3.*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PLACE = ("endpoint", "region", "path_style")
"""The options that say where a bucket is."""
OWN_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.profile-name",
            "s3.role-arn", "s3.anonymous")  # fmt: skip
"""Who a client is, which the environment says for Tideline."""
_TYPE, _KEY = "s3.sse.type", "s3.sse.key"
_ENCRYPTIONS = {"s3": "AES256", "kms": "aws:kms", "dsse-kms": "aws:kms:dsse"}
_KEYED = ("kms", "dsse-kms")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "endpoint": ("s3.endpoint",),
    "region": ("client.region", "s3.region"),
    "path_style": ("s3.path-style-access",),
    "sse": ("s3.server-side-encryption",),
    "sse_kms_key_id": ("s3.sse-kms-key-id",),
    "requester_pays": ("s3.requester-pays",),
}
_VIRTUAL = "s3.force-virtual-addressing"
_OF_FILES = ("s3.acl", "s3.write.storage-class", "s3.write.tags.*", "s3.write.table-tag-enabled",
             "s3.write.namespace-tag-enabled")  # fmt: skip
_OF_DELETES = ("s3.delete.tags.*",)
_DELETES = "s3.delete-enabled"
_ELSEWHERE = ("s3.access-points.*", "s3.access-grants.enabled", "s3.proxy-uri")
_OFF = ("", "false")
_LENGTH_MAX = 16_384


@dataclass(frozen=True, slots=True)
class Bars:
    """Properties that a client of S3 would act on when it writes or deletes files, and Tideline
    does not: so it does neither. Each is a property as it is named in errors; None for none."""

    writes: str | None = None
    deletes: str | None = None

    def beside(self, other: Bars) -> Bars:
        """These and others."""
        return Bars(self.writes or other.writes, self.deletes or other.deletes)


NO_BARS = Bars()


@dataclass(frozen=True, slots=True)
class S3Properties:
    """`options` are those of a store. `refused` names a property that no file can be read with, and
    says why. `own_keys` are the properties that say who a client is."""

    options: Mapping[str, str] = field(default_factory=dict)
    bars: Bars = NO_BARS
    refused: str | None = None
    own_keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, *said: Mapping[str, object]) -> S3Properties:
        """Those of some mappings; what an earlier one says counts before what a later one says."""
        given = {name: text for properties in reversed(said) for name, text in _texts(properties)}
        options = {
            option: text
            for option, names in _NAMES.items()
            if (text := next((given[name] for name in names if name in given), None)) is not None
        }
        virtual = given.get(_VIRTUAL, "").lower()
        if "path_style" not in options and virtual in ("true", "false"):
            options["path_style"] = "false" if virtual == "true" else "true"
        encryption = given.get(_TYPE, "none").lower()
        if encryption in _ENCRYPTIONS:
            options["sse"] = _ENCRYPTIONS[encryption]
            if encryption in _KEYED and _KEY in given:
                options["sse_kms_key_id"] = given[_KEY]
        deletes = next(_demanded(given, _OF_DELETES), None)
        if deletes is None and given.get(_DELETES, "").lower() == "false":
            deletes = f"{_DELETES}=false"
        bars = Bars(next(_demanded(given, _OF_FILES), None), deletes)
        own_keys = tuple(name for name in OWN_KEYS if name in given)
        return cls(options, bars, _refusal(given, encryption), own_keys)

    def below(self, own: Mapping[str, str | bool]) -> dict[str, str | bool]:
        """`own` options of a store, and those that they leave out. An endpoint of one's own is a
        place of one's own."""
        return {**(self.without_place() if "endpoint" in own else self.options), **own}

    def without_place(self) -> dict[str, str]:
        """The options but for those that say where a bucket is."""
        return {name: text for name, text in self.options.items() if name not in PLACE}


NO_PROPERTIES = S3Properties()


def is_of_s3(name: str) -> bool:
    """Whether a property is one for clients of S3."""
    return name.startswith(("s3.", "client.region"))


def text_of(value: object) -> str | None:
    """A value that can stand in a header."""
    text = str(value) if isinstance(value, str | int) else ""
    return text if text.isascii() and text.isprintable() and 0 < len(text) <= _LENGTH_MAX else None


def _texts(said: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in said.items():
        text = text_of(value)
        if text is not None and is_of_s3(name):
            yield name, text


def _refusal(given: Mapping[str, str], encryption: str) -> str | None:
    if encryption == "custom":
        return f"{_TYPE}=custom: keys of the customer (SSE-C) are not used"
    if encryption != "none" and encryption not in _ENCRYPTIONS:
        return f"{_TYPE}={encryption[:40]} is no encryption that is known"
    elsewhere = next(_demanded(given, _ELSEWHERE), None)
    return None if elsewhere is None else f"{elsewhere}: requests go to the bucket's endpoint alone"


def _demanded(given: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    """Those of `names` that properties ask for; `*` is any ending."""
    for name in names:
        family, found, _ = name.partition("*")
        for said, text in given.items():
            is_meant = said.startswith(family) if found else said == name
            if is_meant and text.lower() not in _OFF:
                yield said
