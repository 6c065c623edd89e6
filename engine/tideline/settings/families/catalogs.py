"""Catalogs and metastores that Hudi's writers register tables in, metrics, callbacks, errors."""

from __future__ import annotations

from tideline.settings.entries import OFF, harmless, refused

_SYNC = (
    "set tideline.sync=hive or glue, with tideline.sync.hive.uri, .database and .name, or run "
    "Hudi's own sync tool after the write"
)

SETTINGS = (
    *refused(
        _SYNC,
        "hoodie.datasource.hive_sync.enable",
        "hoodie.datasource.meta.sync.enable",
        "hive_sync.enabled",
        unless=OFF,
    ),
    *harmless(
        "belongs to a sync that is refused",
        "hoodie.datasource.hive_sync.*",
        "hoodie.datasource.meta.sync.*",
        "hoodie.datasource.meta_sync.*",
        "hoodie.datasource.partition_extractor_class",
        "hoodie.meta.sync.*",
        "hoodie.meta_sync.*",
        "hive_sync.*",
    ),
    *harmless(
        "Tideline has metrics of its own: see docs/operations.md",
        "hoodie.metrics.*",
        "hoodie.metricscompaction.log.blocks.on",
    ),
    *refused(
        "nothing is called after a commit; look at the report that the write returns",
        "hoodie.write.commit.callback.on",
        unless=OFF,
    ),
    *harmless("belongs to callbacks, which are refused", "hoodie.write.commit.callback.*"),
    *refused(
        "rows that cannot be written are set aside with --on-bad-row, or onBadRow of a LakeTable",
        "hoodie.errortable.enable",
        unless=OFF,
    ),
    *harmless("belongs to error tables, which are refused", "hoodie.errortable.*"),
)
