"""YAML files as plain values, with the place of each in its file.

Stricter than PyYAML's own constructor: repeated keys are refused, keys are always text (so `on:`
and `1:` keep their spelling), and aliases cannot multiply a document beyond a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from tideline.bounded.read_limits import INTEGER_BITS_MAX
from tideline.errors import ConfigError

FieldPath = tuple[str | int, ...]

_VALUES_MAX = 100_000
_DEPTH_MAX = 64
_CHARACTERS_MAX = 4_000_000
_SHOWN_CHARACTERS = 100
_MERGE_TAG = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a value stands in its file (line from 1) and how it is spelled there."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: `number` counts from 1, empty documents included."""

    file: str
    number: int
    value: object
    marks: Mapping[FieldPath, Mark]

    def line_of(self, path: FieldPath) -> int | None:
        """Line of the value at `path`, or of the nearest value around it."""
        for length in range(len(path), -1, -1):
            mark = self.marks.get(path[:length])
            if mark is not None:
                return mark.line
        return None


def read_documents(text: str, *, file: str) -> tuple[Document, ...]:
    """The documents of a YAML stream, empty ones left out.

    Raises ConfigError naming file, line and column when the text is not YAML.
    """
    if len(text) > _CHARACTERS_MAX:
        raise ConfigError(
            f"{file}: longer than {_CHARACTERS_MAX:,} characters: split it into several files"
        )
    documents = []
    number = 0
    loader: _ShallowLoader | None = None
    try:
        loader = _ShallowLoader(text)
        while loader.check_node():
            number += 1
            reader = _NodeReader(loader, file)
            value = reader.read(loader.get_node(), (), 0)
            if value is not None:
                documents.append(Document(file, number, value, reader.marks))
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {_one_line(error)}") from error
    finally:
        if loader is not None:
            loader.dispose()
    return tuple(documents)


class _ShallowLoader(yaml.SafeLoader):
    """Stops at the first node that is nested too deeply, instead of in the middle of Python."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > _DEPTH_MAX + 1:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class _NodeReader:
    """Turns the nodes of one document into values and marks."""

    def __init__(self, loader: yaml.SafeLoader, file: str) -> None:
        self._loader = loader
        self._file = file
        self._count = 0
        self.marks: dict[FieldPath, Mark] = {}

    def read(self, node: yaml.Node | None, path: FieldPath, depth: int) -> object:
        if node is None:
            return None
        self._count += 1
        if self._count > _VALUES_MAX or depth > _DEPTH_MAX:
            raise self._error(node, "the document is too large or nested too deeply")
        spelling = node.value if isinstance(node, yaml.ScalarNode) else ""
        self.marks[path] = Mark(node.start_mark.line + 1, spelling)
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [
                self.read(item, (*path, position), depth + 1)
                for position, item in enumerate(node.value)
            ]
        try:
            value: object = self._loader.construct_object(node)
        except (ValueError, ArithmeticError, LookupError, TypeError) as error:
            shown = f"{node.value[:_SHOWN_CHARACTERS]!r}"
            raise self._error(node, f"{shown} is not a valid value: {error}") from error
        if isinstance(value, int) and value.bit_length() > INTEGER_BITS_MAX:
            raise self._error(node, "the number has too many digits")
        return value

    def _read_mapping(
        self, node: yaml.MappingNode, path: FieldPath, depth: int
    ) -> dict[str, object]:
        written: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "keys must be plain text")
            if key.value in written:
                raise self._error(key, f"{key.value!r} appears twice")
            written.add(key.value)
        if self._merged(node, {}) > _VALUES_MAX:
            raise self._error(node, "the document is too large or nested too deeply")
        self._loader.flatten_mapping(node)
        return {
            key.value: self.read(value, (*path, key.value), depth + 1) for key, value in node.value
        }

    def _merged(self, node: yaml.Node, known: dict[int, int]) -> int:
        """How many keys a mapping has once `<<` has brought in those of others."""
        if isinstance(node, yaml.SequenceNode):
            return sum(self._merged(item, known) for item in node.value)
        if not isinstance(node, yaml.MappingNode):
            return 1
        if id(node) not in known:
            known[id(node)] = 1  # while it is counted: it may include itself
            merges = (value for key, value in node.value if key.tag == _MERGE_TAG)
            known[id(node)] = len(node.value) + sum(self._merged(item, known) for item in merges)
        return known[id(node)]

    def _error(self, node: yaml.Node, message: str) -> ConfigError:
        return ConfigError(f"{self._file}, line {node.start_mark.line + 1}: {message}")


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return str(problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
