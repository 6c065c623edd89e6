"""From SQL text to a filter: `day >= DATE '2026-11-01' AND (region IN ('EU', 'US') OR id IS NULL)`.

    filter     := conjunct (OR conjunct)*
    conjunct   := factor (AND factor)*
    factor     := NOT factor | '(' filter ')' | TRUE | FALSE | predicate
    predicate  := side ('=' | '!=' | '<>' | '<' | '<=' | '>' | '>=') side
                | column [NOT] IN '(' literal, ... ')' | column [NOT] BETWEEN literal AND literal
                | column [NOT] LIKE 'prefix%' | column IS [NOT] (NULL | NAN)
    literal    := number | 'text' | TRUE | FALSE | X'hex' | (DATE | TIME | TIMESTAMP) 'text'

A column is a name, dotted for a member of a struct, with back quotes around what is no plain name.
One side of a comparison is a column, the other a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tideline.bounded.parsing import shortened
from tideline.errors import ConfigError
from tideline.formats.filter import (
    And,
    Constant,
    Filter,
    Literal,
    LiteralKind,
    Not,
    Operator,
    Or,
    Predicate,
)

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<string>'(?:[^']|'')*')"
    r"|(?P<name>(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|\w+))*)"
    r"|(?P<symbol><=|>=|<>|!=|==|[=<>(),]))"
)
_COMPARISONS = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<>": Operator.NOT_EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_OR_EQUAL,
}
_PREFIXES = {
    "DATE": LiteralKind.DATE,
    "TIME": LiteralKind.TIME,
    "TIMESTAMP": LiteralKind.TIMESTAMP,
    "TIMESTAMP_NTZ": LiteralKind.TIMESTAMP,
    "TIMESTAMP_LTZ": LiteralKind.TIMESTAMP,
    "X": LiteralKind.BINARY,
}
_BOOLEANS = ("TRUE", "FALSE")
_DEPTH_MAX = 100
"""Levels of parentheses and NOTs; what a filter becomes is walked through recursively."""
_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "NAN"})


def parse_filter(text: str) -> Filter:
    """Raises ConfigError that says what was expected where."""
    parser = _Parser(text, _tokens(text))
    parsed = parser.disjunction()
    parser.expect_end()
    return parsed


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        """In upper case, empty for what is no bare word."""
        return self.text.upper() if self.kind == "name" else ""


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            at = len(text) - len(text[position:].lstrip())
            hint = ": quote names with ` and texts with '" if text[at] == '"' else ""
            raise ConfigError(f"the filter cannot be read at character {at + 1}{hint}", value=text)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        position = found.end()
    return [*tokens, _Token("end", "the end", end)]


class _Parser:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def disjunction(self) -> Filter:
        terms = [self._conjunction()]
        while self._take_word("OR"):
            terms.append(self._conjunction())
        return _joined(Or, terms)

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected("AND, OR or the end")

    def _conjunction(self) -> Filter:
        terms = [self._factor()]
        while self._take_word("AND"):
            terms.append(self._factor())
        return _joined(And, terms)

    def _factor(self) -> Filter:
        if self._take_word("NOT"):
            with self._nested():
                return Not(self._factor())
        if self._take_symbol("("):
            with self._nested():
                found = self.disjunction()
                self._expect_symbol(")")
                return found
        if self._next.word in _BOOLEANS and self._after.text not in _COMPARISONS:
            return Constant(self._take().word == "TRUE")
        return self._predicate()

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise ConfigError(
                f"the filter is nested deeper than {_DEPTH_MAX} levels", value=shortened(self._text)
            )
        yield
        self._depth -= 1

    def _predicate(self) -> Filter:
        literal = self._optional_literal()
        if literal is not None:
            operator = self._comparison()
            return Predicate(self._column(), operator.mirrored, (literal,))
        column = self._column()
        if self._take_word("IS"):
            return self._is(column)
        negated = self._take_word("NOT")
        found = self._listed(column, negated)
        return Not(found) if negated else found

    def _is(self, column: str) -> Filter:
        negated = self._take_word("NOT")
        if self._take_word("NULL"):
            operator = Operator.IS_NULL
        elif self._take_word("NAN"):
            operator = Operator.IS_NAN
        else:
            raise self._unexpected("NULL or NAN")
        return Predicate(column, operator.negated if negated else operator)

    def _listed(self, column: str, negated: bool) -> Filter:
        if self._take_word("IN"):
            self._expect_symbol("(")
            values = [self._literal()]
            while self._take_symbol(","):
                values.append(self._literal())
            self._expect_symbol(")")
            return Predicate(column, Operator.IN, tuple(values))
        if self._take_word("BETWEEN"):
            lower = Predicate(column, Operator.GREATER_OR_EQUAL, (self._literal(),))
            if not self._take_word("AND"):
                raise self._unexpected("AND")
            return And(lower, Predicate(column, Operator.LESS_OR_EQUAL, (self._literal(),)))
        if self._take_word("LIKE"):
            return self._like(column, self._literal())
        if negated:
            raise self._unexpected("IN, BETWEEN or LIKE")
        return Predicate(column, self._comparison(), (self._literal(),))

    def _like(self, column: str, pattern: Literal) -> Filter:
        prefix, wildcard = _like_prefix(pattern.text)
        if prefix is None or pattern.kind is not LiteralKind.STRING:
            raise ConfigError(
                "LIKE takes a string whose only wildcard is a % at its end", value=pattern.text
            )
        if not wildcard:
            return Predicate(column, Operator.EQUAL, (Literal(pattern.kind, prefix),))
        return Predicate(column, Operator.STARTS_WITH, (Literal(pattern.kind, prefix),))

    def _comparison(self) -> Operator:
        if self._next.kind == "symbol" and self._next.text in _COMPARISONS:
            return _COMPARISONS[self._take().text]
        raise self._unexpected("a comparison, IN, BETWEEN, LIKE or IS")

    def _column(self) -> str:
        if self._next.kind != "name" or self._next.word in _RESERVED:
            raise self._unexpected("a column")
        parts = re.findall(r"`((?:[^`]|``)+)`|(\w+)", self._take().text)
        return ".".join(quoted.replace("``", "`") or plain for quoted, plain in parts)

    def _literal(self) -> Literal:
        literal = self._optional_literal()
        if literal is None:
            expected = "a value (for null, write IS NULL)"
            raise self._unexpected(expected if self._next.word == "NULL" else "a value")
        return literal

    def _optional_literal(self) -> Literal | None:
        token = self._next
        if token.kind == "number":
            return Literal(LiteralKind.NUMBER, self._take().text)
        if token.kind == "string":
            return Literal(LiteralKind.STRING, _unquoted(self._take().text))
        if token.word in _BOOLEANS:
            return Literal(LiteralKind.BOOLEAN, self._take().text.lower())
        if token.word in _PREFIXES and self._after.kind == "string":
            self._take()
            return Literal(_PREFIXES[token.word], _unquoted(self._take().text))
        return None

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    @property
    def _after(self) -> _Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _take_if(self, condition: Callable[[_Token], bool]) -> bool:
        found = condition(self._next)
        self._at += found
        return found

    def _take_word(self, word: str) -> bool:
        return self._take_if(lambda token: token.word == word)

    def _take_symbol(self, symbol: str) -> bool:
        return self._take_if(lambda token: token.kind == "symbol" and token.text == symbol)

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._unexpected(symbol)

    def _unexpected(self, expected: str) -> ConfigError:
        token = self._next
        return ConfigError(
            f"the filter cannot be read at character {token.position + 1}: "
            f"expected {expected}, found {token.text}",
            value=self._text,
        )


def _joined(join: type[And] | type[Or], terms: list[Filter]) -> Filter:
    """The terms as a tree that is as flat as it can be, for a thousand of them are no depth."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    return join(_joined(join, terms[:middle]), _joined(join, terms[middle:]))


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _like_prefix(pattern: str) -> tuple[str | None, bool]:
    """What the pattern begins with, and whether anything may follow; None for other patterns."""
    prefix = ""
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            prefix += next(characters, "\\")
        elif character == "%":
            return (prefix if not "".join(characters).strip("%") else None), True
        elif character == "_":
            return None, False
        else:
            prefix += character
    return prefix, False
