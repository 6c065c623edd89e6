"""Build what the end-to-end tests run on into the user's cache: `python -m e2e.build WHAT...`.

    api-server   kube-apiserver, etcd, kubectl
    tools        helm
    release-tools  crane, cosign, syft, registry, operator-verify; not part of `all`
    actionlint   the check of hosted CI's workflows; not part of `all`
    node         all of Kubernetes, CoreDNS, Debian's packages for a node, the pause image
    images       the project's images
    all          everything, images in parallel to the rest

What exists in the right version is kept, and an interrupted build continues where it stopped. Of
two builders the second one waits for the first and finds the work done.
"""

from __future__ import annotations

import argparse
import fcntl
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from e2e.build import debian_packages, go_tools, images
from tideline.cache_directory import cache_directory

_PARTS: dict[str, tuple[Callable[[], object], ...]] = {
    "api-server": (go_tools.build_api_server,),
    "tools": (go_tools.build_helm,),
    "release-tools": (go_tools.build_release_tools,),
    "actionlint": (go_tools.build_actionlint,),
    "node": (
        lambda: debian_packages.install(debian_packages.NODE_PACKAGES),
        go_tools.build_cluster,
        images.build_pause_image,
    ),
    "images": (images.build_images,),
}
_BY_NAME_ALONE = ("release-tools", "actionlint")
_COMPILED = ("api-server", "tools", *_BY_NAME_ALONE, "node")
"""These compile with all cores, and so run one after another. Images wait for packages most of
the time, and are built in parallel."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", choices=(*_PARTS, "all"))
    wanted = parser.parse_args().what
    if "all" in wanted:
        wanted += [name for name in _PARTS if name not in _BY_NAME_ALONE]
    parts = [name for name in _PARTS if name in wanted]
    compiled = [name for name in parts if name in _COMPILED]
    others = [name for name in parts if name not in _COMPILED]
    with _only_builder(), ThreadPoolExecutor() as pool:
        for lane in [pool.submit(_build, names) for names in (compiled, others)]:
            lane.result()


def _build(parts: Iterable[str]) -> None:
    for name in parts:
        for step in _PARTS[name]:
            step()


@contextmanager
def _only_builder() -> Iterator[None]:
    with (cache_directory() / ".e2e-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
