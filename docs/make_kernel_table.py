"""Write docs/kernels.md and the heads of the kernel files anew, from imports and sources.

python docs/make_kernel_table.py [--check]

With --check, nothing is written; what would change is listed, and then the exit status is 1.
"""

import argparse
import ast
import collections
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import kernel_facts  # noqa: E402

COMMAND = "python docs/make_kernel_table.py"
TABLE = pathlib.Path("docs/kernels.md")
WIDTH = 109
MOST_TESTS = 3
"""Tests beyond which the table names folders, and folders beyond which it leaves those with few tests out."""
INTRODUCTION = f"""# Kernels, their callers and their tests

This page lists who launches the kernels of each file or calls its functions, and which tests import them. Own
tests import a kernel or a function of the file; tests of its callers import what calls it or, where nothing
imports that, what imports it in turn. If there are many files, the folders with the most tests are listed.
The head of each file states its stage, what it reads and what it writes.

`{COMMAND}` writes this page and those heads; `tests/repo/test_kernel_table.py` compares them
with the imports.
"""


class HeadError(ValueError):
    """A kernel file has no docstring, or one that names no stage."""


def head_of(docstring: str) -> dict[str, str]:
    """Return the paragraphs at the end of a docstring from "Stage:" on, by the words before the colon."""
    found: dict[str, str] = {}
    _, stage, end = docstring.partition("\nStage: ")
    for line in (stage + end).strip().splitlines():
        if line.startswith(" "):
            last = next(reversed(found))
            found[last] += " " + line.strip()
        else:
            name, _, text = line.partition(": ")
            found[name] = text
    return found


def with_head(source: str, path: pathlib.Path) -> str:
    """Return the text of a kernel file with the head that its imports and kernels demand.

    Raises:
        HeadError: It has no docstring, or one that names no stage.
    """
    docstring = ast.get_docstring(ast.parse(source), clean=False)
    if docstring is None or "\nStage: " not in docstring:
        raise HeadError(f"{path}: its docstring has no paragraph 'Stage: ...'")
    head = {"Stage": head_of(docstring)["Stage"], **kernel_facts.facts(path)}
    lines = [_wrapped(f"{name}: {text}") for name, text in head.items()]
    text = docstring.partition("\nStage: ")[0] + "\n" + "\n".join(lines) + "\n"
    return source.replace(docstring, text, 1)


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def table() -> str:
    """Return the text of docs/kernels.md."""
    folders: dict[pathlib.Path, list[pathlib.Path]] = {}
    for path in kernel_facts.kernel_files():
        folders.setdefault(path.parent, []).append(path)
    return "\n".join([INTRODUCTION, *(_section(folder, paths) for folder, paths in sorted(folders.items()))])


def _section(folder: pathlib.Path, paths: list[pathlib.Path]) -> str:
    title = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    rows = [
        f"## {folder}\n",
        " ".join(title.split("\n\n")[0].split()) + "\n",
        "| File | Kernels | Called by | Own tests | Tests of its callers |",
        "| --- | --- | --- | --- | --- |",
    ]
    for path in paths:
        own = kernel_facts.tests_of(path)
        cells = [
            f"[{path.name}](../{path})",
            ", ".join(f"`{name}`" for name in kernel_facts.kernels_of(path)),
            ", ".join(kernel_facts.named(kernel_facts.callers(path))),
            _tests(own),
            _tests(kernel_facts.tests_of_callers(path) - own),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _tests(files: set[pathlib.Path]) -> str:
    if len(files) <= MOST_TESTS:
        return ", ".join(sorted(map(str, files)))
    folders = collections.Counter(str(path.parent) for path in sorted(files))
    return ", ".join(f"{folder}/" for folder, _ in folders.most_common(MOST_TESTS))


def stale() -> dict[pathlib.Path, str]:
    """Return the files that do not say what imports and sources say, with what they should contain.

    Raises:
        HeadError: A kernel file names no stage.
    """
    demanded = {path: with_head(text_of(path), path) for path in kernel_facts.kernel_files()}
    demanded[TABLE] = table()
    return {path: text for path, text in demanded.items() if text_of(path) != text}


def text_of(path: pathlib.Path) -> str:
    """Return the text of a file, nothing if there is none."""
    return (ROOT / path).read_text() if (ROOT / path).exists() else ""


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if anything would change")
    check = parser.parse_args().check
    try:
        found = stale()
    except HeadError as error:
        print(error)
        return 1
    for path, text in found.items():
        print(f"{path} is not up to date; write it with: {COMMAND}" if check else f"wrote {path}")
        if not check:
            (ROOT / path).write_text(text)
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
