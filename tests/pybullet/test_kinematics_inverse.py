"""Inverse kinematics, side by side with the real module.

Both take the same steps, so joint values agree to 1e-7 (orientations go through single precision there);
what the real module cannot do is checked by the distance to the target, which forward kinematics tells.
"""

import os

import numpy as np
import pytest

real = pytest.importorskip("pybullet")
pybullet_data = pytest.importorskip("pybullet_data")

import newtonsim.pybullet_compat as ours  # noqa: E402

FILES = {
    "r2d2": ("r2d2.urdf", 9),
    "kuka": ("kuka_iiwa/model.urdf", 6),
    "franka": ("franka_panda/panda.urdf", 11),
    "laikago": ("laikago/laikago.urdf", 2),
    "humanoid": ("humanoid/humanoid.urdf", 5),
}
POSITION, ORIENTATION = (0.3, 0.2, 1.0), (0.0, 0.0, 0.38941834, 0.92106099)
TOLERANCE = 1e-7
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Arm:
    """A robot in one or both modules, with its joints somewhere."""

    def __init__(self, name: str, modules=(real, ours), fixed: bool = True, options: str = ""):
        file, self.effector = FILES[name]
        self.path = os.path.join(pybullet_data.getDataPath(), file)
        self.clients = [(module, module.connect(module.DIRECT, options=options)) for module in modules]
        for module, client in self.clients:
            module.loadURDF(self.path, POSITION, ORIENTATION, useFixedBase=fixed, physicsClientId=client)
        module, client = self.clients[0]
        count = module.getNumJoints(0, physicsClientId=client)
        kinds = [module.getJointInfo(0, i, physicsClientId=client)[2] for i in range(count)]
        self.joints = [i for i, kind in enumerate(kinds) if kind in (0, 1)]

    def pose(self, q):
        """Set the joints."""
        for module, client in self.clients:
            for joint, x in zip(self.joints, q, strict=True):
                module.resetJointState(0, joint, x, physicsClientId=client)

    def effector_pose(self, link=None):
        """World position and quaternion of a link frame, in the first module."""
        module, client = self.clients[0]
        link = self.effector if link is None else link
        state = module.getLinkState(0, link, computeForwardKinematics=1, physicsClientId=client)
        return np.array(state[4]), np.array(state[5])

    def solve(self, *args, name="calculateInverseKinematics", **kwargs):
        """Results of all modules."""
        if name == "calculateInverseKinematics":
            args = (self.effector, *args)
        found = [getattr(m, name)(0, *args, **kwargs, physicsClientId=c) for m, c in self.clients]
        return [np.array(x) for x in found]

    def close(self):
        """Disconnect."""
        for module, client in self.clients:
            module.disconnect(client)


@pytest.fixture
def arm(request):
    made = Arm(request.param)
    yield made
    made.close()


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def somewhere(arm, rng):
    """Put the joints somewhere, and return a pose that the effector has elsewhere."""
    q = rng.uniform(-0.8, 0.8, len(arm.joints))
    arm.pose(q + rng.uniform(-0.4, 0.4, len(q)))
    target = arm.effector_pose()
    arm.pose(q)
    return q, [x.tolist() for x in target]


robots = pytest.mark.parametrize("arm", ["r2d2", "kuka", "franka", "laikago"], indirect=True)
kuka = pytest.mark.parametrize("arm", ["kuka"], indirect=True)


@robots
@pytest.mark.parametrize("iterations", [1, 20, 200])
@pytest.mark.parametrize("oriented", [False, True])
def test_damped_least_squares(arm, rng, iterations, oriented):
    for _ in range(3):
        _, target = somewhere(arm, rng)
        theirs, mine = arm.solve(*target[: 1 + oriented], maxNumIterations=iterations)
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@robots
def test_residual_threshold(arm, rng):
    for threshold in (-1.0, 1e-3, 0.02, 0.1, 10.0):
        _, target = somewhere(arm, rng)
        theirs, mine = arm.solve(target[0], maxNumIterations=100, residualThreshold=threshold)
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@robots
def test_joint_damping(arm, rng):
    _, target = somewhere(arm, rng)
    plain = arm.solve(target[0])
    damped = arm.solve(target[0], jointDamping=rng.uniform(0.01, 1.0, len(arm.joints)).tolist())
    np.testing.assert_allclose(damped[1], damped[0], atol=TOLERANCE)
    assert np.abs(damped[1] - plain[1]).max() > 10.0 * TOLERANCE
    np.testing.assert_array_equal(arm.solve(target[0])[1], plain[1])


@robots
@pytest.mark.parametrize("oriented", [False, True])
def test_null_space(arm, rng, oriented):
    for width in (0.05, 0.3, 4.0):
        q, target = somewhere(arm, rng)
        lists = [q - width, q + width, np.full(len(q), 12.0), rng.uniform(-0.5, 0.5, len(q))]
        orientation = target[1] if oriented else None
        theirs, mine = arm.solve(target[0], orientation, *(values.tolist() for values in lists))
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@robots
def test_current_positions(arm, rng):
    """They are where the solution starts, and targets then are those of a base at the origin."""
    q, target = somewhere(arm, rng)
    local = (np.array(target[0]) - POSITION).tolist()
    theirs, mine = arm.solve(local, currentPositions=(q + 0.1).tolist())
    np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@kuka
def test_several_effectors(arm, rng):
    for links in ([6], [6, 3], [2, 6, 4]):
        somewhere(arm, rng)
        targets = [(arm.effector_pose(i)[0] + rng.uniform(-0.1, 0.1, 3)).tolist() for i in links]
        for more in ({}, {"jointDamping": [0.1] * 7}, {"maxNumIterations": 90, "residualThreshold": 0.05}):
            theirs, mine = arm.solve(links, targets, name="calculateInverseKinematics2", **more)
            np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
    assert (
        type(ours.calculateInverseKinematics2(0, links, targets, physicsClientId=arm.clients[1][1])) is tuple
    )


@kuka
def test_arguments_that_do_not_fit(arm):
    x = [0.4, 0.2, 1.6]
    for more in (
        {
            "lowerLimits": [-1.0] * 6,
            "upperLimits": [1.0] * 7,
            "jointRanges": [2.0] * 7,
            "restPoses": [0.1] * 7,
        },
        {"restPoses": [0.1] * 7},
        {"targetOrientation": [0.0, 0.0, 1.0]},
        {"jointDamping": [0.1] * 9},
        {"maxNumIterations": 0},
        {"currentPositions": []},
        {"solver": 2},
    ):
        theirs, mine = arm.solve(x, **more)
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE, err_msg=str(more))
    with pytest.warns(RuntimeWarning, match="joint damping"):
        theirs, mine = arm.solve(x, jointDamping=[0.1] * 6)
    np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@kuka
def test_errors(arm):
    x = [0.4, 0.2, 1.6]
    one, two = "calculateInverseKinematics", "calculateInverseKinematics2"
    calls = [
        (one, (0, 6, x[:2]), {}),
        (one, (0, 6, None), {}),
        (one, (0, 7, x), {}),
        (one, (9, 6, x), {}),
        (one, (0, 6, x), {"solver": -1}),
        (one, (0, 6, x), {"currentPositions": [0.1] * 6}),
        (one, (0, 6, x), {"jointDamping": ["a"] * 7}),
        (two, (0, [], []), {}),
        (two, (0, [7], [x]), {}),
        (two, (9, [6], [x]), {}),
        (two, (0, [6], [x[:2]]), {}),
        (two, (0, 6, x), {}),
        (two, (0, [6.0], [x]), {}),
    ]
    for name, args, more in calls:
        texts = []
        for module, client in arm.clients:
            with pytest.raises((module.error, SystemError)) as caught:
                getattr(module, name)(*args, **more, physicsClientId=client)
            texts.append((caught.type is SystemError, str(caught.value)))
        assert texts[0] == texts[1], (name, args, more)


@pytest.mark.parametrize("oriented", [False, True])
@pytest.mark.parametrize("name", ["kuka", "franka"])
def test_selectively_damped_least_squares(name, oriented, rng):
    """The real module ends with a segmentation fault here; ours is to be faster than damped least squares."""
    arm = Arm(name, (ours,))
    for _ in range(10):
        _, target = somewhere(arm, rng)
        (found,) = arm.solve(*target[: 1 + oriented], solver=ours.IK_SDLS, maxNumIterations=100)
        arm.pose(found)
        position, orientation = arm.effector_pose()
        assert np.linalg.norm(position - target[0]) < 2e-4
        if oriented:
            assert abs(orientation @ target[1]) > 1.0 - 1e-3
    arm.close()


def test_spherical_joints(rng):
    """The real module damages its heap here. Roll, pitch and yaw of the result reach the target."""
    arm = Arm("humanoid", (ours,))
    client, target = arm.clients[0][1], np.array([0.5, 0.6, 1.4])
    start = np.linalg.norm(arm.effector_pose()[0] - target)
    (found,) = arm.solve(target.tolist(), solver=ours.IK_SDLS, maxNumIterations=100)
    dof = 0
    for joint in range(ours.getNumJoints(0, physicsClientId=client)):
        kind = ours.getJointInfo(0, joint, physicsClientId=client)[2]
        if kind == ours.JOINT_SPHERICAL:
            turn = ours.getQuaternionFromEuler(found[dof : dof + 3])
            ours.resetJointStateMultiDof(0, joint, turn, physicsClientId=client)
            dof += 3
        elif kind == ours.JOINT_REVOLUTE:
            ours.resetJointState(0, joint, found[dof], physicsClientId=client)
            dof += 1
    assert dof == len(found)
    assert start > 0.5
    assert np.linalg.norm(arm.effector_pose()[0] - target) < 1e-3
    arm.close()


def test_targets_and_null_space_of_several_effectors(rng):
    """The real module ignores the targets here."""
    arm = Arm("kuka", (ours,))
    q, _ = somewhere(arm, rng)
    target = arm.effector_pose()[0] + [0.05, 0.0, -0.1]
    lists = [x.tolist() for x in (q - 2.0, q + 2.0, np.full(7, 4.0), q)]
    (found,) = arm.solve(
        [6], [target.tolist()], *lists, name="calculateInverseKinematics2", maxNumIterations=200
    )
    arm.pose(found)
    assert np.linalg.norm(arm.effector_pose()[0] - target) < 5e-3  # from 0.11 m
    arm.close()


@pytest.mark.parametrize("solver", [ours.IK_DLS, ours.IK_SDLS])
def test_many_worlds(rng, solver):
    """Targets for three worlds at once give what three worlds give alone."""
    one, many = Arm("kuka", (ours,)), Arm("kuka", (ours,), options="--num_worlds=3 --device=cpu")
    q = rng.uniform(-0.5, 0.5, 7)
    one.pose(q)
    many.pose(q)
    x, turn = one.effector_pose()
    targets = x + rng.uniform(-0.2, 0.2, (3, 3))
    lists = [q - 0.3, q + 0.3, np.full(7, 12.0), 0.0 * q]
    names = ("lowerLimits", "upperLimits", "jointRanges", "restPoses")
    resting = {name: values.tolist() for name, values in zip(names, lists, strict=True)}
    for more in ({}, {"jointDamping": [0.1] * 7}, resting):
        (found,) = many.solve(targets, turn, solver=solver, **more)
        assert found.shape == (3, 7)
        for w in range(3):
            (alone,) = one.solve(targets[w].tolist(), turn.tolist(), solver=solver, **more)
            np.testing.assert_allclose(found[w], alone, atol=1e-12)
    one.close()
    many.close()
