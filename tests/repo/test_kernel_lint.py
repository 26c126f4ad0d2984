"""Habits of device code: annotated arguments, kernels that say what a thread does, no nested queries.

On a GPU Warp keeps the stack of a query by box or ray of a `wp.Bvh` or `wp.Mesh` in shared memory, one place
for each thread of a block. Another such query within its loop overwrites that stack: contacts get lost, or
memory is read that is not there. The CPU has a stack for each query and shows nothing of it.
"""

import ast
import pathlib

import pytest
from rooms import ROOT, parsed, source_files

KERNEL_FILES = [path for path in source_files() if path.parts[0] == "kernels"]


def decorator_names(function: ast.FunctionDef) -> set[str]:
    """Return the decorators as text without arguments: {'wp.kernel'}."""
    return {ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list}


def complaints(source: str) -> list[str]:
    """Return one line for each fault of the kernels and functions in a source text."""
    found = []
    for node in ast.walk(parsed(source)):
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


QUERIES = {"wp.mesh_query_aabb", "wp.bvh_query_aabb", "wp.bvh_query_ray", "wp.bvh_query_sphere"}


def calls_in(node: ast.AST) -> set[str]:
    return {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}


def nested_queries(sources: list[str]) -> list[str]:
    """Return the functions in which a query is made, by whatever they call, within the loop of another."""
    nodes = [node for source in sources for node in ast.walk(parsed(source))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    calls = {node.name: calls_in(node) for node in functions}
    querying = {name for name, called in calls.items() if called & QUERIES}
    while more := {name for name, called in calls.items() if called & querying} - querying:
        querying |= more
    found = []
    for node in functions:
        loops = [n for n in ast.walk(node) if isinstance(n, ast.While) and "_query" in ast.unparse(n.test)]
        called = {call for loop in loops for part in loop.body for call in calls_in(part)}
        if called & (querying | QUERIES):
            found.append(node.name)
    return found


def test_no_query_within_the_loop_of_another():
    assert nested_queries([(ROOT / path).read_text() for path in KERNEL_FILES]) == []


def test_the_check_sees_queries_through_calls():
    helper = "def near(m: int):\n    q = wp.mesh_query_aabb(m, a, b)\ndef between(m: int):\n    near(m)\n"
    loop = "def outer(m: int):\n    while wp.mesh_query_aabb_next(q, t):\n        between(m)\n"
    after = "def after(m: int):\n    while wp.bvh_query_next(q, t):\n        pass\n    near(m)\n"
    assert nested_queries([helper, loop, after]) == ["outer"]
