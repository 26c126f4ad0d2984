"""States, rebuilding, several clients and several worlds."""

import itertools
import time

import numpy as np
import pytest
import warp as wp

import newtonsim.pybullet_compat as p
from newtonsim.pybullet_compat.bullet_client import BulletClient
from newtonsim.scene.checkpoint_file import read_file, write_file


@pytest.fixture
def world():
    client = BulletClient(p.DIRECT)
    client.setGravity(0.0, 0.0, -9.81)
    yield client
    client.disconnect()


def add_box(client, position, half=0.1, mass=1.0) -> int:
    shape = client.createCollisionShape(p.GEOM_BOX, halfExtents=[half] * 3)
    return client.createMultiBody(mass, shape, basePosition=position)


def add_ground(client) -> int:
    return client.createMultiBody(0.0, client.createCollisionShape(p.GEOM_PLANE))


def pile(client) -> list[int]:
    add_ground(client)
    return [add_box(client, [0.03 * i, 0.01 * i, 0.1 + 0.25 * i]) for i in range(4)]


def poses(client, bodies) -> list:
    return [client.getBasePositionAndOrientation(body) for body in bodies]


def test_a_restored_state_replays_bit_by_bit(world):
    boxes = pile(world)
    for _ in range(60):
        world.stepSimulation()
    state = world.saveState()
    for _ in range(60):
        world.stepSimulation()
    first = poses(world, boxes)
    contacts = world.getContactPoints()
    world.restoreState(state)
    for _ in range(60):
        world.stepSimulation()
    assert poses(world, boxes) == first
    assert world.getContactPoints() == contacts
    world.removeState(state)
    with pytest.raises(p.error, match="Couldn't restore state"):
        world.restoreState(state)


def test_states_of_files_come_back_by_order_and_by_id(world, tmp_path):
    """restoreState gives the first body what the first one had, loadBullet each what its id had."""
    shape, path = world.createCollisionShape(p.GEOM_SPHERE, radius=0.1), str(tmp_path / "state.bullet")

    def fill(client) -> None:
        for place in range(3):
            client.createMultiBody(1.0, shape, -1, [place, 0.0, 1.0])

    fill(world)
    world.removeBody(0)
    world.createMultiBody(1.0, shape, -1, [7.0, 0.0, 1.0])
    assert [world.getBodyUniqueId(place) for place in range(3)] == [2, 1, 0]
    world.saveBullet(path)
    other = BulletClient(p.DIRECT)
    other.createCollisionShape(p.GEOM_SPHERE, radius=0.1)
    fill(other)
    for client, call, wanted in (
        (world, lambda client: client.restoreState(fileName=path), [7.0, 1.0, 2.0]),
        (world, lambda client: client.loadBullet(path), [7.0, 1.0, 2.0]),
        (other, lambda client: client.restoreState(fileName=path), [2.0, 1.0, 7.0]),
        (other, lambda client: client.loadBullet(path), [7.0, 1.0, 2.0]),
    ):
        for body in range(3):
            client.resetBasePositionAndOrientation(body, [9.0, 9.0, 9.0], [0.0, 0.0, 0.0, 1.0])
        call(client)
        found = [client.getBasePositionAndOrientation(body)[0][0] for body in range(3)]
        assert found == pytest.approx(wanted, abs=1e-6)
    other.disconnect()


def test_states_go_through_files(world, tmp_path):
    boxes = pile(world)
    for _ in range(60):
        world.stepSimulation()
    before, contacts = poses(world, boxes), world.getContactPoints()
    world.saveBullet(str(tmp_path / "state.bullet"))
    for _ in range(60):
        world.stepSimulation()
    after = poses(world, boxes)
    other = BulletClient(p.DIRECT)
    other.setGravity(0.0, 0.0, -9.81)
    pile(other)
    for client in (world, other):  # in the same world, and in another one with the same bodies
        client.restoreState(fileName=str(tmp_path / "state.bullet"))
        for now, then in zip(poses(client, boxes), before):
            assert np.allclose(np.hstack(now), np.hstack(then), atol=1e-6)
        assert client.getContactPoints() == contacts
        for _ in range(60):
            client.stepSimulation()
        assert poses(client, boxes) == after
    other.removeBody(boxes[-1])
    add_box(other, [3.0, 0.0, 0.1], 0.2)
    other.stepSimulation()
    other.restoreState(fileName=str(tmp_path / "state.bullet"))  # of other shapes: the poses alone
    for now, then in zip(poses(other, boxes), before):
        assert np.allclose(np.hstack(now), np.hstack(then), atol=1e-6)
    other.disconnect()
    with pytest.raises(p.error, match="Couldn't restore state"):
        world.restoreState(fileName=str(tmp_path / "missing.bullet"))


def crowd(worlds: int) -> BulletClient:
    """An arm with motors, a robot, a hanging cube, a pile and something soft."""
    client = BulletClient(p.DIRECT, num_worlds=worlds) if worlds > 1 else BulletClient(p.DIRECT)
    client.setGravity(0.0, 0.0, -9.81)
    client.setAdditionalSearchPath(_data())
    pile(client)
    arm = client.loadURDF("kuka_iiwa/model.urdf", [2.0, 0.0, 0.0], useFixedBase=True)
    for joint in range(7):
        client.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, 0.2 * joint, force=200.0)
    client.loadURDF("r2d2.urdf", [0.0, 3.0, 0.6])
    hung = client.loadURDF("cube_small.urdf", [0.0, 4.0, 1.0])
    client.createConstraint(hung, -1, -1, -1, p.JOINT_POINT2POINT, [0, 0, 0], [0.1, 0, 0], [0, 4, 1])
    client.loadSoftBody("torus.vtk", basePosition=[0, -3, 0.5], mass=1.0, useNeoHookean=1, NeoHookeanMu=400)
    return client


def numbers(client) -> np.ndarray:
    """All coordinates and velocities."""
    found = []
    for body in map(client.getBodyUniqueId, range(client.getNumBodies())):
        found += [*client.getBasePositionAndOrientation(body), *client.getBaseVelocity(body)]
        joints = [client.getJointStateMultiDof(body, joint) for joint in range(client.getNumJoints(body))]
        found += [value for state in joints for value in state[:2]]
        found += [client.getMeshData(body, -1)[1]] if len(client.getMeshData(body, -1)) > 1 else []
    return np.concatenate([np.ravel(value) for value in found])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("worlds", [1, 2])
def test_runs_that_were_cut_are_the_same_to_the_bit(worlds, tmp_path):
    """Cut before the first step, in flight and in contact; into worlds new and used."""
    cuts, steps = (0, 9, 41), 60
    run = crowd(worlds)
    for step in range(steps):
        if step in cuts:
            run.saveBullet(str(tmp_path / f"{step}.bullet"))
        run.stepSimulation()
    expected = numbers(run)
    used = crowd(worlds)
    for cut in cuts:
        for _ in range(7):
            used.stepSimulation()
        new = crowd(worlds)
        for client in (new, used):
            client.restoreState(fileName=str(tmp_path / f"{cut}.bullet"))
            for _ in range(steps - cut):
                client.stepSimulation()
            assert np.array_equal(numbers(client), expected), cut
        new.disconnect()
    for client in (run, used):
        client.disconnect()


def test_damaged_files_change_nothing(world, tmp_path):
    """One bit of the file, its end, something else of that name, and headers that lie with a right hash."""
    file, bad = tmp_path / "state.bullet", tmp_path / "bad.bullet"
    boxes = pile(world)
    for _ in range(20):
        world.stepSimulation()
    world.saveBullet(str(file))
    world.stepSimulation()
    before, data = poses(world, boxes), file.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(20), *rng.integers(0, len(data), 40).tolist()]
    damaged = [data[:n] + bytes([data[n] ^ 1 << int(rng.integers(8))]) + data[n + 1 :] for n in places]
    damaged += [data[:n] for n in (0, 7, 60, len(data) // 2, len(data) - 1)] + [b"PK\3\4" * 99, data + b"\0"]
    for contents in damaged:
        bad.write_bytes(contents)
        for call in (lambda: world.restoreState(fileName=str(bad)), lambda: world.loadBullet(str(bad))):
            with pytest.raises(p.error, match="Couldn't restore state"):
                call()
    facts, arrays = read_file(file)
    for name, wrong in (("1_q", np.zeros((1, 9))), ("1_base", np.zeros((1, 3))), ("1_u", np.zeros(()))):
        write_file(bad, facts, {**arrays, name: wrong})
        with pytest.raises(p.error, match="Couldn't restore state"):
            world.restoreState(fileName=str(bad))
    write_file(bad, facts, {name: array for name, array in arrays.items() if name != "2_u"})
    with pytest.raises(p.error, match="Couldn't restore state"):
        world.restoreState(fileName=str(bad))
    assert poses(world, boxes) == before
    world.restoreState(fileName=str(file))
    assert poses(world, boxes) != before


def test_a_write_that_fails_leaves_the_last_file(world, tmp_path, monkeypatch):
    pile(world)
    world.saveBullet(str(tmp_path / "state.bullet"))
    world.saveWorld(str(tmp_path / "world.py"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("newtonsim.scene.checkpoint_file.os.fsync", full)
    for call, name in ((world.saveBullet, "state.bullet"), (world.saveWorld, "world.py")):
        with pytest.raises(p.error, match=f"Couldn't save .*{name}.*No space left"):
            call(str(tmp_path / name))
        with pytest.raises(p.error, match="Couldn't save"):
            call(str(tmp_path / "none" / name))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_scene_is_written_as_a_script(world, tmp_path):
    world.setAdditionalSearchPath(_data())
    arm = world.loadURDF("kuka_iiwa/model.urdf", [1.0, 2.0, 3.0], useFixedBase=True)
    world.resetJointState(arm, 2, 0.5)
    world.saveWorld(str(tmp_path / "scene.py"))
    text = (tmp_path / "scene.py").read_text()
    assert "kuka_iiwa/model.urdf" in text
    assert "1.000000,2.000000,3.000000" in text
    assert "0.500000" in text


def _data() -> str:
    from newtonsim.pybullet_compat.stand_ins import pybullet_data

    return pybullet_data.getDataPath()


def test_motion_goes_on_over_changes_of_the_scene(world):
    """Adding and removing others must not disturb what falls: same way as alone, with velocities kept."""
    body = add_box(world, [0.0, 0.0, 10.0])
    world.resetBaseVelocity(body, [1.0, 0.0, 0.0], [0.0, 0.0, 2.0])
    for k in range(60):
        world.stepSimulation()
        if k % 10 == 0:
            other = add_box(world, [5.0 + k, 0.0, 1.0])
        if k % 10 == 5:
            world.removeBody(other)
    moved = world.getBasePositionAndOrientation(body)
    alone = BulletClient(p.DIRECT)
    alone.setGravity(0.0, 0.0, -9.81)
    body = add_box(alone, [0.0, 0.0, 10.0])
    alone.resetBaseVelocity(body, [1.0, 0.0, 0.0], [0.0, 0.0, 2.0])
    for _ in range(60):
        alone.stepSimulation()
    expected = alone.getBasePositionAndOrientation(body)
    assert np.allclose(np.hstack(moved), np.hstack(expected), atol=1e-6)
    alone.disconnect()


def test_motors_survive_changes_of_the_scene(world):
    world.setAdditionalSearchPath(_data())
    arm = world.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        world.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, 0.3, force=200.0)
    world.stepSimulation()
    add_box(world, [5.0, 0.0, 1.0])
    for _ in range(240):
        world.stepSimulation()
    assert np.allclose([state[0] for state in world.getJointStates(arm, range(7))], 0.3, atol=2e-3)


def test_freezing_and_freeing_a_body_by_its_mass(world):
    body = add_box(world, [0.0, 0.0, 5.0])
    world.changeDynamics(body, -1, mass=0.0)
    for _ in range(30):
        world.stepSimulation()
    assert world.getBasePositionAndOrientation(body)[0] == (0.0, 0.0, 5.0)
    world.changeDynamics(body, -1, mass=2.0)
    for _ in range(30):
        world.stepSimulation()
    assert world.getBasePositionAndOrientation(body)[0][2] < 4.95


def test_a_static_body_that_is_moved_carries_others(world):
    table = add_box(world, [0.0, 0.0, 1.0], half=0.5, mass=0.0)
    body = add_box(world, [0.0, 0.0, 1.6])
    for _ in range(30):
        world.stepSimulation()
    world.resetBasePositionAndOrientation(table, [0.0, 0.0, 0.8], [0.0, 0.0, 0.0, 1.0])
    for _ in range(240):
        world.stepSimulation()
    assert world.getBasePositionAndOrientation(body)[0][2] == pytest.approx(1.4, abs=2e-3)


def test_clients_do_not_see_each_other(world):
    other = BulletClient(p.DIRECT)
    add_box(world, [0.0, 0.0, 1.0])
    assert (world.getNumBodies(), other.getNumBodies()) == (1, 0)
    other.disconnect()
    assert world.getNumBodies() == 1


def test_real_time_simulation_runs_by_the_clock(monkeypatch):
    monkeypatch.setenv("NEWTONSIM_GUI", "off")
    client = p.connect(p.GUI)
    p.setGravity(0.0, 0.0, -9.81, physicsClientId=client)
    shape = p.createCollisionShape(p.GEOM_SPHERE, radius=0.1, physicsClientId=client)
    body = p.createMultiBody(1.0, shape, basePosition=[0.0, 0.0, 100.0], physicsClientId=client)
    p.stepSimulation(physicsClientId=client)
    p.setRealTimeSimulation(1, physicsClientId=client)
    time.sleep(0.6)
    p.setRealTimeSimulation(0, physicsClientId=client)
    height = p.getBasePositionAndOrientation(body, physicsClientId=client)[0][2]
    p.disconnect(physicsClientId=client)
    assert 100.0 - 4.0 < height < 100.0 - 0.3


def kuka_script(client) -> list:
    """A script of a few steps; returns what it reads."""
    client.setGravity(0.0, 0.0, -9.81)
    client.setAdditionalSearchPath(_data())
    client.loadURDF("plane.urdf")
    arm = client.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    add_box(client, [0.6, 0.1, 0.1])
    seen = []
    for k in range(60):
        for joint in range(7):
            target = 0.3 * np.sin(0.02 * k + joint)
            client.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, target, force=200.0)
        client.stepSimulation()
        if k % 20 == 19:
            seen.append([state[0] for state in client.getJointStates(arm, range(7))])
            seen.append(client.getLinkState(arm, 6)[0])
    return seen


def test_many_worlds_do_what_one_does():
    one, many = BulletClient(p.DIRECT), BulletClient(p.DIRECT, num_worlds=5)
    for single, batch in zip(kuka_script(one), kuka_script(many)):
        worlds = np.array(batch).T if isinstance(batch, list) else batch
        assert worlds.shape == (5, len(single))
        assert np.abs(worlds - np.array(single)).max() < 1e-5
    one.disconnect()
    many.disconnect()


def test_worlds_take_their_own_values():
    client = BulletClient(p.DIRECT, num_worlds=3)
    client.setGravity(0.0, 0.0, -9.81)
    body = add_box(client, [0.0, 0.0, 5.0])
    heights = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    client.resetBasePositionAndOrientation(body, heights, [0.0, 0.0, 0.0, 1.0])
    assert np.array_equal(client.getBasePositionAndOrientation(body)[0], heights)
    client.changeDynamics(body, -1, linearDamping=0.0, angularDamping=0.0)
    for _ in range(24):
        client.stepSimulation()
    fallen = heights[:, 2] - client.getBasePositionAndOrientation(body)[0][:, 2]
    assert np.allclose(fallen, 9.81 / 240**2 * 24 * 25 / 2, atol=1e-5)
    client.disconnect()


def test_some_worlds_go_back_to_a_state():
    client = BulletClient(p.DIRECT, num_worlds=4)
    client.setGravity(0.0, 0.0, -9.81)
    body = add_box(client, [0.0, 0.0, 5.0])
    state = client.saveState()
    for _ in range(30):
        client.stepSimulation()
    low = client.getBasePositionAndOrientation(body)[0][:, 2]
    client.restore_worlds(state, np.array([True, False, False, True]))
    heights = client.getBasePositionAndOrientation(body)[0][:, 2]
    assert np.array_equal(heights, [5.0, low[1], low[2], 5.0])
    client.stepSimulation()
    speed = client.getBaseVelocity(body)[0][:, 2]
    assert abs(speed[0] + 9.81 / 240) < 1e-6
    assert speed[1] < -1.0
    with pytest.raises(p.error, match="worlds:"):
        client.restore_worlds(state, [True])
    client.disconnect()


def test_gradients_through_the_scene_of_a_script(world):
    """Height after a fall with respect to the start height is 1, and to the start velocity the time."""
    from newtonsim.solvers import FeatherstoneSolver

    add_box(world, [0.0, 0.0, 5.0])
    model = world.differentiable_model()
    solver = FeatherstoneSolver(model)
    states = [model.state(requires_grad=True) for _ in range(11)]
    with wp.Tape() as tape:
        for before, after in itertools.pairwise(states):
            solver.step(model, before, after, None, None, 0.01)
    seed = wp.zeros(7, dtype=float, device=model.device)
    seed.assign([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    tape.backward(grads={states[-1].joint_q: seed})
    assert states[0].joint_q.grad.numpy()[2] == pytest.approx(1.0, abs=1e-5)
    assert states[0].joint_qd.grad.numpy()[5] == pytest.approx(0.1, abs=1e-5)


def test_properties_of_worlds_survive_changes_of_the_scene():
    """Friction and mass differ between worlds; a new body rebuilds the model, and they still do."""
    client = BulletClient(p.DIRECT, num_worlds=2)
    client.setGravity(0.0, 0.0, -9.81)
    add_ground(client)
    body = add_box(client, [0.0, 0.0, 0.1])
    client.changeDynamics(body, -1, lateralFriction=np.array([0.0, 1.0]), mass=np.array([1.0, 2.0]))
    client.stepSimulation()
    add_box(client, [5.0, 0.0, 0.1])
    client.resetBaseVelocity(body, [1.0, 0.0, 0.0])
    for _ in range(60):
        client.stepSimulation()
    speed = client.getBaseVelocity(body)[0][:, 0]
    assert speed[0] == pytest.approx(0.98, abs=0.02)
    assert speed[1] == pytest.approx(0.0, abs=1e-3)
    mass = client.model.body_mass.numpy().reshape(2, -1)
    assert np.array_equal(mass[:, 1], [1.0, 2.0])
    client.disconnect()


def test_coordinates_are_never_those_before_the_step(world):
    """Inverse kinematics starts from where the joints are now, whatever was asked before."""
    world.setAdditionalSearchPath(_data())
    arm = world.loadURDF("kuka_iiwa/model.urdf", useFixedBase=True)
    for joint in range(7):
        world.setJointMotorControl2(arm, joint, p.POSITION_CONTROL, 0.5, force=500.0, positionGain=0.5)
    world.getJointStates(arm, range(7))
    for _ in range(50):
        world.stepSimulation()
    target = [0.5, 0.2, 0.6]
    first = world.calculateInverseKinematics(arm, 6, target, maxNumIterations=3)
    states = [state[0] for state in world.getJointStates(arm, range(7))]
    assert min(states) > 0.3
    assert world.calculateInverseKinematics(arm, 6, target, maxNumIterations=3) == first


def test_files_hold_the_last_step_after_a_reset_of_the_simulation(world, tmp_path):
    """The engine of the scene before is used again: its first step counts as one, in files and queries."""
    path = str(tmp_path / "arm.bullet")
    found = []
    for cut in (0, 1):
        world.resetSimulation()
        world.setGravity(0.0, 0.0, -9.81)
        world.setAdditionalSearchPath(_data())
        world.loadURDF("plane.urdf")
        world.loadURDF("r2d2.urdf", [0.0, 0.0, 0.47])
        for _ in range(cut):
            world.stepSimulation()
        world.saveBullet(path)
        runs = []
        for _ in range(2):
            for _ in range(20):
                world.stepSimulation()
            runs.append(numbers(world))
            found.append(len(world.getContactPoints()))
            world.restoreState(fileName=path)
        assert np.array_equal(*runs), cut
    assert min(found) > 0
