"""Every launch names the parameters of its kernel, and passes as written what the kernel writes, no more.

What a kernel writes is found in its source, see `kernel_writes`; what a launch passes, see `kernel_launches`.
"""

import ast
import functools
import pathlib

import pytest
from kernel_launches import HostFile, Launch
from kernel_writes import Sources
from rooms import ROOT, source_files

KERNELS = Sources.of_folder(ROOT / "kernels")
LAUNCHERS = pathlib.Path("newtonsim/runtime")
HOST_FILES = [path for path in source_files() if path.parts[0] in ("newtonsim", "solvers", "render")]


@functools.cache
def host_file(path: pathlib.Path) -> HostFile:
    return HostFile(str(path), (ROOT / path).read_text(), KERNELS)


@functools.cache
def forwarders() -> dict[str, tuple[HostFile, ast.FunctionDef]]:
    files = [host_file(path) for path in HOST_FILES if not path.is_relative_to(LAUNCHERS)]
    return {name: (file, node) for file in files for name, node in file.forwarders().items()}


@functools.cache
def launches() -> list[Launch]:
    return [launch for path in HOST_FILES for launch in host_file(path).launches(forwarders())]


def test_launches_pass_as_written_what_their_kernels_write():
    assert [line for launch in launches() for line in launch.complaints()] == []


def test_no_launch_without_names():
    assert [line for path in HOST_FILES for line in host_file(path).positional()] == []


def test_every_kernel_is_found_in_a_launch():
    """But for stages of environments: users write them too, so only the order of their arguments is known."""
    launched = {(kernel.module, kernel.name) for launch in launches() for kernel in launch.kernels}
    missing = {(k.module, k.name) for k in KERNELS.kernels()} - launched
    assert sorted(f"{m}.{n}" for m, n in missing if not m.startswith("newtonsim.kernels.envs.")) == []


VIEW = """
import warp as wp
@wp.struct
class Inner:
    z: wp.array(dtype=float)
@wp.struct
class View:
    x: wp.array(dtype=float)
    y: wp.array2d(dtype=wp.vec3)
    inner: Inner
    count: int
"""
SEEDED = {
    "a struct field": "    view.x[i] = 1.0",
    "a component of an element": "    view.y[i, 0].x = 1.0",
    "a nested struct": "    view.inner.z[i] += 1.0",
    "a called function": "    store(view, i)",
    "a function called by that": "    hand_on(i, view)",
    "an alias": "    a = view.x\n    a[i] = 1.0",
    "an alias made in a loop": "    a = other\n    while i < 2:\n        a[i] = 1.0\n        a = view.x",
    "a row": "    row = view.y[i]\n    row[0] = wp.vec3(1.0)",
    "one of two arrays": "    a = wp.where(i > 0, view.x, other)\n    a[i] = 1.0",
    "a struct made inside": "    made = Inner()\n    made.z = view.x\n    fill(made, i)",
    "the result of a function": "    a = pick(view)\n    a[i] = 1.0",
    "an atomic add": "    wp.atomic_add(view.x, i, 1.0)",
    "C++": "    native(view, i)",
}
FUNCTIONS = '''
@wp.func
def store(v: View, i: int):
    v.x[i] = 2.0
@wp.func
def hand_on(i: int, v: wp.ref[View]):
    store(v, i)
@wp.func
def fill(inner: Inner, i: int):
    inner.z[i] = 3.0
@wp.func
def pick(v: View):
    return v.x
@wp.func_native("""
    float* x = v.x.data + i;
    x[0] = v.inner.z.data[i];
""")
def native(v: View, i: int): ...
'''
SIGNATURE = "@wp.kernel\ndef work(first: int, view: View, other: wp.array(dtype=float)):\n    i = first\n"
HOST = "from newtonsim.kernels.seeded import work\nlaunch(work, 'body', reads=dict(view=a, other=b))\n"


def seeded_complaints(body: str, host: str) -> list[str]:
    sources = Sources({"newtonsim.kernels.seeded": VIEW + FUNCTIONS + SIGNATURE + body})
    file = HostFile("host.py", host, sources)
    return [line for launch in file.launches({}) for line in launch.complaints()]


@pytest.mark.parametrize("body", SEEDED.values(), ids=SEEDED)
def test_a_write_to_what_is_read_is_refused(body: str):
    found = [line for line in seeded_complaints(body, HOST) if "'view'" in line]
    assert len(found) == 1
    where, line = found[0].rsplit(" ", 1)[1].split(":")
    text = (VIEW + FUNCTIONS + SIGNATURE + body).splitlines()
    assert where == "newtonsim.kernels.seeded"
    assert any(word in text[int(line) - 1] for word in ("=", "atomic", "native"))
    written = HOST.replace("reads=dict(view=a, other=b)", "reads=dict(other=b), writes=dict(view=a)")
    assert [line for line in seeded_complaints(body, written) if "'view'" in line] == []


def test_a_local_copy_is_no_write():
    body = "    p = view.y[i, 0]\n    p[0] = 1.0\n    count = view.count\n    count += 1\n    other[i] = p[0]"
    host = HOST.replace("other=b", "").replace("view=a, )", "view=a), writes=dict(other=b)")
    assert seeded_complaints(body, host) == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("reads=dict(view=a)", "'other' is missing"),
        ("reads=dict(view=a, other=b), writes=dict(view=a)", "'view' is unknown or given twice"),
        ("reads=dict(view=a, othr=b), writes=dict(other=b)", "'othr' is unknown or given twice"),
        ("reads=dict(other=b), writes=dict(view=a)", "'view' is passed as written and only read"),
        ("reads=some, writes=dict(view=a)", "the names of the arguments cannot be followed"),
    ],
)
def test_names_that_do_not_fit_are_refused(arguments: str, fault: str):
    host = HOST.replace("reads=dict(view=a, other=b)", arguments)
    assert any(fault in line for line in seeded_complaints("    other[i] = view.x[i]", host))


def test_a_launch_that_names_nothing_is_refused():
    sources = Sources({"newtonsim.kernels.seeded": VIEW + SIGNATURE + "    other[i] = 1.0"})
    host = HOST.replace("reads=dict(view=a, other=b)", "[a, b]")
    assert HostFile("host.py", host, sources).positional() == ["host.py:2: launch names no arguments"]


def test_what_hands_a_kernel_on_is_followed():
    host = """
from newtonsim.kernels.seeded import work
class Stage:
    def each(self, kernel, *, reads, writes):
        launch(kernel, 'body', reads=dict(other=b, **reads), writes=writes)
    def run(self):
        self.each(work, reads=dict(view=a), writes={})
"""
    sources = Sources({"newtonsim.kernels.seeded": VIEW + SIGNATURE + "    other[i] = view.x[i]"})
    file = HostFile("host.py", host, sources)
    around = {name: (file, node) for name, node in file.forwarders().items()}
    (launch,) = file.launches(around)
    (fault,) = launch.complaints()
    assert "'other' is passed as read and written in newtonsim.kernels.seeded:" in fault
