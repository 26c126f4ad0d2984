"""Habits of device code: every argument is annotated, and every kernel says what one thread does."""

import ast
import pathlib

import pytest
from rooms import ROOT, source_files

KERNEL_FILES = [path for path in source_files() if path.parts[0] == "kernels"]


def decorator_names(function: ast.FunctionDef) -> set[str]:
    """Return the decorators as text without arguments: {'wp.kernel'}."""
    return {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}


def complaints(source: str) -> list[str]:
    """Return one line for each fault of the kernels and functions in a source text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or not decorator_names(node) & {"wp.kernel", "wp.func"}:
            continue
        for argument in node.args.args:
            if argument.annotation is None:
                found.append(f"{node.name}: argument {argument.arg} has no annotation")
        if "wp.kernel" in decorator_names(node):
            if not ast.get_docstring(node):
                found.append(f"{node.name}: kernel without docstring")
            if node.name.endswith("_kernel"):
                found.append(f"{node.name}: a kernel is named verb_noun, without the word kernel")
    return found


@pytest.mark.parametrize("path", KERNEL_FILES, ids=str)
def test_kernels_are_annotated_and_documented(path: pathlib.Path):
    assert complaints((ROOT / path).read_text()) == []


def test_the_check_sees():
    bad = (
        "@wp.kernel(enable_backward=False)\ndef step_kernel(x):\n    pass\n@wp.func\ndef f(y):\n    return y"
    )
    assert len(complaints(bad)) == 4
    assert complaints('@wp.kernel\ndef step(x: int):\n    """One thread steps a body."""') == []
