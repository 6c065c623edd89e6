"""Running the checks, in an order that lets later findings be read in the light of earlier ones.

Checks of footers, keys and statistics need Arrow and are reported as skipped where it is not
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from tideline.check_finding import Finding, error, note, worst_first
from tideline.distribution import installation
from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.hudi.check.archive import check_archive
from tideline.hudi.check.bloom_filters import check_bloom_filters
from tideline.hudi.check.capabilities import check_capabilities
from tideline.hudi.check.files import check_files, check_sidecars
from tideline.hudi.check.index_builds import check_index_builds
from tideline.hudi.check.inspection import Inspection, inspect_table
from tideline.hudi.check.leftovers import check_leftovers
from tideline.hudi.check.log_files import check_log_files
from tideline.hudi.check.metadata_table import check_metadata_table
from tideline.hudi.check.plans import check_plans
from tideline.hudi.check.properties import check_properties
from tideline.hudi.check.schema import check_schema
from tideline.hudi.check.timeline import check_timeline
from tideline.hudi.table.hoodie_table import HoodieTable

Check = Callable[[Inspection], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_properties,
    check_timeline,
    check_archive,
    check_files,
    check_plans,
    check_log_files,
    check_sidecars,
    check_leftovers,
    check_index_builds,
    check_metadata_table,
    check_bloom_filters,
    check_capabilities,
)
"""Those that work in the base install."""


def check_table(
    table: HoodieTable, *, keys: bool = False, across_partitions: bool = False
) -> tuple[Finding, ...]:
    """Everything that is wrong with the table, worst first.

    `keys` also looks for keys stored twice, which reads the key columns of all newest files; with
    `across_partitions` for keys in two partitions, too, also where those are not known to be wrong.
    Raises only for a store that does not answer.
    """
    seen = inspect_table(table)
    checks = (*CHECKS, *_arrow_checks(keys, across_partitions))
    findings = [finding for check in checks for finding in _as_far_as_possible(check, seen)]
    return worst_first(findings)


def _as_far_as_possible(check: Check, seen: Inspection) -> Iterator[Finding]:
    """What a check finds; where something that it needs cannot be read, that is a finding too."""
    try:
        yield from check(seen)
    except (CorruptTableError, UnsupportedTableError, InvalidDataError) as broken:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        yield error(name, f"this check could not finish: {broken}")


def _arrow_checks(keys: bool, across_partitions: bool) -> tuple[Check, ...]:
    if find_spec("pyarrow") is None:
        return (_skipped,)
    # Arrow is an optional dependency that only these need.
    from tideline.hudi.check.base_files import check_base_files
    from tideline.hudi.check.keys import check_keys, check_keys_across_partitions
    from tideline.hudi.check.record_index import check_record_index, check_whole_record_index
    from tideline.hudi.check.statistics import check_statistics

    always = (check_schema, check_base_files, check_statistics)
    if not keys:
        return (*always, check_record_index)
    chosen = check_keys_across_partitions if across_partitions else check_keys
    return (*always, check_whole_record_index, chosen)


def _skipped(_: Inspection) -> Iterator[Finding]:
    yield note("base files", f"not looked into: reading them needs Arrow: {installation('spark')}")
