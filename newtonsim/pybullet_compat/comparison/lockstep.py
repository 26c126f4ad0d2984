"""PyBullet's module and ours as one module: a script runs under both at once.

Both get the same arguments, and the script gets PyBullet's answers, so that what it computes from them is
the same for both, and a difference is that of the engines alone.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import newtonsim.pybullet_compat as compat
from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat.api.functions import signature
from newtonsim.pybullet_compat.comparison.differences import Difference, Tolerances, find_difference
from newtonsim.pybullet_compat.comparison.written_files import WrittenFiles
from newtonsim.pybullet_compat.surface import constants as c

_WORLDS = (c.DIRECT, c.GUI, c.GUI_SERVER, c.GUI_MAIN_THREAD, c.SHARED_MEMORY_SERVER, c.SHARED_MEMORY_GUI)
"""Ways to connect that make a world of this process."""


class StepsMade(BaseException):
    """Ends a script after the given number of steps; no `Exception`, so that scripts do not catch it."""


@dataclass(frozen=True, slots=True)
class DifferentCall:
    """A call with different answers.

    Attributes:
        number: How many calls were made until then, with it.
        step: How many steps.
        where: File and line of the script.
        name: Name of the function.
        arguments: As a script writes them.
        difference: What differs.
    """

    number: int
    step: int
    where: str
    name: str
    arguments: str
    difference: Difference

    def __str__(self) -> str:
        return (
            f"call {self.number}, after {self.step} steps, {self.where}\n"
            f"  {self.name}({self.arguments})\n  {self.difference}"
        )


@dataclass(slots=True)
class CallKind:
    """All calls of one function.

    Attributes:
        seconds: How long each took [s], under PyBullet and here.
        differing: How many had different answers.
        first: The first of these, None if there is none.
        worst: The call that differs most, likewise.
    """

    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    differing: int = 0
    first: DifferentCall | None = None
    worst: DifferentCall | None = None


class PairedFunction:
    """A function of both modules, for which `inspect.isbuiltin` is true, as BulletClient requires.

    Args:
        name: Name of the function.
        call: Makes the calls.
    """

    def __init__(self, name: str, call: Callable[..., Any]):
        self.__name__, self._call = name, call

    @property
    def __class__(self) -> type:
        return types.BuiltinFunctionType

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call both and return PyBullet's answer."""
        return self._call(self.__name__, args, keywords)


class Lockstep:
    """Both modules, one call after the other.

    Windows are left out (connections with a window are made with DIRECT), no server is found, and the clock
    of setRealTimeSimulation stands still, as it does in PyBullet without a window. Files that PyBullet writes
    are where the script wants them; ours are in a folder of their own, from which ours are read again.

    Args:
        tolerances: What counts as different.
        steps: Number of steps after which `StepsMade` is raised, None for no end.

    Attributes:
        module: The module, for scripts to import as pybullet.
        calls: Number of calls so far.
        steps_made: Number of steps so far.
        kinds: What is known of each function that was called, by name.
        first: The first call whose answers differ, None if there is none yet.
        first_structural: The first with other ids, counts, names, types or errors.

    Raises:
        NewtonsimError: PyBullet is not installed.
    """

    def __init__(self, tolerances: Tolerances | None = None, steps: int | None = None):
        self.tolerances = tolerances or Tolerances()
        self.calls = self.steps_made = 0
        self.kinds: dict[str, CallKind] = {}
        self.first: DifferentCall | None = None
        self.first_structural: DifferentCall | None = None
        self._most_steps = steps
        self._clients: dict[int, int] = {}
        self._files = WrittenFiles()
        self._real = real_pybullet()
        self.module = self._paired_module()

    def _paired_module(self) -> ModuleType:
        """The module that scripts import."""
        own = {"connect": self._connect, "setRealTimeSimulation": lambda *args, **keywords: None}
        module = ModuleType("pybullet", "PyBullet and newtonsim in lockstep.")
        for name, value in vars(self._real).items():
            if name.startswith("__"):
                continue
            if isinstance(value, types.BuiltinFunctionType):
                call = own.get(name)
                value = PairedFunction(
                    name, self.call if call is None else lambda _, args, kw, call=call: call(*args, **kw)
                )
            setattr(module, name, value)
        return module

    def install(self) -> None:
        """Let `import pybullet` find both modules.

        Raises:
            NewtonsimError: A module of another kind was imported under that name.
        """
        if sys.modules.get("pybullet") not in (None, self._real):
            raise NewtonsimError("pybullet was imported before, and is not the real module")
        sys.modules["pybullet"] = self.module

    def uninstall(self) -> None:
        """Let `import pybullet` find the real module again."""
        sys.modules["pybullet"] = self._real

    def call(self, name: str, args: tuple, keywords: dict[str, Any]) -> Any:
        """Call a function in both modules.

        Args:
            name: Name of the function.
            args: Arguments by place.
            keywords: Arguments by name.

        Returns:
            PyBullet's answer.

        Raises:
            Exception: What PyBullet raises.
            StepsMade: The last step was made.
        """
        kind = self.kinds.setdefault(name, CallKind())
        our_args, our_keywords = self._for_ours(name, args, keywords)
        answers = (
            _timed(getattr(self._real, name), args, keywords, kind.seconds[0]),
            _timed(getattr(compat, name), our_args, our_keywords, kind.seconds[1]),
        )
        self._compare(name, args, keywords, answers)
        if name == "stepSimulation":
            self.steps_made += 1
            if self.steps_made == self._most_steps:
                raise StepsMade
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def ours(self, client: int) -> int:
        """Return the physicsClientId of our module for one of PyBullet's."""
        return self._clients[client]

    def _connect(self, method: int, *args: Any, **keywords: Any) -> int:
        """Make a world in both modules; where a server is looked for, there is none."""
        if method not in _WORLDS:
            return -1
        real = self._real.connect(self._real.DIRECT)
        self._clients[real] = compat.connect(c.DIRECT)
        return real

    def _for_ours(self, name: str, args: tuple, keywords: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Arguments with the physicsClientId of our module, where the numbers are not the same."""
        known = signature(name)
        args, keywords = self._files.redirect(name, known, args, keywords)
        names = list(known.parameters)
        if "physicsClientId" not in names or all(real == ours for real, ours in self._clients.items()):
            return args, keywords
        if len(args) == len(names):
            return (*args[:-1], self._clients.get(args[-1], args[-1])), keywords
        client = keywords.get("physicsClientId", 0)
        return args, {**keywords, "physicsClientId": self._clients.get(client, client)}

    def _compare(self, name: str, args: tuple, keywords: dict[str, Any], answers: tuple[Any, Any]) -> None:
        """Count a call and record differences."""
        self.calls += 1
        difference = find_difference(name, *answers, self.tolerances)
        if difference is None:
            return
        where = _place(sys._getframe(1))
        arguments = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in keywords.items())])
        found = DifferentCall(self.calls, self.steps_made, where, name, arguments, difference)
        self.first = self.first or found
        if difference.structural:
            self.first_structural = self.first_structural or found
        kind = self.kinds[name]
        kind.differing += 1
        kind.first = kind.first or found
        if kind.worst is None or difference.severity > kind.worst.difference.severity:
            kind.worst = found


def real_pybullet() -> ModuleType:
    """Return PyBullet's own module.

    Raises:
        NewtonsimError: It is not installed, or newtonsim has taken its place in this process.
    """
    try:
        import pybullet
    except ImportError as problem:
        raise NewtonsimError("PyBullet itself is not installed: pip install pybullet") from problem
    if not str(getattr(pybullet, "__file__", "")).endswith((".so", ".pyd", ".dylib")):
        raise NewtonsimError("the module pybullet of this process is not the real one")
    return pybullet


def _timed(function: Callable[..., Any], args: tuple, keywords: dict, seconds: list[float]) -> Any:
    """Make a call and time it; return the answer or the exception."""
    start = time.perf_counter()
    try:
        answer = function(*args, **keywords)
    except Exception as problem:
        answer = problem
    seconds.append(time.perf_counter() - start)
    return answer


def _place(frame: FrameType | None) -> str:
    """File and line of the script that called, which is the first frame outside of this folder."""
    here = Path(__file__).parent
    while frame is not None and Path(frame.f_code.co_filename).parent == here:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
