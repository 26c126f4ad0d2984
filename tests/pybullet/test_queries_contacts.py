"""Contact points, closest points and collision filters against PyBullet."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

import newtonsim.pybullet_compat as compat  # noqa: E402
from newtonsim.pybullet_compat.clients.table import TABLE  # noqa: E402

CUBE = [[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]
SHAPES = {
    "sphere": (pybullet.GEOM_SPHERE, {"radius": 0.4}),
    "box": (pybullet.GEOM_BOX, {"halfExtents": [0.3, 0.4, 0.5]}),
    "capsule": (pybullet.GEOM_CAPSULE, {"radius": 0.3, "height": 0.6}),
    "cylinder": (pybullet.GEOM_CYLINDER, {"radius": 0.3, "height": 0.6}),
    "hull": (pybullet.GEOM_MESH, {"vertices": CUBE}),
}
SLANTED = [0.1825742, 0.3651484, 0.5477226, 0.7302967]


def body(both, kind, position, mass=1.0, rotation=(0.0, 0.0, 0.0, 1.0), **more):
    """Make a body of one shape in both worlds."""
    number, options = SHAPES.get(kind, (pybullet.GEOM_PLANE, {}))
    shape = both.createCollisionShape(number, **{**options, **more})[0]
    real, ours = both.createMultiBody(mass, shape, -1, position, rotation)
    assert real == ours
    return real


def lying_box(both, slope=(0.0, 0.0, 0.0)):
    """Put a box on a plane; both are turned by a slope."""
    rotation = pybullet.getQuaternionFromEuler(slope)
    plane = body(both, "plane", [0.0, 0.0, 0.0], 0.0, rotation)
    place, _ = pybullet.multiplyTransforms([0, 0, 0], rotation, [0, 0, 0.5], [0, 0, 0, 1])
    return plane, body(both, "box", place, 1.0, rotation)


def total_force(points):
    """Force on the first bodies of contacts, from all three components."""
    return sum(np.array(p[7]) * p[9] + np.array(p[11]) * p[10] + np.array(p[13]) * p[12] for p in points)


def names(points):
    """Different bodies and links of contacts."""
    return sorted({p[1:5] for p in points})


def test_there_are_no_contacts_before_the_first_step(both):
    _, box = lying_box(both)
    assert both.getContactPoints() == ((), ())
    assert both.getContactPoints(box) == ((), ())
    assert both.getContactPoints(77) == ((), ())


def test_a_box_at_rest_is_carried_by_its_contacts(both):
    plane, box = lying_box(both)
    both.step(120)
    for points in both.getContactPoints(box, plane):
        assert total_force(points) == pytest.approx([0.0, 0.0, 9.81], abs=0.01 * 9.81)
        for point in points:
            assert point[:5] == (0, box, plane, -1, -1)
            assert point[7] == pytest.approx([0.0, 0.0, 1.0], abs=1e-5)
            assert point[5][2] == pytest.approx(0.0, abs=1e-3)
            assert point[8] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(("substeps", "step"), [(0, 0.01), (4, 1.0 / 240.0)])
def test_forces_are_those_of_the_last_substep_over_the_whole_step(both, substeps, step):
    both.setPhysicsEngineParameter(numSubSteps=substeps, fixedTimeStep=step)
    _, box = lying_box(both)
    both.step(60)
    real, ours = both.getContactPoints(box)
    assert total_force(ours)[2] == pytest.approx(total_force(real)[2], rel=0.01)


@pytest.mark.parametrize("slope", [(0.15, 0.0, 0.0), (0.1, 0.15, 0.0), (0.0, -0.2, 0.0)])
def test_friction_directions_and_forces_on_a_slope(both, slope):
    """Both hold the weight, and use the same directions for the two friction forces."""
    _, box = lying_box(both, slope)
    both.changeDynamics(box, -1, lateralFriction=2.0)
    both.step(240)
    real, ours = both.getContactPoints(box)
    for column in (7, 11, 13):
        assert ours[0][column] == pytest.approx(real[0][column], abs=2e-3)
    for points in (real, ours):
        assert total_force(points) == pytest.approx([0.0, 0.0, 9.81], abs=0.02 * 9.81)


def test_both_points_of_a_contact_are_on_one_line_along_its_normal(both):
    """Forces have then opposite moments on the two bodies, to the accuracy of float64, as PyBullet's have."""
    both.load("plane.urdf")
    robot = both.load("r2d2.urdf", [0.3, -0.2, 0.5], [0.1, 0.2, 0.0, 0.97])
    both.step(200)
    _, points = both.getContactPoints(robot)
    assert points
    for point in points:
        on_a, on_b, normal, distance = (np.array(part) for part in point[5:9])
        np.testing.assert_allclose(on_a, on_b + distance * normal, rtol=0.0, atol=1e-14)


def test_contacts_are_turned_for_the_body_that_is_asked_for(both):
    box = body(both, "box", [0.0, 0.0, 0.5], 0.0)
    ball = body(both, "sphere", [0.1, 0.05, 1.399])
    both.performCollisionDetection()
    for arguments in ([], [box], [ball], [box, ball], [ball, box], [-1, ball], [-1, box], [ball, 9]):
        both.same("getContactPoints", *arguments, tolerance=2e-3)
    for links in ({"linkIndexA": -1}, {"linkIndexB": -1}, {"linkIndexA": 0}, {"linkIndexB": 3}):
        both.same("getContactPoints", ball, **links, tolerance=2e-3)


@pytest.mark.parametrize(
    "order", [("plane", "box"), ("sphere", "plane"), ("box", "hull"), ("cylinder", "box")]
)
def test_which_body_comes_first(both, order):
    """Planes come second, other shapes in the order of their bodies."""
    for kind in order:
        body(both, kind, [0.0, 0.0, 0.0 if kind == "plane" else 0.2], 0.0 if kind == "plane" else 1.0)
    both.performCollisionDetection()
    real, ours = both.getContactPoints()
    assert names(real) == names(ours) != []


def test_contacts_stay_until_the_next_step(both):
    """Moving a body changes nothing, removing it or switching a pair off removes its contacts at once."""
    plane, box = lying_box(both)
    other = body(both, "sphere", [3.0, 0.0, 0.4])
    both.step(5)
    both.resetBasePositionAndOrientation(box, [0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 1.0])
    assert all(
        names(points) == [(box, plane, -1, -1), (other, plane, -1, -1)] for points in both.getContactPoints()
    )
    both.removeBody(other)
    assert all(names(points) == [(box, plane, -1, -1)] for points in both.getContactPoints())
    both.performCollisionDetection()
    assert both.getContactPoints() == ((), ())
    both.resetBasePositionAndOrientation(box, [0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0])
    both.step()
    assert all(both.getContactPoints())
    both.setCollisionFilterPair(plane, box, -1, -1, 0)
    assert both.getContactPoints() == ((), ())


def test_a_collision_pass_keeps_the_forces_of_the_step(both):
    _, box = lying_box(both)
    both.step(60)
    before = [total_force(points) for points in both.getContactPoints(box)]
    both.performCollisionDetection()
    for points, force in zip(both.getContactPoints(box), before):
        assert total_force(points) == pytest.approx(force, abs=1e-3)


def test_contacts_come_back_with_a_state(both):
    _, box = lying_box(both)
    both.step(60)
    before = both.getContactPoints(box)
    state = both.saveState()[0]
    both.resetBasePositionAndOrientation(box, [0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 1.0])
    both.step(3)
    assert both.getContactPoints() == ((), ())
    both.restoreState(state)
    after = both.getContactPoints(box)
    assert after[1] == before[1]
    assert total_force(after[0]) == pytest.approx(total_force(before[0]), rel=1e-3)


def test_robots_on_the_ground_touch_with_the_same_links(both):
    both.load("plane.urdf")
    robot = both.load("r2d2.urdf", [0.0, 0.0, 0.48])
    both.step(240)
    real, ours = both.getContactPoints(robot)
    assert names(real) == names(ours)
    assert sum(p[9] for p in ours) == pytest.approx(sum(p[9] for p in real), rel=0.01)


def floor_of(both, kind):
    """A floor at z = 0: a plane, a box, or the file, whose box is a compound."""
    if kind == "file":
        return both.load("plane.urdf")
    if kind == "plane":
        return body(both, "plane", [0.0, 0.0, 0.0], 0.0)
    return body(both, "box", [0.0, 0.0, -1.0], 0.0, halfExtents=[5.0, 5.0, 1.0])


def offset_body(both, kind, position):
    """A body whose one shape is off its centre of mass, which makes it a compound."""
    return body(both, kind, position, collisionFramePosition=[0.3, 0.0, -0.2])


SOMETHING = {
    **{kind: lambda both, z, kind=kind: body(both, kind, [0, 0, z]) for kind in SHAPES},
    **{
        f"tilted {kind}": lambda both, z, kind=kind: body(both, kind, [0, 0, z], 1.0, SLANTED)
        for kind in ("box", "capsule", "hull")
    },
    **{f"offset {kind}": lambda both, z, kind=kind: offset_body(both, kind, [0, 0, z]) for kind in SHAPES},
    **{
        name: lambda both, z, name=name: both.load(name, [0, 0, z])
        for name in (
            "r2d2.urdf",
            "husky/husky.urdf",
            "laikago/laikago_toes.urdf",
            "a1/a1.urdf",
            "duck_vhacd.urdf",
            "lego/lego.urdf",
        )
    },
}
GAPS = (6e-3, 4e-3, 2.3e-3, 1.2e-3, 8e-4, 5e-4, 1.5e-4, -2e-5)
"""Falling: PyBullet keeps points of boxes that part."""


@pytest.mark.filterwarnings("ignore:.*has no <inertial>")
@pytest.mark.parametrize("floor", ["plane", "box", "file"])
@pytest.mark.parametrize("thing", SOMETHING)
def test_what_nearly_touches_is_reported_without_force(both, thing, floor):
    """The same links, at distances below PyBullet's threshold and where the boxes of compounds meet."""
    both.setGravity(0.0, 0.0, 0.0)
    ground = floor_of(both, floor)
    thing = SOMETHING[thing](both, 5.0)
    real, _ = both.getClosestPoints(thing, ground, 10.0)
    gap = min(point[8] for point in real)
    place, rotation = both.getBasePositionAndOrientation(thing)[0]
    for height in GAPS:
        both.resetBasePositionAndOrientation(thing, [0, 0, place[2] - gap + height], rotation)
        both.step()
        real, ours = both.getContactPoints(thing, ground)
        assert names(ours) == names(real), height
        if height > 0.0 and real:
            assert min(p[8] for p in ours) == pytest.approx(min(p[8] for p in real), abs=1e-4)
            assert all(p[9] == 0.0 for p in ours)


def test_boxes_that_exactly_touch_are_in_contact(both):
    both.setGravity(0.0, 0.0, 0.0)
    boxes = [body(both, "box", [0.0, 0.0, z], halfExtents=[0.3, 0.3, 0.35]) for z in (0.35, -0.35)]
    both.step()
    real, ours = both.getContactPoints(*boxes)
    assert len(real) == len(ours) == 4


@pytest.mark.parametrize("second", SHAPES)
@pytest.mark.parametrize("first", SHAPES)
def test_distances_of_two_shapes(both, first, second):
    a = body(both, first, [0.0, 0.0, 0.0], 1.0, SLANTED)
    b = body(both, second, [1.4, 0.5, 0.3], 1.0, [0.5, 0.5, -0.5, 0.5])
    real, ours = both.getClosestPoints(a, b, 2.0)
    assert len(real) == len(ours) == 1
    assert ours[0][:5] == real[0][:5]
    assert ours[0][9:] == real[0][9:]
    # the hull's corners and the cylinder's rim lack their margin in PyBullet's search
    assert ours[0][8] == pytest.approx(real[0][8], abs=1.5e-3)
    gap = np.array(ours[0][5]) - np.array(ours[0][6])
    assert gap == pytest.approx(ours[0][8] * np.array(ours[0][7]), abs=1e-5)
    assert both.getClosestPoints(a, b, 0.5 * real[0][8]) == ((), ())


def test_closest_points_of_links(both):
    arm = both.load("kuka_iiwa/model.urdf", [0.0, 0.0, 0.0], useFixedBase=True)
    for joint in range(7):
        both.resetJointState(arm, joint, 0.3 * (joint - 3))
    ball = body(both, "sphere", [0.6, 0.2, 0.7])
    for arguments in ([ball, arm, 0.3], [arm, ball, 1.0, 3, -1], [arm, ball, 1.0, 9], [arm, arm, 0.5, 1, 4]):
        real, ours = both.getClosestPoints(*arguments)
        assert [p[:5] for p in ours] == [p[:5] for p in real]
        # our hulls have at most 64 corners
        assert [p[8] for p in ours] == pytest.approx([p[8] for p in real], abs=3e-3)
    assert both.getClosestPoints(arm, 99, 1.0) == ((), ())


def test_closest_points_of_shapes_without_a_body(both):
    shape = both.createCollisionShape(pybullet.GEOM_BOX, halfExtents=[0.2, 0.3, 0.4])[0]
    offset = both.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.1, collisionFramePosition=[0, 1, 0])[0]
    box = body(both, "box", [0.0, 0.0, 0.0])
    turned = {"collisionShapePositionB": [2.0, 0.1, 0.2], "collisionShapeOrientationB": SLANTED}
    for position in ([2.0, 0.1, 0.2], [1.0, 0.0, 0.9]):
        turned["collisionShapePositionB"] = position
        for arguments in (
            {"bodyA": box, "bodyB": -1, "collisionShapeB": shape, **turned},
            {
                "bodyA": -1,
                "bodyB": box,
                "collisionShapeA": offset,
                "collisionShapePositionA": [2.0, 0.0, 0.3],
            },
            {"bodyA": -1, "bodyB": -1, "collisionShapeA": offset, "collisionShapeB": shape, **turned},
        ):
            both.same("getClosestPoints", distance=10.0, **arguments, tolerance=2e-3)
    both.same("getClosestPoints", -1, box, 10.0, collisionShapeA=99)


@pytest.mark.parametrize(
    "filters", [((1, 1), (1, 1)), ((1, 2), (1, 2)), ((1, 2), (2, 4)), ((1, 0), (0, 1)), ((0, 0), (1, 1))]
)
def test_groups_and_masks(both, filters):
    """Two links collide if the group of one is in the mask of the other."""
    for k, (group, mask) in enumerate(filters):
        made = body(both, "box", [0.0, 0.0, 0.9 * k])
        both.setCollisionFilterGroupMask(made, -1, group, mask)
    both.performCollisionDetection()
    real, ours = both.getContactPoints()
    assert names(real) == names(ours)


def test_pair_filters_overrule_groups(both):
    first, second = (body(both, "box", [0.0, 0.0, z]) for z in (0.0, 0.9))
    assert all(points for points in self_collided(both))
    both.setCollisionFilterPair(second, first, -1, -1, 0)
    assert self_collided(both) == ((), ())
    both.setCollisionFilterPair(first, second, -1, -1, 1)
    both.setCollisionFilterGroupMask(first, -1, 1, 0)
    both.setCollisionFilterGroupMask(second, -1, 1, 0)
    assert all(points for points in self_collided(both))
    for wrong in ([99, 0, -1, -1, 1], [0, 1, 7, -1, 0]):
        assert both.setCollisionFilterPair(*wrong) == (None, None)


def self_collided(both):
    """Contacts of a new collision pass."""
    both.performCollisionDetection()
    return both.getContactPoints()


@pytest.mark.parametrize("flags", [0, pybullet.URDF_USE_SELF_COLLISION])
def test_self_collision(both, flags):
    """Links of one body collide by a flag alone; a filter can only take pairs away."""
    shape = both.createCollisionShape(pybullet.GEOM_SPHERE, radius=0.2)[0]
    made = both.createMultiBody(
        1.0,
        shape,
        linkMasses=[1.0] * 3,
        linkCollisionShapeIndices=[shape] * 3,
        linkVisualShapeIndices=[-1] * 3,
        linkPositions=[[0.3, 0.0, 0.0], [0.3, 0.0, 0.0], [-0.45, 0.1, 0.0]],
        linkOrientations=[[0.0, 0.0, 0.0, 1.0]] * 3,
        linkInertialFramePositions=[[0.0, 0.0, 0.0]] * 3,
        linkInertialFrameOrientations=[[0.0, 0.0, 0.0, 1.0]] * 3,
        linkParentIndices=[0, 1, 2],
        linkJointTypes=[pybullet.JOINT_REVOLUTE] * 3,
        linkJointAxis=[[0.0, 0.0, 1.0]] * 3,
        flags=flags,
    )[0]
    assert len({str(names(points)) for points in self_collided(both)}) == 1
    both.setCollisionFilterPair(made, made, 0, 2, 1)
    assert len({str(names(points)) for points in self_collided(both)}) == 1
    both.setCollisionFilterPair(made, made, 0, 2, 0)
    real, ours = self_collided(both)
    assert names(real) == names(ours) == ([(made, made, -1, 2)] if flags else [])


def test_several_worlds():
    """Each world has its own contacts and closest points, as one world would."""
    client = compat.connect(compat.DIRECT, options="--num_worlds=3 --device=cpu")
    shape = compat.createCollisionShape(compat.GEOM_SPHERE, radius=0.5, physicsClientId=client)
    ground = compat.createCollisionShape(compat.GEOM_PLANE, physicsClientId=client)
    plane = compat.createMultiBody(0.0, ground, physicsClientId=client)
    ball = compat.createMultiBody(1.0, shape, physicsClientId=client)
    heights = np.array([0.499, 0.7, 0.498])
    places = np.stack([np.zeros(3), np.zeros(3), heights], axis=1)
    compat.resetBasePositionAndOrientation(ball, places, [0, 0, 0, 1], physicsClientId=client)
    closest = compat.getClosestPoints(ball, plane, 1.0, physicsClientId=client)
    assert [points[0][8] for points in closest] == pytest.approx(heights - 0.5, abs=1e-6)
    compat.performCollisionDetection(physicsClientId=client)
    points = compat.getContactPoints(physicsClientId=client)
    assert [len(world) for world in points] == [1, 0, 1]
    compat.disconnect(client)


def test_filters_switch_while_the_world_runs(both):
    """A box falls through the ground while a filter keeps both apart, and lies on it before and after."""
    plane, box = lying_box(both)
    both.step(10)
    engine = compat_client(both).engine
    by_mask, by_pair = "setCollisionFilterGroupMask", "setCollisionFilterPair"
    # the mask first: what was said of a pair overrules masks from then on
    for switch, back in (
        ((by_mask, box, -1, 2, 1), (by_mask, box, -1, 1, -1)),
        ((by_pair, box, plane, -1, -1, 0), (by_pair, plane, box, -1, -1, 1)),
    ):
        both.resetBasePositionAndOrientation(box, [0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0])
        getattr(both, switch[0])(*switch[1:])
        both.step(20)
        heights = [answer[0][2] for answer in both.getBasePositionAndOrientation(box)]
        assert heights[1] == pytest.approx(heights[0], abs=1e-4)
        assert heights[1] < 0.49
        both.resetBasePositionAndOrientation(box, [0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0])
        getattr(both, back[0])(*back[1:])
        both.step(20)
        heights = [answer[0][2] for answer in both.getBasePositionAndOrientation(box)]
        assert heights == pytest.approx([0.5, 0.5], abs=1e-3)
    assert compat_client(both).engine is engine


def compat_client(both):
    """Our client."""
    return TABLE[both.ids[1]]
