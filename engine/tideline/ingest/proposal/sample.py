"""The rows of some files of a folder, as text, to look at before there is a table.

Of many files some are read, spread over the order of arrival; of large ones the beginning. Values
of csv are as they are written, those of JSON are texts or spelled as JSON has them; both are empty
where there is none. Columns of parquet files keep their types.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.proposal.dialect import CsvDialect, find_encoding, find_separator, has_header
from tideline.ingest.sources.files.listing import FileFormat, FileListing
from tideline.storage.object_store import ObjectStore

FILES_MAX = 200
BYTES_MAX = 32 * 1024 * 1024
_BEGINNING_BYTES = 256 * 1024
_ROWS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read: `columns` by their names in the files, in order.

    `table` has the scalar ones, `values` those of JSON as Python has them. `bad_rows` are rows of
    csv with another number of values than columns. `is_array` says that JSON files hold a list.
    """

    file_format: FileFormat
    files: int
    files_read: int
    table: pa.Table
    columns: tuple[str, ...]
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    dialect: CsvDialect | None = None
    is_array: bool = False
    is_cut: bool = False
    bad_rows: int = 0

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)


def read_sample(
    store: ObjectStore, landing: FileListing, file_format: FileFormat, given: Mapping[str, str]
) -> Sample:
    """Read some files of the landing prefix; `given` are read options that a person has named.

    Raises InvalidDataError naming the file that cannot be read.
    """
    chosen = _spread([file.path for file in landing.files], FILES_MAX)
    total = len(landing.files)
    if file_format is FileFormat.PARQUET:
        return _read_parquet(store, chosen, total)
    contents: dict[str, bytes] = {}
    left, is_cut = BYTES_MAX, False
    for path in chosen:
        if left <= 0:
            is_cut = True
            break
        contents[path] = _plain(store, path, left + 1)
        if len(contents[path]) > left:
            contents[path], is_cut = contents[path][:left], True
            contents[path] = contents[path][: contents[path].rfind(b"\n") + 1]
            left = 0
        left -= len(contents[path])
    if file_format is FileFormat.JSON:
        return _read_json(contents, total, is_cut=is_cut)
    return _read_csv(contents, total, given, is_cut=is_cut)


def _spread(paths: Sequence[str], most: int) -> list[str]:
    if len(paths) <= most:
        return list(paths)
    return [paths[place * (len(paths) - 1) // (most - 1)] for place in range(most)]


def _plain(store: ObjectStore, path: str, length: int) -> bytes:
    """The beginning of a file, unpacked."""
    low = path.lower()
    with store.open_reader(path) as stored:
        opened: Any = stored
        if low.endswith(".gz"):
            opened = gzip.GzipFile(fileobj=stored)
        elif low.endswith(".bz2"):
            opened = bz2.BZ2File(stored)
        elif low.endswith(".zst"):
            opened = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd")
        try:
            return bytes(opened.read(length))
        except (OSError, EOFError, pa.ArrowException) as error:
            raise InvalidDataError(f"it cannot be unpacked: {error}", path=path) from error


def _read_csv(
    contents: Mapping[str, bytes], files: int, given: Mapping[str, str], *, is_cut: bool
) -> Sample:
    options = {name.lower(): value for name, value in given.items()}
    encoding = options.get("encoding", options.get("charset"))
    if encoding is None:
        encoding = find_encoding(contents)
    try:
        heads = [_whole_lines(body[:_BEGINNING_BYTES]).decode(encoding or "utf-8-sig")
                 for body in contents.values()]  # fmt: skip
    except (LookupError, UnicodeDecodeError) as error:
        message = f"the files are not in this encoding: {error}; give theirs, encoding=NAME"
        raise ConfigError(message, value=encoding) from error
    sep = options.get("sep", options.get("delimiter")) or find_separator(heads)
    rows = CsvDialect(sep).rows(heads[0])
    named = options["header"].lower() == "true" if "header" in options else has_header(rows)
    dialect = CsvDialect(sep, named, encoding)
    tables, bad = [], 0
    for (path, content), head in zip(contents.items(), heads, strict=True):
        first = next(iter(dialect.rows(head)), [])
        if not first:
            continue
        # Spark's names of columns that have none.
        names = [name or f"_c{place}" for place, name in enumerate(first)]
        if not named:
            names = [f"column_{place}" for place in range(1, len(first) + 1)]
        folded = [name.lower() for name in names]
        twice = next((name for name in names if folded.count(name.lower()) > 1), None)
        if twice is not None:
            said = (
                "its first line names a column twice: rename one, or is the line a row "
                "(--option header=false)?"
            )
            raise InvalidDataError(said, path=path, value=twice)
        table, wrong = _parse(content, names, dialect, path)
        tables.append(table)
        bad += wrong
    if not tables:
        raise InvalidDataError("the files have no line", path=next(iter(contents)))
    united = pa.concat_tables(tables, promote_options="default")
    return Sample(
        FileFormat.CSV,
        files,
        len(contents),
        united,
        tuple(united.column_names),
        dialect=dialect,
        is_cut=is_cut,
        bad_rows=bad,
    )


def _parse(
    content: bytes, names: list[str], dialect: CsvDialect, path: str
) -> tuple[pa.Table, int]:
    """The rows of one file as text, and how many have another number of values."""
    wrong = 0

    def passed_over(_: object) -> str:
        nonlocal wrong
        wrong += 1
        return "skip"

    try:
        table = pacsv.read_csv(
            io.BytesIO(_whole_rows(content, dialect)),
            read_options=pacsv.ReadOptions(
                column_names=names,
                skip_rows=1 if dialect.has_header else 0,
                encoding=dialect.encoding or "utf8",
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=dialect.sep, newlines_in_values=True, invalid_row_handler=passed_over
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidDataError(f"it cannot be read as csv: {error}", path=path) from error
    return table, wrong


def _whole_lines(content: bytes) -> bytes:
    """Without a last line that may continue."""
    end = content.rfind(b"\n")
    return content if len(content) < _BEGINNING_BYTES or end < 0 else content[: end + 1]


def _whole_rows(content: bytes, dialect: CsvDialect) -> bytes:
    """Without a last row that is cut off in the middle of a quoted value."""
    quote = dialect.quote.encode()
    while content.count(quote) % 2:
        end = content.rstrip(b"\r\n").rfind(b"\n")
        if end < 0:
            return content
        content = content[: end + 1]
    return content


def _read_json(contents: Mapping[str, bytes], files: int, *, is_cut: bool) -> Sample:
    find_encoding_of_json(contents)
    records: list[dict[str, Any]] = []
    arrays: list[str] = []
    for path, content in contents.items():
        text = content.decode("utf-8-sig", errors="ignore")
        is_array = text.lstrip().startswith("[")
        arrays += [path] if is_array else []
        read: Callable[[str, str], Iterator[dict[str, Any]]] = _elements if is_array else _lines
        records += read(text, path)
    if arrays and len(arrays) < len(contents):
        other = next(path for path in contents if path not in arrays)
        raise InvalidDataError(
            f"{arrays[0]} holds one list and {other} one object a line: all files of a folder are "
            "read in one way"
        )
    values: dict[str, list[Any]] = {}
    for number, record in enumerate(records):
        for name, value in record.items():
            values.setdefault(name, [None] * number).append(value)
        for column in values.values():
            if len(column) <= number:
                column.append(None)
    texts = {name: pa.array(map(_text, column), pa.string()) for name, column in values.items()}
    table = pa.table(texts) if texts else pa.table({"": pa.array([], pa.string())})
    return Sample(
        FileFormat.JSON,
        files,
        len(contents),
        table,
        tuple(values),
        values,
        is_array=bool(arrays),
        is_cut=is_cut,
    )


def find_encoding_of_json(contents: Mapping[str, bytes]) -> None:
    """Raise InvalidDataError for a file that is not UTF-8, which JSON has to be."""
    if find_encoding(contents) is not None:
        path = next(path for path, content in contents.items() if not content.isascii())
        raise InvalidDataError(
            "JSON has to be UTF-8: convert it, such as with iconv -f ISO-8859-1 -t UTF-8", path=path
        )


def _lines(text: str, path: str) -> Iterator[dict[str, Any]]:
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            if number == len(lines) > 1:
                return  # cut off
            raise InvalidDataError(
                f"line {number} is no JSON object: one object a line is expected, or one list of "
                f"objects ({error})",
                path=path,
            ) from error
        if not isinstance(record, dict):
            raise InvalidDataError(f"line {number} is no JSON object", path=path)
        yield record


def _elements(text: str, path: str) -> Iterator[dict[str, Any]]:
    """The objects of one list, as far as it was read."""
    decoder = json.JSONDecoder()
    place = text.index("[") + 1
    while True:
        while place < len(text) and text[place] in ", \t\r\n":
            place += 1
        if place >= len(text) or text[place] == "]":
            return
        try:
            record, place = decoder.raw_decode(text, place)
        except ValueError:
            return  # cut off, or damaged: the run says where
        if not isinstance(record, dict):
            raise InvalidDataError("its list has elements that are no JSON objects", path=path)
        yield record


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    return json.dumps(value, ensure_ascii=False)


def _read_parquet(store: ObjectStore, paths: Sequence[str], files: int) -> Sample:
    tables, rows, read = [], 0, 0
    for path in paths:
        if rows >= _ROWS_MAX:
            break
        with store.open_reader(path) as stored:
            try:
                opened = pq.ParquetFile(pa.PythonFile(stored, mode="r"))
                for group in range(opened.num_row_groups):
                    tables.append(opened.read_row_group(group))
                    rows += tables[-1].num_rows
                    if rows >= _ROWS_MAX:
                        break
                if not opened.num_row_groups:
                    tables.append(opened.schema_arrow.empty_table())
            except (pa.ArrowException, OSError) as error:
                raise InvalidDataError(f"it is no parquet file: {error}", path=path) from error
        read += 1
    try:
        united = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidDataError(f"the files have columns of different types: {error}") from error
    return Sample(
        FileFormat.PARQUET,
        files,
        read,
        united,
        tuple(united.column_names),
        is_cut=rows >= _ROWS_MAX,
    )
