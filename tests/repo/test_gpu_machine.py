"""Compiled kernels of CUDA, run without a card, give what the CPU gives."""

import numpy as np
import pytest
import warp as wp
from dense_matrices import Matrices, well_posed
from gpu.instructions import readable, run_step
from gpu.lanes import LANES
from gpu.latency import cycles_of
from gpu.launches import as_on_card, lanes_of, step_launches
from gpu.machine import Deadlock, Machine
from gpu.ptx import Block, Instruction, UnknownCode, operands_of
from gpu.ptxas import compiled
from profile_step import prepare

from newtonsim.kernels.algebra.dense_inverse import DenseView, invert
from newtonsim.kernels.algebra.teams import (
    Teams,
    from_lane,
    lanes,
    max_lanes,
    own_team,
    scan_lanes,
    sum_lanes,
    sync,
)
from newtonsim.runtime.teams import teams_from
from newtonsim.scene.levels import levels_of
from newtonsim.solvers.featherstone.options import GPU_SWEEPS

ARCH = 90
ITERATING = ("sweep_rows", "solve_rows")
"""Kernels that stop at a tolerance."""

PROMISED = 1.0e-4
"""Residual that the solve of constraints promises [m/s]."""

wp.set_module_options({"enable_backward": False})


@wp.kernel
def invert_worlds(teams: Teams, dense: wp.array(dtype=DenseView), sizes: wp.array(dtype=int)):
    """One team per world: its matrix is inverted."""
    team = own_team(teams, wp.tid())
    invert(team, dense[0], team.index, sizes[team.index])


@wp.kernel
def combine(teams: Teams, x: wp.array2d(dtype=float), found: wp.array2d(dtype=float)):
    """One team per world: what lanes tell each other of a row of numbers, and where they count."""
    team = own_team(teams, wp.tid())
    w = team.index
    own = x[w, team.lane]
    found[w, 0] = sum_lanes(team, own)
    found[w, 1] = max_lanes(team, own)
    found[w, 2] = from_lane(team, own, lanes(team) - 1)
    before = scan_lanes(team, int(own))
    sync(team)
    if team.lane == lanes(team) - 1:
        found[w, 3] = float(before[0])


@wp.kernel
def compute(
    x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float), k: wp.array(dtype=int)
):
    """Numbers of all kinds, on ways that part and meet again."""
    i = wp.tid()
    a = x[i]
    m = n[i]
    y[i] = wp.sqrt(wp.abs(a)) / (1.0 + a * a) - wp.floor(a) + float(wp.float64(a) * wp.float64(3.0))
    count = wp.int32(0)
    while m != 1 and count < 200:
        if m % 2 == 0:
            m = m / 2
        else:
            m = 3 * m + 1
        count += 1
    k[i] = count ^ (n[i] << 3) ^ (-n[i] >> 2)
    if a > 0.0:
        y[i] = wp.min(y[i], wp.sign(a) * 2.0)


@wp.kernel
def wait_for_nobody(teams: Teams, found: wp.array(dtype=int)):
    """One team per world: its first lane waits where the others do not come."""
    team = own_team(teams, wp.tid())
    if team.lane == 0:
        sync(team)
    found[team.index] = 1


@pytest.fixture(scope="module")
def machine() -> Machine:
    """The kernels of this file."""
    return Machine(compiled(invert_worlds.module, ARCH))


def run(machine: Machine, kernel: wp.Kernel, count: int, arguments: list, team: int = 1) -> None:
    command = wp.launch(kernel, count, arguments, device="cpu", record_cmd=True)
    launch = as_on_card(command, team)
    machine.run(machine.kernel(kernel.key), launch.arguments, range(launch.warps), launch.warps)


def test_numbers_and_ways(machine):
    rng = np.random.default_rng(0)
    x = wp.array(rng.normal(scale=3.0, size=70), dtype=float, device="cpu")
    n = wp.array(rng.integers(1, 90, 70), dtype=int, device="cpu")
    results = []
    for way in (run, None):
        y, k = wp.zeros(70, dtype=float, device="cpu"), wp.zeros(70, dtype=int, device="cpu")
        if way is None:
            wp.launch(compute, 70, [x, n, y, k], device="cpu")
        else:
            way(machine, compute, 70, [x, n, y, k])
        results.append((y.numpy(), k.numpy()))
    (y, k), (expected, counts) = results
    np.testing.assert_array_equal(k, counts)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    (share,) = machine.shares()
    assert share.calls == -(-70 // LANES)
    assert 1.0 < share.lanes < LANES


@pytest.mark.parametrize("team", [1, 4, 8, 16, 32])
def test_lanes_tell_each_other(machine, team):
    worlds = 5
    x = np.random.default_rng(team).integers(-9, 9, (worlds, team)).astype(float)
    found = wp.zeros((worlds, 4), dtype=float, device="cpu")
    given = wp.array(x, dtype=float, device="cpu")
    run(machine, combine, worlds, [teams_from(0), given, found], team)
    expected = np.column_stack([x.sum(axis=1), x.max(axis=1), x[:, -1], x[:, :-1].sum(axis=1)])
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("team", [4, 8, 16, 32])
def test_a_team_inverts_in_registers_and_in_memory(machine, team):
    """Matrices with up to as many rows as lanes, and one with more."""
    sizes = [1, team // 2, team - 1, team, team + 3]
    given = [well_posed(n, n) for n in sizes]
    own = Matrices("cpu", given)
    dense = wp.array([own.view], dtype=DenseView, device="cpu")
    counts = wp.array(sizes, dtype=int, device="cpu")
    run(machine, invert_worlds, len(sizes), [teams_from(0), dense, counts], team)
    for A, inverse in zip(given, own.read()):
        error = np.abs(A @ inverse.astype(np.float64) - np.eye(len(A))).max()
        assert error < 1e-6 * np.linalg.cond(A) + 1e-6, len(A)


def test_lanes_that_wait_in_vain_are_an_error(machine):
    found = wp.zeros(2, dtype=int, device="cpu")
    with pytest.raises(Deadlock, match="wait_for_nobody"):
        run(machine, wait_for_nobody, 2, [teams_from(0), found], 16)


def test_unknown_code_is_an_error():
    body = "{\n\t.reg .b32 %r<3>;\n\ttex.2d.v4 %r1, %r2;\n\tret;\n}\n"
    code = f".visible .entry odd_00000000_cuda_kernel_forward(\n)\n{body}"
    machine = Machine(code.encode())
    with pytest.raises(UnknownCode, match=r"tex\.2d"):
        machine.run(machine.kernel("odd"), [], [0], 1)


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "worlds"), [("ant", 6), ("quadruped", 4)])
def test_a_step_on_the_machine_is_that_of_the_cpu(robot: str, worlds: int):
    """All kernels of a step; those that iterate end with the residual that they promise."""
    simulator = prepare(robot, worlds, "cpu", "control", iterations=GPU_SWEEPS)
    for account in run_step(simulator, ARCH):
        if account.kernel not in ITERATING:
            # rounding, which the GPU does after sums of products only, and what cancels
            assert account.differs < 1e-4, account.kernel
    solver, model = simulator.solver, simulator.model
    machines: dict[wp.Module, Machine] = {}
    for command in step_launches(simulator):
        if command.kernel.key not in ITERATING:
            command.launch()
            continue
        module = command.kernel.module
        if module not in machines:
            machines[module] = Machine(compiled(module, ARCH))
        own = machines[module]
        launch = as_on_card(command, lanes_of(command, model), levels_of(model, wide=True))
        own.run(own.kernel(command.kernel.key), launch.arguments, range(launch.warps), launch.warps)
    residual = solver.constraints.residual.numpy()
    assert np.isfinite(simulator.state.joint_qd.numpy()).all()
    assert residual.max() <= PROMISED


def test_cycles_are_those_of_chains_and_of_loads_side_by_side():
    add = [Instruction("add.s32", ("%r2", "%r1", "1")), Instruction("add.s32", ("%r3", "%r2", "1"))]
    apart = [add[0], Instruction("add.s32", ("%r3", "%r1", "1"))]
    loads = [Instruction("ld.global.f32", (f"%f{i}", f"[%rd{i}]")) for i in range(8)]
    store = Instruction("st.global.f32", ("[%rd9]", "%f0"))
    assert cycles_of([Block(add)]) == [8]
    assert cycles_of([Block(apart)]) == [5]
    assert cycles_of([Block(loads)]) == [40]
    # a load after a store that needs another load has to wait for both
    assert cycles_of([Block([loads[0], store, loads[1]])])[0] >= 66


def test_operands_are_split_outside_of_brackets():
    text = "{%r1, %r2}, [%rd1+8], %p1"
    assert operands_of(text) == ("{%r1, %r2}", "[%rd1+8]", "%p1")


def test_names_are_those_of_the_source():
    name = "_ZN80_INTERNAL_00000000_49_wp_newtonsim_solve_f9ee7b8_cu_6816ca9910assemble_0E13Team_0f3c829d"
    assert readable(name) == "assemble"
    assert readable("solve_rows_a9f92c2c_cuda_kernel_forward") == "solve_rows_a9f92c2c"
