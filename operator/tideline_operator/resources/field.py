"""What a resource's fields say about themselves: description and constraints.

Every field of a resource is declared with `described(...)`. The strict parser checks the same
constraints that the CustomResourceDefinition is generated from, so there is one definition. What
no single field can say is a method `faults()` of its class for the parser, and its `RULES` for the
Kubernetes API server.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.hudi.table.settings import Settings
from tideline.settings.registry import find_setting
from tideline.settings.setting import Kind
from tideline_operator.resources.shape import Shape

CREDENTIAL_NAMES = (
    "secret|password|passwd|passphrase|token|(access|account|private|encryption|sas)[._-]?key"
    "|[.]sas[.]|credential"
)
"""What the name of an option that holds a credential contains, in any case."""

_RULE = "rule"


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Description and constraints of one field; lengths are in characters or items.

    `item_key` is the member that identifies an item of a list. A field that is `always_written`
    is printed even when it has its default. A `shape` is that of a mapping which is passed on.
    """

    description: str
    minimum: int | None = None
    maximum: int | None = None
    pattern: str | None = None
    pattern_meaning: str = ""
    length_max: int | None = None
    items_min: int | None = None
    items_max: int | None = None
    may_be_empty: bool = False
    immutable: bool = False
    free_form: bool = False
    shape: Shape | None = None
    item_key: str | None = None
    always_written: bool = False


@dataclass(frozen=True, slots=True)
class CelRule:
    """A condition on an object that the API server checks, in CEL; `field` is what it is about.

    `found` is an expression for the offending values; it ends the message.
    """

    rule: str
    message: str
    field: str = ""
    found: str = ""


def described(
    description: str,
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Callable[[], Any] | None = None,
    setting: str = "",
    words: type[Enum] | None = None,
    **constraints: Any,
) -> Any:
    """A dataclass field with a `FieldRule`; without a default the field is required.

    A field that gives a `setting` of the engine has its default and its least value, and the
    `words` that the engine reads.
    """
    if setting:
        found = find_setting(setting)
        assert found is not None, setting
        default = Settings({}).value(setting, words)
        if found.kind is Kind.INTEGER:
            constraints = {"minimum": max(1, found.at_least), **constraints}
    metadata = {_RULE: FieldRule(description, **constraints)}
    if default_factory is not None:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def matching(pattern: str, message: str) -> CelRule:
    """The whole of a text matches `pattern`."""
    return CelRule(f"self.matches(r'^({pattern})$')", message)


def no_credentials_in(field: str) -> CelRule:
    """No name in the mapping `field` is one of a credential."""
    return CelRule(
        f"!has(self.{field}) || "
        f"!self.{field}.exists(name, name.matches('(?i)({CREDENTIAL_NAMES})'))",
        "credentials belong in a Secret",
        field=field,
    )


def rule_of(field: dataclasses.Field[Any]) -> FieldRule:
    """The rule `field` was declared with."""
    rule = field.metadata[_RULE]
    assert isinstance(rule, FieldRule)
    return rule


def json_name(field_name: str) -> str:
    """`max_files_per_commit` -> `maxFilesPerCommit`, the name in YAML and JSON."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), field_name)


def is_required(field: dataclasses.Field[Any]) -> bool:
    """True when the field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
