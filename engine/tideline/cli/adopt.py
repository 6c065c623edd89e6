"""`tideline adopt`: what a table of others is, before anything in it is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click
from click.core import ParameterSource

from tideline.cli.adopt_buckets import with_bucket_count
from tideline.cli.adopt_page import hudi_page, iceberg_page
from tideline.cli.any_table import any_table_options
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.output import print_json, print_line
from tideline.errors import ObjectNotFoundError, TableNotFoundError, UnsupportedTableError
from tideline.hudi.adoption.adoption_report import AdoptionReport, read_adoption_report
from tideline.iceberg.adoption import IcebergAdoptionReport, read_iceberg_dossier
from tideline.publication.published_files import PublishedFiles
from tideline.storage.location import StoreLocation

_SWITCHES = {
    "path_style": ("--path-style", "--virtual-host-style"),
    "allow_http": ("--allow-http", "--https-only"),
    "sse_bucket_key": ("--sse-bucket-key", "--no-sse-bucket-key"),
    "requester_pays": ("--requester-pays", "--owner-pays"),
}


@command("adopt")
@any_table_options
@click.pass_context
def adopt_command(context: click.Context, source: TableSource, as_json: bool) -> None:
    """Show what the Hudi or Iceberg table at URI is, and what may be done with it.

    Changes nothing: not one object is written or deleted. Exit code 1 for a table that is refused
    altogether, such as one of another version; the report is printed all the same.
    """
    repeated = (source.target, *_given_storage(context, source.storage), *_given_catalog(source))
    report = _of_catalog(source) if source.is_of_catalog else _at_location(source)
    if as_json:
        print_json(report.to_json_object())
    elif isinstance(report, IcebergAdoptionReport):
        _print(iceberg_page(report, repeated))
    else:
        _print(hudi_page(report, repeated))
    if report.is_refused:
        raise click.exceptions.Exit(UnsupportedTableError.exit_code)


def _at_location(source: TableSource) -> AdoptionReport | IcebergAdoptionReport:
    location = StoreLocation.of(source.target, source.storage)
    store = location.open()
    try:
        published = frozenset(PublishedFiles.of_table(store).paths())
        found = read_adoption_report(location, store, published=published)
    except ObjectNotFoundError:
        return _iceberg(source, location)
    return with_bucket_count(found, location)


def _iceberg(source: TableSource, location: StoreLocation) -> IcebergAdoptionReport:
    try:
        return read_iceberg_dossier(location.uri, source.open, in_catalog=False)
    except ObjectNotFoundError as nothing:
        raise TableNotFoundError(
            "there is no Hudi table here, nor an Iceberg table that is a folder of its own",
            table=location.uri,
        ) from nothing


def _of_catalog(source: TableSource) -> IcebergAdoptionReport:
    return read_iceberg_dossier(source.target, source.open, in_catalog=True)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(line)


def _given_catalog(source: TableSource) -> Iterator[str]:
    """The catalog's options, which never have a credential."""
    if source.catalog is not None:
        yield f"--catalog={source.catalog}"
    for name, value in source.catalog_properties.items():
        yield f"--catalog-option={name}={value}"


def _given_storage(context: click.Context, storage: Mapping[str, str | bool]) -> Iterator[str]:
    """The storage options of the command line, so that printed commands work as they are."""
    for name, value in storage.items():
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if name in _SWITCHES:
            yield _SWITCHES[name][value != "true"]
        else:
            yield f"--{name.replace('_', '-')}={value}"
