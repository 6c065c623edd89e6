"""LakeCatalogs that are accepted and refused: by the parser, and by a real API server."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline_operator.resources.documents import read_documents
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.parsing import parse_resource, to_json_object
from tideline_operator.resources.tables_status import LakeCatalogStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.resource_examples import LAKE_CATALOG

TABLE_FORM = "application/json;as=Table;v=v1;g=meta.k8s.io"
HEAD = """
apiVersion: tideline.dev/v1alpha1
kind: LakeCatalog
metadata: {name: lake}
spec:
"""
MINIMAL = f"{HEAD}  location: warehouse\n"
ONE_PLACE = "give one of location (a folder of tables that no catalog keeps) and catalog"
HUDI_SERVICE = "is a service of Hudi tables"
# The spec, the field, and the words of the parser and the server.
REFUSED = {
    "no place": ("suspend: false", "spec.location", ONE_PLACE),
    "two places": ("{location: a, catalog: {type: rest}}", "spec.location", ONE_PLACE),
    "no store": ("location: s3://lake/warehouse", "spec.storeRef", "name a LakeStore"),
    "hudi service": (
        "{location: a, services: {cleaning: {retain: 3}}}",
        "spec.services.cleaning",
        HUDI_SERVICE,
    ),
    "blank in a pattern": ('{location: a, include: ["a b"]}', "spec.include[0]", ""),
    "password": (
        "catalog: {type: sql, uri: 'postgresql://a:b@c/d'}",
        "spec.catalog.uri",
        "credentials belong in",
    ),
    "table": ("catalog: {type: rest, table: a.b}", "spec.catalog.table", ""),
}


def document(text: str) -> Any:
    (found,) = read_documents(text, file="test.yaml")
    return found


def with_spec(spec: str) -> str:
    return HEAD + textwrap.indent(spec, "  ") + "\n"


def test_what_is_read_is_written_back_without_defaults() -> None:
    value = document(LAKE_CATALOG).value
    parsed = parse_resource(LakeCatalog, document(LAKE_CATALOG))
    value["spec"].pop("suspend")
    value["spec"]["catalog"].pop("name")
    assert to_json_object(parsed.spec) == value["spec"]
    assert to_json_object(parse_resource(LakeCatalog, document(MINIMAL)).spec) == {
        "location": "warehouse"
    }


@pytest.mark.parametrize("name", REFUSED)
def test_the_parser_names_what_is_wrong(name: str) -> None:
    spec, field, words = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        parse_resource(LakeCatalog, document(with_spec(spec)))
    assert f"{field}: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.api_server
@pytest.mark.parametrize("name", REFUSED)
def test_the_api_server_does_too(name: str, api_server: ApiServer, namespace: str) -> None:
    spec, field, words = REFUSED[name]
    path = f"/apis/tideline.dev/v1alpha1/namespaces/{namespace}/lakecatalogs"
    value = document(with_spec(spec)).value
    answer = api_server.request("POST", f"{path}?fieldValidation=Strict", value)
    assert answer.status in (400, 422)
    assert field in answer.message
    assert words in answer.message


@pytest.mark.api_server
def test_kubectl_shows_the_counts(api_server: ApiServer, namespace: str) -> None:
    path = f"/apis/tideline.dev/v1alpha1/namespaces/{namespace}/lakecatalogs"
    assert api_server.request("POST", path, document(MINIMAL).value).status == 201
    status = to_json_object(LakeCatalogStatus(found=12, maintained=10, excluded=2, late=1))
    change, form = {"status": status}, "application/merge-patch+json"
    answer = api_server.request("PATCH", f"{path}/lake/status", change, content_type=form)
    assert answer.status == 200, answer.content
    shown = api_server.request("GET", path, accept=TABLE_FORM).content
    columns = [
        column_definition["name"]
        for column_definition in shown["columnDefinitions"]
        if not column_definition["priority"]
    ]
    assert columns == ["Name", "Ready", "Reason", "Tables", "Maintained", "Excluded", "Late",
                       "Failing", "Looked", "Age"]  # fmt: skip
    assert shown["rows"][0]["cells"][3:8] == [12, 10, 2, 1, 0]


@pytest.mark.api_server
def test_the_folder_stays_the_one_it_is(api_server: ApiServer, namespace: str) -> None:
    path = f"/apis/tideline.dev/v1alpha1/namespaces/{namespace}/lakecatalogs"
    assert api_server.request("POST", path, document(MINIMAL).value).status == 201
    change = {"spec": {"location": "elsewhere"}}
    form = "application/merge-patch+json"
    answer = api_server.request("PATCH", f"{path}/lake", change, content_type=form)
    assert answer.status == 422
    assert "is immutable: delete this LakeCatalog" in answer.message
