"""The command ``newtonsim pybullet``: run a script written for PyBullet, unchanged."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback

from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat import stand_ins
from newtonsim.runtime import progress

_STARTERS = (__file__, runpy.__file__, "<frozen runpy>")


def pybullet(arguments: argparse.Namespace) -> int:
    """Run a script or a module with newtonsim in place of PyBullet.

    Args:
        arguments: `script`, `module`, `data`, `compare`, `tolerance`, `steps` and `arguments` of the
            command line.

    Returns:
        Exit status: 0, or 1 if the script ended with an error, or a call differs from PyBullet's.
    """
    name, *words = arguments.module or [arguments.script, *arguments.arguments]
    if name is None:
        raise FileNotFoundError("no script given; try: newtonsim pybullet script.py")
    if not arguments.module and not os.path.isfile(name):
        raise FileNotFoundError(f"no such script: {name}")
    sys.argv = [name, *words]
    if arguments.compare:
        return _compare(name, arguments)
    stand_ins.install(arguments.data)
    with progress.shown():
        return _status(name, as_module=bool(arguments.module))


def _compare(name: str, arguments: argparse.Namespace) -> int:
    """Run a script or a module under PyBullet and newtonsim in lockstep, and print what differs."""
    from newtonsim.pybullet_compat.comparison.differences import Tolerances
    from newtonsim.pybullet_compat.comparison.lockstep import Lockstep, StepsMade
    from newtonsim.pybullet_compat.comparison.report import report

    if arguments.data == "own":
        raise NewtonsimError(
            "--data own cannot be combined with --compare: both engines read the models of the real package"
        )
    run = Lockstep(Tolerances(*arguments.tolerance), arguments.steps)
    run.install()
    status = 0
    try:
        with progress.shown():
            status = _status(name, as_module=bool(arguments.module))
    except (StepsMade, SystemExit, KeyboardInterrupt):  # by which scripts end that would run on
        pass
    print(report(run, name))
    return status or int(run.first is not None)


def _status(name: str, as_module: bool) -> int:
    """Run a script or a module; return 0, or print its error and return 1."""
    try:
        _run(name, as_module)
    except Exception as error:
        _print_traceback(error)
        return 1
    return 0


def _run(name: str, as_module: bool) -> None:
    """Run a script or a module as the main program."""
    if as_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        runpy.run_path(name, run_name="__main__")


def _print_traceback(error: Exception) -> None:
    """Print where the script failed, without our own stack frames."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in _STARTERS:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)
