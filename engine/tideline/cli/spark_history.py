"""`tideline spark-history`: Spark's own pages about what ran."""

from __future__ import annotations

import os

import click

from tideline.cli.command import command
from tideline.cli.options import json_option, storage_options
from tideline.cli.output import print_json, print_line
from tideline.errors import ConfigError
from tideline.spark.session.history_server import history_server_command
from tideline.storage.location import StoreLocation


@command("spark-history")
@click.argument("uri")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=18_080,
    show_default=True,
    help="Where to listen.",
)
@storage_options
@json_option
def spark_history_command(
    uri: str, port: int, storage: dict[str, str | bool], as_json: bool
) -> None:
    """Serve Spark's history server over the event logs at URI, until it is interrupted.

    A LakeStore says with eventLogs where Spark keeps them.
    """
    location = StoreLocation.of(uri, storage)
    if location.scheme == "memory":
        raise ConfigError("event logs are in a folder or on S3", value=uri)
    words = history_server_command(location, port)
    url = f"http://127.0.0.1:{port}"
    if as_json:
        print_json({"url": url, "logs": location.uri})
    else:
        print_line(f"{url} shows what ran, by the event logs at {location.uri}")
    # This process becomes the server, which signals then reach directly.
    os.execv(words[0], words)
