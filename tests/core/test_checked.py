"""The checked mode names step, world and element of what is wrong, and changes no bit of what is right."""

import contextlib
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import newtonsim
from newtonsim import CheckError

DT = 1.0 / 200.0


def simulator(device: str, worlds: int = 3) -> newtonsim.Simulator:
    """Two boxes that fall, one hinged to the world by a ball joint, in each world."""
    world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for key in ("falls", "hangs"):
        body = world.add_body(key=key)
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
        if key == "falls":
            world.add_joint_free(body, key="free")
        else:
            world.add_joint_ball(-1, body, parent_xform=((1.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0)), key="ball")
    world.joint_q[2] = 0.3
    scene = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    scene.replicate(world, worlds, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    model = scene.finalize(device)
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT)


@contextlib.contextmanager
def all_checks() -> Iterator[None]:
    """All checks for a while, and then those that the environment asked for."""
    config = newtonsim.config
    before = config.checked, config.checks_indices
    config.checked = True
    try:
        yield
    finally:
        config.checked, config.checks_indices = before


@pytest.fixture
def checked(device: str) -> Iterator[None]:
    """Checks of steps; kernels were loaded before, as everybody has them."""
    simulator(device).step(60)
    with all_checks():
        yield


def spoil(sim: newtonsim.Simulator, name: str, at: object, value: float) -> None:
    array = getattr(sim.control if name == "joint_f" else sim.state, name)
    values = array.numpy()
    values[at] = value
    array.assign(values)


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("joint_q", 11 + 2, np.nan, "world 1: joint 'free': joint_q is [nan], not finite"),
        ("joint_qd", 2 * 9 + 7, np.inf, "world 2: joint 'ball': joint_qd is [inf], not finite"),
        ("joint_f", 4, np.nan, "world 0: joint 'free': joint_f is [nan], not finite"),
        ("body_q", (3, 0), np.nan, "world 1: body 'hangs': body_q is [nan"),
        ("body_q", (3, slice(3, 7)), 0.6, "world 1: body 'hangs': its quaternion has length 1.2, expected 1"),
        ("joint_q", slice(22 + 7, 22 + 11), 0.1, "world 2: joint 'ball': its quaternion has length 0.2"),
    ],
)
def test_what_is_wrong_is_named(device, checked, name: str, at: object, value: float, message: str):
    sim = simulator(device)
    sim.step(4)
    spoil(sim, name, at, value)
    with pytest.raises(CheckError, match=re.escape(f"step 4 (t = 0.02 s): {message}")):
        sim.step()
    with pytest.raises(CheckError, match=re.escape(f"FeatherstoneSolver.step: {message}")):
        sim.solver.step(sim.model, sim.state, sim.state, sim.control, None, DT)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_step_that_spoils_a_world_is_named(device, checked):
    """A force beyond single precision makes the velocities of one world infinite in the eighth step."""
    sim = simulator(device)
    sim.step(7)
    sim.state.body_f.assign(np.array([[0.0] * 6] * 4 + [[0.0, 0.0, 0.0, 3e38, 3e38, 3e38]] + [[0.0] * 6]))
    with pytest.raises(CheckError, match=r"step 8 \(t = 0\.04 s\): world 2: "):
        sim.step(5)


def test_full_buffers_are_errors(device, checked):
    sim = simulator(device)
    sim.model.rigid_contact_max_per_world = 1
    sim.model.forget()
    model = sim.model
    fresh = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), DT)
    with pytest.raises(CheckError, match=r"step \d+ \(t = .* s\): contact buffers are too small"):
        fresh.step(200)


def test_contacts_that_point_elsewhere_are_named(device, checked):
    sim = simulator(device)
    sim.step(60)
    shapes = sim.solver.contacts.rigid_contact_shape0.numpy()
    sim.solver.contacts.rigid_contact_shape0.assign(np.where(np.arange(len(shapes)) == 5, 99, shapes))
    with pytest.raises(CheckError, match="contact 5: rigid_contact_shape0 is 99, expected -1 to"):
        sim.step()


def test_bits_are_the_same_and_nothing_is_raised(device):
    plain, looked_at = simulator(device), simulator(device)
    plain.step(150)
    with all_checks(), warnings.catch_warnings():
        warnings.simplefilter("error")
        looked_at.step(150)
    assert np.array_equal(plain.state.joint_q.numpy(), looked_at.state.joint_q.numpy())
    assert plain.time == pytest.approx(looked_at.time)


OUTSIDE = """
import numpy as np, warp as wp, newtonsim
from newtonsim.kernels.steps import reset
from newtonsim.runtime.compilation import launch

model = newtonsim.ModelBuilder()
for _ in range(3):
    model.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0)
model = model.finalize("cpu")
state, mask = model.state(), wp.zeros(1, dtype=bool, device="cpu")
world = wp.array([0, 0, {world}], dtype=int, device="cpu")
print("launched", flush=True)
launch(
    reset.restore_particles, 3, device="cpu",
    reads=dict(first=0, mask=mask, world=world, source_q=state.particle_q, source_qd=state.particle_qd),
    writes=dict(target_q=state.particle_q, target_qd=state.particle_qd, target_f=state.particle_f),
)
print("survived", flush=True)
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def test_indices_outside_arrays_end_the_process_with_kernel_and_index():
    wrong = run(OUTSIDE.format(world=7), NEWTONSIM_CHECKED="indices")
    assert wrong.returncode < 0
    where = "newtonsim.kernels.steps.reset: index 7 of dimension 0, expected 0 to 0"
    assert "launched" in wrong.stdout
    assert where in wrong.stdout
    assert "survived" not in wrong.stdout
    assert re.search(
        r"steps.reset\.py, line \d+, in restore_particles\w*:\n +if .*mask\[world\[i\]\]", wrong.stdout
    )
    assert 'File "<string>", line' in wrong.stderr  # who launched it
    assert run(OUTSIDE.format(world=0), NEWTONSIM_CHECKED="1").stdout.endswith("survived\n")


def test_steps_cost_nothing_when_it_is_off(device):
    """A flag is asked for in 0.03 us and a step takes 5 us at least: far below a fifth whatever the load."""
    config = newtonsim.config
    start = time.process_time()
    for _ in range(100_000):
        if config.checked:
            raise AssertionError
    flag = (time.process_time() - start) / 100_000
    sim = simulator(device, 1)
    sim.step(100)
    start = time.process_time()
    for _ in range(2_000):
        sim.step()
    assert flag < 0.2 * (time.process_time() - start) / 2_000
