"""`tideline report`: a page about a table."""

from __future__ import annotations

from pathlib import Path

import click

from tideline.cli.command import command
from tideline.cli.hudi_only import open_hudi
from tideline.cli.ingests import describe_ingests
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.wording import size_text

_OF_ICEBERG = "`tideline show` and `tideline check` say how it is"


@command("report")
@table_options
@click.option(
    "--output",
    "-o",
    "output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("table.html"),
    show_default=True,
    help="Where to write the page.",
)
@click.option("--check", is_flag=True, help="Check the table as well, which reads its files.")
def report_command(
    uri: str, storage: dict[str, str], as_json: bool, output: Path, check: bool
) -> None:
    """Write a page about the table at URI: how it is, what is due, its files and its history.

    The page is one file that fetches nothing: open it in any browser, or send it to somebody.
    """
    # Other commands work without Arrow, which plans of services need.
    from tideline.report.page import page_of
    from tideline.report.table_facts import facts_of
    from tideline.report.vega_bundle import vega_script

    script = vega_script()
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    ingests = describe_ingests(table.hoodie_table, table.timeline())
    facts = facts_of(table, check=check, ingests=ingests)
    page = page_of(facts, script)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page, encoding="utf-8")
    level, sentence = facts.health()
    if as_json:
        print_json({"page": str(output), "health": level.value, "about": sentence})
        return
    print_line(f"{level.value}: {sentence}.")
    print_line(f"The page is in {output} ({size_text(len(page.encode()))}).")
