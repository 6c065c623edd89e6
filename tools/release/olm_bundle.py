"""The operator as a bundle of the Operator Lifecycle Manager, made of the chart's manifests.

1. The rights of the operator's account, and its Deployment, are the ClusterServiceVersion's: the
   Lifecycle Manager creates them, and the namespace they are in is the user's choice.
2. Roles that others bind stand beside it, and so do the definitions of resources.
3. What is not in it: the NetworkPolicy, which names a namespace, and what the chart's values turn
   on. Settings are those of a Subscription's `config.env`.

Source: OLM's bundle format `registry+v1` and its ClusterServiceVersion.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tideline_operator.testing.helm_chart import install_files
from tideline_operator.testing.manifests import manifests_in
from tools.release.chart import shown_definition
from tools.release.image_archives import ImageDigests
from tools.release.manifests import write_archive
from tools.release.programs import run_program

Manifest = dict[str, Any]

PACKAGE = "tideline"
CHANNEL = "alpha"
_ACCOUNT = "tideline-operator"
_KUBERNETES_MIN = "1.29.0"
_LABELS = {
    "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
    "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
    "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
    "operators.operatorframework.io.bundle.package.v1": PACKAGE,
    "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
    "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
}
_EXAMPLES = (
    "kubernetes/lakestore.yaml",
    "kubernetes/flights.yaml",
    "iceberg/lakecatalog.yaml",
)
_WORDS = """\
One custom resource, a LakeTable, keeps a table of Apache Hudi or Apache Iceberg healthy: pods
ingest into it, compact, cluster, clean and archive it when due, and roll back what dead writers
left. The tools that people have already read and write these tables.

A namespace lets the operator in, by a RoleBinding to the ClusterRole `tideline-namespace`.
"""


def pack_bundle(source: Path, chart: Path, digests: ImageDigests) -> Path:
    """The archive of the bundle: what its image has, and the Dockerfile that makes one. Raises
    ReleaseError where OLM's own check refuses it."""
    release = digests.release
    folder = chart.parent / f"tideline-bundle-{release.version}"
    files = dict(sorted(_files(source, chart, digests).items()))
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    run_program("operator-verify", "manifests", "--operatorhub_validate", str(folder))
    target = release.folder / f"{folder.name}.tar.gz"
    archived = {f"{folder.name}/{name}": content for name, content in files.items()}
    write_archive(target, archived, release.epoch_s)
    return target


def bundle(
    rendered: list[Manifest], examples: list[Manifest], digests: ImageDigests
) -> dict[str, Manifest]:
    """The bundle's manifests by the names of their files."""
    definitions = [found for found in rendered if found["kind"] == "CustomResourceDefinition"]
    own = {role["metadata"]["name"] for role in _bound(rendered, "ClusterRole")}
    beside = [
        found
        for found in rendered
        if found["kind"] == "ClusterRole" and found["metadata"]["name"] not in own
    ]
    version = digests.release.version
    return {
        f"{PACKAGE}.clusterserviceversion.yaml": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": f"{PACKAGE}.v{version}",
                "namespace": "placeholder",
                "annotations": _annotations(examples, digests),
            },
            "spec": _spec(rendered, definitions, digests),
        },
        **{f"{found['metadata']['name']}.crd.yaml": found for found in definitions},
        **{f"{role['metadata']['name']}.clusterrole.yaml": role for role in beside},
    }


def _files(source: Path, chart: Path, digests: ImageDigests) -> dict[str, bytes]:
    rendered = manifests_in(install_files(chart)["install.yaml"])
    examples = [
        yaml.safe_load((source / "examples" / name).read_text("utf-8")) for name in _EXAMPLES
    ]
    manifests = bundle(rendered, examples, digests)
    return {
        **{f"manifests/{name}": _text(item) for name, item in manifests.items()},
        "metadata/annotations.yaml": _text({"annotations": _LABELS}),
        "bundle.Dockerfile": _dockerfile(),
    }


def _spec(rendered: list[Manifest], definitions: list[Manifest], digests: ImageDigests) -> Manifest:
    (deployment,) = (found for found in rendered if found["kind"] == "Deployment")
    return {
        "displayName": "Tideline",
        "description": _WORDS,
        "version": digests.release.version,
        "minKubeVersion": _KUBERNETES_MIN,
        "maturity": "alpha",
        "keywords": ["hudi", "iceberg", "lakehouse", "spark"],
        "provider": {"name": "Tideline"},
        "installModes": [
            {"type": mode, "supported": mode == "AllNamespaces"}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "install": {
            "strategy": "deployment",
            "spec": {
                "clusterPermissions": _permissions(_bound(rendered, "ClusterRole")),
                "permissions": _permissions(_bound(rendered, "Role")),
                "deployments": [
                    {
                        "name": deployment["metadata"]["name"],
                        "label": deployment["metadata"]["labels"],
                        "spec": deployment["spec"],
                    }
                ],
            },
        },
        "customresourcedefinitions": {"owned": [shown_definition(found) for found in definitions]},
        "relatedImages": [
            {"name": name, "image": digests.reference(name)} for name in ("operator", "engine")
        ],
    }


def _annotations(examples: list[Manifest], digests: ImageDigests) -> dict[str, str]:
    return {
        "alm-examples": json.dumps(examples, indent=2, default=str),
        "capabilities": "Deep Insights",
        "categories": "Big Data",
        "certified": "false",
        "containerImage": digests.reference("operator"),
        "description": "Keeps tables of Apache Hudi and Apache Iceberg healthy.",
        "support": "Tideline",
    }


def _bound(rendered: list[Manifest], kind: str) -> list[Manifest]:
    """The roles of this kind that the operator's account has."""
    names = {
        found["roleRef"]["name"]
        for found in rendered
        if found["kind"] == f"{kind}Binding"
        for subject in found["subjects"]
        if (subject["kind"], subject["name"]) == ("ServiceAccount", _ACCOUNT)
    }
    return [
        found for found in rendered if found["kind"] == kind and found["metadata"]["name"] in names
    ]


def _permissions(roles: list[Manifest]) -> list[Manifest]:
    rules = [rule for role in roles for rule in role["rules"]]
    return [{"serviceAccountName": _ACCOUNT, "rules": rules}]


def _dockerfile() -> bytes:
    lines = ["FROM scratch", *(f'LABEL {name}="{text}"' for name, text in _LABELS.items())]
    lines += ["COPY manifests /manifests/", "COPY metadata /metadata/"]
    return ("\n".join(lines) + "\n").encode()


def _text(content: Manifest) -> bytes:
    return yaml.safe_dump(content, sort_keys=False, width=100).encode()
