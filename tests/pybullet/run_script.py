"""Runs one script of PyBullet under the real module or under ours, for a number of steps, without a window.

    python run_script.py real|ours SCRIPT STEPS SECONDS REPORT [ARGUMENTS...]

SCRIPT is the name of a module, or `env:NAME` for a gym environment of pybullet_envs. The report is a JSON
file: how the script ended ("steps" when the steps were made, "end" when it was over, "time", or the error),
the number of steps, and the final poses of all bases and links. Scripts in real time step at certain calls.
"""

import importlib.util
import json
import os
import runpy
import signal
import sys
import time
import traceback

KEPT: list = []
"""Environments, so that they do not disconnect before their poses are read."""
PATIENCE = {"real": 10, "ours": 20}
"""Seconds to wait for the first step."""


TICKING = ("setGravity", "getKeyboardEvents", "changeConstraint", "getCameraImage", "getClosestPoints")
"""Functions that loops of scripts call which leave stepping to the clock."""


class Stop(BaseException):
    """Ends a script from outside."""


def patched(module, steps: int, report: dict):
    """Make a module run without windows and stop after a number of steps; functions stay builtins."""
    os.environ["NEWTONSIM_GUI"] = "off"
    connect, step, disconnect = module.connect, module.stepSimulation, module.disconnect
    clients = []

    class Builtin:
        """Passes `inspect.isbuiltin`, which BulletClient asks."""

        def __init__(self, function):
            self.function = function

        @property
        def __class__(self):
            return type(len)

        def __call__(self, *args, **keywords):
            return self.function(*args, **keywords)

    def connect_direct(mode, *args, **keywords):
        if mode in (module.SHARED_MEMORY, module.TCP, module.UDP):
            return -1
        if mode not in (module.DIRECT, module.GUI, module.GUI_SERVER, module.SHARED_MEMORY_SERVER):
            raise RuntimeError(f"connect({mode}) needs a display")  # PyBullet ends the process
        client = connect(module.DIRECT) if report["engine"] == "real" else connect(mode)
        clients.append(client)
        return client

    def counted_step(*args, **keywords):
        answer = step(*args, **keywords)
        report["steps"] += 1
        if report["steps"] >= steps:
            raise Stop("steps")
        return answer

    def positions() -> list:
        found = []
        for client in clients if report["engine"] == "real" else list(our_clients()):
            if module.isConnected(physicsClientId=client):
                for index in range(module.getNumBodies(physicsClientId=client)):
                    body = module.getBodyUniqueId(index, physicsClientId=client)
                    pose = module.getBasePositionAndOrientation(body, physicsClientId=client)
                    found.append([list(pose[0]), list(pose[1])])
                    for joint in range(module.getNumJoints(body, physicsClientId=client)):
                        state = module.getLinkState(body, joint, 0, 1, physicsClientId=client)
                        found.append([list(state[0]), list(state[1])])
        return found

    def our_clients() -> list[int]:
        """Clients of ours that are connected, those of BulletClient too."""
        from newtonsim.pybullet_compat.clients.table import TABLE

        return sorted(TABLE)

    def keep_poses(*args, **keywords):
        report["poses"] = positions()
        return disconnect(*args, **keywords)

    real_time = [False]

    def set_real_time(on, *args, **keywords):
        real_time[0] = bool(on)

    def ticking(function):
        """A call that makes a step where a script leaves stepping to the clock, the same in both engines."""

        def call(*args, **keywords):
            if real_time[0] and clients and module.isConnected(physicsClientId=clients[-1]):
                counted_step(physicsClientId=clients[-1])
            return function(*args, **keywords)

        return call

    module.setRealTimeSimulation = Builtin(set_real_time)
    for name in TICKING:
        setattr(module, name, Builtin(ticking(getattr(module, name))))
    time.sleep = ticking(lambda seconds: None)
    module.connect = Builtin(connect_direct)
    module.stepSimulation = Builtin(counted_step)
    module.disconnect = Builtin(keep_poses)
    if report["engine"] == "real":
        slider = {}

        def add(name, low=0.0, high=1.0, start=0.0, **keywords):
            slider[len(slider)] = min(max(start, low), high) if low <= high else start
            return len(slider) - 1

        module.addUserDebugParameter = Builtin(add)
        module.readUserDebugParameter = Builtin(lambda item, **keywords: slider.get(item, 0.0))
    return positions


def quiet_environment() -> None:
    """No waiting, no windows, no questions."""
    import builtins

    import numpy as np

    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    builtins.input = lambda *args: ""
    np.random.seed(0)  # noqa: NPY002 (the scripts draw from it)
    import random

    random.seed(0)
    for name, kind in (("bool8", np.bool_), ("float", float), ("int", int), ("bool", bool)):
        if name not in vars(np):
            setattr(np, name, kind)


def patch_gym() -> None:
    """Leave out gym's wrappers, which refuse what environments of older gyms do."""
    try:
        import gym
    except ImportError:
        return
    make = gym.make
    gym.make = lambda *args, **keywords: make(*args, **{"disable_env_checker": True, **keywords}).unwrapped


def run_environment(name: str, steps: int) -> None:
    """Reset a gym environment and act at random, the same in both engines."""
    import gym
    import numpy as np
    import pybullet_envs  # noqa: F401 (registers the environments)

    environment = gym.make(name)
    KEPT.append(environment)
    if hasattr(environment, "seed"):
        environment.seed(0)
    environment.reset()
    rng = np.random.default_rng(0)
    space = environment.action_space
    for _ in range(steps):
        if hasattr(space, "low"):
            action = rng.uniform(space.low, space.high).astype(space.dtype)
        else:
            action = int(rng.integers(space.n))
        _, _, done, _ = environment.step(action)
        if done:
            environment.reset()


def main() -> None:
    """Run the script that the command line names."""
    engine, script, steps, seconds, target = sys.argv[1:6]
    report = {"engine": engine, "script": script, "steps": 0, "outcome": "end", "poses": []}
    quiet_environment()
    patch_gym()
    if engine == "ours":
        from newtonsim.pybullet_compat.stand_ins import install

        install(data="real")
    import pybullet

    positions = patched(pybullet, int(steps), report)

    started = time.monotonic()

    def look(*_):
        """Stop what has made no step for long, as scripts do that leave stepping to the clock."""
        passed = time.monotonic() - started
        if passed > (int(seconds) if report["steps"] else PATIENCE[engine]):
            raise Stop("time")

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 2.0, 2.0)
    try:
        if script.startswith("env:"):
            run_environment(script[4:], int(steps))
        else:
            sys.argv = [script, *sys.argv[6:]]
            place = importlib.util.find_spec(script).origin
            sys.path.insert(0, os.path.dirname(place))
            runpy.run_module(script, run_name="__main__", alter_sys=True)
    except Stop as stop:
        report["outcome"] = str(stop)
    except SystemExit as stop:
        report["outcome"] = "end" if stop.code in (None, 0) else f"exit {stop.code}"
    except BaseException as problem:
        report["outcome"] = f"{type(problem).__name__}: {problem}"
        report["trace"] = traceback.format_exc()[-2000:]
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    try:
        report["poses"] = positions() or report["poses"]
    except Exception as problem:
        report["poses_error"] = str(problem)
    with open(target, "w") as file:
        json.dump(report, file)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
