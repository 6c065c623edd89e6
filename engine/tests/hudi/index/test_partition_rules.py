"""Bucket counts by partition, as Hudi's RegexRuleEngine gives them."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.partition_rules import PartitionRules


def test_the_first_rule_found_anywhere_in_the_path_counts() -> None:
    rules = PartitionRules.parse(r"\d{4}-(06-(01|17)|11-11)$,256; ^dt=2024 , 32 ;.*-02,8;")
    buckets = BucketHash(4, rules=rules)
    assert buckets.count_in("dt=2024-06-17") == 256
    assert buckets.count_in("dt=2024-06-18") == 32
    assert buckets.count_in("2023-02") == 8
    assert buckets.count_in("2023-03") == 4


def test_no_expressions_are_no_rules() -> None:
    assert PartitionRules.parse(" ") == PartitionRules()
    assert PartitionRules().count_in("p") is None


@pytest.mark.parametrize(
    "expressions",
    [
        "2024",
        "2024,",
        ",8",
        "2024,0",
        "2024,-1",
        "2024,x",
        "2024,8,9",
        "2024,8;;2025,8",
        "(2024,8",
        "*,8",
    ],
)
def test_what_is_no_rule_is_refused(expressions: str) -> None:
    with pytest.raises(ConfigError, match="expressions"):
        PartitionRules.parse(expressions)


@pytest.mark.parametrize(
    "expression",
    [
        r"(?<year>2024)",
        r"\p{Digit}+",
        r"\Q2024.\E",
        r"(?i)a",
        r"[a-z&&[^b]]",
        r"2024\z",
        r"a++",
        r"a{",
        r"\x41",
    ],
)
def test_what_java_may_read_otherwise_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="Java"):
        PartitionRules.parse(f"{expression},8")


@pytest.mark.parametrize(
    "expression", [r"[^/]+/0[1-9]", r"(?:a|b)*?", r"a\.b\-c", r"\w+=\d{2}", "région", r"[\d\]]x"]
)
def test_what_both_read_the_same_is_accepted(expression: str) -> None:
    assert PartitionRules.parse(f"{expression},8").rules[0].expression == expression


def test_another_kind_of_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="REGEX"):
        PartitionRules.parse("2024,8", "range")


def test_rules_are_spelled_as_they_were() -> None:
    assert str(PartitionRules.parse("a,1;b,2")) == "a,1;b,2"
