"""Completion scripts for shells, generated from the parser by shtab."""

from __future__ import annotations

import argparse

from linkwork import robots
from linkwork.errors import MissingPackageError

ROBOT_ARGUMENTS = ("robot", "name")  # a file or a shipped robot


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a parser for bash, zsh or fish."""
    try:
        import shtab
    except ImportError:
        raise MissingPackageError(
            "completion needs the package shtab, which is not installed: pip install 'linkwork[completion]'"
        ) from None
    names = " ".join(robots.names())
    complete = {"bash": "_linkwork_robots", "zsh": "_linkwork_robots", "fish": names}
    preamble = {
        "bash": f'_linkwork_robots() {{ compgen -W "{names}" -- "$1"; compgen -f -- "$1"; }}',
        "zsh": f"_linkwork_robots() {{ compadd {names}; _files; }}",
    }
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        action.help = "command"  # hidden in the help text, which has an overview of its own
        for subparser in action.choices.values():
            for argument in subparser._actions:
                if argument.dest in ROBOT_ARGUMENTS and not argument.option_strings:
                    argument.complete = complete  # read by shtab
    text: str = shtab.complete(parser, shell, preamble=preamble.get(shell, ""))
    return text
