"""Trees that come into places which were reserved for them: as if built so, and nothing else notices."""

import numpy as np
import pytest
import warp as wp
from physics.scenes import GRAVITY, z_up

from newtonsim import FeatherstoneSolver, ModelBuilder, SceneQuery, Simulator, Spares, View, XPBDSolver
from newtonsim.errors import ModelError, NewtonsimError
from newtonsim.geometry import Mesh
from newtonsim.render import Camera, look_at

DT = 1.0 / 240.0
IDENTITY = (0.0, 0.0, 0.0, 1.0)
WORLDS = 2


def box(where=(0.0, 0.0, 0.3), key="box", size=0.1) -> ModelBuilder:
    """A box."""
    world = z_up()
    body = world.add_body(key=key, origin=(where, IDENTITY))
    world.add_shape_box(body, hx=size, hy=size, hz=size)
    return world


def thing(kind: str, where=(0.0, 0.05, 0.42)) -> ModelBuilder:
    """A tilted body of that kind, heavier than the template and off its centre, with friction of its own."""
    world = z_up()
    body = world.add_body(key=kind, origin=(where, (np.sin(0.2), 0.0, 0.0, np.cos(0.2))))
    options = dict(body=body, density=3000.0, mu=0.9, pos=(0.01, 0.0, 0.02), restitution=0.3)
    if kind == "sphere":
        world.add_shape_sphere(**options, radius=0.12)
    elif kind == "box":
        world.add_shape_box(**options, hx=0.15, hy=0.05, hz=0.1)
    elif kind == "capsule":
        world.add_shape_capsule(**options, radius=0.07, half_height=0.1)
    elif kind == "cylinder":
        world.add_shape_cylinder(**options, radius=0.09, half_height=0.1)
    elif kind == "cone":
        world.add_shape_cone(**options, radius=0.09, half_height=0.1)
    else:
        world.add_shape_ellipsoid(**options, a=0.08, b=0.1, c=0.12)
    return world


def simulator_of(world: ModelBuilder, device, **options) -> Simulator:
    scene = z_up()
    scene.replicate(world, WORLDS, spacing=(0.0, 0.0, 0.0))
    scene.set_ground_plane()
    model = scene.finalize(device)
    return Simulator(model, FeatherstoneSolver(model, **options), DT)


def with_spares(device, count: int = 1, template: ModelBuilder | None = None, **options) -> Simulator:
    """A box on the ground, and places for others."""
    world = box((0.0, 0.0, 0.1))
    assert world.reserve(template or box(), count, key="spare")[0] == "spare_0"
    return simulator_of(world, device, **options)


def poses(sim: Simulator) -> np.ndarray:
    return sim.state.body_q.numpy().reshape(WORLDS, -1, 7)


@pytest.mark.parametrize("kind", ["sphere", "box", "capsule", "cylinder", "cone", "ellipsoid"])
def test_it_moves_as_if_built_with_it(device, kind: str):
    """To the bit, though a box was reserved and the step was captured with it; the other world has it not."""
    sim = with_spares(device)
    sim.step(10)
    captured = sim._captured
    sim.reset()
    filled = Spares(sim).fill(thing(kind), worlds=[1])
    assert filled.bodies.names == ("spare_0",)
    built = box((0.0, 0.0, 0.1))
    built.add_builder(thing(kind), update_num_env_count=False, separate_collision_group=False)
    twin, without = simulator_of(built, device), simulator_of(box((0.0, 0.0, 0.1)), device)
    for each in (sim, twin, without):
        each.step(120)
    assert sim._captured == captured
    np.testing.assert_array_equal(poses(sim)[1], poses(twin)[1])
    np.testing.assert_array_equal(poses(sim)[0, 0], poses(without)[0, 0])
    assert np.linalg.norm(poses(sim)[1, 1, :3] - [0.0, 0.05, 0.42]) > 0.02


def test_all_else_keeps_its_bits_and_its_graphs(device):
    """What comes far away, goes and comes again changes no bit of a pile, whose graph is captured once."""
    pile = box((0.0, 0.0, 0.1))
    for level in range(1, 3):
        pile.add_builder(
            box((0.02 * level, 0.0, 0.1 + 0.201 * level), f"level {level}"),
            update_num_env_count=False,
            separate_collision_group=False,
        )
    pile.reserve(box(), 2)
    sim, alone = simulator_of(pile, device), simulator_of(pile, device)
    spares = Spares(sim)
    sim.step(20)
    alone.step(20)
    captured = sim._captured
    spares.fill(thing("sphere", (3.0, 0.0, 0.5)))
    spares.fill(thing("cone", (6.0, 0.0, 0.5)), worlds=[0])
    sim.step(20)
    spares.clear("spare_0", worlds=[1])
    spares.fill(thing("box", (-3.0, 0.0, 0.5)), worlds=[1], place="spare_0")
    sim.step(40)
    alone.step(60)
    np.testing.assert_array_equal(poses(sim)[:, :3], poses(alone)[:, :3])
    assert sim._captured == captured
    assert spares.filled.tolist() == [[True, True], [True, False]]


def test_what_comes_after_another_starts_afresh(device):
    """In the step after its predecessor went: how heavy that was changes no bit."""
    ends = []
    for factor in (1.0, 1000.0):
        sim = with_spares(device)
        spares = Spares(sim)
        spares.fill(box((1.0, 0.0, 0.1)))
        View(sim, "spare_0").bodies.mass *= factor
        View(sim, "spare_0").bodies.inertia *= factor
        sim.step(60)
        spares.clear("spare_0")
        spares.fill(box((1.0, 0.0, 0.1)))
        sim.step(3)
        ends.append(sim.state.body_qd.numpy().copy())
    np.testing.assert_array_equal(*ends)


def test_arms_with_other_frames_limits_and_drives(device):
    """An arm of two links with lengths, limits and gains of its own swings as one that was built so."""

    def arm(length: float, gain: float, shapes: int = 1) -> ModelBuilder:
        world = z_up()
        above = -1
        for number in range(2):
            link = world.add_body(
                key=f"link {number}", mass=1.0 + gain, com=(length / 2, 0.0, 0.0), I_m=np.eye(3) * 0.01
            )
            for _ in range(shapes):
                world.add_shape_sphere(link, radius=0.02, density=0.0)
            world.add_joint_revolute(
                above,
                link,
                parent_xform=((0.0, 0.0, 2.0) if number == 0 else (length, 0.0, 0.0), IDENTITY),
                axis=(0.0, 1.0, 0.0),
                limit_lower=-0.1 * gain,
                limit_upper=0.2 * gain,
                target=0.1,
                target_ke=10.0 * gain,
                target_kd=gain,
                armature=0.01 * gain,
                key=f"hinge {number}",
            )
            above = link
        world.joint_q[:] = [0.05, -0.02]
        return world

    sim = with_spares(device, 2, arm(0.3, 1.0, shapes=2))
    sim.step(5)
    content = arm(0.5, 3.0).finalize(device)
    view = Spares(sim).fill(content, worlds=[1])
    assert view.joints.names == ("spare_0 hinge 0", "spare_0 hinge 1")
    twin = Simulator(content, FeatherstoneSolver(content), DT)
    sim.step(100)
    twin.step(100)
    np.testing.assert_allclose(view.joints.q[0], twin.state.joint_q.numpy(), atol=1e-5)
    with pytest.raises(ModelError, match=r"does not fit place 'spare_1'"):
        Spares(sim).fill(box())
    with pytest.raises(ModelError, match=r"'link 0' has 3 shapes, and place 'spare_1' has room for 2"):
        Spares(sim).fill(arm(0.3, 1.0, shapes=3), worlds=[1])


def test_meshes_of_the_model_and_rays(device):
    """A hull that another body has comes in, and is seen where it is; one that nobody has is refused."""
    tetrahedron = Mesh(
        [(0, 0, 0), (0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.3)], [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2]
    )
    world = box((0.0, 0.0, 0.1))
    world.add_shape_mesh(
        world.add_body(key="rock", origin=((4.0, 0.0, 0.0), IDENTITY)), mesh=tetrahedron, convex=True
    )
    world.reserve(box())
    sim = simulator_of(world, device)
    rock = z_up()
    rock.add_shape_mesh(
        rock.add_body(key="rock", origin=((2.0, 0.0, 0.4), IDENTITY)), mesh=tetrahedron, convex=True
    )
    Spares(sim).fill(rock, worlds=[0])
    rays = SceneQuery(sim.model).update(sim.state).rays([[[2.05, 0.05, 3.0]]] * 2, (0.0, 0.0, -1.0))
    np.testing.assert_allclose(rays.distance.numpy().reshape(-1), [2.4, 3.0], atol=1e-4)
    sim.step(240)
    heights = View(sim, "*").bodies.q[:, :, 2]
    np.testing.assert_allclose(heights[0, 2], heights[0, 1], atol=2e-3)
    other = Mesh(2.0 * np.array(tetrahedron.vertices), tetrahedron.indices)
    rock = z_up()
    rock.add_shape_mesh(rock.add_body(key="rock"), mesh=other, convex=True)
    with pytest.raises(ModelError, match=r"a mesh that the model has"):
        Spares(sim).fill(rock, worlds=[1])
    assert not Spares(sim).filled[1, 0]


def test_crowded_worlds(device):
    """Worlds that are swept for pairs: a ball that came in rests on the ground, one that went is gone."""
    world = z_up()
    for number in range(70):
        ball = world.add_body(key=f"ball {number}", origin=((0.3 * number, 0.0, 0.1), IDENTITY))
        world.add_shape_sphere(ball, radius=0.1)
    world.reserve(box(), 2)
    sim = simulator_of(world, device)
    assert sim.model.shape_contact_pairs is None
    view = Spares(sim).fill(thing("sphere", (0.0, 3.0, 0.2)))
    sim.step(240)
    np.testing.assert_allclose(view.bodies.q[:, 0, 2] + 0.02, 0.12, atol=5e-3)
    Spares(sim).clear("spare_0", worlds=[1])
    view.joints.q.write([[0.0, 0.0, 9.0, *IDENTITY]])
    sim.step(24)
    fall = GRAVITY * DT**2 * 24 * 25 / 2
    np.testing.assert_allclose(view.bodies.q[:, 0, 2], [9.0 - fall, 9.0], atol=1e-3)


def test_checkpoint_in_a_new_simulation(device, tmp_path):
    """What is in the places goes on there, to the bit."""
    sims = [with_spares(device, 2) for _ in range(2)]
    Spares(sims[0]).fill(thing("cone"), worlds=[1])
    sims[0].step(30)
    sims[0].save(tmp_path / "there")
    sims[1].restore(tmp_path / "there")
    for sim in sims:
        sim.step(60)
    np.testing.assert_array_equal(poses(sims[0]), poses(sims[1]))
    assert Spares(sims[1]).filled.tolist() == [[False, False], [True, False]]
    queries = [SceneQuery(sim.model).update(sim.state) for sim in sims]
    hits = [query.rays([[[0.0, 0.05, 3.0]]] * 2, (0.0, 0.0, -1.0)) for query in queries]
    np.testing.assert_array_equal(*(found.distance.numpy() for found in hits))


def test_restored_meshes_keep_their_size(device, tmp_path):
    """A hull cannot be resized, nor where a checkpoint has brought it, and is seen there by its surface."""
    mesh = Mesh([(0, 0, 0), (0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.3)], [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2])
    rock = z_up()
    rock.add_shape_mesh(rock.add_body(key="rock"), mesh=mesh, convex=True)
    world = box((0.0, 0.0, 0.1))
    world.add_builder(rock, update_num_env_count=False, separate_collision_group=False)
    world.reserve(box())
    sims = [simulator_of(world, device) for _ in range(2)]
    rock.body_q[0] = wp.transform((2.0, 0.0, 0.0), IDENTITY)
    Spares(sims[0]).fill(rock)
    sims[0].save(tmp_path / "there")
    sims[1].restore(tmp_path / "there")
    for sim in sims:
        with pytest.raises(ModelError, match="collides as a convex hull"):
            View(sim, "spare_0").shapes.scale *= 2.0
        assert sim.model.shape_geo_src[2] is mesh
        query = SceneQuery(sim.model, surfaces=True).update(sim.state)
        rays = query.rays([[[2.05, 0.05, 3.0]]] * 2, (0.0, 0.0, -1.0))
        np.testing.assert_allclose(rays.distance.numpy(), 2.8, atol=1e-5)
        eye = look_at((2.6, 0.5, 0.3), (2.05, 0.05, 0.05))
        for colliders in (False, True):
            camera = Camera(sim.model, 16, 12, pose=eye, outputs=("body",), colliders=colliders)
            assert 2 in camera.render(sim.state)["body"].numpy()[0]


def test_misuse_is_refused(device):
    sim = with_spares(device, 1)
    spares = Spares(sim)
    spares.fill(box(), worlds=[1])
    with pytest.raises(
        ModelError, match=r"no place 'spare' is empty in all of these worlds, 1 of 1 are filled"
    ):
        spares.fill(box())
    with pytest.raises(ModelError, match=r"place 'spare_0' is filled in world 1; clear it first"):
        spares.fill(box(), place="spare_0")
    with pytest.raises(NewtonsimError, match=r"there is no place 'spare_9'; there are spare_0"):
        spares.clear("spare_9")
    with pytest.raises(NewtonsimError, match=r"no label matches 'room_\*'"):
        Spares(sim, "room")
    two = box()
    two.add_body(mass=1.0)
    with pytest.raises(ModelError, match=r"2 trees"):
        z_up().reserve(two)
    with pytest.raises(ModelError, match=r"count of at least 1, got 0"):
        z_up().reserve(box(), 0)
    with pytest.raises(ModelError, match=r"XPBDSolver moves all bodies"):
        Spares(Simulator(sim.model, XPBDSolver(sim.model), DT))
    for act in (lambda: spares.fill(box(), worlds=[False, False]), lambda: View(sim, "box", [False, False])):
        with pytest.raises(NewtonsimError, match="worlds: expected at least one, the mask has none"):
            act()


def test_what_would_be_lost_is_refused(device):
    """Shapes that move with no body, and parameters that a solver without any has stopped looking at."""
    sim = with_spares(device)
    fixed = box()
    fixed.add_shape_box(-1, hx=1.0, hy=1.0, hz=1.0)
    with pytest.raises(ModelError, match="got one with shapes that belong to no body"):
        z_up().reserve(fixed)
    soft = box().finalize(device)
    soft.shape_solref.assign([[0.1, 1.0]])
    for content, message in ((fixed, "and it has shapes that belong to no body"), (soft, "has shape_solref")):
        with pytest.raises(ModelError, match=message):
            Spares(sim).fill(content)
    assert not Spares(sim).filled.any()


def test_places_are_those_that_were_reserved(device):
    """Bodies with labels like them are none, and go on when the place is cleared."""
    world = box((0.0, 0.0, 0.1), key="spare_9")
    world.add_builder(
        box((3.0, 0.0, 0.1), key="spare_x"), update_num_env_count=False, separate_collision_group=False
    )
    assert world.reserve(box()) == ["spare_0"]
    world.add_builder(
        box((6.0, 0.0, 0.1), key="spare_0x"), update_num_env_count=False, separate_collision_group=False
    )
    for key in ("spare", "spare_0"):
        with pytest.raises(ModelError, match="could not be distinguished from body 'spare_0"):
            world.reserve(box(), key=key)
    sim = simulator_of(world, device)
    spares = Spares(sim)
    assert spares.names == ("spare_0",)
    spares.fill(box((9.0, 0.0, 0.1)))
    spares.clear("spare_0")
    assert sim.model.body_present.numpy().tolist() == [1, 1, 0, 1] * WORLDS
    with pytest.raises(NewtonsimError, match="no places were reserved with the key 'spare_0'"):
        Spares(simulator_of(box(key="spare_0_1"), device), "spare_0")
