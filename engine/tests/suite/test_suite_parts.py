"""How the suite is divided and summed up: slices leave nothing out, failures are counted."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.testing.ci_slice import SLICES, slice_of
from tideline.testing.mutants.table import FAULTS, part_of_faults
from tideline.testing.suite_schedule import (
    MEASURED_LONGER,
    MEASURED_REST,
    MEASURED_SLOW,
    Kind,
    choose_kind,
    measured,
    slices,
)
from tideline.testing.verify import COUNTED, Outcome, Part, counts_in, run_part, table

ROOT = Path(__file__).resolve().parents[3]
LEFT_OUT = measured(MEASURED_SLOW) | measured(MEASURED_REST) | measured(MEASURED_LONGER)
SECONDS = {f"test_{number}.py": float(number * number % 37 + 1) for number in range(40)}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 60])
def test_each_file_is_in_one_slice(count: int) -> None:
    parts = slices(SECONDS, count, SECONDS)
    assert len(parts) == count
    assert sorted(file for part in parts for file in part) == sorted(SECONDS)
    assert slices(reversed(list(SECONDS)), count, SECONDS) == parts


def test_slices_take_about_the_same_time() -> None:
    lengths_s = [sum(SECONDS[file] for file in part) for part in slices(SECONDS, 4, SECONDS)]
    assert max(lengths_s) - min(lengths_s) <= min(SECONDS.values()) * 5


def test_a_worker_turns_to_what_no_other_has_and_then_to_what_takes_longest() -> None:
    left = {Kind.SPARK: 300.0, Kind.KUBERNETES: 80.0, Kind.OTHER: 200.0}
    assert choose_kind(left, set()) is Kind.SPARK
    assert choose_kind(left, {Kind.SPARK}) is Kind.OTHER
    assert choose_kind(left, {Kind.SPARK, Kind.OTHER}) is Kind.KUBERNETES
    del left[Kind.KUBERNETES]
    assert choose_kind(left, set(Kind)) is Kind.SPARK


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("engine/tests/spark/write/test_write_merge.py", Kind.SPARK),
        ("operator/tests/resources/test_kubectl.py", Kind.KUBERNETES),
        ("engine/tests/hudi/index/test_bucket_index.py", Kind.OTHER),
    ],
)
def test_what_a_file_starts_is_seen_in_its_source(file: str, kind: Kind) -> None:
    assert Kind.of(ROOT / file) is kind


@pytest.mark.slow
def test_every_test_runs_once_on_workers_that_share(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"test_{number}.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    done = _pytest(tmp_path, "1/1", "-n", "2", "--dist", "loadfile")
    assert "10 passed" in done.stdout, done.stdout + done.stderr


def test_what_is_left_out_exists() -> None:
    for node in LEFT_OUT:
        file, _, name = node.partition("[")[0].partition("::")
        # The tests of a class may be those of a contract in another file.
        found = f"class {name.partition('::')[0]}(" if "::" in name else f"def {name}("
        assert found in (ROOT / file).read_text(encoding="utf-8"), node


@pytest.mark.slow
def test_what_is_left_out_has_its_parameters() -> None:
    """A parameter that is spelled otherwise would bring its test back, unnoticed."""
    lines = LEFT_OUT | set(_marked_with_parameters())
    files = sorted({line.partition("::")[0] for line in lines})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line for line in done.stdout.splitlines() if "::" in line}
    assert lines - found <= {line.partition("[")[0] for line in found}


def _marked_with_parameters() -> Iterator[str]:
    for root in ("engine", "operator"):
        for file in sorted((ROOT / root / "tests").rglob("test_*.py")):
            path = file.relative_to(ROOT).as_posix()
            for function in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(function, ast.FunctionDef):
                    names = (name for mark in function.decorator_list for name in _named_in(mark))
                    yield from (f"{path}::{function.name}[{name}]" for name in names)


def _named_in(mark: ast.expr) -> Iterator[str]:
    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.slow_with":
        yield from (ast.literal_eval(name) for name in mark.args)


def test_every_commit_has_a_slice_and_every_slice_its_commits() -> None:
    numbers = {slice_of(f"{number:040x}") for number in range(1000, 1000 + len(SLICES))}
    assert numbers == set(range(1, len(SLICES) + 1))


@pytest.mark.parametrize("target", sorted({file_slice.target for file_slice in SLICES}))
def test_the_slices_of_a_target_make_up_all_of_it(target: str) -> None:
    parts = [file_slice.tests for file_slice in SLICES if file_slice.target == target]
    numbered = [f"--slice {number}/{len(parts)}" for number in range(1, len(parts) + 1)]
    assert parts in (numbered, [""])
    assert f"\n{target}: " in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_planted_fault_is_in_one_part() -> None:
    count = sum(ci_slice.target == "mutants" for ci_slice in SLICES)
    parts = [part_of_faults(number, count) for number in range(1, count + 1)]
    assert sorted(fault.name for part in parts for fault in part) == sorted(
        fault.name for fault in FAULTS
    )
    files = [{fault.test_file for fault in part} for part in parts]
    assert len(set().union(*files)) == sum(map(len, files)), "a file runs in one part"


@pytest.mark.slow
def test_only_the_tests_of_the_slice_are_run(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"test_{number}.py").write_text("def test_it(): pass\n")
    listed = [_collected(tmp_path, f"{number}/2") for number in (1, 2)]
    assert sorted(map(len, listed)) == [1, 2]
    assert len(listed[0] | listed[1]) == 3


def test_a_slice_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    refused = _pytest(tmp_path, "3/2")
    assert refused.returncode != 0
    assert "--slice is K/N, as 2/4, not 3/2" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("==== 3 failed, 4335 passed, 158 skipped in 671.03s (0:11:11) ====", (4335, 3, 158)),
        ("12 passed, 1 error in 3.10s", (12, 1, 0)),
        ("2 errors in 0.2s", (0, 2, 0)),
        ("47 faults planted: 46 caught, 1 survived, 0 unproven, in 900 s", (46, 1, 0)),
    ],
)
def test_a_summary_line_is_counted(line: str, counts: tuple[int, ...]) -> None:
    found = counts_in(line)
    assert tuple(found.get(name, 0) for name in COUNTED) == counts


def test_a_line_that_counts_nothing_is_no_summary() -> None:
    assert counts_in("3 files in, 20 rows inserted") == {}


@pytest.mark.parametrize(
    ("program", "good"),
    [
        ("print('==== 7 passed, 2 skipped in 1s ====')", True),
        ("print('==== 1 failed, 6 passed in 1s ====')", False),
        ("raise SystemExit('==== 7 passed in 1s ====')", False),
    ],
)
def test_a_part_has_passed_only_when_nothing_failed(
    program: str, good: bool, tmp_path: Path
) -> None:
    part = Part("some", "something", (sys.executable, "-c", program))
    outcome = run_part(part, tmp_path, {})
    assert outcome.is_good is good
    lines = table([outcome]).splitlines()
    assert [line.split()[0] for line in (lines[2], lines[-1])] == ["some", "all"]
    assert lines[-1].split()[-1] == ("passed" if good else "FAILED")


def test_one_failed_part_fails_the_whole() -> None:
    part = Part("some", "something", ())
    rows = [Outcome(part, 0, {"passed": 2}, 61.0), Outcome(part, 2, {}, 3.0)]
    last = table(rows).splitlines()[-1].split()
    assert last == ["all", "2", "0", "0", "1:04", "FAILED"]


def _pytest(folder: Path, chosen: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "tideline.testing.suite_schedule", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--slice", chosen, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _collected(folder: Path, chosen: str) -> set[str]:
    return {
        line
        for line in _pytest(folder, chosen, "--collect-only").stdout.splitlines()
        if "::" in line
    }
