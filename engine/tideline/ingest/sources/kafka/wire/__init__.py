"""Kafka's protocol, as far as a look at topics needs it: for a process that makes its connections
itself, because it must know where they lead.

Source: Apache Kafka's protocol guide (https://kafka.apache.org/protocol.html).
"""
