"""`tideline completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tideline.cli.command import COMPLETION_VARIABLE, command
from tideline.cli.options import json_option
from tideline.cli.output import print_json, print_line

SHELLS = ("bash", "zsh", "fish")


@command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
@click.pass_context
def completion_command(context: click.Context, shell: str, as_json: bool) -> None:
    """Print the script that makes SHELL complete commands, options and names of settings.

    \b
    bash:  eval "$(tideline completion bash)"           in ~/.bashrc
    zsh:   eval "$(tideline completion zsh)"            in ~/.zshrc
    fish:  tideline completion fish | source            in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "tideline", COMPLETION_VARIABLE).source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        print_line(script)
