"""Completion scripts for shells, generated from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple


class Words(NamedTuple):
    """Help, options with their choices, and choices of positional arguments of a subcommand."""

    help: str
    options: dict[str, tuple[str, ...]]
    places: tuple[str, ...]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script of a parser for bash, zsh or fish."""
    commands = dict(_commands(parser))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, Words]]:
    from linkwork import robots

    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        help_texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, sub in action.choices.items():
            options: dict[str, tuple[str, ...]] = {}
            places: list[str] = []
            for one in sub._actions:
                choices = tuple(map(str, one.choices or ()))
                if one.option_strings:
                    options |= {word: choices for word in one.option_strings if word.startswith("--")}
                else:
                    places += robots.names() if one.dest in ("robot", "name") else choices
            yield name, Words(help_texts.get(name, ""), options, tuple(places))


def _bash(commands: dict[str, Words]) -> str:
    cases = []
    values = []
    for name, words in commands.items():
        cases.append(f'    {name}) words="{" ".join((*words.options, *words.places))}" ;;')
        values += [
            f'    {name}:{option}) words="{" ".join(c)}" ;;' for option, c in words.options.items() if c
        ]
    return "\n".join([
        "_linkwork() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '  case "${COMP_WORDS[1]}:$before" in', *values, "    *) ;;", "  esac",
        '  if [ -z "$words" ] && [ "$COMP_CWORD" -eq 1 ]; then',
        f'    words="{" ".join(commands)} --help --version"',
        '  elif [ -z "$words" ]; then case "${COMP_WORDS[1]}" in', *cases, "    *) ;;", "  esac; fi",
        '  COMPREPLY=( $(compgen -W "$words" -- "$word") )',
        '  if [ "$COMP_CWORD" -gt 1 ]; then COMPREPLY+=( $(compgen -f -- "$word") ); fi',
        "}",
        "complete -o filenames -F _linkwork linkwork",
        "",
    ])  # fmt: skip


def _zsh(commands: dict[str, Words]) -> str:
    return "\n".join(["autoload -U +X bashcompinit && bashcompinit", _bash(commands)])


def _fish(commands: dict[str, Words]) -> str:
    lines = []
    for name, words in commands.items():
        condition = f'"__fish_seen_subcommand_from {name}"'
        lines.append(f'complete -c linkwork -f -n __fish_use_subcommand -a {name} -d "{_quoted(words.help)}"')
        for option, choices in words.options.items():
            more = f' -x -a "{" ".join(choices)}"' if choices else ""
            lines.append(f"complete -c linkwork -n {condition} -l {option[2:]}{more}")
        if words.places:
            lines.append(f'complete -c linkwork -n {condition} -a "{" ".join(words.places)}"')
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "'")
