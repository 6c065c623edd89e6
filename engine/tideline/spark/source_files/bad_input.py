"""Which files of a batch, or which of their rows, are at fault: asked when the batch has failed.

1. Columns: footers and headers, each group of like files against the table's and against those of
   the files before it. No row is read.
2. Rows of text files that do not fit their columns: one pass over the batch counts and finds them.
3. Rows without a key, an ordering value or a partition, and values the table's columns cannot hold:
   one more pass. Rows must still say where they were; a transform may have lost that.
4. What is left (torn pages, cut archives, partition paths that cannot be, files that clash) is
   found by halving the batch until a file fails alone, or fails with those before it.

Bad rows make their file a bad one, unless they may be set aside and are not too many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import evolve
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.source_files.bad_rows import (
    NULLS,
    BadRows,
    Places,
    any_fault,
    explain_csv,
    explain_json,
    find_faulty_rows,
    find_unparsed_rows,
    kinds_of,
)
from tideline.spark.source_files.intake import Intake, has_places
from tideline.spark.source_files.sources import (
    BAD_RECORD,
    CSV,
    PARQUET,
    SPARK_FAILURES,
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    header_names,
    read_files,
    read_groups,
    with_value,
)
from tideline.spark.source_files.text_lines import lines_of_rows
from tideline.wording import counted

Failure = Callable[[Sequence[str]], str | Mapping[str, str] | None]
"""Why files cannot be taken in together: one reason, or reasons by path; None where they can."""


def find_bad_input(
    intake: Intake,
    paths: Sequence[str],
    *,
    rows_max: int | None,
    try_rows: Callable[[DataFrame], None],
) -> BadInput:
    """What is wrong with the files `paths`, which failed together; empty when nothing is found.
    `rows_max` rows of a file may be set aside, None for none. `try_rows` does with rows all
    that a write would, short of writing. Raises SPARK_FAILURES of the machinery."""
    unfit = misfits(intake, paths)
    if unfit:
        return BadInput(unfit)
    bad = _bad_rows(intake, paths, rows_max)
    if bad.files or bad.digests - intake.left_out:
        return bad

    def failure(some: Sequence[str]) -> str | Mapping[str, str] | None:
        try:
            try_rows(intake.rows(some))
        except UnreadableFilesError as error:
            return error.reasons
        except ConfigError:
            return None
        except InvalidDataError as error:
            return with_value(error)
        except SPARK_FAILURES as error:
            return failure_reason(error)
        return None

    return BadInput(narrow(paths, failure))


def misfits(intake: Intake, paths: Sequence[str]) -> dict[str, str]:
    """Files whose columns cannot be the table's, by footer or header."""
    try:
        groups = read_groups(intake.session, paths, intake.settings)
    except UnreadableFilesError as error:
        return error.reasons
    except SPARK_FAILURES:
        return {}
    if intake.transform is not None:
        return {}
    bad: dict[str, str] = {}
    merged = intake.schema
    for group in groups:
        reason = _lacks(intake, group.frame.columns, group.paths[0])
        if reason is None and not intake.only_keys:
            try:
                rows = intake.fitted(group.frame).drop(ARRIVAL)
                schema = to_arrow_schema(rows.schema, timezone="UTC")
                merged = evolve(merged, schema, missing=MissingColumns.NULL).schema
            except InvalidDataError as error:
                reason = with_value(error)
            except SPARK_FAILURES as error:
                reason = failure_reason(error)
        if reason is not None:
            bad |= dict.fromkeys(group.paths, reason)
    return bad


def narrow(paths: Sequence[str], failure: Failure) -> dict[str, str]:
    """The files at fault: those that fail alone, else the first that fails with those before it."""
    reason = failure(paths)
    if reason is None:
        return {}
    if isinstance(reason, Mapping):
        rest = [path for path in paths if path not in reason]
        return {**reason, **(narrow(rest, failure) if rest else {})}
    if len(paths) == 1:
        return {paths[0]: reason}
    middle = len(paths) // 2
    found = narrow(paths[:middle], failure) | narrow(paths[middle:], failure)
    if found:
        return found
    low, high = middle, len(paths) - 1
    while low < high:
        place = (low + high) // 2
        if failure(paths[: place + 1]) is None:
            low = place + 1
        else:
            high = place
    return {paths[low]: f"it does not match the files before it: {reason}"}


def _bad_rows(intake: Intake, paths: Sequence[str], rows_max: int | None) -> BadInput:
    reading = replace(intake.settings, keeps_bad_rows=intake.settings.is_strict_text)
    looking = replace(intake, settings=reading)
    try:
        source = read_files(intake.session, paths, reading)
        # Text is parsed once, whole; of parquet each look reads the columns it needs.
        kept = source.persist(StorageLevel.MEMORY_AND_DISK) if intake.is_text else source
    except UnreadableFilesError as error:
        return BadInput(error.reasons)
    except SPARK_FAILURES:
        return BadInput(narrow(paths, lambda some: _read_failure(intake, some, reading)))
    try:
        # Types that were inferred from these files are those to read them with again.
        known = {item.name.lower(): item.dataType for item in source.schema}
        known.pop(BAD_RECORD, None)
        settings = replace(reading, known={**reading.known, **known})
        places = Places.of(kept, paths, is_text=intake.is_text)
        allowed = rows_max or 0
        unread = BadRows()
        if reading.keeps_bad_rows:
            unread = find_unparsed_rows(kept, places, _explainer(settings, kept), allowed)
        good = kept
        if reading.keeps_bad_rows:
            good = kept.where(F.col(BAD_RECORD).isNull()).drop(BAD_RECORD)
        found = [unread, *_faulty(looking, good, places, allowed)]
        return _sorted_out(paths, found, rows_max, settings)
    except ConfigError:
        return BadInput()
    except SPARK_FAILURES:
        return BadInput(narrow(paths, lambda some: _read_failure(intake, some, reading)))
    finally:
        if intake.is_text:
            kept.unpersist()


def _read_failure(
    intake: Intake, paths: Sequence[str], settings: SourceSettings
) -> str | Mapping[str, str] | None:
    """Why the files cannot be read at all, regardless of their rows."""
    try:
        rows = read_files(intake.session, paths, settings)
        rows.write.format("noop").mode("overwrite").save()
    except UnreadableFilesError as error:
        return error.reasons
    except SPARK_FAILURES as error:
        return failure_reason(error)
    return None


def _faulty(intake: Intake, source: DataFrame, places: Places, rows_max: int) -> list[BadRows]:
    shaped = intake.shaped(source)
    if not has_places(shaped):
        return []
    found = []
    faults = intake.cast_faults(shaped)
    if faults:
        found.append(find_faulty_rows(shaped, places, faults, rows_max))
        shaped = shaped.where(~any_fault(faults))
    fitted = intake.fitted(shaped)
    faults = intake.value_faults(fitted)
    if faults:
        found.append(find_faulty_rows(fitted, places, faults, rows_max))
    return found


def _sorted_out(
    paths: Sequence[str], found: Sequence[BadRows], rows_max: int | None, settings: SourceSettings
) -> BadInput:
    files: dict[str, str] = {}
    rows: dict[str, tuple[BadRow, ...]] = {}
    waiting = frozenset[str]().union(*[bad_rows.waiting for bad_rows in found])
    for path in paths:
        count = sum(bad_rows.counts.get(path, 0) for bad_rows in found)
        some = sorted((row for bad_rows in found for row in bad_rows.found.get(path, ())),
                      key=lambda row: row.row)  # fmt: skip
        if not count or path in waiting:
            continue
        some = _with_lines(some, path, settings)
        if rows_max is None or count > rows_max:
            more = f" (and {counted(count - 1, 'more bad row')})" if count > 1 else ""
            limit = f"; at most {rows_max:,} are set aside" if rows_max is not None else ""
            files[path] = f"{some[0]}{more}{limit}"
        else:
            rows[path] = tuple(some)
    return BadInput(files, rows, waiting, settings)


def _with_lines(rows: Sequence[BadRow], path: str, settings: SourceSettings) -> list[BadRow]:
    if settings.file_format == PARQUET:
        return list(rows)
    numbers = [row.row for row in rows]
    lines = lines_of_rows(settings.location.open(), path, numbers, settings)
    return [replace(row, line=lines.get(row.row)) for row in rows]


def _explainer(
    settings: SourceSettings, source: DataFrame
) -> Callable[[str, Row], tuple[str, str]]:
    kinds = kinds_of(source.schema)
    headers: dict[str, list[str]] = {}

    is_csv = settings.file_format == CSV
    form = "in its usual form" if is_csv else "with no more digits than it keeps"

    def explain(path: str, row: Row) -> tuple[str, str]:
        column, reason = explained(path, row)
        # A value without a digit has another type in every form.
        is_spelling = column.lower() in settings.taken_as_written and re.search("[0-9]", reason)
        return column, f"{reason} {form}, which was inferred" if is_spelling else reason

    def explained(path: str, row: Row) -> tuple[str, str]:
        nulls = {name.lower(): flag for name, flag in row[NULLS].asDict().items()}
        record = row[BAD_RECORD]
        if not is_csv:
            return explain_json(record, nulls, kinds)
        if path not in headers:
            headers[path] = header_names(settings, path)
        return explain_csv(record, headers[path], nulls, kinds, sep=settings.sep,
                           quote=settings.quote)  # fmt: skip

    return explain


def _lacks(intake: Intake, columns: Sequence[str], path: str) -> str | None:
    """Why a file with these columns has no rows for the table. Of those that it names it lacks the
    ones without a value and without a known type."""
    keys = intake.keys
    present = {name.lower() for name in columns}
    made = "which the {} is made of"
    roles = [("which the table requires", intake.required)]
    if keys is not None:
        roles.append((made.format("record key"), keys.record_fields))
    roles.append((made.format("ordering"), intake.ordering))
    if keys is not None:
        paths = tuple(part.field for part in keys.partition_fields)
        roles.append((made.format("partition path"), paths))
    for role, names in roles:
        for name in names:
            if name.split(".")[0].lower() not in present:
                if intake.settings.file_format == CSV and name in header_names(
                    intake.settings, path
                ):
                    return (
                        f"it has no value in column {name}, {role}, and the table knows no type "
                        "of it yet: declare the columns (source.schema), or leave it out"
                    )
                own = ", ".join(column for column in columns if not column.startswith("_tideline_"))
                return f"it has no column {name}, {role} (it has {own})"
    return None
