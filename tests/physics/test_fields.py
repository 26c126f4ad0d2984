"""Fields by name: what is written moves worlds as models do that were built with it, under every solver."""

import numpy as np
import pytest
import warp as wp

from newtonsim import (
    FeatherstoneSolver,
    Mesh,
    ModelBuilder,
    SemiImplicitSolver,
    Simulator,
    View,
    XPBDSolver,
    diff,
)
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.solvers import MuJoCoSolver

UP = (0.0, 0.0, 1.0)
DT = 1.0 / 240.0
SOLVERS = [FeatherstoneSolver, SemiImplicitSolver, XPBDSolver]


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> wp.transform:
    return wp.transform((x, y, z), wp.quat_identity())


def robot(
    masses=(2.0, 1.0, 0.5), com=(0.1, 0.0, 0.0), upper: float = 0.4, damping: float = 0.1
) -> ModelBuilder:
    """Three links in a row; a side branch with a joint that turns about another axis."""
    world = ModelBuilder(up_vector=UP)
    world.add_articulation("robot_one")
    parent = -1
    for k, mass in enumerate(masses):
        link = world.add_body(mass=mass, com=com, I_m=np.diag([0.02, 0.03, 0.04]), key=f"leg_{k}")
        axis = (0.0, 1.0, 0.0) if k < 2 else (1.0, 0.0, 0.0)
        world.add_joint_revolute(
            parent,
            link,
            parent_xform=pose(0.3 if k else 0.0, 0.0, 0.0 if k else 2.0),
            axis=axis,
            limit_lower=-0.5,
            limit_upper=upper,
            key=f"hinge_{k}",
        )
        parent = link
    world.joint_damping = [damping] * world.joint_dof_count
    return world


def worlds_of(world: ModelBuilder, count: int, device: str, **options):
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, count, spacing=(0.0, 0.0, 0.0))
    return scene.finalize(device, **options)


def angles_after(model, make, steps: int) -> np.ndarray:
    sim = Simulator(model, make(model), DT)
    sim.step(steps)
    return sim.state.joint_q.numpy().reshape(model.world_count, -1).copy()


def test_patterns_name_elements_of_worlds(device):
    model = worlds_of(robot(), 3, device)
    view = View(model, "robot*/leg_[01]", worlds=[2, 0])
    assert view.bodies.names == ("leg_0", "leg_1")
    np.testing.assert_array_equal(view.bodies.indices, [[6, 7], [0, 1]])
    assert view.bodies.mass.shape == (2, 2)
    assert view.bodies.inertia.shape == (2, 2, 3, 3)
    assert view.bodies.com.shape == (2, 2, 3)
    np.testing.assert_array_equal(view.bodies.mass, [[2.0, 1.0], [2.0, 1.0]])
    assert View(model, "hinge_*", worlds=np.array([False, True, True])).joints.q.shape == (2, 3)
    assert View(model, "hinge_1").joints.armature.names == ("hinge_1",)
    assert View(model).gravity.shape == (3, 3)


def test_shapes_go_by_their_labels_and_those_of_their_bodies(device):
    world = ModelBuilder(up_vector=UP)
    for name in ("leg", "arm"):
        body = world.add_body(mass=1.0, I_m=np.eye(3), key=f"{name}_0")
        world.add_shape_sphere(body, key=f"{name}_ball")
        world.add_shape_box(body, key="foot")
    model = worlds_of(world, 2, device)
    assert View(model, "leg_*").shapes.names == ("leg_ball", "foot")
    assert View(model, "foot").shapes.names == ("foot", "foot")
    np.testing.assert_array_equal(View(model, "arm_0").shapes.indices, [[2, 3], [6, 7]])


def test_what_names_nothing_is_told_with_what_there_is(device):
    model = worlds_of(robot(), 2, device)
    with pytest.raises(NewtonsimError, match=r"no label matches 'leg'.*there are leg_0, leg_1, leg_2"):
        View(model, "leg")
    with pytest.raises(NewtonsimError, match=r"no label matches 'robot_two/\*'.*on robot_one"):
        View(model, "robot_two/*")
    with pytest.raises(NewtonsimError, match="joints: no label matches 'leg_"):
        _ = View(model, "leg_*").joints.q
    with pytest.raises(NewtonsimError, match="the model has no shapes"):
        _ = View(model).shapes.friction
    with pytest.raises(AttributeError, match="bodies have no field 'masses'; did you mean 'mass'"):
        _ = View(model).bodies.masses
    with pytest.raises(AttributeError, match="bodies have no field 'masses'"):
        View(model).bodies.masses = 1.0
    with pytest.raises(AttributeError, match=r"a field has no .mean.; field\[...\] is a NumPy array"):
        View(model).bodies.mass.mean()
    assert np.mean(View(model).bodies.mass) == pytest.approx(View(model).bodies.mass[...].mean())
    with pytest.raises(AttributeError, match="a view has no 'body'"):
        _ = View(model).body
    with pytest.raises(NewtonsimError, match="worlds: expected numbers from 0 to 1 or a mask"):
        View(model, worlds=[2])
    with pytest.raises(NewtonsimError, match=r"worlds: expected a mask of shape \(2,\), got \(3,\)"):
        View(model, worlds=[True, False, True])
    with pytest.raises(
        NewtonsimError, match=r"bodies\.f: a model has none; create the view from a Simulator"
    ):
        _ = View(model).bodies.f
    other = ModelBuilder(up_vector=UP)
    other.add_builder(robot())
    other.add_builder(robot(masses=(1.0, 1.0)))
    uneven = other.finalize(device)
    with pytest.raises(NewtonsimError, match="world 1 has 2 of them and world 0 has 3"):
        _ = View(uneven).bodies.mass
    assert View(uneven, "leg_[01]").bodies.mass.shape == (2, 2)


def test_values_without_sense_are_refused_and_change_nothing(device):
    view = View(worlds_of(robot(), 2, device))
    for value in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(NewtonsimError, match=r"bodies\.mass: expected positive numbers"):
            view.bodies.mass = value
    with pytest.raises(ModelError, match=r"bodies\.mass: expected shape \(2, 3\), .* got \(2, 2\)"):
        view.bodies.mass = np.ones((2, 2))
    with pytest.raises(ModelError, match=r"expected shape \(1, 3\), .* got \(2, 3\)"):
        view.bodies.mass.write(np.ones((2, 3)), worlds=[1])
    with pytest.raises(ModelError, match=r"bodies\.mass: expected numbers, got 'heavy'"):
        view.bodies.mass = "heavy"
    with pytest.raises(ModelError, match=r"bodies\.mass: expected numbers, got '3'"):
        view.bodies.mass = "3"
    with pytest.raises(NewtonsimError, match=r"bodies\.inertia"):
        view.bodies.inertia = np.diag([1.0, 1.0, -1.0])
    with pytest.raises(NewtonsimError, match=r"bodies\.inertia: expected symmetric"):
        view.bodies.inertia = [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(ModelError, match=r"bodies\.inertia: expected 3 x 3 numbers for each, got 2"):
        view.bodies.inertia = 2.0
    with pytest.raises(ModelError, match=r"gravity: expected 3 numbers for each, got -9\.81"):
        view.gravity = -9.81
    with pytest.raises(AttributeError, match=r"'graviti'; did you mean 'gravity'"):
        view.graviti = (0.0, 0.0, -1.0)
    with pytest.raises(NewtonsimError, match=r"joints\.armature: expected numbers from 0"):
        view.joints.armature = -0.1
    np.testing.assert_array_equal(view.bodies.mass, [[2.0, 1.0, 0.5]] * 2)
    with pytest.raises(ValueError, match="read-only"):
        view.bodies.mass.numpy()[:] = 1.0
    view.joints.limit_upper = np.inf
    held = robot()
    held.add_constraint_connect(0, 2, (0.1, 0.0, 0.0))
    held.add_particle((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 1.0)
    view = View(held.finalize(device))
    for value, message in ((0.5, "expected whole numbers, got 0.5"), (7, "expected numbers from 0 to 1")):
        with pytest.raises(NewtonsimError, match=message):
            view.constraints.enabled = value
    view.constraints.enabled = False
    np.testing.assert_array_equal(view.constraints.enabled, 0)
    with pytest.raises(NewtonsimError, match="particles have no labels, so none matches 'leg_0'"):
        _ = View(view.model, "leg_0").particles.q
    still = ModelBuilder(up_vector=UP)
    still.add_body(mass=0.0, key="post")
    with pytest.raises(ModelError, match="'post' has no mass and is static"):
        View(still.finalize(device)).bodies.mass = 1.0


@pytest.mark.parametrize("make", SOLVERS)
def test_worlds_with_masses_of_their_own_move_as_models_built_so(device, make):
    masses = np.random.default_rng(1).uniform(0.3, 3.0, (4, 3))
    model = worlds_of(robot(), 4, device)
    sim = Simulator(model, make(model), DT)
    View(sim, "leg_*").bodies.mass = masses
    np.testing.assert_allclose(model.body_inv_mass.numpy(), 1.0 / masses.reshape(-1), rtol=1e-6)
    sim.step(40)
    found = sim.state.joint_q.numpy().reshape(4, 3)
    for world in range(4):
        alone = worlds_of(robot(masses[world]), 1, device)
        np.testing.assert_allclose(found[world], angles_after(alone, make, 40)[0], atol=2e-5)
    assert np.ptp(found[:, 0]) > 0.01


@pytest.mark.parametrize("make", SOLVERS)
def test_fields_of_bodies_and_joints_act_as_if_built_in(device, make):
    """Centres of mass, limits, damping and inertia: each world as a model that was made with them."""
    model = worlds_of(robot(), 2, device)
    sim = Simulator(model, make(model), DT)
    view = View(sim)
    view.bodies.com.write([[0.2, 0.0, 0.05]], worlds=[1])
    view.joints.limit_upper.write(0.1, worlds=[1])
    view.joints.damping.write(0.3, worlds=[1])
    view.bodies.inertia[1] = np.diag([0.05, 0.06, 0.07])
    product = model.body_inertia.numpy() @ model.body_inv_inertia.numpy()
    np.testing.assert_allclose(product, np.tile(np.eye(3), (6, 1, 1)), atol=1e-5)
    sim.step(150)
    found = sim.state.joint_q.numpy().reshape(2, 3)
    built = robot(com=(0.2, 0.0, 0.05), upper=0.1, damping=0.3)
    built.body_inertia[:] = [np.diag([0.05, 0.06, 0.07])] * 3
    np.testing.assert_allclose(found[1], angles_after(worlds_of(built, 1, device), make, 150)[0], atol=2e-5)
    np.testing.assert_allclose(found[0], angles_after(worlds_of(robot(), 1, device), make, 150)[0], atol=2e-5)


def test_levers_of_limits_are_those_of_a_solver_made_afterwards(device):
    """How far a turn moves a link, which limits reckon with, follows masses, inertias and their centres."""
    model = worlds_of(robot(), 2, device)
    solver = FeatherstoneSolver(model)
    view = View(Simulator(model, solver, DT))
    view.bodies.com.write([0.3, 0.0, 0.1], worlds=[1])
    view.bodies.inertia.write(np.diag([0.5, 0.6, 0.7]), worlds=[1])
    view.bodies.mass.write(4.0, worlds=[1])
    built = robot(masses=(4.0, 4.0, 4.0), com=(0.3, 0.0, 0.1))
    built.body_inertia[:] = [np.diag([0.5, 0.6, 0.7])] * 3
    expected = FeatherstoneSolver(worlds_of(built, 1, device)).constraints.levers.numpy()
    np.testing.assert_allclose(solver.constraints.levers.numpy()[3:], expected, rtol=1e-6)
    untouched = FeatherstoneSolver(worlds_of(robot(), 1, device)).constraints.levers.numpy()
    np.testing.assert_allclose(solver.constraints.levers.numpy()[:3], untouched, rtol=1e-6)


def test_masks_and_indices_reach_their_worlds_alone(device):
    model = worlds_of(robot(), 4, device)
    view = View(model, "leg_1")
    mask = np.array([False, True, False, True])
    view.bodies.mass.write(np.arange(1.0, 5.0)[:, None], worlds=mask)
    np.testing.assert_array_equal(view.bodies.mass[:, 0], [1.0, 2.0, 1.0, 4.0])
    view.bodies.mass.write(7.0, worlds=wp.array(mask, dtype=bool, device=device))
    np.testing.assert_array_equal(view.bodies.mass[:, 0], [1.0, 7.0, 1.0, 7.0])
    view.bodies.mass.write([[9.0], [8.0]], worlds=[3, 0])
    np.testing.assert_array_equal(view.bodies.mass[:, 0], [8.0, 7.0, 1.0, 9.0])
    view.bodies.mass[2, 0] = 3.0
    view.bodies.mass *= 2.0
    np.testing.assert_array_equal(view.bodies.mass[:, 0], [16.0, 14.0, 6.0, 18.0])
    np.testing.assert_allclose(np.sum(view.bodies.mass), 54.0)
    np.testing.assert_array_equal(View(model, "leg_0").bodies.mass, 2.0)
    some = View(model, "leg_1", worlds=[1, 2])
    with pytest.raises(NewtonsimError, match="the view has no world 0"):
        some.bodies.mass.write(1.0, worlds=[0])


def test_memory_is_shared_where_it_is_regular(device):
    model = worlds_of(robot(), 3, device)
    field = View(model, "leg_*").bodies.com
    view = field.array
    assert view.ptr == model.body_com.ptr
    assert view.shape == (3, 3, 3)
    assert View(model, "leg_1").bodies.mass.array.ptr == model.body_mass.ptr + 4
    if device == "cpu":
        assert np.shares_memory(field.numpy(), model.body_com.numpy())
        model.body_com.numpy()[4] = (7.0, 8.0, 9.0)
        np.testing.assert_array_equal(field[1, 1], (7.0, 8.0, 9.0))
    uneven = View(model, "leg_1", worlds=[0, 2, 1]).bodies.mass
    with pytest.raises(NewtonsimError, match="are not equally spaced"):
        _ = uneven.array
    np.testing.assert_array_equal(uneven, [[1.0]] * 3)


def test_tensors_read_and_write(device):
    torch = pytest.importorskip("torch")
    model = worlds_of(robot(), 3, device)
    view = View(model, "leg_*")
    place = str(wp.device_to_torch(model.device))
    view.bodies.mass = torch.arange(1.0, 10.0, device=place).reshape(3, 3)
    tensor = view.bodies.mass.torch()
    assert tensor.shape == (3, 3)
    assert tensor.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    mask = torch.tensor([True, False, False], device=place)
    view.bodies.mass.write(torch.full((3, 3), 5.0, device=place), worlds=mask)
    assert tensor[:, 0].tolist() == [5.0, 4.0, 7.0]
    tensor[2] = 2.0
    view.bodies.mass.update()
    np.testing.assert_allclose(model.body_inv_mass.numpy()[6:], 0.5)
    with pytest.raises(ModelError, match=r"expected shape \(3, 3\), .*got \(2,\)"):
        view.bodies.mass = torch.ones(2, device=place)
    with pytest.raises(NewtonsimError, match="positive"):
        view.bodies.mass = torch.zeros((3, 3), device=place)


@pytest.mark.parametrize("make", SOLVERS)
def test_poses_follow_coordinates_and_the_other_way_round(device, make):
    model = worlds_of(robot(), 2, device)
    sim = Simulator(model, make(model), DT)
    view = View(sim, "hinge_*")
    view.joints.q.write([[0.3, -0.2, 0.1]], worlds=[1])
    moved = sim.state.body_q.numpy().copy()
    built = robot()
    built.joint_q[:] = [0.3, -0.2, 0.1]
    alone = worlds_of(built, 1, device)
    expected = Simulator(alone, make(alone), DT).state.body_q.numpy()
    np.testing.assert_allclose(moved[3:], expected, atol=1e-6)
    bodies = View(sim, "leg_*").bodies
    bodies.q = np.stack([moved[3:], moved[3:]])
    np.testing.assert_allclose(view.joints.q, [[0.3, -0.2, 0.1]] * 2, atol=1e-5)


@pytest.mark.parametrize("make", SOLVERS)
def test_bodies_follow_the_frames_of_their_joints(device, make):
    """A base that is moved takes the robot along, in a simulation that runs already: nothing is torn."""
    model = worlds_of(robot(), 2, device)
    sim = Simulator(model, make(model), DT)
    sim.step(5)
    before = sim.state.body_q.numpy()[:, :3].copy()
    # of both worlds, so that neither keeps by how much penalty joints have given way
    frames = [[[0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0]] for height in (2.0, 3.0)]
    View(sim, "hinge_0").joints.X_p.write(frames)
    after = sim.state.body_q.numpy()[:, :3]
    # penalty joints of SemiImplicitSolver give way by 2 mm, which coordinates do not know
    np.testing.assert_allclose(after - before, [[0.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 1.0]] * 3, atol=3e-3)
    sim.step(20)
    angles = sim.state.joint_q.numpy().reshape(2, -1)
    np.testing.assert_allclose(angles[0], angles[1], atol=1e-3)


def test_quaternions_get_their_length_and_have_to_have_one(device):
    """Of free and ball joints, of bodies and of frames; what has its length keeps its bits."""
    world = ModelBuilder(up_vector=UP)
    loose = world.add_body(mass=1.0, I_m=np.eye(3), key="loose")
    arm = world.add_body(mass=1.0, I_m=np.eye(3), key="arm")
    world.add_joint_free(loose, key="free")
    world.add_joint_ball(-1, arm, key="ball")
    model = worlds_of(world, 2, device)
    sim = Simulator(model, FeatherstoneSolver(model), DT)
    view = View(sim)
    view.joints.q = [1.0, 2.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0, 4.0]
    expected = [1.0, 2.0, 3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.6, 0.0, 0.8]
    np.testing.assert_allclose(view.joints.q, [expected] * 2, rtol=1e-6)
    np.testing.assert_allclose(view.bodies.q[1, 1, 3:], expected[7:], rtol=1e-6)
    view.joints.X_p.write([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0], worlds=[1])
    np.testing.assert_array_equal(view.joints.X_p[1, :, 6], 1.0)
    turned = np.array([0.1, -0.2, 0.3, 0.9], np.float32)
    turned /= np.linalg.norm(turned)
    view.bodies.q = [0.0, 0.0, 1.0, *turned]
    np.testing.assert_array_equal(view.bodies.q[0, 0, 3:], turned)
    for field in (view.bodies.q, view.joints.X_c, view.joints.q):
        before = np.array(field)
        with pytest.raises(NewtonsimError, match="a quaternion is zero"):
            field.write(np.zeros(field.shape))
        np.testing.assert_array_equal(field, before)
    # one number for all coordinates, or for those of each world, is no orientation
    for field, name, wrong in (
        (view.joints.q, "free", 0.3),
        (view.joints.q, "free", [[0.3], [0.4]]),
        (View(sim, "ball").joints.q, "ball", 0.5),
        (view.bodies.q, "loose", 0.5),
    ):
        before = np.array(field)
        with pytest.raises(ModelError, match=rf"'{name}' has a quaternion: expected \d+ numbers, got"):
            field.write(wrong)
        np.testing.assert_array_equal(field, before)


@pytest.mark.parametrize("make", [FeatherstoneSolver, XPBDSolver])
def test_boxes_slide_from_the_slope_that_their_friction_allows(device, make):
    """tan of the slope against the coefficient, which is the mean of box and ground."""
    world = ModelBuilder(up_vector=UP)
    body = world.add_body(origin=pose(z=0.1), key="box")
    world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1, mu=0.5)
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, 4, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane(mu=0.5)
    model = scene.finalize(device)
    slope = np.arctan(0.4)
    model.gravity = 9.81 * np.array([np.sin(slope), 0.0, -np.cos(slope)])
    sim = Simulator(model, make(model), DT)
    own = np.array([0.0, 0.22, 0.38, 1.5])
    View(sim).shapes.friction = own[:, None]
    effective = 0.5 * (own + 0.5)
    sim.step(240)
    speed = sim.state.body_qd.numpy()[:, 3]
    sliding = np.maximum(9.81 * (np.sin(slope) - effective * np.cos(slope)), 0.0)
    np.testing.assert_allclose(speed, sliding * sim.time, atol=0.05)
    np.testing.assert_array_equal(speed > 0.1, np.array([True, True, False, False]))


def test_balls_bounce_to_the_height_of_their_restitution(device):
    world = ModelBuilder(up_vector=UP)
    world.add_shape_sphere(world.add_body(origin=pose(z=1.1), key="ball"), radius=0.1, restitution=0.0)
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, 3, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane(restitution=0.0)
    model = scene.finalize(device)
    sim = Simulator(model, FeatherstoneSolver(model), 1e-3)
    View(sim).shapes.restitution = np.array([[0.0], [0.6], [1.0]])
    highest, seen = np.zeros(3), False
    for _ in range(900):
        sim.step()
        velocity = sim.state.body_qd.numpy()[:, 5]
        seen = seen or bool((velocity > 0.1).any())
        if sim.time > 0.46:
            highest = np.maximum(highest, sim.state.body_q.numpy()[:, 2] - 0.1)
    effective = 0.5 * np.array([0.0, 0.6, 1.0])
    np.testing.assert_allclose(highest, effective**2, atol=0.01)


@pytest.mark.parametrize("kind", ["sphere", "box", "capsule", "mesh"])
@pytest.mark.parametrize("make", [FeatherstoneSolver, XPBDSolver])
def test_shapes_rest_at_the_height_of_their_size(device, make, kind: str):
    """Also where they were made to hold less: the radii and boxes of the broad phase follow."""
    world = ModelBuilder(up_vector=UP)
    body = world.add_body(mass=1.0, I_m=np.eye(3) * 0.1, origin=pose(z=0.8), key="thing")
    if kind == "sphere":
        world.add_shape_sphere(body, radius=0.1)
    elif kind == "box":
        world.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    elif kind == "capsule":
        world.add_shape_capsule(body, radius=0.1, half_height=0.2, up_axis=0)
    else:
        world.add_shape_mesh(body, mesh=_box_mesh(), convex=False)
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, 3, spacing=(0.0, 0.0, 0.0))
    slab = scene.add_shape_box(-1, pos=(0.0, 0.0, -0.5), hx=5.0, hy=5.0, hz=0.5)
    assert slab >= 0
    model = scene.finalize(device)
    sim = Simulator(model, make(model), DT)
    factors = np.array([0.5, 1.0, 4.0])
    view = View(sim)
    view.shapes.scale = factors[:, None, None] * view.shapes.scale
    farthest = {"sphere": 0.1, "box": 0.1 * np.sqrt(3.0), "capsule": 0.3, "mesh": 0.1 * np.sqrt(3.0)}[kind]
    radii = model.shape_collision_radius.numpy()[view.shapes.indices[:, 0]]
    np.testing.assert_allclose(radii, farthest * factors, rtol=1e-5)
    sim.step(480)
    heights = sim.state.body_q.numpy()[:, 2]
    np.testing.assert_allclose(heights, 0.1 * factors, atol=0.01)


def _box_mesh() -> Mesh:
    corners = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
    faces = [
        (0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1),
        (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3),
    ]  # fmt: skip
    return Mesh(corners, np.array(faces).reshape(-1))


def test_hulls_that_were_computed_keep_their_size(device):
    world = ModelBuilder(up_vector=UP)
    body = world.add_body(mass=1.0, I_m=np.eye(3), origin=pose(z=0.5))
    world.add_shape_mesh(body, mesh=_box_mesh(), convex=True, key="hull")
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, 2, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    model = scene.finalize(device)
    View(model).shapes.scale = np.array([[[2.0, 2.0, 2.0]], [[1.0, 1.0, 1.0]]])
    sim = Simulator(model, FeatherstoneSolver(model), DT)
    with pytest.raises(ModelError, match="'hull' collides as a convex hull"):
        View(sim).shapes.scale *= 2.0
    sim.step(240)
    np.testing.assert_allclose(sim.state.body_q.numpy()[:, 2], [0.2, 0.1], atol=0.01)


def test_sleepers_wake_when_a_field_changes(device):
    world = ModelBuilder(up_vector=UP)
    world.add_shape_box(world.add_body(origin=pose(z=0.1)), hx=0.1, hy=0.1, hz=0.1, mu=1.0)
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(world, 2, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane(mu=0.0)
    model = scene.finalize(device)
    model.gravity = 9.81 * np.array([0.2, 0.0, -1.0])
    sim = Simulator(model, FeatherstoneSolver(model, sleep=True), DT)
    sim.step(240)
    asleep = sim.solver.sleep.asleep
    assert asleep.numpy().tolist() == [1, 1]
    View(sim).shapes.friction.write(0.0, worlds=[1])
    sim.step(60)
    speed = sim.state.body_qd.numpy()[:, 3]
    assert abs(speed[0]) < 1e-3
    assert speed[1] > 0.3


def test_solvers_that_took_the_model_over_say_so(device):
    pytest.importorskip("mujoco")
    model = worlds_of(robot(), 2, device)
    sim = Simulator(model, MuJoCoSolver(model, use_mujoco=True), DT)
    view = View(sim)
    with pytest.raises(ModelError, match=r"bodies\.mass: MuJoCoSolver copied the model"):
        view.bodies.mass = 1.0
    view.gravity = [[0.0, 0.0, 0.0], [0.0, 0.0, -9.81]]
    sim.step(30)
    angles = sim.state.joint_q.numpy().reshape(2, 3)
    np.testing.assert_allclose(angles[0], 0.0, atol=1e-6)
    assert abs(angles[1, 0]) > 0.01


def test_gravity_of_chosen_worlds(device):
    model = worlds_of(robot(), 3, device)
    View(model, worlds=[1]).gravity = (0.0, 0.0, -1.0)
    np.testing.assert_allclose(model.gravity[:, 2], [-9.81, -1.0, -9.81], rtol=1e-6)
    assert model.largest_gravity == pytest.approx(9.81)
    view = View(model)
    view.gravity[2, 0] = 4.0
    view.gravity *= 2.0
    np.testing.assert_allclose(model.gravity, [[0, 0, -19.62], [0, 0, -2.0], [8.0, 0, -19.62]], rtol=1e-6)


@pytest.mark.parametrize("make", SOLVERS)
def test_worlds_fall_by_gravity_of_their_own(device, make):
    world = ModelBuilder(up_vector=UP)
    world.add_joint_free(world.add_body(mass=1.0, I_m=np.eye(3), key="loose"))
    model = worlds_of(world, 3, device)
    sim = Simulator(model, make(model), DT)
    gravity = np.array([[0.0, 0.0, -9.81], [0.0, 3.0, -1.62], [-2.0, 0.0, 0.0]])
    View(sim).gravity = gravity
    sim.step(60)
    np.testing.assert_allclose(sim.state.body_qd.numpy()[:, 3:], gravity * sim.time, rtol=1e-3, atol=1e-4)


@wp.kernel
def _weigh(q: wp.array(dtype=float), losses: wp.array(dtype=float)):
    w = wp.tid()
    losses[w] = losses[w] + q[3 * w]


def test_gradients_take_the_same_names(device):
    model = worlds_of(robot(), 2, device, requires_grad=True)
    solver = FeatherstoneSolver(model)

    def loss(state, losses):
        wp.launch(_weigh, 2, [state.joint_q], [losses], device=losses.device)

    names = ("joints.q", "bodies.mass", "gravity", "joints.f")
    arrays = ("state.joint_q", "model.body_mass", "model.gravity_vec", "control.joint_f")
    found = diff.rollout(model, solver, model.state(), None, 8, 0.01, loss, names).gradients
    same = diff.rollout(model, solver, model.state(), None, 8, 0.01, loss, arrays).gradients
    for name, array in zip(names, arrays):
        np.testing.assert_array_equal(found[name].numpy(), same[array].numpy())
        assert found[name].numpy().any()
    with pytest.raises(NewtonsimError, match=r"got 'bodies\.masss'; did you mean 'bodies\.mass'"):
        diff.rollout(model, solver, model.state(), None, 8, 0.01, loss, ("bodies.masss",))


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("name", ["q", "X_p"])
@pytest.mark.parametrize("make", SOLVERS)
def test_a_write_to_one_world_leaves_the_others_as_they_are(make, name: str, on_device: bool):
    """Bodies of solvers in maximal coordinates are not quite where the joints say, and have to stay there."""
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(robot(), 3)
    model = scene.finalize("cpu")
    sim = Simulator(model, make(model), 1.0e-3)
    sim.step(100)
    before = [array.numpy().reshape(3, -1).copy() for array in (sim.state.body_q, sim.state.body_qd)]
    field = getattr(View(sim, "*").joints, name)
    chosen = wp.array([False, True, False], dtype=bool, device="cpu") if on_device else [1]
    values = np.array(field.numpy()[[0] if not on_device else slice(None)])
    values[..., 0] += 0.2
    field.write(values, worlds=chosen)
    for old, array in zip(before, (sim.state.body_q, sim.state.body_qd)):
        now = array.numpy().reshape(3, -1)
        np.testing.assert_array_equal(now[[0, 2]], old[[0, 2]])
    assert np.abs(sim.state.body_q.numpy().reshape(3, -1)[1] - before[0][1]).max() > 0.1


def test_bodies_written_in_one_world_leave_turns_of_joints_in_others():
    """Coordinates that are read off the bodies lie within a turn."""
    scene = ModelBuilder(up_vector=UP)
    scene.replicate(robot(upper=20.0), 2)
    sim = Simulator(model := scene.finalize("cpu"), FeatherstoneSolver(model), DT)
    view = View(sim, "*")
    view.joints.q = 7.0
    view.bodies.q.write(view.bodies.q.numpy()[[0]], worlds=[0])
    np.testing.assert_allclose(view.joints.q[0], 7.0 - 2.0 * np.pi, atol=1e-5)
    np.testing.assert_array_equal(view.joints.q[1], 7.0)
