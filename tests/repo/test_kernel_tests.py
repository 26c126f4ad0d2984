"""Every folder of device code has tests that import its functions, found from the imports of the tests."""

import ast
from collections.abc import Iterable, Mapping

from rooms import ROOT, module_name, parsed, source_files

KERNEL_FILES = [path for path in source_files() if path.parts[0] == "kernels"]


def device_functions(source: str) -> set[str]:
    """Return the names of the functions and kernels that run on a device."""
    return {
        node.name
        for node in parsed(source).body
        if isinstance(node, ast.FunctionDef) and any("wp." in ast.unparse(d) for d in node.decorator_list)
    }


def imported_functions(sources: Iterable[str], functions: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Return (module, function) of what tests import: a function, or a module whose functions they name."""
    found = set()
    for source in sources:
        tree = parsed(source)
        named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if alias.name in functions.get(node.module or "", ()):
                    found.add((node.module, alias.name))
                module = f"{node.module}.{alias.name}"
                found |= {(module, name) for name in functions.get(module, set()) & named}
    return found


def folders_without_tests(functions: Mapping[str, set[str]], tests: Iterable[str]) -> list[str]:
    """Return the folders with device functions of which the tests import none."""
    folders = {module.rpartition(".")[0] for module, names in functions.items() if names}
    tested = {module.rpartition(".")[0] for module, _ in imported_functions(tests, functions)}
    return sorted(folders - tested)


def test_every_kernel_folder_has_tests_of_its_functions():
    functions = {module_name(path): device_functions((ROOT / path).read_text()) for path in KERNEL_FILES}
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    tests = [text for text in texts if "newtonsim.kernels" in text]
    assert folders_without_tests(functions, tests) == []


def test_the_check_sees():
    body = "@wp.func\ndef f(x: float):\n    return x\n\n@wp.kernel(module='a')\ndef k():\n    pass\n"
    body += "\ndef host():\n    pass"
    assert device_functions(body) == {"f", "k"}
    functions = {
        "newtonsim.kernels.a.one": {"f"},
        "newtonsim.kernels.b.two": {"g"},
        "newtonsim.kernels.c.views": set(),
    }
    by_name = "from newtonsim.kernels.a.one import f"
    by_module = "from newtonsim.kernels.b import two\ntwo.g"
    assert folders_without_tests(functions, [by_name, by_module]) == []
    # a struct or a constant is no function
    assert folders_without_tests(functions, [by_name, "from newtonsim.kernels.b.two import SIZE"]) == [
        "newtonsim.kernels.b"
    ]
    assert folders_without_tests(functions, ["from newtonsim.kernels.b import two"]) == [
        "newtonsim.kernels.a",
        "newtonsim.kernels.b",
    ]
