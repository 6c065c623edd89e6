"""A proposal as the YAML of a LakeTable, with what was found next to each line; and the LakeStore
that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import yaml

from tideline.ingest.proposal.places import STORE_NAME, Names
from tideline.ingest.proposal.proposal import NamedColumn, Proposal
from tideline.ingest.sources.files.listing import FileFormat
from tideline.storage.location import StoreLocation

_LINE_MAX = 100
_STORE_FIELDS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "endpoint": "endpoint",
        "region": "region",
        "path_style": "pathStyle",
        "sse": "sse",
        "sse_kms_key_id": "sseKmsKeyId",
        "sse_bucket_key": "sseBucketKey",
        "requester_pays": "requesterPays",
        "checksum_algorithm": "checksumAlgorithm",
    },
    "gs": {"gcs_endpoint": "endpoint"},
    "abfss": {"azure_account": "account", "azure_endpoint": "endpoint"},
}
"""By the scheme of a store its options, and the fields of a LakeStore for them."""
_SWITCHES = ("path_style", "sse_bucket_key", "requester_pays")
_STORE_PARTS = {"gs": "gcs", "abfss": "azure"}
"""Where these fields are in the spec; those of S3 are the spec's own."""


def lake_table_text(proposal: Proposal, names: Names, partition_by: Sequence[str] = ()) -> str:
    """The text of the file."""
    lines = [*_lines(proposal, names, partition_by)]
    if names.store is not None:
        lines += _store(names.store)
    return "\n".join([*lines, ""])


def _lines(proposal: Proposal, names: Names, partition_by: Sequence[str]) -> Iterator[str]:
    keys = proposal.keys
    yield f"# By tideline init, from {names.landing}: {proposal.read_text} read."
    yield "# Look at what says CONFIRM. What a run would do with the files:"
    yield f"#   tideline run -f {names.file} --dry-run"
    yield from (f"# CONFIRM: {remark}." for remark in proposal.remarks)
    yield "apiVersion: tideline.dev/v1alpha1"
    yield "kind: LakeTable"
    yield f"metadata: {{name: {_scalar(names.name)}}}"
    yield "spec:"
    yield f"  location: {_scalar(names.location)}"
    if names.has_location_in_store:
        yield f"  storeRef: {STORE_NAME}"
    yield f"  # {keys.key_evidence}."
    yield f"  recordKey: {_list(keys.key)}"
    if keys.ordering_evidence:
        yield f"  # {keys.ordering_evidence}."
    if keys.ordering:
        yield f"  ordering: {_list(keys.ordering)}"
    if partition_by:
        yield f"  partitionBy: {_list(partition_by)}"
    if proposal.sample.file_format is FileFormat.PARQUET:
        yield "  # The columns are those of the parquet files:"
        yield from (f"  #   {column.name}: {column.column.type}" for column in proposal.columns)
    elif not _has_source_schema(proposal):
        yield "  schema:"
        yield from _schema(proposal.columns, indent="  ", own_names=False)
    yield "  ingest:"
    yield "  - name: landing"
    yield "    source:"
    yield f"      format: {proposal.sample.file_format}"
    yield f"      path: {_scalar(names.landing)}"
    if names.store is not None and not names.has_location_in_store:
        yield f"      storeRef: {STORE_NAME}"
    if proposal.options:
        yield "      options:"
        for name, value in proposal.options.items():
            yield f"        {name}: {_quoted(value)}"
    if _has_source_schema(proposal):
        yield "      schema:"
        yield from _schema(proposal.columns, indent="      ", own_names=True)
    if proposal.is_renamed:
        yield "    # Names of columns are letters, digits and _."
        yield "    transform: |"
        yield from _transform(proposal.columns)
    yield "    trigger: {every: 30s}"


def _store(place: StoreLocation) -> Iterator[str]:
    """How the store of a place is reached. Credentials are nowhere in it."""
    options, part = dict(place.options), _STORE_PARTS.get(place.scheme)
    yield "---"
    yield "apiVersion: tideline.dev/v1alpha1"
    yield "kind: LakeStore"
    yield f"metadata: {{name: {STORE_NAME}}}"
    spec = [
        f"{field}: {options[name] if name in _SWITCHES else _scalar(options[name])}"
        for name, field in _STORE_FIELDS[place.scheme].items()
        if name in options
    ]
    if part is not None:
        spec = [f"{part}: {{{', '.join(spec)}}}"]
    yield "spec:" if spec else "spec: {}"
    yield from (f"  {line}" for line in spec)
    yield "# tideline run takes credentials from its environment. CONFIRM, for a cluster:"
    of_s3 = "" if part else ", or webIdentity: {roleArn: ARN}"
    yield f"#   credentials: {{secretName: NAME}}{of_s3}"
    if "ca_bundle" in options:
        yield "#   tls: {caSecretName: NAME}, a Secret with the authorities to trust"


def _has_source_schema(proposal: Proposal) -> bool:
    """Whether the columns are declared as those of the files, and not as the table's."""
    dialect = proposal.sample.dialect
    is_unnamed = dialect is not None and not dialect.has_header
    return is_unnamed or (proposal.is_renamed and proposal.sample.file_format.is_text)


def _schema(columns: Sequence[NamedColumn], *, indent: str, own_names: bool) -> Iterator[str]:
    for named_column in columns:
        column = named_column.column
        name = column.source if own_names else named_column.name
        line = f"{indent}- {{name: {_scalar(name)}, type: {_scalar(column.type)}}}"
        doubt = f"CONFIRM: {column.doubt}" if column.doubt else ""
        said = "; ".join(part for part in (doubt, column.note) if part)
        if not said:
            yield line
        elif len(line) + len(said) + 3 <= _LINE_MAX:
            yield f"{line}  # {said}"
        else:
            yield f"{indent}# {said}"
            yield line


def _transform(columns: Sequence[NamedColumn]) -> Iterator[str]:
    yield "      SELECT"
    for column in columns:
        source = "`" + column.column.source.replace("`", "``") + "`"
        yield f"        {source} AS {column.name}," if column.is_renamed else f"        {source},"
    yield "        _tideline_sequence"
    yield "      FROM source"


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_scalar, names))}]"


def _scalar(text: str) -> str:
    """A text as YAML has it inside of brackets, quoted where it has to be."""
    return yaml.safe_dump([text], default_flow_style=True, width=10_000, allow_unicode=True)[1:-2]


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=10_000, allow_unicode=True).strip()
