"""Spark's read options by format, so that a misspelled one is refused: Spark passes over it."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import ConfigError
from tideline.ingest.sources.files.listing import FileFormat
from tideline.wording import nearest

_ANY = (
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "modifiedAfter",
    "modifiedBefore",
    "pathGlobFilter",
    "recursiveFileLookup",
)
_TEXT = (
    "charset",
    "columnNameOfCorruptRecord",
    "compression",
    "dateFormat",
    "enableDateTimeParsingFallback",
    "encoding",
    "lineSep",
    "locale",
    "mode",
    "multiLine",
    "samplingRatio",
    "singleVariantColumn",
    "timeFormat",
    "timeZone",
    "timestampFormat",
    "timestampNTZFormat",
)
READ_OPTIONS: dict[FileFormat, tuple[str, ...]] = {
    FileFormat.PARQUET: (
        *_ANY,
        "compression",
        "datetimeRebaseMode",
        "int96RebaseMode",
        "mergeSchema",
        "parquet.compression",
    ),
    FileFormat.CSV: (
        *_ANY,
        *_TEXT,
        "charToEscapeQuoteEscaping",
        "codec",
        "columnPruning",
        "comment",
        "delimiter",
        "emptyValue",
        "enforceSchema",
        "escape",
        "escapeQuotes",
        "extension",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "inferSchema",
        "inputBufferSize",
        "maxCharsPerColumn",
        "maxColumns",
        "nanValue",
        "negativeInf",
        "nullValue",
        "positiveInf",
        "preferDate",
        "quote",
        "quoteAll",
        "sep",
        "unescapedQuoteHandling",
    ),
    FileFormat.JSON: (
        *_ANY,
        *_TEXT,
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
        "dropFieldIfAllNull",
        "explodeEmbeddedArray",
        "ignoreNullFields",
        "inferTimestamp",
        "prefersDecimal",
        "pretty",
        "primitivesAsString",
        "sortKeys",
        "useUnsafeRow",
        "writeNonAsciiCharacterAsCodePoint",
    ),
}
"""Those of Spark 4.3, whose names have no case."""
_MEANT = {"separator": "sep", "null": "nullValue", "nulls": "nullValue", "na": "nullValue"}


def unknown_option(file_format: FileFormat, name: str) -> str | None:
    """What is wrong with the name of a read option, with the name that may be meant; None where
    Spark has it."""
    known = {read_option.lower(): read_option for read_option in READ_OPTIONS[file_format]}
    low = name.lower()
    if low in known:
        return None
    formats = [
        str(candidate) for candidate in FileFormat if low in map(str.lower, READ_OPTIONS[candidate])
    ]
    if formats:
        return f"{name} is a read option of {' and '.join(formats)}, not of {file_format}"
    near = nearest(low, [*known, *_MEANT])
    meant = _MEANT.get(near, known.get(near)) if near is not None else None
    guess = f", did you mean {meant}?" if meant is not None and meant.lower() in known else ""
    return f"{name} is no read option of {file_format}{guess}"


def require_known(file_format: FileFormat, names: Iterable[str]) -> None:
    """Raise ConfigError for the first of the names that Spark does not have."""
    for name in names:
        problem = unknown_option(file_format, name)
        if problem is not None:
            raise ConfigError(problem)
