"""When and how kernels are compiled: only those that are needed, side by side, gradients on demand.

Warp compiles a whole kernel file at the first launch of one of its kernels, one file after the other. Here,
what a step launches is found first by a dry run (`load_once`), and then all of it is compiled by all cores.
Code for the backward pass takes three times as long to compile as the forward pass, so kernel files are
compiled without it until a kernel is launched on a tape (`enable_backward`). Graphs that were captured before
keep the code that they were captured with.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

import warp as wp

from newtonsim.errors import NotDifferentiableError
from newtonsim.kernels import lazy_warp
from newtonsim.runtime import headers, kernels_wheel, remembered
from newtonsim.runtime.active_tape import without_tape
from newtonsim.runtime.arguments import NONE, Arguments, Kernel, in_order, last_written
from newtonsim.runtime.compile_locks import CompileLock
from newtonsim.runtime.indexing import index_plainly
from newtonsim.runtime.progress import Progress

BLOCK_DIM = 32
"""Threads of a block on a GPU. Many kernels have a thread for each world, which reads kilobytes of its own:
with Warp's 256, a few thousand worlds would share the caches of few multiprocessors and leave others idle."""

_loaded: set[tuple[wp.Module, str]] = set()
_begun: dict[tuple[wp.Module, str], Future[None]] = {}
_owners: weakref.WeakSet = weakref.WeakSet()
_kinds: set[tuple[object, str]] = set()


class _DryRuns(threading.local):
    """The dry run of a thread; a default of the class is found faster than a missing attribute."""

    modules: list[wp.Module] | None = None


_dry_runs = _DryRuns()


def load(modules: Iterable[wp.Module], device: wp.DeviceLike) -> list[str]:
    """Compile and load kernel modules, on all cores, and tell on stderr if that takes a while.

    Args:
        modules: The modules, such as the `module` of a kernel.
        device: Where they will run.

    Returns:
        Names of the modules that were not in the kernel cache and were compiled.
    """
    device = wp.get_device(device)
    modules = list(dict.fromkeys(modules))
    for module in modules:
        _declare(module)
    begun = [m for m in modules if (m, str(device)) in _begun]
    unloaded = [m for m in modules if m in begun or (m, str(device)) not in _loaded]
    unknown = [m for m in unloaded if not remembered.recall(m, block_dim(device))]
    missing = [m for m in unloaded if not is_cached(m, device) and not _load_from_wheel(m, device)]
    missing = list(dict.fromkeys(begun + missing))
    for module in unloaded:
        if module not in missing:
            _load_one(module, device)
    # what takes longest first, so that no core is left with it at the end
    missing.sort(key=_size, reverse=True)
    if missing:
        with without_tape(), Progress(str(device), [short_name(m) for m in missing]) as progress:
            _load_side_by_side(missing, device, progress)
    remembered.keep(unknown, block_dim(device))
    return [short_name(m) for m in missing]


def begin(module: wp.Module, device: wp.Device) -> None:
    """On a machine that has compiled nothing, begin with a kernel file for the CPU, in the background.

    This reads Warp's headers (`newtonsim.runtime.headers`), which all kernels need, while a solver is made.
    """
    entry = (module, str(device))
    if (
        entry in _loaded
        or entry in _begun
        or not device.is_cpu
        or not headers.are_missing()
        or kernels_wheel.records()
    ):
        return
    _declare(module)
    if not is_cached(module, device):
        headers.share()
        _begun[entry] = _workers().submit(_load_in_turn, module, device)


def load_once(
    owner: object, run: Callable[[], None], device: wp.DeviceLike, extra: Iterable[Kernel] = ()
) -> None:
    """Compile and load what a function launches, before it is called for the first time.

    Args:
        owner: Nothing is done if this was called for the same object before, or for one whose `kernel_kind`
            is the same. What it needs beyond that one is loaded when it is launched.
        run: Launches by `Launcher` only, besides `copies`. It is run dry: nothing is launched.
        device: Where the kernels will run.
        extra: Further kernels that will be needed.
    """
    if owner in _owners:
        return
    _owners.add(owner)
    kind = getattr(owner, "kernel_kind", None)
    if kind is not None:
        if (kind, str(device)) in _kinds:
            return
        _kinds.add((kind, str(device)))
    with dry_run() as modules:
        run()
    load([*modules, *(kernel.module for kernel in extra)], device)


@contextlib.contextmanager
def dry_run() -> Iterator[list[wp.Module]]:
    """Let the launchers of this thread launch nothing, and note the modules of what they would launch."""
    before = _dry_runs.modules
    _dry_runs.modules = noted = []
    try:
        yield noted
    finally:
        _dry_runs.modules = before


def dry_run_modules() -> list[wp.Module] | None:
    """Where the dry run of this thread notes modules, None if there is none."""
    return _dry_runs.modules


def prepare(kernel: Kernel, device: wp.Device, on_tape: bool) -> bool:
    """Load a kernel that is about to be launched, or note it in a dry run.

    Args:
        kernel: The kernel.
        device: Where it will run.
        on_tape: Whether a tape records the launch, so that code for the backward pass is needed.

    Returns:
        Whether to launch it.

    Raises:
        NotDifferentiableError: A tape records, and the kernel has no backward pass.
    """
    if on_tape:
        own_option = kernel.options.get("enable_backward")
        if own_option is False:
            raise NotDifferentiableError(f"kernel {kernel.key} has no gradient")
        if own_option is None:
            enable_backward(kernel.module)
    noted = dry_run_modules()
    if noted is not None:
        noted.append(kernel.module)
        return False
    if (kernel.module, str(device)) not in _loaded:
        load([kernel.module], device)
    return True


def enable_backward(*modules: wp.Module) -> None:
    """Have kernel modules compiled with code for the backward pass from their next launch or `load` on."""
    for module in modules:
        if not module.options["enable_backward"]:
            wp.set_module_options({"enable_backward": True}, module=module)
            _loaded.difference_update([entry for entry in _loaded if entry[0] is module])


def is_differentiable(module: wp.Module) -> bool:
    """Whether tapes record kernels of a module: its file then says `DIFFERENTIABLE = True`."""
    return getattr(sys.modules[module.name], "DIFFERENTIABLE", False)


def is_cached(module: wp.Module, device: wp.DeviceLike) -> bool:
    """Whether the kernel cache holds a module as it is now, for this kind of device."""
    device = wp.get_device(device)
    folder = os.path.join(str(wp.config.kernel_cache_dir), _identifier(module, device))
    endings = (".o",) if device.is_cpu else (".ptx", ".cubin")
    return os.path.isdir(folder) and any(name.endswith(endings) for name in os.listdir(folder))


def short_name(module: wp.Module) -> str:
    """Name of a kernel file below `newtonsim.kernels`, such as "trees.rnea"."""
    return module.name.removeprefix("newtonsim.kernels.")


def block_dim(device: wp.Device) -> int:
    """Threads of a block, for which modules are compiled."""
    return 1 if device.is_cpu else BLOCK_DIM


def launch(
    kernel: Kernel,
    dim: int | tuple[int, ...],
    *,
    device: wp.DeviceLike,
    reads: Arguments = NONE,
    writes: Arguments = NONE,
    **options: Any,
) -> Any:
    """`wp.launch` in blocks of the size that `load` compiles for; any other has a module compiled anew.

    Args:
        kernel: The kernel.
        dim: Number of threads.
        device: Where it runs.
        reads: Arguments that it only reads, by the names of its parameters.
        writes: Arguments that it writes to, or to arrays of.
        options: Further options of `wp.launch`.

    Returns:
        What `wp.launch` returns.

    Raises:
        LaunchError: An argument is missing, given twice or unknown.
    """
    arguments = in_order(kernel, reads, writes)
    index_plainly(kernel.module)
    split = len(arguments) - last_written(kernel, writes)
    blocks = block_dim(wp.get_device(device))
    inputs, outputs = list(arguments[:split]), list(arguments[split:])
    return wp.launch(kernel, dim, inputs, outputs, device=device, block_dim=blocks, **options)


def core_count() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _declare(module: wp.Module) -> None:
    lazy_warp.declare(module.name)
    index_plainly(module)


def _load_side_by_side(modules: list[wp.Module], device: wp.Device, progress: Progress) -> None:
    """Load modules on all cores, those last that other processes are compiling."""

    def try_now(module: wp.Module) -> bool:
        begun = _begun.pop((module, str(device)), None)
        with CompileLock(_identifier(module, device)) as lock:
            if begun is None and not lock.acquire(wait=False):
                return False
            progress.begin(short_name(module))
            # where the attempt in the background failed, this one tells why
            if begun is None or begun.exception() is not None:
                _load_one(module, device)
            progress.end(short_name(module))
        return True

    def wait(module: wp.Module) -> bool:
        progress.begin(short_name(module))
        _load_in_turn(module, device)
        progress.end(short_name(module))
        return True

    headers.share()
    _side_by_side(wait, _side_by_side(try_now, modules))


def _side_by_side(work: Callable[[wp.Module], bool], modules: list[wp.Module]) -> list[wp.Module]:
    """Let all cores work on modules; return those for which the work was not done."""
    futures = {_workers().submit(work, module): module for module in modules}
    try:
        return [futures[future] for future in as_completed(futures) if not future.result()]
    finally:
        for future in futures:
            future.cancel()


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads that compile; they stay, since each begins with two seconds of work on Warp's C++ headers."""
    return ThreadPoolExecutor(core_count(), thread_name_prefix="newtonsim-compile")


def _load_from_wheel(module: wp.Module, device: wp.Device) -> bool:
    """Load a module from the wheel of compiled kernels; return whether it is there and fits."""
    found = remembered.compiled(module, device, block_dim(device))
    if found is None:
        return False
    try:
        module.load(device, block_dim(device), found.binary, found.arch, found.meta)
    except Exception as error:  # Warp raises nothing more special; a driver may be older than the code
        kernels_wheel.leave_alone(f"{short_name(module)} cannot be loaded: {error}")
        return False
    return True


def _identifier(module: wp.Module, device: wp.Device) -> str:
    """Name of the folder of a module in the kernel cache."""
    return module.get_module_identifier(block_dim(device))


def _load_in_turn(module: wp.Module, device: wp.Device) -> None:
    """Load a module when no other process is compiling it."""
    with CompileLock(_identifier(module, device)) as lock:
        lock.acquire(wait=True)
        _load_one(module, device)


def _load_one(module: wp.Module, device: wp.Device) -> None:
    wp.load_module(module, device=device, block_dim=block_dim(device))
    _loaded.add((module, str(device)))


def _size(module: wp.Module) -> int:
    """Measure of how long a module takes to compile: the length of all kernel files that it draws on.

    Modules of a notebook or an interactive session have no file and count as empty.
    """
    waiting, files, seen = [module.name], set(), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            python = sys.modules[name]
            files |= {python.__file__} if getattr(python, "__file__", None) else set()
            values = vars(python).values()
            waiting += sorted({f.__module__ for f in values if isinstance(f, lazy_warp.LazyFunction)})
    return sum(os.path.getsize(file) for file in files)
