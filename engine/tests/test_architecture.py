"""The project's shape, checked on its source: sizes, names, who imports which SDK.

Which package may import which is import-linter's part (pyproject.toml).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "engine" / "tideline", ROOT / "operator" / "tideline_operator")
TEST_FOLDERS = (ROOT / "engine" / "tests", ROOT / "operator" / "tests", ROOT / "e2e" / "tests")
OTHER_FOLDERS = (
    ROOT / "engine" / "bench",
    ROOT / "examples",
    ROOT / "tools",
    *(ROOT / "e2e" / name for name in ("build", "harness", "node")),
)

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
TEST_FUNCTION_LINES_MAX = 80
BANNED_MODULE_NAMES = re.compile("utils?|helpers?|common|base|manager|misc|core|impl")
SDK_HOMES = {
    "obstore": ("engine/tideline/storage/",),
    "fastavro": (
        "engine/tideline/formats/avro",
        "engine/tideline/testing/plain_reader.py",
        "engine/tideline/testing/files_with_text.py",
        "engine/tideline/testing/dead_index_build.py",
    ),
    "pyspark": ("engine/tideline/spark/", "engine/tideline/testing/"),
    "py4j": ("engine/tideline/spark/", "engine/tideline/testing/"),
    "pyiceberg": (
        "engine/tideline/iceberg/table/catalog_",
        "engine/tideline/testing/",
    ),
    "kubernetes": ("operator/tideline_operator/kube.py",),
    "prometheus_client": (
        "operator/tideline_operator/controller/controller_metrics.py",
        "operator/tideline_operator/controller/table_metrics.py",
    ),
    "pyroaring": ("engine/tideline/iceberg/data/deletion_vector.py", "engine/tideline/testing/"),
    "minio": ("engine/tideline/storage/s3/bucket.py", "engine/tideline/testing/"),
}
# Imports put off until a function runs keep optional dependencies optional: these modules need
# Spark, Arrow or the Kubernetes client. Put off for any other reason an import hides a cycle.
NEEDS_AN_EXTRA = (
    "tideline.erasure.",
    "tideline.formats.frame_rows.",
    "tideline.formats.history_file.",
    "tideline.formats.parquet_footer.",
    "tideline.formats.row_dataset.",
    "tideline.hudi.check.base_files.",
    "tideline.hudi.check.keys.",
    "tideline.hudi.check.record_index.",
    "tideline.hudi.file_group.key_changes.",
    "tideline.hudi.check.statistics.",
    "tideline.hudi.metadata_table.key_ranges.",
    "tideline.hudi.metadata_table.key_runs.",
    "tideline.hudi.read.",
    "tideline.hudi.write.work_parts.",
    "tideline.iceberg.check.rows.",
    "tideline.iceberg.table.catalog_config.",
    "tideline.iceberg.table.catalog_hive.",
    "tideline.ingest.sources.files.on_spark.",
    "tideline.ingest.sources.kafka.on_spark.",
    "tideline.iceberg.table.catalog_opening.",
    "tideline.iceberg.table.catalog_search.",
    "tideline.iceberg.table.catalog_sql.",
    "tideline.iceberg.table.catalog_table.",
    "tideline.iceberg.table.catalog_transaction.",
    "tideline.iceberg.table.staged_table.",
    "tideline.formats.row_filter.",
    "tideline.in_process.dict_rows.",
    "tideline.in_process.run.",
    "tideline.row_update.",
    "tideline.in_process.service_engine.",
    "tideline.in_process.service_size.",
    "tideline.in_process.source_files.rows.",
    "tideline.iceberg.services.rewrite_position_deletes.execute.",
    "tideline.iceberg.data.arrow_schema.",
    "tideline.iceberg.read.",
    "tideline.iceberg_writing.",
    "tideline.cli.iceberg_create.",
    "tideline.cli.iceberg_write.",
    "tideline.ingest.execute.write_iceberg_files.",
    "tideline.iceberg.services.rewrite_data_files.group_outcome.",
    "tideline.iceberg.services.rewrite_data_files.in_process.",
    "tideline.iceberg.services.rewrite_data_files.run.",
    "tideline.ingest.execute.rehearse_ingest.",
    "tideline.ingest.execute.iceberg_table.",
    "tideline.ingest.execute.open_ingest_table.",
    "tideline.ingest.proposal.",
    "tideline.publication.",
    "tideline.registration.",
    "tideline.spark.",
    "tideline.sql.",
    "tideline.report.",
    "tideline.ingest.arrow_schema",
    "tideline.ingest.execute.ingest.",
    "tideline.ingest.execute.lineage.",
    "tideline.ingest.sources.kafka.broker.",
    "tideline.ingest.sources.postgres.server.",
    "tideline.ingest.execute.ingest_on_spark.",
    "tideline.ingest.execute.write_files_on_spark.",
    "tideline.ingest.execute.write_iceberg_files_on_spark.",
    "tideline.hudi.table.column_type",
    "tideline.hudi.table.create",
    "tideline.hudi.table.meta_column.",
    "tideline.hudi.new_table.",
    "tideline.hudi.table.schema",
    "tideline.hudi.table.schema_resolver",
    "tideline.hudi.table.stored_names.",
    "tideline.hudi.index.xx_hash.",
    "tideline.hudi.placement.stored_buckets.",
    "tideline.hudi.placement.hashed_fields.",
    "tideline.hudi.file_group.file_contents.",
    "tideline.hudi.metadata_indexes.table_indexes.",
    "tideline.hudi.file_group.file_slice_merge",
    "tideline_operator.controller.main.",
)
RAW_DELETES = re.compile(r"delete(_many|_prefix)?|unlink|rmtree|rmdir|removedirs|remove_tree")
REMOVE = ("os", "remove")
DELETING_PLACES = {
    "engine/tideline/storage/delete_scope.py": "the guard itself",
    "engine/tideline/storage/local/store.py": "a store: below the guard",
    "engine/tideline/storage/local/folders.py": "a store: below the guard",
    "engine/tideline/storage/memory/store.py": "a store: below the guard",
    "engine/tideline/storage/remote/store.py": "a store: below the guard",
    "engine/tideline/storage/store_below.py": "a store: below the guard",
    "engine/tideline/storage/local/unfinished_files.py": "temporary names of dead processes",
    "engine/tideline/storage/local/linking.py": "a temporary name of its own making",
    "engine/tideline/storage/new_root.py": "empty folders that a failed creation made",
    "engine/tideline/storage/heartbeat.py": "one object under a path made of a constant folder",
    "engine/tideline/storage/local/liveness.py": "a lock file of its own in the control folder",
    "engine/tideline/storage/probe/": "objects of checks, in a folder of theirs alone",
    "engine/tideline/ingest/sources/files/quarantine.py": "rows of its own, at a path it makes",
    "engine/tideline/testing/": "never part of a service",
    "operator/tideline_operator/testing/": "never part of a service",
    "operator/tideline_operator/launch/": "objects of Kubernetes",
    "operator/tideline_operator/reading/claim_check.py": "one object of its own making",
    "operator/tideline_operator/controller/owner_reconcile.py": "objects of Kubernetes",
    "operator/tideline_operator/controller/settlement.py": "objects of Kubernetes",
    "operator/tideline_operator/reading/supervisor.py": "the socket it listens on",
}
"""Who may call a delete of a store, or of the file system, without a DeleteScope."""
READING_DIGITS = {
    "engine/tideline/hudi/timeline/zone.py": "the zone itself",
    "engine/tideline/hudi/timeline/instant_time.py": "what the zone builds on",
    "engine/tideline/hudi/timeline/known_zone.py": "compares the digits with the times of objects",
    "engine/tideline/hudi/services/clustering/plan.py": "the hour that the digits show",
    "engine/tideline/hudi/services/compaction/strategy.py": "the day that the digits show",
    "engine/tideline/hudi/table/partition_metadata.py": "a comment with the digits as a date",
}
"""Who may take the digits of an instant for UTC, or make some, without the table's zone."""
LAYOUTS = "engine/tideline/hudi/table/layout/"
KNOWING_VERSIONS = {
    "engine/tideline/hudi/table/table_config.py": "finds the table's layout by it",
    "engine/tideline/hudi/table/properties.py": "a file without a version is unsound",
    "engine/tideline/hudi/table/create.py": "which version a new table is to have",
    "engine/tideline/lake_table.py": "which version a new table is to have",
    "engine/tideline/table_words.py": "shows it",
    "engine/tideline/hudi/metadata_indexes/": "names it in a message",
    "engine/tideline/hudi/services/archival/": "one writer for each form of archive",
    "engine/tideline/hudi/timeline/lsm_writer.py": "writes what the layout's history reads",
    "engine/tideline/hudi/check/archive.py": "looks into each form of archive",
    "engine/tideline/hudi/table/timeline_as_of.py": "asks histories for completions",
    "engine/tideline/ingest/operation/operation.py": "which version a new table is to have",
    "engine/tideline/ingest/execute/table_access.py": "which version a new table is to have",
    "operator/tideline_operator/resources/": "which version a new table is to have",
    "operator/tideline_operator/decide/planned_operation.py": "which version a new table has",
    "engine/tideline/hudi/capabilities/table_capabilities.py": "shows it",
    "engine/tideline/report/table_facts.py": "shows it",
    "engine/tideline/hudi/upgrade/": "brings tables from one to another",
    "engine/tideline/hudi/recovery/version_change.py": "deletes the timeline of another one",
    "engine/tideline/hudi/metadata_table/": "a metadata table is of the version of its table",
    "engine/tideline/hudi/adoption/consequences.py": "says how writers of Hudi keep it",
    "engine/tideline/cli/": "shows it",
    "engine/tideline/settings/families/table.py": "names the property",
    "engine/tideline/testing/": "never part of a service",
}
"""Who may know of table versions outside the layouts; anyone else asks `HoodieTable.layout`."""
VERSION_NAMES = {"table_version", "TABLE_VERSION", "layout_version"}
VERSION_KEYS = {"hoodie.table.version", "hoodie.timeline.layout.version"}
LAYOUT_MODULES = re.compile(r"\.(layout_v[0-9]+|lsm_history|known_layouts|version_[0-9]+)$")
SLOWS_A_START = (
    "tideline.cli.iceberg_files.",
    "tideline.cli.iceberg_read.",
    "tideline.cli.iceberg_show.",
    "tideline.ingest.sources.kafka.wire.look.",
    "tideline.ingest.sources.postgres.wire.look.",
    "tideline.iceberg.check.run.",
    "tideline.iceberg.table.open_table.",
    "tideline.storage.azure.hadoop.",
    "tideline.storage.egress.certificate_relay.",
    "tideline.storage.azure.store.",
    "tideline.storage.gcs.hadoop.",
    "tideline.storage.gcs.store.",
    "tideline.storage.s3.store.",
    "tideline.storage.s3.bucket.",
    "tideline.storage.s3.client.",
    "tideline.storage.s3.identity.",
)
"""Of commands that do not need it, by a tenth or more."""
LOADED_LATE = ("engine/tideline/__init__.py", "operator/tideline_operator/local/run.py")
"""The facade, and a command that others list: neither loads what it leads to."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_names(node: ast.AST) -> Iterator[str]:
    """What the import statements below `node` name: modules, and names in modules."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def is_own(module: str) -> bool:
    return module.split(".")[0] in {"tideline", "tideline_operator"}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def deferred_own_imports(path: Path) -> Iterator[str]:
    """Own modules imported inside functions or under TYPE_CHECKING."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_type_checking(node):
            yield from filter(is_own, imported_names(node))


def test_no_file_is_too_long_to_hold_in_mind() -> None:
    lengths = {
        relative(path): len(path.read_text("utf-8").splitlines())
        for path in python_files(*PACKAGES, *OTHER_FOLDERS, *TEST_FOLDERS)
    }
    assert not {path: lines for path, lines in lengths.items() if lines > FILE_LINES_MAX}


def test_every_function_fits_a_screen() -> None:
    limits = dict.fromkeys(python_files(*PACKAGES, *OTHER_FOLDERS), FUNCTION_LINES_MAX)
    limits |= dict.fromkeys(python_files(*TEST_FOLDERS), TEST_FUNCTION_LINES_MAX)
    too_long = {
        f"{relative(path)}:{node.name}": node.end_lineno - node.lineno + 1
        for path, limit in limits.items()
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > limit
    }
    assert not too_long


def test_modules_are_named_after_what_they_are() -> None:
    modules = python_files(*PACKAGES)
    banned = [relative(path) for path in modules if BANNED_MODULE_NAMES.fullmatch(path.stem)]
    assert not banned


def test_every_module_says_what_it_is() -> None:
    silent = [
        relative(path)
        for path in python_files(*PACKAGES, *OTHER_FOLDERS)
        if not ast.get_docstring(parsed(path))
    ]
    assert not silent


def test_test_files_have_unique_names_and_no_packages() -> None:
    names = [path.name for path in python_files(*TEST_FOLDERS) if path.name != "conftest.py"]
    assert sorted(set(names)) == sorted(names)
    assert "__init__.py" not in names


@pytest.mark.parametrize("sdk", sorted(SDK_HOMES))
def test_an_sdk_is_imported_in_its_own_place_only(sdk: str) -> None:
    strangers = {
        relative(path)
        for path in python_files(*PACKAGES)
        if sdk in packages_at_run_time(path) and not relative(path).startswith(SDK_HOMES[sdk])
    }
    assert not strangers


@cache
def packages_at_run_time(path: Path) -> frozenset[str]:
    """What is imported when the module runs: everything but what is under TYPE_CHECKING."""
    tree = parsed(path)
    for_types = {name for node in ast.walk(tree) if is_type_checking(node)
                 for name in map(id, ast.walk(node))}  # fmt: skip
    return frozenset(
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in for_types
        for name in imported_names(node)
    )


def raw_deletes(path: Path) -> Iterator[str]:
    """Calls, or uses as a value, of what deletes objects or files by their bare names."""
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Attribute):
            continue
        owner = ast.unparse(node.value)
        if (RAW_DELETES.fullmatch(node.attr) and owner != "np") or (owner, node.attr) == REMOVE:
            yield f"{relative(path)}:{node.lineno}: {owner}.{node.attr}"


def test_every_delete_passes_the_guard() -> None:
    found = [
        raw_delete
        for path in python_files(*PACKAGES)
        if not relative(path).startswith(tuple(DELETING_PLACES))
        for raw_delete in raw_deletes(path)
    ]
    assert not found


def test_the_guard_has_no_exception_for_what_is_gone() -> None:
    deleting = [relative(path) for path in python_files(*PACKAGES) if any(raw_deletes(path))]
    unused = [
        place for place in DELETING_PLACES if not any(name.startswith(place) for name in deleting)
    ]
    assert not unused


def zoneless_times(path: Path) -> Iterator[str]:
    """Calls that read or make the digits of instants as if they were UTC."""
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
        reads = name == "epoch_ms" and not node.args
        if reads or name in ("from_epoch_ms", "next_instant_time"):
            yield f"{relative(path)}:{node.lineno}: {ast.unparse(called)}"


def test_instants_are_read_and_made_in_the_tables_zone() -> None:
    found = [
        zoneless_time for path in python_files(*PACKAGES) for zoneless_time in zoneless_times(path)
    ]
    assert not [name for name in found if not name.startswith(tuple(READING_DIGITS))]
    assert not [
        place for place in READING_DIGITS if not any(name.startswith(place) for name in found)
    ]


def test_only_layouts_ask_for_the_version_of_a_table() -> None:
    asking = {
        relative(path): sorted(set(versions_asked(path)))
        for path in python_files(*PACKAGES)
        if not relative(path).startswith(LAYOUTS) and any(versions_asked(path))
    }
    assert not {
        path: found
        for path, found in asking.items()
        if not path.startswith(tuple(KNOWING_VERSIONS))
    }
    assert not [
        place for place in KNOWING_VERSIONS if not any(name.startswith(place) for name in asking)
    ]


def versions_asked(path: Path) -> Iterator[str]:
    """What a file says of table versions: names, properties, modules of one version, and the
    `version` of something called config, layout or timeline."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Name) and node.id in VERSION_NAMES:
            yield node.id
        elif isinstance(node, ast.Attribute):
            holder = ast.unparse(node.value).rpartition(".")[2]
            if node.attr in VERSION_NAMES or (
                node.attr == "version" and holder in {"config", "layout", "timeline"}
            ):
                yield f"{holder}.{node.attr}"
        elif isinstance(node, ast.Constant) and node.value in VERSION_KEYS:
            yield str(node.value)
        elif isinstance(node, ast.ImportFrom) and LAYOUT_MODULES.search(node.module or ""):
            yield str(node.module)


def test_imports_are_put_off_only_to_keep_dependencies_optional() -> None:
    hidden = {
        f"{relative(path)}: {module}"
        for path in python_files(*PACKAGES)
        if relative(path) not in LOADED_LATE
        for module in deferred_own_imports(path)
        if not module.startswith((*NEEDS_AN_EXTRA, *SLOWS_A_START))
    }
    assert not hidden


def test_source_holds_no_notes_to_self() -> None:
    notes = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{relative(path)}:{number}"
        for path in python_files(*PACKAGES, *OTHER_FOLDERS)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if notes.search(line)
    ]
    assert not found


def test_no_committed_text_names_a_folder_of_the_machine_it_was_written_on() -> None:
    machine_path = re.compile(r"(?<![\w.$}/-])/(work|root|home)/[A-Za-z.]")
    texts = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")]
    texts += [*(ROOT / "docs").rglob("*.md"), *(ROOT / ".ci").iterdir()]
    texts += python_files(*PACKAGES, *TEST_FOLDERS, *OTHER_FOLDERS)
    texts.remove(Path(__file__))
    found = [relative(path) for path in texts if machine_path.search(path.read_text("utf-8"))]
    assert not found


def test_package_docstrings_name_modules_that_exist() -> None:
    """`- a concept: `module`, `package.module``, within the package or from the root."""
    missing = []
    for root in PACKAGES:
        for init in sorted(root.rglob("__init__.py")):
            text = ast.get_docstring(ast.parse(init.read_text("utf-8"))) or ""
            for item in re.findall(r"^- .+?: (`.*(?:\n  .*)*)", text, re.MULTILINE):
                names = re.findall(r"`([\w./]+)`", item)
                missing += [f"{init}: {name}" for name in names if not _exists(init.parent, name)]
    assert not missing


def _exists(package: Path, name: str) -> bool:
    places = [package / name, ROOT / name]
    places += [root / name.replace(".", "/") for root in (package, *PACKAGES)]
    return any(place.exists() or place.with_name(f"{place.name}.py").exists() for place in places)


def test_architecture_page_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:engine|operator|examples|docs|charts|images|e2e)/[\w./-]*)`", page)
    assert named
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing
