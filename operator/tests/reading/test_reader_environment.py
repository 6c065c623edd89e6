"""Of the variables of its container a reading process has those that it needs."""

from __future__ import annotations

from tideline_operator.reading.starting import AMBIENT_NAMESPACES, reader_environment

GIVEN = {
    "AWS_SECRET_ACCESS_KEY": "of-the-operator",
    "AWS_ROLE_ARN": "arn:aws:iam::1:role/operator",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "PYICEBERG_CATALOG__LAKE__TOKEN": "of-the-operator",
    "PYTHONPATH": "/tmp",
    "TIDELINE_EXTRA_LOCATIONS": "s3://archive",
    "TIDELINE_METADATA_BYTES_MAX": "32Mi",
}


def test_no_identity_and_no_path_of_code_is_passed_on() -> None:
    found = reader_environment(GIVEN)
    assert found["TIDELINE_EXTRA_LOCATIONS"] == "s3://archive"
    assert found["TIDELINE_METADATA_BYTES_MAX"] == "32Mi"
    assert found["AWS_EC2_METADATA_DISABLED"] == "true"
    passed_on = {name for name in GIVEN if name in found}
    assert passed_on == {"TIDELINE_EXTRA_LOCATIONS", "TIDELINE_METADATA_BYTES_MAX"}
    assert "of-the-operator" not in found.values()


def test_an_identity_is_passed_on_where_a_namespace_may_use_it() -> None:
    found = reader_environment({**GIVEN, AMBIENT_NAMESPACES: "lake"})
    assert found["AWS_ROLE_ARN"] == "arn:aws:iam::1:role/operator"
    assert "AWS_EC2_METADATA_DISABLED" not in found
    assert "PYICEBERG_CATALOG__LAKE__TOKEN" not in found
