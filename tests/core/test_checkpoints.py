"""A run that is cut and goes on from a checkpoint is the same to the bit as one that never stopped."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import solvers
from newtonsim.errors import CheckpointError
from newtonsim.render import Recording
from newtonsim.scene import checkpoint_file

DT, STEPS = 1.0 / 200.0, 60
MESH = newtonsim.Mesh(
    [[-0.2, -0.2, -0.1], [0.2, -0.2, -0.1], [0.0, 0.2, -0.1], [0.0, 0.0, 0.2]],
    [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3],
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


def scene(device: str, soft: bool = False) -> newtonsim.Model:
    """Two worlds, each with boxes that fall on one another, an arm with a drive, and cloth if wanted."""
    world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for height in (0.15, 0.42):
        box = world.add_body()
        world.add_shape_box(box, hx=0.1, hy=0.12, hz=0.1, density=300.0)
        world.add_joint_free(box)
        world.joint_q[-7:] = [0.02 * height, 0.0, height, 0.1, 0.05, 0.0, 0.99]
    link = world.add_body(mass=1.0, I_m=np.eye(3) * 0.1)
    world.add_shape_capsule(link, radius=0.05, half_height=0.2)
    axis = newtonsim.JointAxis((0.0, 1.0, 0.0), action=0.4, target_ke=50.0, target_kd=2.0, mode=1)
    frame = wp.transform((1.0, 0.0, 0.5), wp.quat_identity())
    world.add_joint_revolute(-1, link, axis=axis, parent_xform=frame)
    if soft:
        world.add_cloth_grid(
            pos=wp.vec3(-0.2, -0.2, 0.7),
            rot=wp.quat_identity(),
            vel=wp.vec3(0.0, 0.0, -1.0),
            dim_x=4,
            dim_y=4,
            cell_x=0.1,
            cell_y=0.1,
            mass=0.01,
        )
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(world, 2, spacing=(0.0, 0.0, 0.0))
    builder.set_ground_plane()
    return builder.finalize(device)


def with_servos(model: newtonsim.Model) -> newtonsim.FeatherstoneSolver:
    solver = newtonsim.FeatherstoneSolver(model)
    solver.servos = solvers.JointServos(model)
    return solver


SOLVERS: dict[str, tuple[Callable, bool]] = {
    "featherstone": (newtonsim.FeatherstoneSolver, False),
    "pyramidal": (lambda m: newtonsim.FeatherstoneSolver(m, cone="pyramidal"), False),
    "compliant": (lambda m: newtonsim.FeatherstoneSolver(m, contact_mode="compliant"), False),
    "sleep": (lambda m: newtonsim.FeatherstoneSolver(m, sleep=True), False),
    "servos": (with_servos, False),
    "with xpbd": (lambda m: newtonsim.FeatherstoneSolver(m, deformables=newtonsim.XPBDSolver(m)), True),
    "with vbd": (lambda m: newtonsim.FeatherstoneSolver(m, deformables=solvers.VBDSolver(m)), True),
    "semi-implicit": (newtonsim.SemiImplicitSolver, True),
    "xpbd": (newtonsim.XPBDSolver, True),
    "vbd": (solvers.VBDSolver, True),
    "self-contact": (lambda m: solvers.VBDSolver(m, handle_self_contact=True), True),
    "mujoco_warp": (newtonsim.MuJoCoSolver, False),
    "mujoco_warp, own state": (lambda m: newtonsim.MuJoCoSolver(m, update_data_every=0), False),
    "mujoco": (lambda m: newtonsim.MuJoCoSolver(m, use_mujoco=True), False),
    "mujoco, own state": (lambda m: newtonsim.MuJoCoSolver(m, use_mujoco=True, update_data_every=0), False),
}


def simulator(name: str, device: str) -> newtonsim.Simulator:
    make, soft = SOLVERS[name]
    model = scene(device, soft)
    return newtonsim.Simulator(model, make(model), DT)


def bits(sim: newtonsim.Simulator) -> dict[str, bytes]:
    state = {name: a.numpy().tobytes() for name, a in vars(sim.state).items() if isinstance(a, wp.array)}
    return state | {"time": np.float64(sim.time).tobytes()}


@pytest.mark.parametrize("name", SOLVERS)
def test_runs_that_were_cut_are_the_same_to_the_bit(name: str, device: str, tmp_path: Path):
    """Cut before the first step, in flight, and twice in contact; into new simulators and used ones."""
    run = simulator(name, device)
    cuts, files = (0, 7, 31, 46), []
    for step in range(STEPS):
        if step in cuts:
            files.append(tmp_path / f"{step}.ckpt")
            run.save(files[-1])
        run.step()
    expected = bits(run)
    used = simulator(name, device)
    used.step(13)
    for cut, file in zip(cuts, files):
        for other in (simulator(name, device), used):
            other.restore(file)
            for _ in range(STEPS - cut):  # one by one, since n dt is not the sum of n times dt
                other.step()
            assert bits(other) == expected, cut
    memory = used.snapshot()
    used.step(9)
    after = bits(used)
    used.step(5)
    memory.restore()
    used.step(9)
    assert bits(used) == after


def test_no_solver_is_left_out():
    """Every solver of the package is cut and restored above, as is each combination that keeps more."""
    public = {getattr(solvers, name) for name in solvers.__all__} - {solvers.SolverBase}
    known = {kind for kind in public if isinstance(kind, type) and issubclass(kind, solvers.SolverBase)}
    assert newtonsim.FeatherstoneSolver in known
    models = {soft: scene("cpu", soft) for soft in (False, True)}
    assert known <= {type(make(models[soft])) for make, soft in SOLVERS.values()}


def test_the_state_alone_would_not_do(device):
    """That the test above can see a difference: without impulses the next steps start elsewhere."""
    run, other = simulator("featherstone", device), simulator("featherstone", device)
    run.step(40)
    other.state.assign(run.state)
    other.time = run.time
    run.step(20)
    other.step(20)
    assert bits(run) != bits(other)


def test_forces_of_the_last_step_are_there_after_a_restore(device, tmp_path: Path):
    run, other = simulator("featherstone", device), simulator("featherstone", device)
    run.step(50)
    run.save(tmp_path / "run.ckpt")
    with pytest.raises(RuntimeError, match="before the first step"):
        other.solver.contact_forces()
    other.restore(tmp_path / "run.ckpt")
    assert np.array_equal(other.solver.contact_forces().numpy(), run.solver.contact_forces().numpy())
    assert np.abs(run.solver.contact_forces().numpy()).max() > 1.0
    joints = [sim.solver.joint_reactions(sim.state).numpy() for sim in (run, other)]
    assert np.array_equal(*joints)
    run.save(tmp_path / "again.ckpt")  # what was asked for does not belong to it
    simulator("featherstone", device).restore(tmp_path / "again.ckpt")


def test_what_users_changed_goes_along(device, tmp_path: Path):
    run, other = simulator("xpbd", device), simulator("xpbd", device)
    run.step(5)
    run.model.gravity = (0.0, 1.0, -3.0)
    run.model.body_mass.assign(2.0 * run.model.body_mass.numpy())
    run.model.shape_materials.mu.fill_(0.1)
    run.model.soft_contact_mu = 0.05
    run.control.joint_f.fill_(0.7)
    run.dt, run.substeps = 1.0 / 300.0, 2
    run.save(tmp_path / "run.ckpt")
    other.restore(tmp_path / "run.ckpt")
    run.step(30)
    other.step(30)
    assert bits(run) == bits(other)
    assert (other.dt, other.substeps, other.model.soft_contact_mu) == (1.0 / 300.0, 2, 0.05)


def test_another_process_goes_on_with_the_same_bits(tmp_path: Path):
    file, result = tmp_path / "run.ckpt", tmp_path / "result.npy"
    run = simulator("featherstone", "cpu")
    run.step(33)
    run.save(file)
    run.step(20)
    here = Path(__file__)
    program = (
        f"import sys; sys.path.insert(0, {str(here.parent)!r})\n"
        f"import numpy, {here.stem} as own\n"
        "run = own.simulator('featherstone', 'cpu')\n"
        f"run.restore({str(file)!r}); run.step(20)\n"
        f"numpy.save({str(result)!r}, run.state.joint_q.numpy())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=here.parents[2])
    assert np.array_equal(np.load(result), run.state.joint_q.numpy())


def test_damaged_files_change_nothing(tmp_path: Path):
    """Every part of the file: one bit of it, its end, something appended."""
    file, bad = tmp_path / "run.ckpt", tmp_path / "bad.ckpt"
    run = simulator("featherstone", "cpu")
    run.step(30)
    run.save(file)
    run.step(3)
    before, data = bits(run), file.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(24), *rng.integers(0, len(data), 60).tolist(), *range(len(data) - 33, len(data))]
    damaged = [data[:p] + bytes([data[p] ^ 1 << int(rng.integers(8))]) + data[p + 1 :] for p in places]
    damaged += [data[:n] for n in (0, 5, 19, 60, len(data) // 2, len(data) - 1)]
    damaged += [data + b"\0", b"PK" + data, b"\0" * 4096]
    for contents in damaged:
        bad.write_bytes(contents)
        with pytest.raises(CheckpointError, match=r"bad\.ckpt: "):
            run.restore(bad)
        assert bits(run) == before
    for path in (tmp_path, tmp_path / "none.ckpt"):
        with pytest.raises(CheckpointError, match="cannot be read"):
            run.restore(path)
    run.restore(file)
    assert bits(run) != before


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"facts": {}}, "header"),
        ({"arrays": {"array/state/joint_q": ["<f4", [10**12], 0]}}, "an array of <f4"),
        ({"arrays": {"array/state/joint_q": ["|O", [1], 0]}}, "an array of"),
        ({"arrays": {"array/state/joint_q": ["<f4", [-1, -1], -8]}}, "an array of"),
        ({"arrays": {"array/state/joint_q": 3}}, "header"),
        ({"arrays": []}, "header"),
    ],
)
def test_headers_with_a_right_hash_are_checked(change: dict, text: str, tmp_path: Path, monkeypatch):
    """What somebody wrote on purpose."""
    run, file = simulator("featherstone", "cpu"), tmp_path / "run.ckpt"
    write = checkpoint_file.json.dumps
    monkeypatch.setattr(checkpoint_file.json, "dumps", lambda header: write({**header, **change}))
    run.save(file)
    with pytest.raises(CheckpointError, match=text):
        run.restore(file)


def test_other_simulations_are_refused(tmp_path: Path):
    file = tmp_path / "run.ckpt"
    run = simulator("featherstone", "cpu")
    run.save(file)
    for name, text in (
        ("xpbd", "was"),
        ("compliant", "compliant"),
        ("sleep", "arrays"),
        ("servos", "arrays"),
    ):
        other = simulator(name, "cpu")
        before = bits(other)
        with pytest.raises(CheckpointError, match=text):
            other.restore(file)
        assert bits(other) == before
    model = scene("cpu")
    other = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model, factorizations=7), DT)
    with pytest.raises(CheckpointError, match=r"options\.factorizations was \d+, here 7"):
        other.restore(file)


def test_a_write_that_fails_leaves_the_last_file(tmp_path: Path, monkeypatch):
    run, file = simulator("featherstone", "cpu"), tmp_path / "run.ckpt"
    run.save(file)
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_file.os, "fsync", full)
    run.step(3)
    with pytest.raises(CheckpointError, match="No space left"):
        run.save(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.ckpt"]
    with pytest.raises(CheckpointError, match="cannot be written"):
        run.save(tmp_path / "none" / "run.ckpt")


def test_files_of_other_versions(tmp_path: Path, monkeypatch):
    run, file = simulator("featherstone", "cpu"), tmp_path / "run.ckpt"
    run.save(file)
    monkeypatch.setattr("newtonsim.checkpoints.__version__", "0.0.1")
    with pytest.warns(UserWarning, match="may differ in the last bits"):
        run.restore(file)
    monkeypatch.setattr(checkpoint_file, "VERSION", 2)
    with pytest.raises(CheckpointError, match="format version 1, but this program reads 2"):
        run.restore(file)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_models_and_states_are_copied_and_pickled(device, twin_of: Callable):
    """A twin steps to the same bits, shares no memory, and has meshes and fields of its own."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for number in range(3):
        body = builder.add_body()
        builder.add_joint_free(body)
        if number == 0:
            builder.add_shape_mesh(body, mesh=MESH)
        elif number == 1:
            builder.add_shape_sdf(body, sdf=newtonsim.SDF.from_mesh(MESH, voxel_size=0.05))
        else:
            builder.add_shape_sphere(body, radius=0.1)
        builder.joint_q[-7:] = [0.6 * number, 0.0, 0.4, 0.0, 0.0, 0.0, 1.0]
    builder.set_ground_plane()
    model = builder.finalize(device, requires_grad=True)
    model.gravity = (0.1, 0.0, -9.0)
    state, control = model.state(), model.control()
    twin, twin_state, twin_control = twin_of(model), twin_of(state), twin_of(control)
    assert twin.joint_q.requires_grad
    assert twin.device == model.device
    assert twin.body_key is not model.body_key
    assert twin.shape_geo_src[0] is not model.shape_geo_src[0]
    assert twin.body_mass.ptr != model.body_mass.ptr
    for owner, array in vars(model).items():
        if isinstance(array, wp.array):
            assert np.array_equal(array.numpy(), getattr(twin, owner).numpy()), owner
            assert array.dtype is getattr(twin, owner).dtype
    twin.check_state(twin_state)
    twin.check_control(twin_control)
    for a_model, a_state, a_control in ((model, state, control), (twin, twin_state, twin_control)):
        solver = newtonsim.FeatherstoneSolver(a_model)
        for _ in range(60):
            solver.step(a_model, a_state, a_state, a_control, None, DT)
    assert np.array_equal(state.joint_q.numpy(), twin_state.joint_q.numpy())
    assert state.joint_q.numpy().reshape(3, 7)[:, 2].max() < 0.3
    assert twin.cached("one", lambda of: of) is twin


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_and_devices_are_neither_waited_for_nor_replaced(tmp_path: Path):
    """A pipe has no end to wait for, and a file moved to the place of a device would replace it."""
    pipe = tmp_path / "run.ckpt"
    os.mkfifo(pipe)
    run = simulator("featherstone", "cpu")
    for call, text in ((run.restore, "cannot be read"), (run.save, "cannot be written")):
        with pytest.raises(CheckpointError, match=f"{text}: is not a regular file"):
            call(pipe)
    assert pipe.is_fifo()
    for call in (run.restore, run.save):
        with pytest.raises(CheckpointError, match="null byte"):
            call("run\0.ckpt")
    with pytest.raises(OSError, match="not a regular file"):
        Recording.open(pipe)


def test_what_was_kept_before_the_first_step_lets_the_next_one_be_noted(device, tmp_path):
    """A graph that was captured before notes no step by itself: forces of the last one can be read."""
    model = scene(device)
    simulator = newtonsim.Simulator(model, solvers.FeatherstoneSolver(model), DT)
    start = simulator.snapshot()
    simulator.step(STEPS)
    expected = simulator.solver.contact_forces().numpy().copy()
    assert np.abs(expected).max() > 1.0
    start.restore()
    simulator.step(STEPS)
    assert np.array_equal(simulator.solver.contact_forces().numpy(), expected)
    simulator.save(tmp_path / "later.ckpt")
    other = newtonsim.Simulator(model, solvers.FeatherstoneSolver(model), DT)
    other.restore(tmp_path / "later.ckpt")
    assert np.array_equal(other.solver.contact_forces().numpy(), expected)


@pytest.mark.parametrize("number", [10**400, float("nan"), "1", None, [1.0]])
def test_doctored_times_are_refused_as_checkpoints(device, tmp_path, number):
    """The hash of a doctored file is right, too: whoever writes files can compute it."""
    model = scene(device)
    simulator = newtonsim.Simulator(model, solvers.FeatherstoneSolver(model), DT)
    path = tmp_path / "run.ckpt"
    simulator.save(path)
    facts, arrays = checkpoint_file.read_file(path)
    facts["host"]["clock"]["time"] = number
    checkpoint_file.write_file(path, facts, arrays)
    with pytest.raises(CheckpointError, match="clock: time is "):
        simulator.restore(path)
    assert simulator.time == 0.0
