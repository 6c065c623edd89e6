"""Settings that say what a table is, against the table: a writer may repeat them, not change them.

Hudi's writers are given keys, names and merge modes with every write. Here they are the table's;
what is given is compared with it, each in the form that it has there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tideline.errors import ConfigError
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import KeyGeneratorKind, TableConfig
from tideline.settings.registry import find_setting
from tideline.settings.setting import Setting


def check_agreement(given: Mapping[str, str], config: TableConfig) -> None:
    """Raise ConfigError for a setting, by its first name, that contradicts the table."""
    for name, text in given.items():
        setting = find_setting(name)
        if setting is not None and setting.settles_table and not _agrees(setting, text, config):
            raise ConfigError(
                f"{name} contradicts the table: {_stored_text(setting, config) or 'it has none'}; "
                "leave it out",
                table=config.table_uri or None,
                value=text,
            )


def _agrees(setting: Setting, text: str, config: TableConfig) -> bool:
    if setting.name in _MEANINGS:
        return _MEANINGS[setting.name](text, config)
    return text.strip().casefold() == _stored_text(setting, config).casefold()


def _stored_text(setting: Setting, config: TableConfig) -> str:
    if setting.name in _STORED:
        return _STORED[setting.name](config)
    return Settings(config.properties).text(setting.name)


def _names(text: str) -> tuple[str, ...]:
    """Column names, without the types that a custom key generator adds."""
    words = (word.strip().partition(":")[0] for word in text.split(","))
    return tuple(word for word in words if word)


_STORED: Mapping[str, Callable[[TableConfig], str]] = {
    "hoodie.table.recordkey.fields": lambda config: ",".join(config.record_key_fields),
    "hoodie.table.partition.fields": lambda config: ",".join(config.partition_fields),
    "hoodie.table.ordering.fields": lambda config: ",".join(config.ordering_fields),
    "hoodie.table.keygenerator.type": lambda config: config.key_generator.value,
    "hoodie.table.keygenerator.class": lambda config: config.key_generator.class_name,
    "hoodie.record.merge.mode": lambda config: config.merge_mode.value,
    "hoodie.compaction.payload.class": lambda config: config.merge_mode.value,
    "hoodie.record.merge.strategy.id": lambda config: config.merge_mode.value,
    "hoodie.table.timeline.timezone": lambda config: config.timeline_timezone,
}

_MEANINGS: Mapping[str, Callable[[str, TableConfig], bool]] = {
    "hoodie.table.recordkey.fields": lambda text, config: _names(text) == config.record_key_fields,
    "hoodie.table.partition.fields": lambda text, config: _names(text) == config.partition_fields,
    "hoodie.table.ordering.fields": lambda text, config: _names(text) == config.ordering_fields,
    "hoodie.table.keygenerator.type": lambda text, config: (
        KeyGeneratorKind.from_type(text) is config.key_generator
    ),
    "hoodie.table.keygenerator.class": lambda text, config: (
        KeyGeneratorKind.from_class(text) is config.key_generator
    ),
    "hoodie.record.merge.mode": lambda text, config: (
        MergeMode.__members__.get(text.upper()) is config.merge_mode
    ),
    "hoodie.compaction.payload.class": lambda text, config: (
        MergeMode.from_payload(text) is config.merge_mode
    ),
    "hoodie.record.merge.strategy.id": lambda text, config: (
        MergeMode.from_strategy(text) is config.merge_mode
    ),
}
"""Settings whose text can differ and mean the same."""
