"""Numbers that are none, infinite, huge or of another kind, in every argument of every function.

What is taken leaves a world that steps and stays finite; what is refused changes nothing, and is refused as
`error`, or as PyBullet refuses arguments: by TypeError, OverflowError or SystemError.
"""

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pybullet_data")

from full_calls import CALLS, CLOTH, VARIANTS, build

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.surface.signatures import PER_WORLD, SETTERS, SIGNATURES

NAN, INF = math.nan, math.inf
ANEW = {"resetSimulation", "removeBody", "removeConstraint", "removeState"}
"""Functions after which something is missing in the world."""
CASES = [(name, dict(good)) for name, good in CALLS.items()]
CASES += [(name, {**CALLS[name], **changed}) for name, changed in VARIANTS]
NUMBERS = [
    *(pytest.param(name, good, 1, id=f"{name}-{place}") for place, (name, good) in enumerate(CASES)),
    *(pytest.param(name, CALLS[name], 2, id=f"{name}-worlds") for name in sorted(SETTERS)),
]
pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_argument_of_every_function_is_sent():
    """A function that is new, or an argument, is in no call before somebody has written it there."""
    wanted = {name: {p.name for p in function.parameters} for name, function in SIGNATURES.items()}
    assert {name: set(good) for name, good in CALLS.items()} == {
        n: names for n, names in wanted.items() if names
    }


def wrong_values(kind: str, value: object, per_world: bool) -> list:
    """What to send in place of an argument."""
    if kind == "s":
        return []
    if kind == "i":
        return [-2, 1000, 2**31 - 1, 2**40, 0.5, None, NAN, [1]]
    if kind == "d":
        found = [NAN, INF, -INF, 1e30, 1e300, 1e13, 1e-30, -1.0, 0.0, None, "1", [1.0, 2.0, 3.0]]
        return found + ([[value, bad] for bad in (NAN, INF, 1e30, "a", None)] if per_world else [])
    found = ["", None, 5, "abc", {}, [[1, 2, 3]], np.ones((256, 3)), NAN, object(), [1e300, "a"]]
    if not isinstance(value, list) or isinstance(value[0], str):
        return found
    count = len(value)
    if isinstance(value[0], list):
        width = len(value[0])
        found += [[[x] * width] * count for x in (NAN, INF, 1e30, 1e300, 1e13, "a", 0.0)]
        return [*found, value[:-1], [*value, value[0]], [None] * count, [*value[:-1], [NAN] * width]]
    found += [[x] * count for x in (NAN, INF, -INF, 1e30, 1e300, 1e13, "a", 0.0, -1.0)]
    found += [[value, [bad] * count] for bad in (NAN, INF, 1e30)]
    return [*found, value[:-1], [*value, 1.0], [*value[:-1], NAN]]


def numbers(nested: object) -> list[float]:
    """All numbers in nested answers."""
    if isinstance(nested, dict):
        return numbers(list(nested.values()))
    if isinstance(nested, np.ndarray):
        return [] if nested.dtype.kind in "SU" else np.ravel(nested).tolist()
    if isinstance(nested, (tuple, list)):
        return [number for item in nested for number in numbers(item)]
    return [] if nested is None or isinstance(nested, (str, bytes)) else [float(nested)]  # type: ignore[arg-type]


def state(client: int) -> list:
    """All numbers of a world that a call could change."""
    call = {"physicsClientId": client}
    bodies = [compat.getBodyUniqueId(i, **call) for i in range(compat.getNumBodies(**call))]
    joints = {body: compat.getNumJoints(body, **call) for body in bodies}
    constraints = [compat.getConstraintUniqueId(i, **call) for i in range(compat.getNumConstraints(**call))]
    return [
        bodies,
        [compat.getBasePositionAndOrientation(body, **call) for body in bodies],
        [compat.getBaseVelocity(body, **call) for body in bodies],
        [compat.getJointStatesMultiDof(body, range(n), **call) for body, n in joints.items() if n],
        [compat.getDynamicsInfo(body, link, **call) for body, n in joints.items() for link in range(-1, n)],
        [compat.getConstraintInfo(constraint, **call) for constraint in constraints],
        sorted(compat.getPhysicsEngineParameters(**call).items()),
    ]


class World:
    """A client that goes on through all cases; what they have added is removed again."""

    def __init__(self, worlds: int, soft: bool):
        self.soft = soft
        self.client = compat.connect(compat.DIRECT, options=f"--num_worlds={worlds}")
        self.begin()

    def begin(self) -> None:
        compat.resetSimulation(physicsClientId=self.client)
        build(self.client, self.soft)
        self.saved = compat.saveState(physicsClientId=self.client)
        self.bodies, *_, self.constraints, _ = state(self.client)

    def takes(self, name: str, arguments: dict) -> bool:
        """Make a call, and what somebody would do next with what it has made; return whether it was taken."""
        call = {"physicsClientId": self.client}
        try:
            made = getattr(compat, name)(**arguments, **call)
        except (compat.error, TypeError, OverflowError, SystemError):
            return False
        with contextlib.suppress(compat.error):  # where mass and size together are too much
            if name.startswith("createCollisionShape"):
                compat.createMultiBody(1.0, made, basePosition=[0, 0, 5], **call)
            elif name.startswith("createVisualShape"):
                compat.createMultiBody(1.0, -1, made, basePosition=[0, 0, 5], **call)
        return True

    def check(self, name: str, calls: list[dict]) -> None:
        """Make calls with a wrong argument each, and look at the world that they leave."""
        call = {"physicsClientId": self.client}
        refused = [arguments for arguments in calls if not self.takes(name, arguments)]
        before = repr(state(self.client))
        assert not any(self.takes(name, arguments) for arguments in refused)
        assert repr(state(self.client)) == before, "what was refused has changed the world"
        compat.stepSimulation(**call)
        after = state(self.client)
        assert np.isfinite(numbers(after)).all()
        if name in ANEW or len(after[5]) != len(self.constraints):
            self.begin()
            return
        for body in set(after[0]) - set(self.bodies):
            compat.removeBody(body, **call)
        try:
            compat.restoreState(self.saved, **call)
        except compat.error:  # of a body that was free then and is static now
            self.begin()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory):
    """Clients by number of worlds and whether there is cloth; a client after a failure is made anew."""
    made: dict[tuple[int, bool], World] = {}
    yield made
    with contextlib.chdir(tmp_path_factory.mktemp("logs")):  # which end with their clients
        for world in made.values():
            compat.disconnect(world.client)


@pytest.mark.parametrize(("name", "good", "count"), NUMBERS)
def test_no_number_leaves_a_world_that_does_not_step(
    name: str, good: dict, count: int, worlds: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # where logs are written
    kinds = {parameter.name: parameter.kind for parameter in SIGNATURES[name].parameters}
    key = count, any(argument.endswith("UniqueId") and value == CLOTH for argument, value in good.items())
    if key not in worlds:
        worlds[key] = World(*key)
    world = worlds.pop(key)
    calls = [
        {**good, argument: wrong}
        for argument, value in good.items()
        for wrong in wrong_values(kinds[argument], value, count > 1 and argument in PER_WORLD.get(name, ()))
    ]
    try:
        world.check(name, calls)
    except BaseException:
        compat.disconnect(world.client)
        raise
    worlds[key] = world
