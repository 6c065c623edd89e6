"""A cluster of one node with the four commands of kind that pytest-kind uses.

    get clusters
    create cluster --name NAME --kubeconfig FILE
    load docker-image --name NAME IMAGE...
    delete cluster --name NAME [--kubeconfig FILE]

The node is this machine: a real Kubernetes in its own namespaces, without Docker.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.node.cluster import NodeError, clusters, create_cluster, delete_cluster, load_image


def main() -> int:
    # kind takes images after its options.
    arguments = _parser().parse_intermixed_args()
    try:
        return _run(arguments)
    except (NodeError, TimeoutError, ValueError) as failure:
        print(failure, file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    match arguments.verb, arguments.noun:
        case "get", "clusters":
            found = clusters()
            print("\n".join(found) if found else "No kind clusters found.",
                  file=sys.stdout if found else sys.stderr)  # fmt: skip
        case "create", "cluster":
            if arguments.kubeconfig is None:
                raise NodeError("--kubeconfig FILE is required")
            _refuse_a_strangers_kubeconfig(arguments.kubeconfig)
            create_cluster(arguments.name, arguments.kubeconfig)
        case "load", "docker-image":
            for image in arguments.images:
                load_image(arguments.name, image)
        case "delete", "cluster":
            delete_cluster(arguments.name, arguments.kubeconfig)
        case verb, noun:
            raise NodeError(
                f"there is no command `{verb} {noun}`; see --help for the four there are"
            )
    return 0


def _refuse_a_strangers_kubeconfig(path: Path) -> None:
    """kind adds to a kubeconfig; this program writes a whole one, so there must be none."""
    if path.exists() and path.stat().st_size and "current-context: kind-" not in path.read_text():
        raise NodeError(f"{path} is another cluster's kubeconfig: name another file")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="one-node", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("get", "create", "load", "delete"))
    parser.add_argument("noun", choices=("clusters", "cluster", "docker-image"))
    parser.add_argument("images", nargs="*", metavar="IMAGE")
    parser.add_argument("--name", default="kind")
    parser.add_argument("--kubeconfig", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
