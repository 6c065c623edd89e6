"""Harmless settings that change rows, files or locks in Hudi, and the tests that show: not here."""

from __future__ import annotations

LOCKS = (
    "hoodie.write.lock.num_retries",
    "hoodie.write.lock.max_wait_time_ms_between_retry",
    "hoodie.write.lock.app_id",
    "hoodie.auto.adjust.lock.configs",
)

SHOWN_BY = {
    "engine/tests/spark/write/test_write_schema.py"
    "::test_changes_that_lose_something_are_refused_with_column_and_types": (
        "hoodie.avro.schema.validate",
    ),
    "engine/tests/interop/test_schema_on_read.py"
    "::test_rows_stay_whole_while_hudi_alters_and_both_write": ("hoodie.schema.on.read.enable",),
    "engine/tests/interop/test_harmless_settings.py"
    "::test_what_is_harmless_changes_neither_rows_nor_files_in_hudi_itself": (
        "hoodie.datasource.write.row.writer.enable",
        "hoodie.insert.shuffle.parallelism",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.delete.shuffle.parallelism",
        "hoodie.write.markers.type",
    ),
    "engine/tests/hudi/commit/test_finalize.py::test_files_of_lost_attempts_are_deleted": (
        "hoodie.fail.job.on.duplicate.data.file.detection",
        "hoodie.block.writes.on.speculative.execution",
    ),
    "engine/tests/settings/test_settings_are_read.py"
    "::test_harmless_lock_settings_leave_the_lock_as_it_is": (
        "hoodie.write.lock.num_retries",
        "hoodie.write.lock.max_wait_time_ms_between_retry",
        "hoodie.write.lock.app_id",
        "hoodie.auto.adjust.lock.configs",
    ),
    "engine/tests/hudi/recovery/test_rollback_of_failed_writes.py"
    "::test_without_markers_a_listing_finds_the_files": ("hoodie.rollback.using.markers",),
    "engine/tests/hudi/recovery/test_rollback_resume.py"
    "::test_the_instant_is_not_rolled_back_a_second_time": (
        "hoodie.rollback.avoid.duplicate.plan",
    ),
}
"""Settings by their test."""
