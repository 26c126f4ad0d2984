"""What kernels over teams take of a GPU stays within bounds; the report runs."""

import importlib
import sys

import pytest
from emulated_teams import rewritten
from gpu.cards import CARDS, least_time, occupancy
from gpu.launches import step_launches
from gpu.ptxas import NoAssembler, Resources, _parsed, assembled, compiled, resources
from gpu_static import NARROW, threads
from tasks.robots import robot_path

from newtonsim import Simulator
from newtonsim.cli import scene
from newtonsim.kernels import lazy_warp
from newtonsim.kernels.constraints.solve import prediction
from newtonsim.solvers import FeatherstoneSolver

MOST_REGISTERS = 96
"""Up to here a multiprocessor holds 20 warps of a kernel, five for each scheduler."""

MOST_STACK = 512
"""Local memory of a thread [B]: what is beyond is reads and writes of memory where registers are meant."""

OUTPUT = """
ptxas info    : Compiling entry function 'advance_1a2b3c4d_cuda_kernel_forward' for 'sm_90'
ptxas info    : Function properties for advance_1a2b3c4d_cuda_kernel_forward
    48 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 48 bytes cumulative stack size, 1024 bytes smem
"""


MOST_SPILLS = {"solve_rows": 768, "sweep_rows": 0}
"""What kernels may spill [B] that need more registers: those of the constraint solve."""


LARGEST = {"collide_box": 2800, "collide_convex": 12288, "find_hidden_points": 4640}
"""Stacks beyond that [B]: polygons that are clipped, simplices, and what seams know of all shapes."""

ALONE = ("adjoint.solve", "adjoint.solution_error", "adjoint.impacts", "linear.selection")
BY_THREADS = [f"newtonsim.kernels.constraints.{name}" for name in ALONE]
BY_THREADS += [f"newtonsim.kernels.collision.{name}" for name in ("families.box", "families.convex", "seams")]
"""Kernel files without teams whose threads handle whole worlds or pairs of shapes, at the largest stacks."""

OLDEST = min(CARDS)
"""Architecture whose intermediate code all cards here assemble."""


@pytest.fixture(scope="module")
def assembler():
    """An assembler that is as new as Warp; the extra `test` brings one where there are CUDA's packages."""
    try:
        resources(lazy_warp.declare(prediction.__name__), 90)
    except NoAssembler as error:
        if sys.platform == "linux":
            raise
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("name", sorted({module for module, _ in rewritten().kernels()}))
def test_kernels_over_teams_take_few_registers_and_no_stack(name: str):
    """Compiled once, and assembled for each card."""
    module = lazy_warp.declare(importlib.import_module(name).__name__)
    code = compiled(module, OLDEST)
    for arch in CARDS:
        taken = assembled(code, arch)
        for key in (key for other, key in rewritten().kernels() if other == name):
            assert taken[key].registers <= (255 if key in MOST_SPILLS else MOST_REGISTERS), (key, taken[key])
            assert taken[key].stack <= MOST_STACK, (key, taken[key])
            assert taken[key].spills <= MOST_SPILLS.get(key, 0), (key, taken[key])


@pytest.mark.slow
@pytest.mark.usefixtures("assembler")
@pytest.mark.parametrize("name", BY_THREADS)
def test_threads_alone_take_little_stack(name: str):
    """Views that are handed on by reference would be copied onto it, see `newtonsim.runtime.residents`."""
    for key, taken in resources(lazy_warp.declare(importlib.import_module(name).__name__), OLDEST).items():
        assert taken.stack <= LARGEST.get(key, MOST_STACK), (key, taken)


@pytest.mark.parametrize(
    ("robot", "self_collision", "most"),
    [("ant", False, 12), ("humanoid", False, 12), ("humanoid", True, 13), ("quadruped", False, 12)],
)
def test_a_step_is_few_launches_and_none_is_narrow(robot: str, self_collision: bool, most: int):
    loaded = scene.load_robot(robot_path(robot), self_collision=self_collision)
    model = scene.build_scene(loaded, 2, "cpu")
    simulator = Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    commands = step_launches(simulator)
    assert len(commands) <= most, [command.kernel.key for command in commands]
    assert [c.kernel.key for c in commands if threads(c, simulator) < NARROW * 2] == []


def test_the_assembler_is_understood():
    assert _parsed(OUTPUT) == {"advance": Resources(registers=40, stack=48, spills=20, shared=1024)}


def test_occupancy_is_that_of_registers_and_blocks():
    card = CARDS[90]
    # 255 registers are given as 256: 8 warps of 64; blocks of a warp, of which there are at most 32
    assert occupancy(card, Resources(255, 0, 0, 0)) == 8 / 64
    assert occupancy(card, Resources(32, 0, 0, 0)) == 32 / 64
    assert occupancy(card, Resources(32, 0, 0, 57 * 1024)) == 4 / 64


def test_least_time_is_that_of_what_is_slowest():
    card = CARDS[90]
    # 5e9 instructions of one thread, four cycles each
    assert least_time(card, 1.0, 1, 0.0) == pytest.approx(5.0e9 * 4.0 / 1.83e9)
    assert least_time(card, 1.0, 1e9, 0.0) == pytest.approx(5.0e9 / 32 / (132 * 4 * 1.83e9))
    assert least_time(card, 0.0, 1, 3.35e12) == pytest.approx(1.0)
    assert least_time(card, 0.0, 1, 0.0) == 2.5e-6
