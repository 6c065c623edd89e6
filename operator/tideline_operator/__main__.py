"""`tideline-operator` and `python -m tideline_operator`.

`tideline-operator run` is the embedded reconciler of `tideline run`, on local files;
`tideline-operator controller` watches a Kubernetes API server and runs the same planner;
`tideline-operator reader`, in a container of its own beside it, reads the tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tideline.errors import TidelineError
from tideline.masked_stream import mask_standard_error
from tideline_operator.local.run import run_command
from tideline_operator.reading.starting import become_supervisor


@click.group("tideline-operator")
def command() -> None:
    """Keep lakehouse tables as their LakeTables declare them."""


@command.command("controller")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How to reach the cluster from outside.",
)
def controller_command(kubeconfig: Path | None) -> int:
    """Keep the LakeTables of a Kubernetes cluster.

    In a pod it uses the pod's own cluster. Settings are environment variables:
    TIDELINE_ENGINE_IMAGE and others, see docs/operations.md.
    """
    # The Kubernetes client is an extra that the embedded reconciler does without.
    from tideline_operator.controller.main import run_controller

    return run_controller(kubeconfig)


@command.command("reader")
@click.option(
    "--socket",
    "socket_path",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the controller finds it, a Unix socket.",
)
def reader_command(socket_path: Path) -> None:
    """Read tables for a controller, in processes of their own without its rights.

    Settings are environment variables: TIDELINE_READER_MEMORY and others, see docs/operations.md.
    """
    become_supervisor(socket_path)


command.add_command(run_command)


def main() -> None:
    """Run the command and end the process with its exit code."""
    mask_standard_error()
    try:
        sys.exit(command.main(prog_name="tideline-operator", standalone_mode=False) or 0)
    except TidelineError as error:
        print(f"tideline-operator: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
