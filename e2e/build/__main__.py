"""Build what the end-to-end tests run on into the user's cache: `python -m e2e.build WHAT...`.

    api-server   kube-apiserver, etcd, kubectl
    tools        helm
    node         all of Kubernetes, CoreDNS, Debian's packages for a node, the pause image
    images       the project's images
    all          everything, in this order

What is there in the right version is left alone, and an interrupted build goes on where it stopped.
Two builders do not meet: the second one waits for the first and finds the work done.
"""

from __future__ import annotations

import argparse
import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.build import debian_packages, go_tools, images
from tideline.spark.cache_directory import cache_directory

_PARTS: dict[str, tuple[Callable[[], object], ...]] = {
    "api-server": (go_tools.build_api_server,),
    "tools": (go_tools.build_helm,),
    "node": (
        lambda: debian_packages.install(debian_packages.NODE_PACKAGES),
        go_tools.build_cluster,
        images.build_pause_image,
    ),
    "images": (images.build_images,),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m e2e.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", choices=(*_PARTS, "all"))
    wanted = parser.parse_args().what
    with _only_builder():
        for name, steps in _PARTS.items():
            if name in wanted or "all" in wanted:
                for step in steps:
                    step()


@contextmanager
def _only_builder() -> Iterator[None]:
    with (cache_directory() / ".e2e-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
