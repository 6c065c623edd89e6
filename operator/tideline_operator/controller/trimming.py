"""Objects of Kubernetes without the parts that the controller does not read."""

from __future__ import annotations

from tideline.ingest.operation.assignment import REPORT_ANNOTATION
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.object_cache import without_managed_fields
from tideline_operator.launch.worker_job import MEMORY_ANNOTATION

_ANNOTATIONS = (MEMORY_ANNOTATION, REPORT_ANNOTATION)


def short(item: Manifest) -> Manifest:
    """A Job or pod without the parts that are not read here."""
    metadata = without_managed_fields(item)["metadata"]
    annotations = metadata.pop("annotations", None) or {}
    own = {name: text for name, text in annotations.items() if name in _ANNOTATIONS}
    if own:
        metadata["annotations"] = own
    return {
        name: item[name] for name in ("apiVersion", "kind", "metadata", "status") if name in item
    }


def short_pod(pod: Manifest) -> Manifest:
    """A pod without the parts that are not read here: of its spec the resources stay."""
    containers = pod.get("spec", {}).get("containers") or ()
    resources = [{"resources": item["resources"]} for item in containers if "resources" in item]
    return {**short(pod), "spec": {"containers": resources}}
