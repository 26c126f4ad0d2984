"""Warp as kernel files import it: what they declare is registered when it is first used.

`@wp.kernel` and `@wp.func` parse the source of what they decorate and look for all that it calls, a
millisecond each. A robot's step launches a dozen of five hundred kernels, and where it is remembered what
they were compiled to (`newtonsim.runtime.remembered`), nothing of the functions that they call is needed.
So here both decorators keep the Python function until anything asks for more. Then Warp is told, of a kernel
together with all kernels of its file, since Warp compiles these as one.

All other names are those of Warp. A name stands for one function: Warp's overloads are not known here.

This reaches into Warp, and does so in the versions that it was tried with. With any other the decorators are
Warp's own, nothing is remembered, and starts take a second longer.

Stage: all stages, what kernel files are written in
Used by: newtonsim/runtime/compilation.py, newtonsim/runtime/remembered.py
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import warp as _warp

READ_SINCE = time.time()
"""When the first kernel file was read [s since the epoch]: one changed later may have been read before."""

TRIED = _warp.config.version.startswith("1.19.")
"""Whether this version of Warp is one of those that declarations can wait in."""

_INLINE = {None: None, True: "forceinline", False: "noinline"}
_lock = threading.RLock()


def __getattr__(name: str) -> Any:
    """Find everything else in Warp."""
    return getattr(_warp, name)


class LazyFunction(_warp.Function):
    """A device function that Warp hears of when it is first asked for anything.

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
    """A kernel that Warp hears of when it is first asked for anything, together with the others of its file.

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
        # what the kernel calls would be asked for its module, and thereby declared
        module.defer_reference_scan = True
        super().__init__(function, function.__name__, module, options)
        declare(function.__module__)


def declare(file: str) -> _warp.Module:
    """Tell Warp of all kernels of a file, by its Python name, and return the module of Warp that has them."""
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
    """Let `wp` be Warp itself in the file of a function: its compiler knows `wp.tid` and the like only so."""
    if function.__globals__.get("wp") is sys.modules[__name__]:
        function.__globals__["wp"] = _warp
    return function


def _declared(late: LazyFunction | LazyKernel, name: str) -> Any:
    """Tell Warp of a function or kernel, unless that has been done, and return one of its attributes."""
    with _lock:
        options = late.__dict__.pop("_undeclared", None)
        if options is not None:
            late._declare(_known_to_warp(late.__wrapped__), options)
        return object.__getattribute__(late, name)


class _Unmodified:
    """Keeps a module's hashes while something is declared in it that its file has always had."""

    def __init__(self, module: _warp.Module):
        self._module = module

    def __enter__(self) -> None:
        self._hashes = self._module.hashers, self._module.resolved_options

    def __exit__(self, *error: object) -> None:
        self._module.hashers, self._module.resolved_options = self._hashes
