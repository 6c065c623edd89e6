"""Put what was measured into docs/benchmarks.md: `python -m bench.page FOLDER`.

1. `hudi.json`, `iceberg.json`, `topics.json`, `growth.json` and `freshness.json` of the folder,
   those of them that are there, are kept in docs/benchmarks: they are the record.
2. Each replaces the block of the page between `<!-- NAME -->` and `<!-- /NAME -->` by a table.
3. Plots of all records are drawn next to them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.growth import growth
from bench.plots import draw_growth, draw_speed

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECORDS = ("hudi", "iceberg", "topics", "growth", "freshness")


def write_page(measured: Path, docs: Path = DOCS) -> None:
    """Update the page, its records and its plots from a folder of measurements."""
    kept = docs / "benchmarks"
    kept.mkdir(exist_ok=True)
    page = docs / "benchmarks.md"
    text = page.read_text()
    for name in RECORDS:
        new = measured / f"{name}.json"
        if new.exists():
            (kept / new.name).write_text(new.read_text())
            record = json.loads(new.read_text())
            text = with_block(text, name, [_when(record), "", *lines_of(name, record)])
    page.write_text(text)
    records = {name: _record(kept / f"{name}.json") for name in RECORDS}
    draw_speed({name: records[name] for name in ("hudi", "iceberg")}, kept / "speed.svg")
    if records["growth"]:
        draw_growth(records["growth"]["axes"], kept / "growth.svg")


def with_block(text: str, name: str, lines: Sequence[str]) -> str:
    """The text with the lines between the marks of a block. Raises ValueError without marks."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, mark, rest = text.partition(begin)
    _, end_mark, after = rest.partition(end)
    if not mark or not end_mark:
        raise ValueError(f"the page has no block {begin} ... {end}")
    return "\n".join([before + begin, *lines, end + after])


def lines_of(name: str, record: Mapping[str, Any]) -> list[str]:
    """The table of a record."""
    return _LINES.get(name, claim_lines)(record)


def claim_lines(record: Mapping[str, Any]) -> list[str]:
    """A table of claims and limits."""
    lines = ["| | Tideline | peer | ratio | target | |", "|---|---|---|---|---|---|"]
    for claim in record["claims"]:
        ours, peer = claim["ours"]["medianSeconds"], claim["peer"]["medianSeconds"]
        is_faster = claim["wanted"].startswith(">=")
        ratio = f"{claim['ratio']:.1f}x faster" if is_faster else f"{claim['ratio']:.2f}x its time"
        cells = [claim["name"], _seconds(ours), _seconds(peer), ratio, claim["wanted"]]
        lines.append(_row([*cells, _verdict(claim)]))
    for limit in record["limits"]:
        if "ours" in limit:
            seen, wanted = _seconds(limit["ours"]["medianSeconds"]), f"<= {limit['secondsMax']:g} s"
        else:
            seen = f"{limit['bytesSeen'] >> 20} MiB"
            wanted = f"< {limit['bytesMax'] >> 20} MiB"
        lines.append(_row([limit["name"], seen, "", "", wanted, _verdict(limit)]))
    return lines


def growth_lines(record: Mapping[str, Any]) -> list[str]:
    """A table of sizes, axis by axis."""
    lines = [
        "| axis | size | time | core-seconds | memory | requests | work for each input |",
        "|---|---|---|---|---|---|---|",
    ]
    for axis, rows in record["axes"].items():
        for row in rows:
            cells = [
                axis,
                f"{row['size']:,}",
                _seconds(median(row["seconds"])),
                f"{median(row['coreSeconds']):.2f}",
                f"{row['peakBytes'] >> 20} MiB",
                f"{sum(row['requests'].values()):,}",
                f"{growth(row, rows[0]):.2f}x",
            ]
            lines.append(_row(cells))
    return lines


def freshness_lines(record: Mapping[str, Any]) -> list[str]:
    """Tables of how soon rows are readable, and of what waiting for them takes."""
    lines = ["| an operation goes to | median | slowest | wanted | |", "|---|---|---|---|---|"]
    for way in record["readable"]:
        cells = [f"{median(way['seconds']):.1f} s", f"{max(way['seconds']):.1f} s"]
        wanted = f"{way['wantedSeconds']:g} s"
        lines.append(_row([way["way"], *cells, wanted, _verdict(way)]))
    many = record["many"]
    name = f"two warm workers, {many['tables']} tables: every one of {many['rows']:,} rows"
    cells = [f"{many['medianSeconds']:.1f} s", f"{many['maxSeconds']:.1f} s"]
    lines.append(_row([name, *cells, f"{many['wantedSeconds']:g} s", _verdict(many)]))
    lines += ["", "| one row every 30 s, with | pod-seconds an hour |", "|---|---|"]
    lines += [_row([item["way"], f"{item['podSecondsPerHour']:,}"]) for item in record["sparse"]]
    return lines


def _when(record: Mapping[str, Any]) -> str:
    rounds = {len(claim["ours"]["seconds"]) for claim in record.get("claims", ())}
    counted = f", medians of {max(rounds)} rounds" if rounds else ""
    started = f"started at a load of {record['loadAtStart']}"
    return f"Measured on {record['date']} on {record['cores']} cores, {started}{counted}."


def _record(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


def _verdict(figure: Mapping[str, Any]) -> str:
    return "" if figure["holds"] else "missed"


_LINES = {"growth": growth_lines, "freshness": freshness_lines}


if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
