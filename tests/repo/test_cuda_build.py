"""The kernels compile for a GPU, also on machines without one, and for each card that `gpu_static.py` knows.

All files are compiled for the oldest card. What that accepts, newer ones take: their instructions include its
own, and the code that the compiler reads is the same for all, since nothing in it asks how new the card is.
Both is tested; besides, a file of each folder is compiled for every card, and so are kernels over teams.
"""

import contextlib
import importlib
import operator
import pathlib
import re
from collections.abc import Iterator

import pytest
import warp as wp
from emulated_teams import rewritten
from gpu.cards import CARDS
from rooms import ROOT, module_name, source_files

from newtonsim.kernels import lazy_warp
from newtonsim.runtime import compilation
from newtonsim.runtime.indexing import index_plainly

TEAMS = {module for module, _ in rewritten().kernels()}
"""Modules that `test_gpu_static.py` compiles and assembles."""

MODULES = [
    module_name(path)
    for path in source_files()
    if path.parts[0] == "kernels" and re.search(r"^@wp\.kernel", (ROOT / path).read_text(), re.MULTILINE)
]

OLDEST = min(CARDS)

SAMPLE = {name.split(".")[2]: name for name in MODULES if name not in TEAMS}
"""A file of each folder of `kernels`."""

RUNTIME = {"vprintf", "__assertfail", "malloc", "free"}
"""Functions that CUDA's runtime brings."""


@contextlib.contextmanager
def unoptimized(module: wp.Module) -> Iterator[None]:
    """Options of a module under which all that it says goes through the compiler, but for its optimiser."""
    before = dict(module.options)
    backward = compilation.is_differentiable(module)
    wp.set_module_options({"mode": "debug", "enable_backward": backward}, module=module)
    try:
        yield
    finally:
        wp.set_module_options(before, module=module)


def compiled(name: str, arch: int, folder: pathlib.Path) -> wp.Module:
    """Compile a kernel file to intermediate code in a folder, with the backward pass where there is one."""
    module = lazy_warp.declare(importlib.import_module(name).__name__)
    index_plainly(module)
    with unoptimized(module):
        wp.compile_aot_module(module, arch=arch, module_dir=str(folder), use_ptx=True)
    return module


CONDITION = re.compile(r"^\s*#\s*(ifndef|ifdef|if|elif|else|endif)\b(.*)")
COMPARISON = re.compile(r"__CUDA_ARCH__\s*(<=|>=|==|!=|<|>)\s*(\d+)")
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def asks_for_the_card(text: str) -> list[tuple[str, list[str]]]:
    """Lines that compare otherwise on some cards, each with the conditions under which it is read."""
    found: list[tuple[str, list[str]]] = []
    within: list[str] = []
    for line in text.splitlines():
        condition = CONDITION.match(line)
        kind = condition[1] if condition else ""
        if kind in ("elif", "else", "endif"):
            within.pop()
        for sign, number in COMPARISON.findall(line):
            if len({COMPARE[sign](10 * arch, int(number)) for arch in CARDS}) > 1:
                found.append((line.strip(), list(within)))
        if condition and kind != "endif":
            within.append(f"{kind} {condition[2].strip()}".strip())
    return found


def test_no_code_asks_how_new_the_card_is():
    """But Warp's on numbers that no kernel uses, see `test_module_compiles_for_cuda`."""
    own = [path for path in source_files() if path.parts[0] == "kernels"]
    assert [(path, *found) for path in own for found in asks_for_the_card((ROOT / path).read_text())] == []
    native = pathlib.Path(wp.__file__).parent / "native"
    headers = sorted({path for kind in ("*.h", "*.cuh") for path in native.glob(kind)})
    found = [
        (path.name, line, within) for path in headers for line, within in asks_for_the_card(path.read_text())
    ]
    assert found  # so that it is known to find them
    assert [f for f in found if f[0] != "texture.h" and "ifndef WP_NO_BFLOAT16" not in f[2]] == []


def test_what_asks_how_new_the_card_is_is_found():
    text = """
#ifndef A
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#elif __CUDA_ARCH__ < 850
#endif
#endif
#if __CUDA_ARCH__ >= 800
#else
constexpr bool b = (__CUDA_ARCH__ < 1000);
#endif
"""
    assert asks_for_the_card(text) == [
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900", ["ifndef A"]),
        ("#elif __CUDA_ARCH__ < 850", ["ifndef A"]),
        ("constexpr bool b = (__CUDA_ARCH__ < 1000);", ["else"]),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [arch for arch in CARDS if arch != OLDEST])
def test_a_file_of_each_folder_compiles_for_newer_cards(arch: int, tmp_path):
    for name in SAMPLE.values():
        compiled(name, arch, tmp_path / name)
        (path,) = (tmp_path / name).glob("*.ptx")
        code = path.read_text()
        assert f".target sm_{arch}" in code
        assert ".entry" in code


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODULES if name not in TEAMS])
def test_module_compiles_for_cuda(name: str, tmp_path):
    """To PTX, with the backward pass where there is one, as a tape would ask for it.

    The optimiser is left out, which takes a minute for some modules. What the assembler could still refuse is
    asked here: functions that are nowhere, and shared memory of our own beside that of Warp. Modules with
    that are optimised and assembled, too, since it may be too large. The source has none of the numbers,
    textures and clusters of blocks that Warp treats otherwise on newer cards.
    """
    module = compiled(name, OLDEST, tmp_path)
    (path,) = tmp_path.glob("*.ptx")
    code = path.read_text()
    assert ".entry" in code
    if compilation.is_differentiable(module):
        assert re.search(r"\.entry \w+_backward\b", code)
    functions = re.findall(r"\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", code)
    assert set(functions) <= RUNTIME
    (path,) = tmp_path.glob("*.cu")
    source = path.read_text()
    assert "#define WP_NO_BFLOAT16" in source
    assert not re.search(r"\bwp::(adj_)?texture", source)
    (question,) = asks_for_the_card(source)
    assert "__CUDA_ARCH__ >= 900" in question[0]  # before the two definitions of this:
    assert source.count("WP_CLUSTER_DIMS(") == 2
    shared = re.findall(r"\.shared [^;]*?(\w+)(?:\[\d*\])?;", code)
    if any(not array.startswith("_ZZN2wp") for array in shared):  # the namespace of Warp
        wp.compile_aot_module(module, arch=OLDEST, module_dir=str(tmp_path), use_ptx=False)
        assert list(tmp_path.glob("*.cubin"))
