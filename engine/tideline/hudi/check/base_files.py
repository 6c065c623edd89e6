"""Can the base files be read, and do they hold as many rows as their commits say?

Reads footers only. Needs Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, error, note
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.base_file import OpenFile, open_rows
from tideline.hudi.check.files import stats_by_path
from tideline.hudi.check.inspection import Inspection
from tideline.wording import counted

_FILTERS_ENABLED = "hoodie.parquet.bloom.filter.enabled"
NAME = "base files"
_ADVICE = "put it back from a copy, or restore to a savepoint from before"


def check_base_files(seen: Inspection) -> Iterator[Finding]:
    """Findings about the footer of every base file that the view keeps."""
    stated = stats_by_path(seen)
    config = seen.table.config
    switched_off = config.properties.get(_FILTERS_ENABLED, "true").lower() == "false"
    expects_filters = config.populate_meta_fields and not switched_off
    for file in seen.live_base_files():
        local_path = seen.table.store.local_path(file.path)
        try:
            with seen.table.store.open_reader(file.path) as stream:
                rows = open_rows(file.extension, OpenFile(stream, file.path, local_path))
                row_count, footer = rows.row_count, rows.footer()
        except ObjectNotFoundError:
            continue  # cleaned since it was listed
        except UnsupportedTableError as unknown:
            yield note(NAME, f"file is not understood: {unknown.message}", path=file.path)
            continue
        except (CorruptTableError, ValueError, OSError) as broken:
            # Arrow reports broken footers as ArrowInvalid, UnicodeDecodeError or OSError.
            message = f"base file cannot be read: {' '.join(str(broken).split())}"
            yield error(NAME, message, path=file.path, instant=file.instant, advice=_ADVICE)
            continue
        stat = stated.get(file.path)
        if stat is not None and stat.num_writes != row_count:
            yield error(
                NAME,
                f"holds {counted(row_count, 'row')}, its commit says {stat.num_writes:,}",
                path=file.path,
                instant=file.instant,
                advice=_ADVICE,
            )
        if expects_filters and footer.bloom is None:
            message = "no bloom filter: Hudi's writers with a BLOOM index cannot look keys up in it"
            yield note(NAME, message, path=file.path)
