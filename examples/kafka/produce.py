"""Orders for the topic `orders`: python produce.py HOST:PORT

Creates the topic where it is missing. Of a thousand orders a hundred are changed, ten are deleted
by a record without a value, and one record is no JSON.
"""

import argparse
import json

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("brokers")
    brokers = parser.parse_args().brokers
    topics = AdminClient({"bootstrap.servers": brokers})
    try:
        topics.create_topics([NewTopic("orders", 3, 1)])["orders"].result(30)
    except KafkaException as error:
        if "ALREADY_EXISTS" not in str(error):
            raise
    producer = Producer({"bootstrap.servers": brokers})
    for number in range(1000):
        send(producer, number, 10)
    for number in range(100):
        send(producer, number, 12)
    for number in range(10):
        producer.produce("orders", key=str(number), value=None)
    producer.produce("orders", key="?", value="no JSON")
    producer.flush()
    print("1,111 records produced")


def send(producer: Producer, number: int, amount: int) -> None:
    order = {
        "id": number,
        "customer": f"customer {number % 7}",
        "amount": f"{amount}.50",
        "at": "2026-11-28T10:00:00Z",
    }
    producer.produce("orders", key=str(number), value=json.dumps(order))


if __name__ == "__main__":
    main()
