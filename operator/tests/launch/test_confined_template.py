"""A table's pod template over the operator's: no more rights, and nothing of the operator's."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline_operator.launch.engine_pod import LaunchSettings, layered, proposed_parts
from tideline_operator.launch.pod_template import confined_template
from tideline_operator.testing.table_states import resolved

OPERATORS = {
    "spec": {
        "initContainers": [{"name": "tune", "securityContext": {"privileged": True}}],
        "containers": [{"name": "engine", "volumeMounts": [{"name": "host", "mountPath": "/h"}]}],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
NOTHING_REQUIRED: dict[str, Any] = {"spec": {"containers": []}}


def whole(users: dict[str, Any]) -> dict[str, Any]:
    """The pod of a table with that template, by name of its containers."""
    settings = LaunchSettings(image="engine", pod_template=OPERATORS)
    proposed = proposed_parts(settings, has_api_access=False)
    pod = layered(proposed, resolved(podTemplate={"spec": users}), NOTHING_REQUIRED, settings)
    spec = pod["spec"]
    return {
        container["name"]: container
        for container in (*spec["containers"], *spec.get("initContainers", ()))
    }


def test_a_sidecar_has_no_more_rights_than_the_engine() -> None:
    found = whole(
        {
            "initContainers": [{"name": "logs", "image": "logs:1", "restartPolicy": "Always"}],
            "containers": [{"name": "more", "securityContext": {"readOnlyRootFilesystem": False}}],
        }
    )
    assert found["logs"]["securityContext"] == CONFINED
    assert found["more"]["securityContext"] == {**CONFINED, "readOnlyRootFilesystem": False}
    assert found["engine"]["securityContext"] == {**CONFINED, "readOnlyRootFilesystem": True}
    # The operator's own is its administrator's business.
    assert found["tune"]["securityContext"] == {"privileged": True}
    assert [volume_mount["mountPath"] for volume_mount in found["engine"]["volumeMounts"]] == ["/h"]


@pytest.mark.parametrize(
    ("users", "field"),
    [
        ({"initContainers": [{"name": "tune", "image": "own"}]}, r"initContainers\[0\].name"),
        ({"containers": [{"name": "tune", "image": "own"}]}, r"containers\[0\].name"),
        (
            {
                "containers": [
                    {"name": "engine", "volumeMounts": [{"name": "host", "mountPath": "/mine"}]}
                ]
            },
            r"containers\[0\].volumeMounts",
        ),
        ({"volumes": [{"name": "host", "emptyDir": {}}]}, "volumes"),
    ],
)
def test_a_table_takes_over_nothing_that_only_the_operators_template_makes(
    users: dict[str, Any], field: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"spec\.podTemplate\.spec\.{field}.*operator's template"
    ):
        confined_template({"spec": users}, OPERATORS)


def test_no_other_container_is_called_as_the_engines_is() -> None:
    users = {"initContainers": [{"name": "engine", "image": "own"}]}
    with pytest.raises(ConfigError, match=r"initContainers: 'engine' is the name of Tideline's"):
        confined_template({"spec": users}, {})


def test_null_adds_nothing_where_there_is_nothing_to_remove() -> None:
    """Kubernetes would take a label of null for an empty one, and find no node for such a pod."""
    settings = LaunchSettings(image="engine", pod_template={"metadata": {"labels": {"a": "1"}}})
    users = {
        "metadata": {"labels": {"a": None, "b": None}},
        "spec": {"nodeSelector": {"disk": None, "zone": "x"}},
    }
    proposed = proposed_parts(settings, has_api_access=False)
    pod = layered(proposed, resolved(podTemplate=users), NOTHING_REQUIRED, settings)
    assert pod["metadata"]["labels"] == {}
    assert pod["spec"]["nodeSelector"] == {"zone": "x"}
