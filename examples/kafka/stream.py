"""A topic becomes a table while you watch: python stream.py FOLDER [--seconds 60]

1. A broker starts on this machine (its jars come from Maven's repository, and run on the Java that
   Spark would take), and `tideline run` beside it.
2. Orders are produced, changed and deleted, two hundred records a second. Every few seconds: how
   many records, how many of them wait, how many rows the table has.
3. The table is queried, and compared with the topic.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

import tideline
from tideline.errors import TidelineError
from tideline.testing.kafka_broker import KafkaBroker, build

RECORDS_PER_S = 200
LOOK_S = 5.0
WAIT_S = 60.0
TIDELINE = [sys.executable, "-m", "tideline"]
QUERY = "select customer, count(*) orders, sum(amount) amount from t group by 1 order by 1"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print("starting a broker")
    build()
    with KafkaBroker(folder / "broker") as broker:
        broker.create_topic("orders", 3)
        resource = declare(folder, broker.address)
        state = ("--state", str(folder / "state"))
        with (folder / "run.log").open("wb") as log:
            run = subprocess.Popen(
                [*TIDELINE, "run", "-f", resource, *state], stdout=log, stderr=log
            )
        try:
            feed = Feed(broker.producer(log_level=0), given.seconds)
            feed.start()
            watch(feed, folder / "orders")
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(WAIT_S)
        say("read", str(folder / "orders"), "--sql", QUERY)
        return say("verify", "orders", "--source", resource)


def declare(folder: Path, brokers: str) -> str:
    """The LakeTable of this folder, with its places in another one."""
    text = (Path(__file__).parent / "laketable.yaml").read_text("utf-8")
    text = text.replace("../../out/kafka", str(folder)).replace("BROKERS", brokers)
    path = folder / "laketable.yaml"
    path.write_text(text, "utf-8")
    return str(path)


class Feed(threading.Thread):
    """Orders of so many seconds; of ten records three change one and one deletes one."""

    def __init__(self, producer: Producer, seconds: int) -> None:
        super().__init__(daemon=True)
        self.producer = producer
        self.seconds = seconds
        self.records = 0

    def run(self) -> None:
        began_s = time.monotonic()
        while self.records < self.seconds * RECORDS_PER_S:
            due_s = min(time.monotonic() - began_s, self.seconds)
            while self.records < due_s * RECORDS_PER_S:
                self.send()
            self.producer.poll(0.05)
        self.producer.flush()

    def send(self) -> None:
        turn, number = self.records % 10, self.records
        self.records += 1
        if turn == 9:
            self.producer.produce("orders", key=str(number - 8), value=None)
            return
        order_id = number - 5 if turn in (6, 7, 8) else number
        order = {
            "id": order_id,
            "customer": f"customer {order_id % 7}",
            "amount": f"{number % 100}.50",
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self.producer.produce("orders", key=str(order_id), value=json.dumps(order))


def watch(feed: Feed, table: Path) -> None:
    """Print how far the table is until all is in it."""
    deadline_s = time.monotonic() + feed.seconds + WAIT_S
    while True:
        time.sleep(LOOK_S)
        rows, taken = look(table)
        waiting = feed.records - taken
        print(f"{feed.records:,} records, {waiting:,} wait, {rows:,} rows in the table", flush=True)
        if not feed.is_alive() and not waiting:
            return
        if time.monotonic() > deadline_s:
            raise SystemExit("the table did not get all records: see run.log")


def look(table: Path) -> tuple[int, int]:
    """How many rows there are, and how many records were taken in."""
    with suppress(TidelineError):
        rows = tideline.open(str(table)).count()
        shown = subprocess.run(
            [*TIDELINE, "show", str(table), "--json"], capture_output=True, check=True
        )
        (ingest,) = json.loads(shown.stdout)["ingests"]
        return rows, sum(map(int, re.findall(r"@(\d+)", ingest["up_to"])))
    return 0, 0


def say(*words: str) -> int:
    print(f"\n$ tideline {' '.join(words)}", flush=True)
    return subprocess.run([*TIDELINE, *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
