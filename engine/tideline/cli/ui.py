"""`tideline ui`: the pages of many tables."""

from __future__ import annotations

import contextlib

import click

from tideline.cli.command import command
from tideline.cli.options import json_option, storage_options
from tideline.cli.output import print_json, print_line
from tideline.errors import ConfigError


@command("ui")
@click.argument("places", metavar="[URI]...", nargs=-1)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8_780,
    show_default=True,
    help="Where to listen; 0 takes a free one.",
)
@storage_options
@json_option
def ui_command(
    places: tuple[str, ...], host: str, port: int, storage: dict[str, str], as_json: bool
) -> None:
    """Serve pages about the tables at URI and below it, or below this folder, until interrupted.

    The first page is the fleet: tables that need somebody come first. Pages load themselves again;
    nothing is written. Anybody with access to the port sees them: there is no login.
    """
    # Other commands work without Arrow, which plans of services need.
    from tideline.report.fleet import existing_place
    from tideline.report.page_server import PageServer

    for place in places:
        existing_place(place, storage)
    try:
        server = PageServer(places or (".",), storage, host=host, port=port)
    except OSError as error:
        raise ConfigError(f"cannot listen: {error.strerror}", value=f"{host}:{port}") from error
    if as_json:
        print_json({"url": server.url})
    else:
        print_line(f"{server.url} shows the tables; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()
