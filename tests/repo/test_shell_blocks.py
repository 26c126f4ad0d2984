"""Commands of ours in the shell blocks of README and docs are accepted as pasted, to the last option.

Commands that install packages or manage repositories are not run.
"""

import pathlib
import re
import shlex

import pytest
from rooms import ROOT

from newtonsim.cli.arguments import build_parser

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Return the words of all commands `newtonsim` in the shell blocks of a text."""
    programs = [program for language, program in BLOCK.findall(text) if language in ("", "sh")]
    lines = "\n".join(programs).replace("\\\n", " ").splitlines()
    words = [
        shlex.split(line, comments=True) for line in lines if re.match(r" *(\.venv/bin/)?newtonsim ", line)
    ]
    return [found[1:] for found in words]


WITH_COMMANDS = [page for page in PAGES if commands(page.read_text())]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_are_accepted(page: pathlib.Path):
    for words in commands(page.read_text()):
        assert build_parser().read(words).command == words[0]


def test_all_pages_with_commands_are_seen():
    assert {"command_line", "envs", "learning", "scale_out", "start"} <= {page.stem for page in WITH_COMMANDS}
    assert len(commands((ROOT / "docs" / "command_line.md").read_text())) >= 10


def test_a_wrong_option_is_seen():
    (words,) = commands("```sh\nnewtonsim play run --episode-count 3\n```\n")
    with pytest.raises(SystemExit):
        build_parser().read(words)
