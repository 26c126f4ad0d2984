"""Kernels over teams give with many lanes the bits that they give with one, and need each of their syncs."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

import numpy as np
import pytest
import teams_by_turns
import warp as wp
from emulated_teams import Memory, TeamError, emulate, orders, rewritten, run_lanes, takes_teams
from physics.linkages import spinning_chain, striking_rods

import newtonsim
from newtonsim import dynamics, envs
from newtonsim.collision.collide import collide
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import SmallTeamWarning
from newtonsim.examples import scenes
from newtonsim.kernels.algebra import block_cholesky, block_system
from newtonsim.kernels.algebra.teams import Teams, lanes, own_team, scan_lanes, sum_lanes, sync
from newtonsim.kernels.constraints.dof_rows import ACTED, NOTHING_ACTED
from newtonsim.kernels.views.model import LevelView
from newtonsim.runtime import capture, teams
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.scene.enums import JointType
from newtonsim.scene.levels import levels_of
from newtonsim.solvers import FeatherstoneSolver, Medium
from newtonsim.testing import random_model, random_state

FREE = JointType.FREE
SITES = {site for site, (_, _, call) in enumerate(rewritten().sites) if call == "sync"}
"""Syncs; sums and maxima beside them are other sites."""


class Scene:
    """Launches over trees, recorded in the middle of a motion, with the levels of these trees."""

    def __init__(self, model: newtonsim.Model, run: Callable[[], object]):
        self.levels: LevelView = levels_of(model, wide=True)
        with capture._collect() as self.commands:
            run()

    def team_launches(self):
        """Yield launches over teams when it is their turn, and make the others."""
        for command in self.commands:
            if takes_teams(command.kernel):
                yield command
            command.launch()


def step_scene(builder: newtonsim.ModelBuilder, **options) -> Scene:
    """A step after two others."""
    model = builder.finalize("cpu")
    return recorded_step(model, random_state(model, 5), 2, **options)


def contact_scene(builder: newtonsim.ModelBuilder, earlier: int, sweeps_first: bool = False) -> Scene:
    """A step after some others from the start."""
    model = builder.finalize("cpu")
    return recorded_step(model, model.state(), earlier, sweeps_first)


def recorded_step(
    model: newtonsim.Model,
    state: newtonsim.State,
    earlier: int,
    sweeps_first: bool = False,
    viscosity: float = 0.0,
    **options,
) -> Scene:
    solver = FeatherstoneSolver(model, **options)
    if viscosity:
        solver.before_step = (Medium(model, viscosity=viscosity),)
    if sweeps_first:
        solver.constraints.buffers.sweep_first(model)

    def step() -> None:
        solver.step(model, state, state, None, None, 1.0 / 240.0)

    for _ in range(earlier):
        step()
    return Scene(model, step)


def forest() -> newtonsim.ModelBuilder:
    """Two worlds with a tree on a floating base, a fixed one, and single bodies that turn."""
    world = random_model(1, body_count=14, base=FREE)
    for seed, kind in ((2, JointType.REVOLUTE), (3, FREE), (4, JointType.BALL)):
        world.add_builder(random_model(seed, body_count=1, joint_types=[kind]))
    builder = newtonsim.ModelBuilder()
    builder.replicate(world, 2)
    return builder


def dynamics_scene() -> Scene:
    model = random_model(6, body_count=12).finalize("cpu")
    state = random_state(model, 7)

    def run() -> None:
        quantities = dynamics.Dynamics(model)  # a new one, as one that knows the arrays replays
        quantities.mass_matrix(state)
        quantities.forward_dynamics_derivatives(state)

    run()
    state.joint_q.assign(random_state(model, 8).joint_q.numpy())
    return Scene(model, run)


def spawn_scene() -> Scene:
    model = forest().finalize("cpu")
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), 1.0 / 240.0)
    simulator.step(3)
    mask = wp.array([False, True], dtype=bool, device="cpu")
    # poses of another configuration than the one that is spawned
    simulator.reset_worlds(Launcher(model, record_tape=False), mask, lambda: None)
    simulator._initial.joint_q.assign(random_state(model, 9).joint_q.numpy())
    launch = Launcher(model, record_tape=False)
    return Scene(model, lambda: simulator.reset_worlds(launch, mask, lambda: None))


def walker_scene() -> Scene:
    """What a policy sees of humanoids that have begun to fall."""
    env = envs.make("Humanoid", num_envs=2, device="cpu")
    env.reset(seed=1)
    for _ in range(10):
        env.step(np.full(env.action_space.shape, 0.2, np.float32))
    view, launch = env.buffers.attach(env.sim), Launcher(env.model, record_tape=False)
    view.obs.zero_()
    observe = partial(launch.user_kernel, type(env.task).observe, "world", view, env.buffers.everyone)
    return Scene(env.model, observe)


def legged() -> newtonsim.ModelBuilder:
    """A trunk on two jointed legs."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    trunk = builder.add_body(origin=wp.transform((0.0, 0.0, 0.44), wp.quat_identity()), key="trunk")
    builder.add_joint_free(trunk)
    builder.add_shape_box(trunk, hx=0.3, hy=0.1, hz=0.05, density=200.0)
    for x in (-0.25, 0.25):
        thigh = builder.add_body(origin=wp.transform((x, 0.0, 0.39), wp.quat_identity()))
        shin = builder.add_body(origin=wp.transform((x, 0.0, 0.24), wp.quat_identity()))
        hip = wp.transform((x, 0.0, -0.05), wp.quat_identity())
        knee = wp.transform((0.0, 0.0, -0.15), wp.quat_identity())
        builder.add_joint_revolute(trunk, thigh, parent_xform=hip, axis=(0.0, 1.0, 0.0))
        builder.add_joint_revolute(
            thigh, shin, parent_xform=knee, axis=(0.0, 1.0, 0.0), limit_lower=-0.02, limit_upper=0.02
        )
        builder.add_shape_sphere(thigh, pos=(0.0, 0.0, -0.1), radius=0.03, density=300.0)
        builder.add_shape_sphere(shin, pos=(0.0, 0.0, -0.2), radius=0.04, density=300.0)
    return builder


def crawler() -> newtonsim.ModelBuilder:
    """A trunk on two jointed legs, whose feet roll on the ground, with a box that leans on it."""
    builder = legged()
    for foot in (2, 4):
        builder.shape_mu_torsion[foot] = builder.shape_mu_rolling[foot] = 0.01
    place = wp.transform((0.1, 0.175, 0.21), wp.quat_rpy(0.15, 0.0, 0.0))
    box = builder.add_body(origin=place)
    builder.add_shape_box(box, hx=0.05, hy=0.05, hz=0.2, density=400.0)
    builder.set_ground_plane()
    return builder


def laden() -> newtonsim.ModelBuilder:
    """A crawler with boxes on its trunk, too many for a dense matrix."""
    builder = crawler()
    for i in range(7):
        place = wp.transform((0.08 * (i - 3), 0.0, 0.51), wp.quat_identity())
        box = builder.add_body(origin=place)
        builder.add_shape_box(box, hx=0.03, hy=0.03, hz=0.02, density=400.0)
    return builder


def boxes(overlap: float, restitution: float = 0.0, count: int = 3) -> newtonsim.ModelBuilder:
    """A leaning stack of boxes, the third the heaviest, with gaps or overlaps between them [m]."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i, density in enumerate((100.0, 100.0, 2000.0)[:count]):
        place = (0.03 * i, 0.0, 0.1 - overlap + (0.2 - overlap) * i)
        body = builder.add_body(origin=wp.transform(place, wp.quat_identity()))
        builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, density=density, restitution=restitution)
    builder.set_ground_plane(restitution=restitution)
    return builder


def tiled() -> newtonsim.ModelBuilder:
    """Two boxes at the seams of a floor of tiles."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for x in (0.0, 0.1, 0.2):
        builder.add_shape_box(-1, pos=(x, 0.0, -0.05), hx=0.05, hy=0.5, hz=0.05)
    for x, y in ((0.006, -0.2), (0.104, 0.2)):
        body = builder.add_body(origin=wp.transform((x, y, 0.04), wp.quat_identity()))
        builder.add_shape_box(body, hx=0.04, hy=0.04, hz=0.04, thickness=0.005)
    return builder


def wedged() -> newtonsim.ModelBuilder:
    """A box in a gap narrower than itself."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(origin=wp.transform((0.01, 0.0, 0.0), wp.quat_identity()))
    builder.add_shape_box(body, hx=0.08, hy=0.08, hz=0.08)
    for x in (-0.55, 0.55):
        builder.add_shape_box(-1, pos=(x, 0.0, 0.0), hx=0.5, hy=1.0, hz=1.0)
    return builder


def tilted_rods() -> newtonsim.ModelBuilder:
    """Worlds with a rod each, one end of which bounces off the ground."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i in range(4):
        world = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        turn = wp.quat_rpy(0.3 * i, 0.4 + 0.1 * i, 0.2)
        body = world.add_body(origin=wp.transform((0.0, 0.0, 0.6), turn))
        world.add_shape_box(body, hx=0.05, hy=0.07, hz=0.3, density=300.0)
        world.add_shape_sphere(body, pos=(0.02, 0.03, -0.35), radius=0.05, density=500.0, restitution=0.5)
        builder.add_builder(world)
        builder.joint_q[-5] = 0.38 + 0.01 * i
        builder.joint_qd[-1] = -2.0
    builder.set_ground_plane(restitution=0.5)
    return builder


def torn() -> newtonsim.ModelBuilder:
    """Links on hinges with friction, the last welded to two poses, and a box that stands on the ground."""
    builder = boxes(0.0, count=1)
    link = -1
    for i in range(4):
        link, before = builder.add_body(), link
        builder.add_shape_box(link, hx=0.05, hy=0.05, hz=0.2, density=20.0)
        place = wp.transform((2.0, 0.0, 3.0) if i == 0 else (0.0, 0.0, -0.2), wp.quat_identity())
        child = wp.transform((0.0, 0.0, 0.2), wp.quat_identity())
        builder.add_joint_revolute(before, link, place, child, (0.0, 1.0, 0.0))
    builder.joint_friction = [0.5] * builder.joint_dof_count
    for x in (1.9, 2.3):
        builder.add_constraint_weld(-1, link, wp.transform((x, 0.0, 1.6), wp.quat_identity()))
    return builder


def lifted_load_scene() -> Scene:
    """The step after one in which light boxes bore a heavy one, whose impulses would now throw them up."""
    model = boxes(0.0).finalize("cpu")
    solver, state = FeatherstoneSolver(model), model.state()

    def step() -> None:
        solver.step(model, state, state, None, None, 1.0 / 240.0)

    for _ in range(30):
        step()
    raised = state.joint_q.numpy()
    raised[-5] += 1.0
    state.joint_q.assign(raised)
    return Scene(model, step)


def rubbing() -> newtonsim.ModelBuilder:
    """A tree with dry friction at every third dof."""
    builder = random_model(12, body_count=14)
    builder.joint_friction = [0.1 * (d % 3 == 0) for d in range(builder.joint_dof_count)]
    return builder


def linear_scene() -> Scene:
    """A linear model of a step in which feet slide, in worlds of which one hangs in the air."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(legged(), 3)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    solver, state, end = FeatherstoneSolver(model), model.state(), model.state()
    linear, control = solver.make_linear_model("joint_f"), model.control()
    q, qd = state.joint_q.numpy(), state.joint_qd.numpy().reshape(3, -1)
    q.reshape(3, -1)[1, 2] += 1.0
    qd[:, 3:5] = (1.0, 0.3)
    state.joint_q.assign(q)
    state.joint_qd.assign(qd.reshape(-1))
    for _ in range(2):
        solver.step(model, state, state, control, None, 1.0 / 240.0)
    linear.step(Shard(model), state, end, control, 1.0 / 240.0)
    return Scene(model, lambda: linear.step(Shard(model), state, end, control, 1.0 / 240.0))


def resumed_scene() -> Scene:
    """What legs that stand find is taken over, in worlds of which one hangs in the air."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(legged(), 2)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    solver, state = FeatherstoneSolver(model), model.state()
    q = state.joint_q.numpy()
    q.reshape(2, -1)[1, 2] += 1.0
    state.joint_q.assign(q)
    memory, stage = solver.make_step_memory(), solver.constraints
    solver.use_step_memory(memory)
    for _ in range(3):
        solver.step(model, state, state, None, None, 1.0 / 240.0)
    launch = Launcher(model, record_tape=False, shard=Shard(model).with_starts(stage.starts))
    assert (stage.world_state.numpy() == [ACTED, NOTHING_ACTED]).all()
    stage.buffers.islands.count.zero_()
    return Scene(model, lambda: memory.resume(launch, stage, solver.contacts))


def crowd_scene() -> Scene:
    """Contacts of spheres on the ground, too many for a list of pairs."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for i in range(70):
        place = (0.15 * (i % 10), 0.3 * (i // 10), 0.1)
        body = builder.add_body(origin=wp.transform(place, wp.quat_identity()))
        builder.add_shape_sphere(body, radius=0.1)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    assert collision_plan_of(model).listed is None
    state = model.state()
    collide(model, state)
    return Scene(model, lambda: collide(model, state))


SCENES: dict[str, Callable[[], Scene]] = {
    "step": lambda: step_scene(forest()),
    "from the start": lambda: step_scene(forest(), coriolis="start"),
    "in a medium": lambda: step_scene(forest(), viscosity=10.0),
    "limited speeds": lambda: step_scene(forest(), speed_limit=1.0),
    "dry friction": lambda: contact_scene(rubbing(), 0),
    "crowd": crowd_scene,
    "long chains": lambda: step_scene(random_model(11, body_count=80, base=FREE)),
    "dynamics": dynamics_scene,
    "linear model": linear_scene,
    "outcome": resumed_scene,
    "spawn": spawn_scene,
    "walkers": walker_scene,
    "loop": lambda: contact_scene(scenes.four_bar(), 5),
    "seams": lambda: contact_scene(tiled(), 0),
    "a contradiction": lambda: contact_scene(torn(), 0),
    "sweeps first, to a contradiction": lambda: contact_scene(torn(), 0, sweeps_first=True),
    "crawler": lambda: contact_scene(crawler(), 0),
    "boxes in each other": lambda: contact_scene(boxes(2.0e-3), 0),
    "a box in the ground": lambda: contact_scene(boxes(2.0e-3, count=1), 0),
    "a wedged box": lambda: contact_scene(wedged(), 0),
    "a load that is lifted": lifted_load_scene,
    "boxes that fall": lambda: contact_scene(boxes(-1.0e-3), 6),
    "boxes that bounce": lambda: contact_scene(boxes(-1.0e-3, 0.5), 3),
    "rods that bounce": lambda: contact_scene(tilted_rods(), 0),
    "rods that strike": lambda: contact_scene(striking_rods(1.0, 1.0), 0),
    "links that turn far": lambda: contact_scene(spinning_chain(300.0, 0), 0),
    "sweeps first, then strike": lambda: contact_scene(striking_rods(1.0, 1.0), 0, sweeps_first=True),
    "sweeps first": lambda: contact_scene(crawler(), 0, sweeps_first=True),
    "sweeps first, then bounce": lambda: contact_scene(boxes(-1.0e-3, 0.5), 3, sweeps_first=True),
    # the last, as it takes longest: a sync that another scene needs is not left out in this one
    "laden": lambda: contact_scene(laden(), 0),
}

CLOSED = ("begin_trees", "finish_trees", "advance_trees")
"""Kernels that on the CPU move free bodies in closed form, see test_trees_free_body.py."""
SOLUTION = ("views.newton.z", "views.z_moving", "views.start")
SUMMED = {"solve_rows": SOLUTION, "sweep_rows": SOLUTION, "solve_pairs": ("z",)}
"""What kernels find in which lanes add up, in another order than one lane does."""


@pytest.mark.parametrize("count", [2, 8, 32])
@pytest.mark.parametrize("name", SCENES)
def test_many_lanes_give_the_bits_of_one(name: str, count: int):
    scene = SCENES[name]()
    for command in scene.team_launches():
        memory = Memory(capture._arrays_of(command.fwd_args))
        before = memory.copy()
        if command.kernel.key in CLOSED:
            emulate(command, scene.levels, [0])
        else:
            command.launch()
        expected, results = memory.copy(), found_by(command)
        # a whole warp in one order: what depends on it, fewer lanes show at less cost
        for order in islice(orders(count), 1 if count == 32 else 2):
            memory.put_back(before)
            emulate(command, scene.levels, order)
            what = f"{command.kernel.key} by {count} lanes"
            if command.kernel.key in SUMMED:
                np.testing.assert_allclose(found_by(command), results, rtol=1e-5, atol=1e-5, err_msg=what)
            else:
                assert memory.equals(expected), what
        memory.put_back(before)


def found_by(command: wp.Launch) -> np.ndarray:
    """What a kernel that adds up finds."""
    names = SUMMED.get(command.kernel.key, ())
    return np.concatenate([*(argument_of(command, name).numpy().reshape(-1) for name in names), np.zeros(0)])


def argument_of(command: wp.Launch, name: str) -> wp.array:
    """An array that a kernel was launched with, as an argument or in a view."""
    label, *path = name.split(".")
    labels = [argument.label for argument in command.kernel.adj.args]
    array = command.fwd_args[labels.index(label)]
    if not path:
        return array
    entry = array.numpy()[0]
    for part in path:
        entry = entry[part]
    (found,) = {one.ptr: one for one in array.pointed_to if (one.ptr or 0) == entry["data"]}.values()
    return found


def test_every_kernel_over_teams_is_emulated():
    launched = {
        (command.kernel.module.name, command.kernel.key)
        for make in SCENES.values()
        for command in make().commands
        if takes_teams(command.kernel)
    }
    assert rewritten().kernels() - launched == set()


blocks = rewritten().module(block_cholesky.__name__)


@wp.kernel(enable_backward=False)
def solve_blocks(teams: Teams, system: block_system.BlockSystemView):
    """One team per world: factorize, and solve."""
    team = own_team(teams, wp.tid())
    block_cholesky.factorize(team, system, team.index)
    block_cholesky.solve(team, system, team.index)


@wp.kernel(enable_backward=False)
def solve_blocks_by_turns(teams: teams_by_turns.Teams, system: blocks.BlockSystemView):
    """`solve_blocks` with emulated teams."""
    team = teams_by_turns.own_team(teams, wp.tid())
    blocks.factorize(team, system, team.index)
    blocks.solve(team, system, team.index)


@pytest.mark.parametrize("count", [2, 8, 32])
def test_many_lanes_factorize_as_one(count: int):
    """Newton's method would hide a wrong factor: it comes to the same solution, only later."""
    model = crawler().finalize("cpu")
    solver, state = FeatherstoneSolver(model), model.state()
    solver.step(model, state, state, None, None, 1.0 / 240.0)
    system = solver.constraints.buffers.system
    assert system.nodes.numpy()[0] == 2, "the trunk and the box that leans on it"
    rng = np.random.default_rng(3)
    entries, given = rng.uniform(-0.3, 0.3, len(system.L)), rng.normal(size=len(system.x))
    for node in range(2):
        n = int(system.width.numpy()[node])
        pitch = 8 if n == 6 else n
        entries[int(system.panel.numpy()[node]) + np.arange(n) * (pitch + 1)] += 4.0
    solutions = []
    command = wp.launch(solve_blocks, 1, [teams.teams_from(0), system], device="cpu", record_cmd=True)
    lanes_of_blocks = partial(run_lanes, solve_blocks_by_turns, command, [system.__ctype__()])
    for run in (command.launch, *(partial(lanes_of_blocks, order) for order in orders(count))):
        system.L.assign(entries.astype(np.float32))
        system.x.assign(given.astype(np.float32))
        run()
        solutions.append(system.x.numpy().copy())
    for solution in solutions[1:]:
        np.testing.assert_allclose(solution, solutions[0], rtol=1e-5, atol=1e-6)


def needed_syncs() -> set[int]:
    """Sites of syncs without which a kernel gives other bits, or lanes part."""
    needed: set[int] = set()
    for make in SCENES.values():
        if needed >= SITES:
            break
        scene = make()
        for command in scene.team_launches():
            possible = rewritten().sites_for(command.kernel)
            if needed >= SITES & possible:
                continue
            memory = Memory(capture._arrays_of(command.fwd_args))
            before = memory.copy()
            # two lanes share out whole trees, more the dofs of a tree, and sixteen have a lane a dof; few
            # are emulated soon
            for count in (2, 8, 16):
                memory.put_back(before)
                sites = emulate(command, scene.levels, range(count))
                assert sites <= possible
                differs = partial(_differs, command, scene, memory, before, memory.copy())
                for site in (sites & SITES) - needed:
                    if any(differs(order, site) for order in orders(count)):
                        needed.add(site)
            memory.put_back(before)
    return needed


def _differs(command, scene: Scene, memory: Memory, before, expected, order, site: int) -> bool:
    memory.put_back(before)
    try:
        emulate(command, scene.levels, order, skip=site)
    except TeamError:
        return True
    return not memory.equals(expected)


def test_the_tests_fail_without_a_sync():
    missed = SITES - needed_syncs()
    assert not missed, [rewritten().sites[site] for site in missed]


def site_of(call: str) -> int:
    return next(number for number, (_, _, other) in enumerate(rewritten().sites) if other == call)


def run_by_turns(kernel: wp.Kernel, order: Sequence[int], arguments: list) -> None:
    """One team of emulated lanes."""
    command = wp.launch(kernel, 1, [teams_by_turns.Teams(), *arguments], device="cpu", record_cmd=True)
    run_lanes(kernel, command, command.params[2:], order)


@wp.kernel(enable_backward=False)
def part(teams: teams_by_turns.Teams, site: int, others: int):
    """The second lane comes to a site twice, the others as often as given."""
    team = teams_by_turns.own_team(teams, wp.tid())
    times = others
    if team.lane == 1:
        times = 2
    for _ in range(times):
        teams_by_turns.sync(team, site)


@pytest.mark.parametrize("others", [1, 3])
def test_lanes_that_part_are_noticed(others: int):
    run_by_turns(part, range(4), [site_of("sync"), 2])
    with pytest.raises(TeamError):
        run_by_turns(part, range(4), [site_of("sync"), others])


@wp.kernel(enable_backward=False)
def take_turns(teams: teams_by_turns.Teams, site: int, log: wp.array(dtype=int)):
    """Lanes note that they were here, in three rounds."""
    team = teams_by_turns.own_team(teams, wp.tid())
    for _ in range(3):
        log[log[0]] = team.lane
        log[0] = log[0] + 1
        teams_by_turns.sync(team, site)


@pytest.mark.parametrize("order", list(orders(8)))
def test_lanes_take_turns_in_their_order(order: list[int]):
    log = wp.array([1] + [-1] * 24, dtype=int, device="cpu")
    run_by_turns(take_turns, order, [site_of("sync"), log])
    assert log.numpy()[1:].tolist() == 3 * order


@wp.kernel(enable_backward=False)
def tell(
    teams: teams_by_turns.Teams,
    sites: wp.vec4i,
    values: wp.array(dtype=float),
    found: wp.array2d(dtype=float),
    places: wp.array(dtype=wp.vec2i),
):
    """What lanes are told of a row of numbers, and of their integer parts."""
    team = teams_by_turns.own_team(teams, wp.tid())
    own = values[team.lane]
    found[team.lane, 0] = teams_by_turns.sum_lanes(team, sites[0], own)
    found[team.lane, 1] = teams_by_turns.max_lanes(team, sites[1], own)
    found[team.lane, 2] = teams_by_turns.from_lane(team, sites[2], own, 5)
    places[team.lane] = teams_by_turns.scan_lanes(team, sites[3], int(wp.abs(own)))


@pytest.mark.parametrize("order", list(orders(8)))
def test_emulated_lanes_tell_each_other(order: list[int]):
    """Sums are those of shuffles, to the bit."""
    values = np.random.default_rng(4).normal(scale=3.0, size=8).astype(np.float32)
    found, places = wp.zeros((8, 3), dtype=float, device="cpu"), wp.zeros(8, dtype=wp.vec2i, device="cpu")
    sites = wp.vec4i([site_of(call) for call in ("sum_lanes", "max_lanes", "from_lane", "scan_lanes")])
    run_by_turns(tell, order, [sites, wp.array(values, dtype=float, device="cpu"), found, places])
    halves = values[:4] + values[4:]
    quarters = halves[:2] + halves[2:]
    assert found.numpy().tolist() == [[quarters[0] + quarters[1], values.max(), values[5]]] * 8
    counts = np.abs(values).astype(int)
    np.testing.assert_array_equal(places.numpy()[:, 0], counts.cumsum() - counts)
    assert (places.numpy()[:, 1] == counts.sum()).all()


@wp.kernel(enable_backward=False)
def add_up(teams: Teams, count: int, values: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    """One team per row: the sum of its entries, written by all lanes to places of their own."""
    team = own_team(teams, wp.tid())
    part = wp.float32(0.0)
    for i in range(team.lane, count, lanes(team)):
        part += values[team.index, i]
    sync(team)
    part = sum_lanes(team, part)
    total[team.index * lanes(team) + team.lane] = part


@pytest.mark.parametrize("width", [1, 4, 8, 32])
def test_lanes_of_a_device_add_up(device, width):
    width = 1 if device == "cpu" else width
    values = np.random.default_rng(1).normal(size=(5, 50)).astype(np.float32)
    total = wp.zeros(5 * width, dtype=float, device=device)
    array = wp.array(values, dtype=float, device=device)
    wp.launch(add_up, 5 * width, [teams.teams_from(0, width), 50, array, total], device=device)
    sums = total.numpy().reshape(5, width)
    np.testing.assert_allclose(sums[:, 0], values.sum(axis=1), rtol=1e-5, atol=1e-5)
    assert (sums == sums[:, :1]).all()


@wp.kernel(enable_backward=False)
def line_up(teams: Teams, counts: wp.array2d(dtype=int), places: wp.array2d(dtype=wp.vec2i)):
    """One team per row: how much stands before each entry, and in the whole row."""
    team = own_team(teams, wp.tid())
    places[team.index, team.lane] = scan_lanes(team, counts[team.index, team.lane])


@pytest.mark.parametrize("width", [1, 4, 8, 32])
def test_lanes_of_a_device_line_up(device, width):
    width = 1 if device == "cpu" else width
    counts = np.random.default_rng(2).integers(0, 9, (5, width)).astype(np.int32)
    places = wp.zeros((5, width), dtype=wp.vec2i, device=device)
    array = wp.array(counts, dtype=int, device=device)
    wp.launch(line_up, 5 * width, [teams.teams_from(0, width), array, places], device=device)
    found = places.numpy()
    np.testing.assert_array_equal(found[..., 0], counts.cumsum(axis=1) - counts)
    assert (found[..., 1] == counts.sum(axis=1, keepdims=True)).all()


@pytest.mark.parametrize(("width", "count"), [(0, 4), (1, 4), (4, 4), (5, 8), (29, 32), (200, 32)])
def test_teams_fit_their_work(width: int, count: int):
    assert teams.lanes_for(width) == count


def limited_lanes(world: newtonsim.ModelBuilder, count: int, **limits: int) -> dict[str, int]:
    builder = newtonsim.ModelBuilder()
    builder.replicate(world, count)
    return teams.lanes_on_gpu(builder.finalize("cpu"), teams.Limits(**limits))


def test_a_model_that_fits_a_card_is_not_spoken_of(recwarn):
    assert limited_lanes(crawler(), 3) == {"tree": 8, "world": 16}
    # six trees in three worlds
    assert limited_lanes(crawler(), 3, threads=48) == {"tree": 8, "world": 16}
    assert not [w for w in recwarn if w.category is SmallTeamWarning]


def test_a_model_that_needs_more_than_a_card_has_gets_smaller_teams_and_a_warning():
    model = r"the model that starts with body 'trunk', 16 dofs a world"
    with pytest.warns(SmallTeamWarning, match=rf"{model}.* 8 lanes for each world in place of 16.* most 8$"):
        assert limited_lanes(crawler(), 3, lanes=8) == {"tree": 8, "world": 8}
    with pytest.warns(SmallTeamWarning, match=r"launch has at most 47 threads$") as told:
        assert limited_lanes(crawler(), 3, threads=47) == {"tree": 4, "world": 8}
    assert len(told) == 1


@pytest.mark.parametrize("count", [0, 3, 64])
def test_a_team_has_a_power_of_two_of_lanes(count: int):
    with pytest.raises(ValueError, match="power of two"):
        teams.teams_from(0, count)
