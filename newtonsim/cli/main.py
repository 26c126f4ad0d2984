"""The command ``newtonsim``: runs the requested subcommand, and reports errors on one line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence

from newtonsim.cli.arguments import build_parser
from newtonsim.errors import NewtonsimError
from newtonsim.runtime.devices import start_warp


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; those of the process by default.

    Returns:
        Exit status: 0 success, 1 a world went non-finite or a comparison found a difference, 2 wrong
        arguments or a bad file, 130 interrupted.
    """
    arguments = build_parser().read(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(_folded(message), file=sys.stderr)
            start_warp()
            return _command(arguments.command)(arguments)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (NewtonsimError, OSError) as error:
        print(f"newtonsim: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"newtonsim: error: not enough memory: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("newtonsim: interrupted", file=sys.stderr)
        return 130


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    """Return the function of a command, named like its module; each imports what it needs."""
    name = name.replace("-", "_")
    return getattr(importlib.import_module(f"newtonsim.cli.{name}"), name)


def _folded(message: object) -> str:
    """Return a warning on lines that fit a terminal."""
    lines = textwrap.wrap(f"warning: {message}", 100, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join(lines)


def _one_line(error: Exception) -> str:
    """Return the message of an error on one line; for an OSError, file and reason without the number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split()) or type(error).__name__
