"""``newtonsim completion``: a completion script for a shell."""

from __future__ import annotations

import argparse

from newtonsim.errors import NewtonsimError


def completion(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    try:
        import shtab
    except ImportError as error:
        raise NewtonsimError("completion needs shtab: pip install 'newtonsim[completion]'") from error
    from newtonsim.cli.arguments import build_parser

    print(shtab.complete(build_parser(), arguments.shell))
    return 0
