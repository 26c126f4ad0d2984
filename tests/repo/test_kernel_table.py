"""Heads of kernel files and docs/kernels.md name the callers that imports show, and what kernels access."""

import ast
import pathlib
import re

import kernel_facts
import make_kernel_table as table
import pytest
from rooms import ROOT, module_name, source_files, syntax_tree

FILES = kernel_facts.kernel_files()
BIAS = pathlib.Path("kernels/trees/rnea.py")


def test_heads_and_table_are_up_to_date():
    assert [str(path) for path in table.stale()] == [], f"write them anew with: {table.COMMAND}"


def head(path: pathlib.Path) -> dict[str, str]:
    return table.head_of(ast.get_docstring(syntax_tree(path), clean=False))


def callers(path: pathlib.Path) -> list[str]:
    said = head(path)
    return said.get("Called by", said.get("Used by", "")).split(", ")


def mentions(caller: pathlib.Path, path: pathlib.Path) -> bool:
    """Whether the text of a file imports from a kernel file, in either way of writing that."""
    package, _, name = module_name(path).rpartition(".")
    text = caller.read_text()
    listed = rf"from {re.escape(package)} import (\([^)]*)?[^\n(]*\b{name}\b"
    return f"from {package}.{name} import" in text or re.search(listed, text) is not None


@pytest.mark.parametrize("path", FILES, ids=str)
def test_named_callers_import_the_file(path: pathlib.Path):
    """Searched in their text, not in their syntax trees."""
    for caller in callers(path):
        found = sorted((ROOT / caller).glob("*.py")) if caller.endswith("/") else [ROOT / caller]
        assert any(mentions(file, path) for file in found), caller


IMPORT = re.compile(r"^ *from newtonsim\.(kernels[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def test_files_that_import_a_function_are_named():
    """Searched in their text, for kernels and functions that are imported by their own name."""
    checked = 0
    for file in source_files():
        for module, *names in IMPORT.findall((ROOT / file).read_text()):
            path = pathlib.Path(*module.split(".")).with_suffix(".py")
            functions = {f.name for f in kernel_facts.functions_of(path)} if path in FILES else set()
            if functions & set(re.findall(r"\w+", " ".join(names))):
                assert str(file) in callers(path) or f"{file.parent}/" in callers(path)
                checked += 1
    assert checked > 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("newtonsim/runtime/launcher.py, ", ""),
        ("Called by: ", "Called by: solvers/base.py, "),
        ("\nReads: ", "\nReads: SleepView, "),
        ("\nWrites: ", "\nWrites: SleepView, "),
        ("\nWrites: ", "\nWritten: "),
    ],
)
def test_a_head_that_says_something_else_is_seen(old: str, new: str):
    source = (ROOT / BIAS).read_text()
    assert table.with_head(source, BIAS) == source
    wrong = source.replace(old, new, 1)
    assert wrong != source
    assert table.with_head(wrong, BIAS) == source


@pytest.mark.parametrize("source", ["import warp", '"""Inverse dynamics."""', '"""Inverse.\n\nReads: q\n"""'])
def test_a_file_without_stage_is_refused(source: str):
    with pytest.raises(table.HeadError, match=r"^kernels/trees/rnea.py: .*Stage"):
        table.with_head(source, BIAS)


@pytest.mark.parametrize(
    "source",
    [
        "from newtonsim.kernels.trees.rnea import tree_inverse_dynamics",
        "def late():\n    from newtonsim.kernels.trees.rnea import tree_inverse_dynamics as kernel",
        "from newtonsim.kernels.trees import rnea\nlaunch(rnea.tree_inverse_dynamics)",
        "from newtonsim.kernels.trees import rnea as bias\nlaunch(bias.tree_inverse_dynamics)",
        # a name that another kernel file imports itself
        "from newtonsim.kernels.trees.masked_dynamics import tree_inverse_dynamics",
    ],
)
def test_imports_are_found_however_they_are_written(source: str):
    names = set(kernel_facts.Imports.of(ast.parse(source)).kernel_names())
    assert names == {("newtonsim.kernels.trees.rnea", "tree_inverse_dynamics")}


def test_an_import_of_a_module_alone_is_no_call():
    source = "from newtonsim.kernels.trees import rnea\nprint(rnea.__name__)"
    assert list(kernel_facts.Imports.of(ast.parse(source)).kernel_names()) == []


def test_the_table_links_every_file():
    links = re.findall(r"\]\(\.\./([^)]+)\)", (ROOT / table.TABLE).read_text())
    assert sorted(links) == sorted(map(str, FILES))
