"""The Helm chart of a release: the chart of the tree, with the images by digest in its values, and
what Artifact Hub shows of it.

The archive is written here: `helm package` gives its files the time of the call.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tools.release.image_archives import ImageDigests
from tools.release.manifests import write_archive
from tools.release.notes import changes, section
from tools.release.release import Release, ReleaseError

_NOT_PACKAGED = ("operator.yaml", ".helmignore")
_CHANGES_MAX = 60


def write_chart(source: Path, digests: ImageDigests, folder: Path) -> Path:
    """The chart's folder, below `folder`."""
    chart = folder / "tideline"
    ignored = shutil.ignore_patterns(*_NOT_PACKAGED)
    shutil.copytree(source / "charts" / "tideline", chart, ignore=ignored)
    values = chart / "values.yaml"
    values.write_text(_with_images(values.read_text("utf-8"), digests), "utf-8")
    described = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    described["annotations"] = {
        **described.get("annotations", {}),
        **_annotations(source, chart, digests),
    }
    (chart / "Chart.yaml").write_text(yaml.safe_dump(described, sort_keys=False), "utf-8")
    return chart


def pack_chart(release: Release, chart: Path) -> Path:
    """The archive that Helm installs and pushes; the same bytes for the same files."""
    paths = sorted(path for path in chart.rglob("*") if path.is_file())
    # Helm reads Chart.yaml before the rest.
    paths.sort(key=lambda path: path.name != "Chart.yaml")
    files = {str(path.relative_to(chart.parent)): path.read_bytes() for path in paths}
    write_archive(release.chart_archive, files, release.epoch_s)
    # The time that a pushed chart has.
    os.utime(release.chart_archive, (release.epoch_s, release.epoch_s))
    return release.chart_archive


def shown_definition(definition: dict[str, Any]) -> dict[str, str]:
    """What catalogs of charts and of operators show of a resource's definition."""
    spec = definition["spec"]
    version = spec["versions"][0]
    return {
        "kind": spec["names"]["kind"],
        "version": version["name"],
        "name": definition["metadata"]["name"],
        "displayName": spec["names"]["kind"],
        "description": version["schema"]["openAPIV3Schema"]["description"].partition("\n")[0],
    }


def _with_images(values: str, digests: ImageDigests) -> str:
    """The values with their comments, and what is empty in them of each image."""
    for image in ("operator", "engine"):
        empty = rf'(registry: )""(\n +repository: tideline-{image}\n +tag: ""\n +digest: )""'
        filled = rf"\g<1>{digests.release.registry}\g<2>{digests.by_image[image]}"
        values, found = re.subn(empty, filled, values)
        if found != 1:
            raise ReleaseError(f"values.yaml has {found} places for the image of the {image}")
    return values


def _annotations(source: Path, chart: Path, digests: ImageDigests) -> dict[str, str]:
    release = digests.release
    definitions = [
        yaml.safe_load(path.read_text("utf-8")) for path in sorted((chart / "crds").iterdir())
    ]
    shown = changes(section((source / "CHANGELOG.md").read_text("utf-8"), release.version))
    return {
        "artifacthub.io/operator": "true",
        "artifacthub.io/operatorCapabilities": "Deep Insights",
        "artifacthub.io/prerelease": str("-" in release.version).lower(),
        "artifacthub.io/images": _text(
            [
                {"name": f"tideline-{name}", "image": digests.reference(name)}
                for name in ("operator", "engine")
            ]
        ),
        "artifacthub.io/crds": _text([shown_definition(found) for found in definitions]),
        "artifacthub.io/changes": _text(shown[:_CHANGES_MAX]),
    }


def _text(value: Any) -> str:
    return str(yaml.safe_dump(value, sort_keys=False))
