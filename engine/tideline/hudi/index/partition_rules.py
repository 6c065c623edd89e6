"""Bucket counts by partition: the rules of Hudi's partition-level bucket index.

`hoodie.bucket.index.partition.expressions` is `regex,count;regex,count`. The first expression found
anywhere in the partition path gives its number of buckets, none the table's default. The regular
expressions are Java's: what Java and Python read in the same way is accepted, anything else refused
by name.
Source: Hudi `RegexRuleEngine`, `PartitionBucketIndexCalculator`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tideline.errors import ConfigError

EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
RULE_TYPE = "hoodie.bucket.index.partition.rule.type"
REGEX = "REGEX"

# Literals, escaped punctuation, ASCII classes, groups, classes without nesting, greedy or lazy
# repetition: no inline flags, names, possessive repetition, properties, quoting.
_CLASS = r"\[\^?(?:\\[dDwWsS]|\\[^A-Za-z0-9]|(?!&&)[^\\\[\]])+\]"
_REPEATABLE = rf"(?:\\[dDwWsS]|\\[^A-Za-z0-9]|\)|{_CLASS}|[^\\\[\](){{}}*+?|^$])"
_REPETITION = r"(?:(?:[*+?]|\{[0-9]{1,4}\})\??)?"
_UNDERSTOOD = re.compile(rf"(?:\((?:\?[:=!])?|[|^$]|{_REPEATABLE}{_REPETITION})+")


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """Partitions in whose path `expression` is found have `num_buckets` buckets."""

    expression: str
    num_buckets: int


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """Rules in the order they are tried; none in a table with one number for all partitions."""

    rules: tuple[PartitionRule, ...] = ()

    @classmethod
    def parse(cls, expressions: str, rule_type: str = REGEX) -> PartitionRules:
        """Rules as settings and hashing configs spell them, none for an empty text.

        Raises ConfigError for a rule type, an expression or a number that is not understood.
        """
        if not expressions.strip():
            return cls()
        if rule_type.strip().upper() != REGEX:
            raise ConfigError(f"only {REGEX} is supported for {RULE_TYPE}", value=rule_type)
        # Java's split drops empty texts at the end.
        return cls(tuple(_rule(text) for text in expressions.rstrip(";").split(";")))

    def __str__(self) -> str:
        return ";".join(f"{rule.expression},{rule.num_buckets}" for rule in self.rules)

    def count_in(self, partition: str) -> int | None:
        """Buckets of the partition at this path; None when no rule matches it."""
        for rule in self.rules:
            if re.search(rule.expression, partition, re.ASCII):
                return rule.num_buckets
        return None


def _rule(text: str) -> PartitionRule:
    expression, comma, number = (part.strip() for part in text.partition(","))
    if not comma or re.fullmatch(r"[1-9][0-9]{0,8}", number, re.ASCII) is None:
        raise ConfigError(f"{EXPRESSIONS}: expected <regex>,<number of buckets>", value=text)
    if _UNDERSTOOD.fullmatch(expression) is None or not _compiles(expression):
        raise ConfigError(
            f"{EXPRESSIONS}: this regular expression may mean something else in Java; write it "
            "with literals, classes, groups and repetition only",
            value=expression,
        )
    return PartitionRule(expression, int(number))


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except re.error:
        return False
    return True
