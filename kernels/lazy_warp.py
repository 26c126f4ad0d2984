"""Warp as kernel files import it: kernels and functions are registered with it when they are first used.

`@wp.kernel` and `@wp.func` parse the source of the decorated function and search for all functions that it
calls, which takes a millisecond each. A robot's step launches a dozen of five hundred kernels, and if their
compiled modules are known (`newtonsim.runtime.remembered`), the functions that they call are not needed.
Here, both decorators therefore only keep the Python function until more is needed. A kernel is then
registered together with all kernels of its file, since Warp compiles these as one module.

Warp makes a hundred thousand objects that stay as long as the process. Garbage collections leave them out
from here on: a full one takes 0.1 s with them, in the middle of a start or, later, of a control loop.

All other names are those of Warp. A name stands for one function: overloads are not supported.

This depends on Warp's internals, and is active only in tested versions. In any other version, the decorators
are Warp's own, nothing is stored, and starts take a second longer.

Stage: all stages, what kernel files are written in
Used by: newtonsim/runtime/compilation.py, newtonsim/runtime/remembered.py
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import warp as _warp

MOST_OBJECTS = 150_000
"""Number of objects beyond which a process holds more than Warp, NumPy and the beginnings of a program, which
may become garbage: nothing is then left out of collections."""

if len(gc.get_objects()) < MOST_OBJECTS:
    gc.freeze()

READ_SINCE = time.time()
"""When the first kernel file was read [s since the epoch]: one changed later may have been read before."""

TRIED = _warp.config.version.startswith("1.19.")
"""Whether this version of Warp supports deferred declarations."""

_INLINE = {None: None, True: "forceinline", False: "noinline"}
# that of Warp, which registers functions while it generates code: with another one, two threads could wait
# for each other
_lock = _warp._src.codegen._codegen_lock if TRIED else threading.RLock()  # pyright: ignore


def __getattr__(name: str) -> Any:
    """Look up all other names in Warp."""
    return getattr(_warp, name)


class LazyFunction(_warp.Function):
    """A device function that is registered with Warp on first access.

    Args:
        function: What was decorated.
        options: Keywords of `warp.Function`.
    """

    def __init__(self, function: Callable, **options: Any):
        functools.update_wrapper(self, function)
        self._undeclared = options

    def __getattr__(self, name: str) -> Any:
        return _declared(self, name)

    def _declare(self, function: Callable, options: dict[str, Any]) -> None:
        module = _warp.get_module(function.__module__)
        with _Unmodified(module):
            super().__init__(function, function.__name__, "", module=module, scope_locals={}, **options)
        self.__doc__ = function.__doc__


class LazyKernel(_warp.Kernel):
    """A kernel that is registered with Warp on first access, together with the others of its file.

    Args:
        function: What was decorated.
        options: Options of the kernel.
    """

    def __init__(self, function: Callable, **options: Any):
        functools.update_wrapper(self, function)
        self._undeclared = options

    def __getattr__(self, name: str) -> Any:
        return _declared(self, name)

    def _declare(self, function: Callable, options: dict[str, Any]) -> None:
        module = _warp.get_module(function.__module__)
        # the functions that the kernel calls would be asked for their modules, and thereby registered
        module.defer_reference_scan = True
        super().__init__(function, function.__name__, module, options)
        declare(function.__module__)


def declare(file: str) -> _warp.Module:
    """Register all kernels of a file, given by its Python name, with Warp; return Warp's module of these."""
    for value in list(getattr(sys.modules.get(file), "__dict__", {}).values()):
        if isinstance(value, LazyKernel) and value.__module__ == file:
            _declared(value, "module")
    return _warp.get_module(file)


def func(function: Callable | None = None, *, inline: bool | None = None) -> Any:
    """`warp.func`, later."""
    if function is None:
        return functools.partial(func, inline=inline)
    if not TRIED:
        return _warp.func(_known_to_warp(function), inline=inline)
    return LazyFunction(function, doc=(function.__doc__ or "").strip(), inline_hint=_INLINE[inline])


def func_native(snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None) -> Any:
    """`warp.func_native`, later."""
    if not TRIED:
        return _warp.func_native(snippet, adj_snippet, replay_snippet)
    texts = {"native_snippet": snippet, "adj_native_snippet": adj_snippet, "replay_snippet": replay_snippet}
    return functools.partial(LazyFunction, **texts)


def kernel(function: Callable | None = None, *, enable_backward: bool | None = None) -> Any:
    """`warp.kernel`, later."""
    if function is None:
        return functools.partial(kernel, enable_backward=enable_backward)
    if not TRIED:
        return _warp.kernel(_known_to_warp(function), enable_backward=enable_backward)
    options = {} if enable_backward is None else {"enable_backward": enable_backward}
    return LazyKernel(function, **options)


def _known_to_warp(function: Callable) -> Callable:
    """Set `wp` to Warp itself in the file of a function: its compiler requires this for `wp.tid` etc."""
    if function.__globals__.get("wp") is sys.modules[__name__]:
        function.__globals__["wp"] = _warp
    return function


def _declared(late: LazyFunction | LazyKernel, name: str) -> Any:
    """Register a function or kernel with Warp, unless it is registered, and return one of its attributes."""
    with _lock:
        options = late.__dict__.pop("_undeclared", None)
        if options is not None:
            late._declare(_known_to_warp(late.__wrapped__), options)
        return object.__getattribute__(late, name)


class _Unmodified:
    """Preserves a module's hashes while functions of its unchanged file are registered."""

    def __init__(self, module: _warp.Module):
        self._module = module

    def __enter__(self) -> None:
        self._hashes = self._module.hashers, self._module.resolved_options

    def __exit__(self, *error: object) -> None:
        self._module.hashers, self._module.resolved_options = self._hashes
