"""Argument parser of the command line."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NoReturn

from linkwork.mechanism.names import did_you_mean, plain


class Parser(argparse.ArgumentParser):
    """Argument parser that suggests similar choices and options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; keep them for error messages."""
        self._words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _unknown_options(self) -> list[str]:
        """Return the options of the command line that this parser does not have."""
        options = (word.partition("=")[0] for word in self._words if word.startswith("--"))
        return [
            name
            for name in options
            if not any(known.startswith(name) for known in self._option_string_actions)
        ]

    def error(self, message: str) -> NoReturn:
        """Print a message with suggestions and a reference to the help, and exit with status 2."""
        if message.startswith("the following arguments are required") and (
            unknown := self._unknown_options()
        ):
            message = f"unknown option {unknown[0]}"
        choice = re.search(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice:
            known_words = [word.strip(" '") for word in choice[3].split(",")]
            hint = did_you_mean(choice[2], known_words)
            message = f"{choice[1]}: expected one of {', '.join(known_words)}; got {choice[2]!r}{hint}"
            if choice[1] == "COMMAND":
                message = f"{choice[2]!r} is not a command{hint}"
        extra = re.search(r"unrecognized arguments: (\S+)", message)
        if extra:
            kind = "unknown option" if extra[1].startswith("-") else "unexpected argument"
            message = f"{kind} {extra[1]}"
        option = re.search(r"unknown option (--[\w-]+)", message)
        if option:
            known = sorted(name.lstrip("-") for name in self._option_string_actions)
            hint = did_you_mean(option[1].lstrip("-"), known)  # without dashes, which all have in common
            message += re.sub(r"'(?=\w)", "'--", hint)
        topic = self.prog.partition(" ")[2]
        self.exit(2, f"{self.prog}: {plain(message)}\nSee 'linkwork help{topic and f' {topic}'}'.\n")


_DIGITS = re.compile(r"[0-9]{1,18}")
LAST_PORT = 65_535


def count(text: str) -> int:
    """Return an argument as a positive integer."""
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text}")
    return number


def port(text: str) -> int:
    """Return an argument as a port number."""
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not 1 <= number <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 to {LAST_PORT}, got {text}")
    return number


def assignment(text: str) -> str:
    """Return an argument of the form JOINT=NUMBER."""
    name, _, number = text.rpartition("=")
    try:
        float(number)
    except ValueError:
        name = ""
    if not name:
        raise argparse.ArgumentTypeError(f"expected JOINT=NUMBER, got {text!r}")
    return text


def seconds(text: str) -> float:
    """Return an argument as a positive duration [s]."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text}")
    return number
