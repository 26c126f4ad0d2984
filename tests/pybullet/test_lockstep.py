"""Scripts in lockstep under both modules: what counts as different, and what is told about it."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

import pybullet_data  # noqa: E402

import newtonsim.pybullet_compat as compat  # noqa: E402
from newtonsim.errors import NewtonsimError  # noqa: E402
from newtonsim.pybullet_compat.comparison.differences import Tolerances, find_difference  # noqa: E402
from newtonsim.pybullet_compat.comparison.lockstep import Lockstep, StepsMade  # noqa: E402
from newtonsim.pybullet_compat.comparison.report import report  # noqa: E402

LOOSE = Tolerances(absolute=0.1, relative=0.01)


@pytest.fixture
def run():
    """A run with a world that has a cube; its client has other numbers in the two modules."""
    others = [compat.connect(compat.DIRECT) for _ in range(2)]
    found = Lockstep()
    client = found.module.connect(pybullet.DIRECT)
    found.module.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=client)
    found.module.loadURDF("cube_small.urdf", [0, 0, 1], physicsClientId=client)
    yield found
    found.module.disconnect(client)
    for other in others:
        compat.disconnect(other)


def test_equal_answers_do_not_differ(run):
    p = run.module
    for _ in range(5):
        p.setGravity(0, 0, -9.81)
        p.stepSimulation()
        height = p.getBasePositionAndOrientation(0)[0][2]
    assert p.getNumBodies(0) == 1  # the client by place
    with pytest.raises(p.error, match="body"):
        p.getBodyInfo(5)
    assert run.first is None
    assert (run.calls, run.steps_made) == (19, 5)
    assert height == pytest.approx(1 - 9.81 / 240**2 * 15, abs=1e-3)  # 1 + 2 + ... + 5 steps
    text = report(run, "script.py")
    assert "19 calls, 5 steps" in text
    assert "No call differs." in text


def test_the_first_differing_call_is_told(run, monkeypatch):
    p = run.module
    p.getBasePositionAndOrientation(0)
    moved = ((0.0, 0.0, 1.25), (0.0, 0.0, 0.0, 1.0))
    monkeypatch.setattr(compat, "getBasePositionAndOrientation", lambda *args, **keywords: moved)
    monkeypatch.setattr(compat, "getNumJoints", lambda *args, **keywords: 3)
    answer = p.getBasePositionAndOrientation(0)
    line = inspect.currentframe().f_lineno - 1
    p.getNumJoints(0)
    assert answer[0] == (0, 0, 1)  # PyBullet's
    first = run.first
    assert (first.name, first.number, first.step) == ("getBasePositionAndOrientation", 4, 0)
    assert first.where == f"{__file__}:{line}"
    assert first.difference.place == "[0][2]"
    assert first.difference.amount == pytest.approx(0.25)
    assert not first.difference.structural
    assert run.first_structural.name == "getNumJoints"
    assert run.kinds["getBasePositionAndOrientation"].differing == 1
    text = report(run, "script.py")
    assert "[0][2]: PyBullet 1.0, here 1.25: 0.25 apart" in text
    assert "PyBullet 0, here 3" in text


def test_an_error_of_one_side_is_a_difference(run):
    run.module.setTimeStep(float("nan"))  # which PyBullet takes
    assert run.first_structural.name == "setTimeStep"
    assert isinstance(run.first_structural.difference.ours, compat.error)


def test_times_are_those_of_the_calls(run, monkeypatch):
    import time

    monkeypatch.setattr(compat, "getNumBodies", lambda **keywords: time.sleep(0.01) or 1)
    for _ in range(3):
        run.module.getNumBodies()
    real, ours = run.kinds["getNumBodies"].seconds
    assert len(real) == len(ours) == 3
    assert min(ours) > 0.0099 > 0.005 > min(real)


def test_the_first_difference_of_each_function_is_told_and_how_many_follow(run, monkeypatch):
    p = run.module
    moved = ((0.0, 0.0, 1.25), (0.0, 0.0, 0.0, 1.0))
    monkeypatch.setattr(compat, "getBasePositionAndOrientation", lambda *args, **keywords: moved)
    monkeypatch.setattr(compat, "getNumJoints", lambda *args, **keywords: 3)
    for _ in range(4):
        p.getBasePositionAndOrientation(0)
    p.getNumJoints(0)
    first = run.kinds["getNumJoints"].first
    assert (first.name, first.number) == ("getNumJoints", 7)
    lines = report(run, "script.py").splitlines()
    start = lines.index("First difference of each function:")
    assert lines[start + 1].startswith("  getBasePositionAndOrientation: call 3, after 0 steps, ")
    assert lines[start + 2].endswith("; and 3 more of 4 calls")
    assert lines[start + 3].startswith("  getNumJoints: call 7, ")
    assert lines[start + 4].endswith("PyBullet 0, here 3")


def test_times_of_the_first_calls_stand_apart(run, monkeypatch):
    p = run.module
    p.getNumBodies()
    run.kinds["getNumBodies"].seconds = ([4.0e-6, 1.0e-6, 2.0e-6, 3.0e-6], [9.0, 4.0e-6, 6.0e-6, 8.0e-6])
    row = next(line for line in report(run, "s").splitlines() if line.startswith("getNumBodies"))
    assert row.split() == ["getNumBodies", "4", "2.0", "6.0", "3", "0.0", "9000.0"]


def test_each_engine_reads_the_files_that_it_wrote_itself(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    p = run.module
    for name in ("state.bullet", str(tmp_path / "again.bullet")):
        p.resetBaseVelocity(0, [1.0, 0.0, 0.0])
        p.saveBullet(bulletFileName=name)
        p.stepSimulation()
        p.restoreState(fileName=name)
        p.getBasePositionAndOrientation(0)
    log = p.startStateLogging(p.STATE_LOGGING_GENERIC_ROBOT, "robot.bin")
    p.stepSimulation()
    p.stopStateLogging(log)
    p.saveWorld("world.py")
    assert run.first is None, run.first
    # the script finds PyBullet's, and nothing else
    names = {"again.bullet", "robot.bin", "state.bullet", "world.py"}
    assert {path.name for path in tmp_path.iterdir()} == names
    real = pybullet.connect(pybullet.DIRECT)
    pybullet.setAdditionalSearchPath(pybullet_data.getDataPath(), physicsClientId=real)
    pybullet.loadURDF("cube_small.urdf", [0, 0, 3], physicsClientId=real)
    pybullet.restoreState(fileName="state.bullet", physicsClientId=real)
    assert pybullet.getBasePositionAndOrientation(0, physicsClientId=real)[0][2] == 1.0
    pybullet.disconnect(real)


def test_a_script_ends_after_its_steps():
    found = Lockstep(steps=3)
    client = found.module.connect(pybullet.GUI)  # no window is opened
    for _ in range(2):
        found.module.stepSimulation(physicsClientId=client)
    with pytest.raises(StepsMade):
        found.module.stepSimulation(physicsClientId=client)
    assert found.steps_made == 3
    found.module.disconnect(client)


def test_servers_are_not_found(run):
    assert run.module.connect(pybullet.SHARED_MEMORY) == -1


def test_bullet_clients_work_on_the_pair(run):
    run.install()
    try:
        sys.modules.pop("pybullet_utils.bullet_client", None)
        from pybullet_utils.bullet_client import BulletClient

        client = BulletClient(pybullet.DIRECT)
        client.createMultiBody(1.0)
        assert client.getNumBodies() == 1
        assert run.kinds["getNumBodies"].seconds[1]
        assert run.first is None
    finally:
        run.uninstall()
        sys.modules.pop("pybullet_utils.bullet_client", None)


def test_foreign_modules_are_refused(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet", compat)
    with pytest.raises(NewtonsimError, match="not the real one"):
        Lockstep()
    with pytest.raises(NewtonsimError, match="imported before"):
        run.install()


@pytest.mark.parametrize(
    ("real", "ours"),
    [
        (1, 1.0),
        ((1.0, 2.0), [1.0, 2.0]),
        ((1.0, 2.0), (1.0,)),
        ("a", "b"),
        ({"a": 1}, {"b": 1}),
        (True, 1),
        (None, ()),
        (pybullet.error("a"), ValueError("a")),
        (1, compat.error("a")),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros(3, np.float32)),
    ],
)
def test_structure_has_no_tolerance(real, ours):
    difference = find_difference("f", real, ours, LOOSE)
    assert difference is not None
    assert difference.structural


def test_numbers_have_tolerances_of_their_vector():
    assert find_difference("f", (100.0, 0.0), (101.0, 1.0), LOOSE) is None  # 0.1 + 1 % of 100
    found = find_difference("f", (1, (100.0, 0.0)), (1, (100.0, 1.2)), LOOSE)
    assert (found.place, found.amount) == ("[1][1]", 1.2)
    assert found.allowed == pytest.approx(1.1)
    assert find_difference("f", np.array([100.0, 0.0]), np.array([100.0, 1.2]), LOOSE).amount == 1.2
    for at in range(3):  # whichever entry it is
        ours = [(5.0, 0) if n == at else (1.0, 0) for n in range(3)]
        assert find_difference("f", ((1.0, 0),) * 3, tuple(ours), LOOSE).place == f"[{at}][0]"
    for key in "ab":
        found = find_difference("f", {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0, key: 9.0}, LOOSE)
        assert found.place == f"['{key}']"
    assert find_difference("f", float("nan"), float("nan"), LOOSE) is None
    assert find_difference("f", float("nan"), 1.0, LOOSE).structural
    assert find_difference("f", pybullet.error("a"), compat.error("b"), LOOSE) is None


def test_quaternions_count_up_to_their_sign():
    half = 0.5**0.5
    assert find_difference("f", (0.0, 0.0, half, half), (0.0, 0.0, -half, -half), LOOSE) is None
    assert find_difference("f", (0.0, 0.0, half, half), (0.0, 0.0, half, -half), LOOSE) is not None
    assert find_difference("f", (1.0, 2.0, 3.0, 4.0), (-1.0, -2.0, -3.0, -4.0), LOOSE) is not None


def point(force: float, distance: float, pair=(0, 1, -1, -1)) -> tuple:
    """A contact point with a normal along z and a tenth of the force along x."""
    x, y, z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    return (0, *pair, (0.0,) * 3, (0.0,) * 3, z, distance, force, 0.1 * force, x, 0.0, y)


def test_contact_points_are_compared_by_pairs():
    one, four = (point(8.0, 0.0),), (point(2.0, 0.0),) * 4
    assert find_difference("getContactPoints", one, four, LOOSE) is None
    found = find_difference("getContactPoints", one, four[1:], LOOSE)
    assert found.amount == pytest.approx(2.0)
    assert "bodies 0 and 1" in found.place
    near, far = point(4.0, -0.3), point(4.0, 0.0)
    assert find_difference("getContactPoints", (near, far), (far, near), LOOSE) is None
    assert find_difference("getContactPoints", (near, far), (far, far), LOOSE).amount == 0.3
    assert find_difference("getContactPoints", (), (point(0.0, 0.3),), LOOSE) is None
    assert find_difference("getContactPoints", (), (point(2.0, 0.3),), LOOSE).amount == 2.0
    assert find_difference("getContactPoints", (), (point(0.0, -0.3),), LOOSE).amount == 0.3
    assert find_difference("getContactPoints", one, (point(8.0, 0.0, (0, 2, -1, -1)),), LOOSE).amount == 8.0


def test_overlapping_objects_count_in_any_order():
    assert find_difference("getOverlappingObjects", ((0, -1), (1, 2)), ((1, 2), (0, -1)), LOOSE) is None
    assert find_difference("getOverlappingObjects", ((0, -1), (1, 2)), ((1, 3), (0, -1)), LOOSE).structural
    assert find_difference("getOverlappingObjects", None, ((0, -1),), LOOSE).structural


def test_pictures_are_compared_by_pixels():
    def picture(black: int, depth: float = 1.0, seen: int = 0) -> tuple:
        colours = np.full((10, 10, 4), 255, np.uint8)
        colours.reshape(-1, 4)[:black] = 0
        return 10, 10, colours, np.full((10, 10), depth, np.float32), np.full((10, 10), seen, np.int32)

    assert find_difference("getCameraImage", picture(0), picture(2), Tolerances()) is None
    assert find_difference("getCameraImage", picture(0), picture(9), Tolerances()).amount == 0.09
    assert find_difference("getCameraImage", picture(0), picture(0, 0.9), Tolerances()).place == "[3].pixels"
    found = find_difference("getCameraImage", picture(0), picture(0, seen=1), Tolerances())
    assert (found.place, found.amount) == ("[4].pixels", 1.0)


SCRIPT = """
import sys
import pybullet as p
import pybullet_data

p.connect(p.GUI)
p.setAdditionalSearchPath(pybullet_data.getDataPath())
p.loadURDF("cube_small.urdf", [0, 0, 1])
if sys.argv[1:] == ["bad"]:
    p.setGravity(0, 0, float("nan"))
while p.isConnected():
    p.stepSimulation()
"""


@pytest.mark.parametrize(("words", "status"), [([], 0), (["bad"], 1)])
def test_the_command_tells_what_differs(tmp_path, words, status):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "newtonsim",
        "pybullet",
        "--compare",
        "--steps",
        "4",
        str(script),
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    assert "4 steps" in done.stdout
    if words:
        assert f"{script}:10" in done.stdout
        assert "setGravity(0, 0, nan)" in done.stdout
    else:
        assert "No call differs." in done.stdout


def test_links_of_second_shapes_are_foreign_memory():
    shape, odd = ((body, link, 3, (1.0, 1.0, 1.0)) for body, link in ((2, -1), (17, 99)))
    assert find_difference("getCollisionShapeData", (shape, odd), (shape, shape), Tolerances()) is None
    assert find_difference("getCollisionShapeData", (odd, shape), (shape, shape), Tolerances()) is not None
    larger = (*shape[:3], (1.0, 1.0, 2.0))
    assert find_difference("getCollisionShapeData", (shape, larger), (shape, shape), Tolerances()) is not None
