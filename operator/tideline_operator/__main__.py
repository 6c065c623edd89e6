"""`tideline-operator` and `python -m tideline_operator`: the embedded reconciler.

The controller that watches a Kubernetes API server runs the same planner; this entry point runs it
on local files.
"""

from __future__ import annotations

import sys

import click

from tideline.errors import TidelineError
from tideline_operator.run import run_command


def main() -> None:
    """Run the command and end the process with its exit code."""
    try:
        sys.exit(run_command.main(prog_name="tideline-operator", standalone_mode=False) or 0)
    except TidelineError as error:
        print(f"tideline-operator: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
