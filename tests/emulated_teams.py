"""Kernels over teams run on the CPU with many lanes, each a fiber of the host, one at a time.

The kernel files are rewritten to call `teams_by_turns` in place of `kernels.algebra.teams`. The lanes take
turns: one runs until its next `sync`, then the next one, in a fixed order. So every run is repeatable, and a
missing `sync` shows: what one lane writes and another reads or overwrites between two syncs happens in the
wrong order in one of two opposite orders of the lanes.
"""

from __future__ import annotations

import ctypes
import importlib
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache, partial
from types import ModuleType

import numpy as np
import teams_by_turns
import warp as wp
from rooms import ROOT, module_name, source_files

from newtonsim.kernels import lazy_warp
from newtonsim.kernels.algebra.teams import Teams
from newtonsim.kernels.views.model import LevelView

TEAMS = "newtonsim.kernels.algebra.teams"
PACKAGE = "kernels_by_turns"
CALL = re.compile(r"\b(sync|sum_lanes|max_lanes|sum_triples|scan_lanes|from_lane)\((\w+)(?=[,)])")


class TeamError(AssertionError):
    """Lanes of a team come to different syncs."""


def takes_teams(kernel: wp.Kernel) -> bool:
    return bool(kernel.adj.args) and kernel.adj.args[0].label == "teams"


def with_structs_between(texts: dict[str, str], modules: set[str]) -> set[str]:
    """Add the kernel files that take structs from files of `modules` and hand them on to others of these."""
    imports = {
        name: set(re.findall(r"^from (\S+) import", text, re.MULTILINE)) for name, text in texts.items()
    }
    found, size = set(modules), 0
    while size < len(found):
        size = len(found)
        wanted = set().union(*(imports[name] for name in found))
        found |= {name for name in texts if name in wanted and imports[name] & found}
    return found - {TEAMS}


class Rewritten:
    """The kernel files that work with teams, rewritten.

    Attributes:
        sites: File, line and text of each `sync` and sum; a site is a place in this list.
    """

    def __init__(self):
        texts = {module_name(p): (ROOT / p).read_text() for p in source_files() if p.parts[0] == "kernels"}
        self._modules = with_structs_between(
            texts, {n for n, t in texts.items() if f"from {TEAMS} import" in t}
        )
        self.sites: list[tuple[str, int, str]] = []
        self._imports: dict[str, set[str]] = {name: set() for name in self._modules}
        self._loaded: dict[str, ModuleType] = {}
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name) / PACKAGE
        folder.mkdir()
        (folder / "__init__.py").touch()
        for name in sorted(self._modules):
            (folder / f"{self._short(name)}.py").write_text(self._rewritten(name, texts[name]))
        sys.path.insert(0, self._folder.name)

    def kernel(self, kernel: wp.Kernel) -> wp.Kernel:
        """The rewritten one."""
        return getattr(self.module(kernel.module.name), kernel.key)

    def module(self, name: str) -> ModuleType:
        """The rewritten form of a kernel file.

        It is compiled as it stands: to optimise it would take longer than all that it is run for.
        """
        if name not in self._loaded:
            self._loaded[name] = module = importlib.import_module(f"{PACKAGE}.{self._short(name)}")
            options = {"optimization_level": 0}
            wp.set_module_options(options, module=lazy_warp.declare(module.__name__))
        return self._loaded[name]

    def kernels(self) -> set[tuple[str, str]]:
        """Module and name of all kernels over teams."""
        found = set()
        for name in self._modules:
            for key, value in vars(importlib.import_module(name)).items():
                if isinstance(value, wp.Kernel) and takes_teams(value):
                    found.add((name, key))
        return found

    def sites_for(self, kernel: wp.Kernel) -> set[int]:
        """The sites of its file and of all that this imports: it comes to no other."""
        files, new = set(), {kernel.module.name}
        while new:
            files |= new
            new = set().union(*(self._imports[name] for name in new)) - files
        return {site for site, (name, _, _) in enumerate(self.sites) if name in files}

    @staticmethod
    def _short(name: str) -> str:
        return name.removeprefix("newtonsim.kernels.").replace(".", "_")

    def _rewritten(self, name: str, text: str) -> str:
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("from newtonsim.kernels."):
                source = line.split()[1]
                if source == TEAMS:
                    lines[number] = line.replace(TEAMS, "teams_by_turns")
                elif source in self._modules:
                    self._imports[name].add(source)
                    lines[number] = line.replace(source, f"{PACKAGE}.{self._short(source)}")
            else:
                lines[number] = CALL.sub(partial(self._site, name, number + 1), line)
        return "\n".join(lines) + "\n"

    def _site(self, name: str, line: int, found: re.Match[str]) -> str:
        """A call with the number of its site."""
        self.sites.append((name, line, found[1]))
        return f"{found[1]}({found[2]}, {len(self.sites) - 1}"


@cache
def rewritten() -> Rewritten:
    return Rewritten()


def emulate(command: wp.Launch, levels: LevelView, order: Sequence[int], skip: int = -1) -> set[int]:
    """Make a recorded launch over teams with as many lanes as stand in `order`.

    Args:
        command: The launch, recorded on the CPU.
        levels: The levels of the model's trees, side by side.
        order: Lanes in the order of their turns.
        skip: A site at which they do not wait.

    Returns:
        The sites at which they met.

    Raises:
        TeamError: Lanes came to different syncs.
    """
    given = zip(command.fwd_args[1:], command.params[2:])
    rest = [levels.__ctype__() if isinstance(v, LevelView.cls) else packed for v, packed in given]
    return run_lanes(rewritten().kernel(command.kernel), command, rest, order, skip)


def run_lanes(
    kernel: wp.Kernel, command: wp.Launch, rest: Sequence[object], order: Sequence[int], skip: int = -1
) -> set[int]:
    """Run a rewritten kernel with the bounds of a launch and packed arguments behind its teams."""
    sites = rewritten().sites
    calls = np.array([teams_by_turns.CALLS[call] for _, _, call in sites], np.int32)
    seen = np.zeros(len(sites), np.uint8)
    meeting = teams_by_turns.Meeting(
        count=len(order), skip=skip, fault=-1, calls=calls.ctypes.data, seen=seen.ctypes.data
    )
    for rank, lane in enumerate(order):
        meeting.order[rank], meeting.rank[lane] = lane, rank
    teams = teams_by_turns.Teams()
    teams.first, teams.shift = command.fwd_args[0].first, len(order).bit_length() - 1
    teams.meet, begin = teams_by_turns.addresses()
    teams.meeting = ctypes.addressof(meeting)
    packed = [teams.__ctype__(), *rest]
    arguments = type(
        "Arguments", (ctypes.Structure,), {"_fields_": [(f"a{i}", type(v)) for i, v in enumerate(packed)]}
    )
    given = (arguments * len(order))(*(arguments(*packed) for _ in order))
    for lane in order:
        given[lane].a0.lane = lane
    hooks = kernel.module.load("cpu", 1).get_kernel_hooks(kernel)
    runtime = teams_by_turns.block_runtime()
    meeting.entry = ctypes.cast(hooks.forward, ctypes.c_void_p).value
    meeting.barrier, meeting.arguments, meeting.size = (
        runtime.tile_sync,
        ctypes.addressof(given),
        ctypes.sizeof(arguments),
    )
    bounds = ctypes.byref(command.bounds)
    assert runtime.run_block(len(order), len(order), begin, bounds, 0, ctypes.byref(meeting))
    if meeting.fault >= 0:
        raise TeamError(f"lanes meet at different places, one of them {sites[meeting.fault]}")
    return set(np.flatnonzero(seen).tolist())


def orders(lanes: int) -> Iterator[list[int]]:
    """Two opposite orders of turns."""
    yield list(range(lanes))
    yield list(range(lanes))[::-1]


class Memory:
    """The arrays of a launch, to look at and to put back."""

    def __init__(self, arrays: Sequence[wp.array]):
        distinct = {a.ptr: a for a in arrays if a.size}
        self._views = [a.numpy().view(np.uint8).reshape(-1) for a in distinct.values() if a.is_contiguous]

    def copy(self) -> list[np.ndarray]:
        return [view.copy() for view in self._views]

    def put_back(self, kept: list[np.ndarray]) -> None:
        for view, values in zip(self._views, kept):
            view[:] = values

    def equals(self, kept: list[np.ndarray]) -> bool:
        return all(np.array_equal(view, values) for view, values in zip(self._views, kept))


assert Teams.cls.__annotations__.keys() < teams_by_turns.Teams.cls.__annotations__.keys()
