"""A parser that reports an error on one line and suggests what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

_IN_OTHER_WORDS = {
    "compile": "warmup",
    "eval": "play",
    "evaluate": "play",
    "render": "run --snapshot OUT.png",
    "show": "view",
    "simulate": "run",
}
"""Commands by names that other programs have for them."""


class Parser(argparse.ArgumentParser):
    """Parser of a command line with subcommands, each of which has a parser of this kind."""

    commands: Mapping[str, Parser] = {}
    """Parsers of the commands, by their names."""

    def read(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Return the arguments, with the name of the command in `command`.

        Args:
            argv: Arguments without the program name; those of the process by default.

        Raises:
            SystemExit: An argument is wrong; one line on stderr says which, status 2.
        """
        found, unknown = self.parse_known_args(argv)
        if unknown:
            self.commands.get(found.command, self)._refuse(unknown[0])
        return found

    def error(self, message: str) -> NoReturn:
        """Print a message on one line, and exit with status 2."""
        if wrong := re.search(r"argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)", message):
            choices = re.findall(r"[\w-]+", wrong[3])
            what, others = f"{wrong[1]}: no choice", None
            if wrong[1] == "COMMAND":
                what, others = "no command", _IN_OTHER_WORDS
            meant = _meant(wrong[2], choices, others)
            message = f"{what} {wrong[2]!r}{meant}; there are {', '.join(choices)}"
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}; see {self.prog} --help\n")

    def _refuse(self, argument: str) -> NoReturn:
        """Exit because of an argument that the command does not have."""
        name = argument.partition("=")[0]
        self.error(f"no argument {name}{_meant(name, re.findall(r'--[a-z-]+', self.format_help()))}")


def _meant(word: str, choices: Iterable[str], others: Mapping[str, str] | None = None) -> str:
    """Return a question that suggests the choice most similar to a word, or ""."""
    known = others or {}
    alike = [known[word]] if word in known else difflib.get_close_matches(word, list(choices), n=1)
    return f" (did you mean {alike[0]}?)" if alike else ""
