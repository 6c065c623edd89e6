"""Which index the writes of one open table use: what settings ask for, and what is on disk.

Rows of a table with a bucket index lie where the hash of their key says. Written by any other
index, a key is stored twice as soon as Hudi writes it again. Therefore:

1. Properties that name the index decide, and nothing is looked at.
2. Else a bucket index is recognised from file ids (tideline.hudi.index.bucket_recognition). How
   many buckets it has is what options or properties declare, checked against stored keys, or what
   the stored keys leave as the only number.
3. Without buckets, a table whose keys are unique as a whole (tideline.hudi.index.uniqueness) is
   written by a global index, named or not: by any other, a key ends in two partitions.
4. What settings ask for and the table is not, or what cannot be found out, is refused by name.

Services need to know only that there are buckets, so they read no keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.errors import ConfigError
from tideline.hudi.capabilities.rules import HUDI_INDEX_TYPE, dropping_rings, unwritable_buckets
from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.bucket_layout import BucketEngine, BucketLayout, KnownFrom
from tideline.hudi.index.bucket_recognition import (
    Recognition,
    declared_layout,
    names_layout,
    partition_slices,
    recognise_buckets,
)
from tideline.hudi.index.index_settings import IndexSettings
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.partition_rules import EXPRESSIONS
from tideline.hudi.index.uniqueness import global_index, says_unique
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import BUCKET_COUNT, BUCKET_HASH_FIELD, INDEX_TYPE
from tideline.hudi.write.config import ClusteringUpdates, WriteConfig
from tideline.hudi.write.planned_write import own_settings, table_write_config

BUCKET_ENGINE = "hoodie.index.bucket.engine"


class IndexChoice:
    """The index of one open table; what was found out is kept, but for rules that may change."""

    def __init__(self, table: HoodieTable) -> None:
        self._table = table
        self._recognised: Recognition | None = None
        self._buckets: dict[tuple[str, ...], BucketHash] = {}

    def layout(self) -> BucketLayout | None:
        """The table's bucket index, None where it has none."""
        return self._recognition().layout

    def plain(self, options: Mapping[str, str] | None) -> WriteConfig:
        """Settings of the table with `options` over them, without a look at what is on disk.

        Raises ConfigError when an option would place rows by another index than the bucket index
        that properties name.
        """
        return table_write_config(self._table.config, options or {})

    def for_rows(
        self, options: Mapping[str, str] | None, *, are_located: bool = False
    ) -> WriteConfig:
        """Settings of a write that places rows, or changes rows where they `are_located` already:
        then nobody has to say how many buckets there are.

        Raises ConfigError for another index than the table's and where the number of buckets has
        to be declared, UnsupportedTableError for a bucket index that is not written.
        """
        layout = self.layout()
        if layout is not None and layout.engine is BucketEngine.CONSISTENT_HASHING:
            return self._by_rings(layout, options or {})
        plain = self.plain(options)
        if layout is None:
            return self._as_unique_as_the_table(plain, options or {})
        if layout.known_from is KnownFrom.PROPERTIES:
            return plain
        asked = {**own_settings(self._table.config), **(options or {})}
        named = HUDI_INDEX_TYPE in asked
        if layout.mixed and named:
            return self._as_unique_as_the_table(plain, options or {})
        self._refuse(layout, plain.index if named else None)
        if are_located:
            return plain
        key = tuple(asked.get(name, "") for name in (BUCKET_COUNT, BUCKET_HASH_FIELD, EXPRESSIONS))
        buckets = self._buckets.get(key)
        if buckets is None or layout.known_from is KnownFrom.HASHING_CONFIG:
            buckets = self._placing(layout, plain.index, BUCKET_COUNT in asked)
            self._buckets[key] = buckets
        return replace(plain, index=IndexSettings.of_buckets(buckets))

    def for_partitions(self, options: Mapping[str, str] | None) -> WriteConfig:
        """Settings of a write that drops whole partitions and places no row.

        Raises UnsupportedTableError with consistent hashing: Hudi continues writing to the file
        groups that its hashing metadata names, and those are gone then.
        """
        layout = self.layout()
        if layout is not None and layout.engine is BucketEngine.CONSISTENT_HASHING:
            raise dropping_rings(layout).error(self._table.location.uri)
        is_mixed = layout is not None and layout.mixed
        return self.plain(options) if is_mixed else self.for_services(options)

    def for_services(self, options: Mapping[str, str] | None) -> WriteConfig:
        """Settings of the services; with any bucket index in them, none changes file ids."""
        plain = self.plain(options)
        layout = self.layout()
        if layout is None or layout.known_from is KnownFrom.PROPERTIES:
            return plain
        return replace(
            plain, index=replace(plain.index, type=IndexType.BUCKET, engine=layout.engine)
        )

    def service_settings(self, options: Mapping[str, str] | None) -> dict[str, str]:
        """What services read their own settings from, with the index that was recognised."""
        settings = {**self._table.config.properties, **(options or {})}
        return settings if self.layout() is None else {**settings, INDEX_TYPE: "BUCKET"}

    def _as_unique_as_the_table(
        self, plain: WriteConfig, options: Mapping[str, str]
    ) -> WriteConfig:
        """The same settings, with a global index where keys are unique in the whole table.

        Raises ConfigError when `options` name one that is not global.
        """
        found = global_index(self._table)
        if found is None or plain.index.type.is_global:
            return plain
        if HUDI_INDEX_TYPE in options:
            raise ConfigError(
                f"keys are unique in the whole table ({says_unique(self._table)}), and this index "
                "looks for a key in its partition alone: a row whose partition changed would be "
                f"stored twice. Leave {HUDI_INDEX_TYPE} out, or name a global one",
                table=self._table.location.uri,
                value=plain.index.type,
            )
        return self.plain({**options, HUDI_INDEX_TYPE: found.value})

    def _recognition(self) -> Recognition:
        if names_layout(self._table.config):
            return Recognition(declared_layout(self._table.config))
        if self._recognised is not None:
            return self._recognised
        found = recognise_buckets(self._table, self._table.timeline())
        layout = found.layout
        changes = layout is not None and layout.known_from is KnownFrom.HASHING_CONFIG
        if found.is_final and not changes:
            self._recognised = found
        return found

    def _refuse(self, layout: BucketLayout, asked: IndexSettings | None) -> None:
        """Raise where rows of this layout are not placed, or `asked` is another index."""
        refusal = unwritable_buckets(layout)
        if refusal is not None:
            raise refusal.error(self._table.location.uri)
        if asked is not None:
            self._refuse_other(layout, asked.type)

    def _refuse_other(self, layout: BucketLayout, asked: IndexType) -> None:
        if not asked.places_by_hash:
            raise ConfigError(
                f"the table has a bucket index (known by {layout.known_from.value}); with another "
                f"one keys would be stored twice: leave {HUDI_INDEX_TYPE} out, or set it to BUCKET",
                table=self._table.location.uri,
                value=asked,
            )

    def _by_rings(self, layout: BucketLayout, options: Mapping[str, str]) -> WriteConfig:
        """Settings of a write to CONSISTENT_HASHING buckets, which their metadata places."""
        asked = {**own_settings(self._table.config), **options}
        engine = asked.get(BUCKET_ENGINE, layout.engine.value)
        if engine.strip().upper() != layout.engine.value:
            raise ConfigError(
                f"the table has {layout.engine.value} buckets; leave {BUCKET_ENGINE} out",
                table=self._table.location.uri,
                value=engine,
            )
        plain = self.plain({key: text for key, text in options.items() if key != BUCKET_ENGINE})
        if HUDI_INDEX_TYPE in asked:
            self._refuse_other(layout, plain.index.type)
        index = IndexSettings(
            IndexType.BUCKET,
            num_buckets=plain.index.num_buckets if BUCKET_COUNT in asked else 0,
            bucket_hash_fields=plain.index.bucket_hash_fields,
            engine=layout.engine,
        )
        # Rows written during a resize would stay behind in the old buckets.
        return replace(plain, index=index, clustering_updates=ClusteringUpdates.REJECT)

    def _placing(self, layout: BucketLayout, asked: IndexSettings, is_counted: bool) -> BucketHash:
        """How Hudi places rows here: as declared or stored, checked against keys, or inferred."""
        wanted = asked.buckets
        slices = self._recognition().slices
        if layout.known_from is KnownFrom.HASHING_CONFIG:
            stored = BucketHash(layout.num_buckets or 0, wanted.fields, layout.rules)
            if (is_counted and stored.num_buckets != wanted.num_buckets) or (
                wanted.rules.rules and stored.rules != wanted.rules
            ):
                raise ConfigError(
                    "the table's hashing config fixes other bucket counts; leave "
                    f"{BUCKET_COUNT} and {EXPRESSIONS} out",
                    table=self._table.location.uri,
                    path=layout.known_from.value,
                    value=f"{stored.num_buckets}; {stored.rules}",
                )
            wanted, is_counted = stored, True
            slices = partition_slices(self._table, self._table.timeline())
        # Reading keys needs Arrow; services that move no rows come without.
        from tideline.hudi.placement.stored_buckets import checked_buckets, inferred_buckets

        settle = checked_buckets if is_counted else inferred_buckets
        return settle(self._table, slices, wanted)
