"""Normal, point and distance of a contact with its features held fixed, against the collision pass itself."""

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.collision.contact_features import (
    NORMAL_UNKNOWN,
    FeatureView,
    contact_geometry,
    find_features,
    share_normals,
)
from newtonsim.kernels.collision.contacts import ContactView
from newtonsim.kernels.constraints.linear.geometry import Displacement, geometry_change, touching_point

# of perturbations [rad and m], with what is of second order; normals of curved shapes are found with noise
SIZES = {("capsule", "cylinder"): (0.01, 2.0e-3)}
USUAL_SIZES = (1.0e-3, 2.0e-5)
# change of a normal that tells that other features touch
JUMP = 0.05


@wp.kernel
def evaluate(
    contacts: ContactView,
    features: FeatureView,
    body_q: wp.array(dtype=wp.transform),
    shape_body: wp.array(dtype=int),
    normal: wp.array(dtype=wp.vec3),
    point: wp.array(dtype=wp.vec3),
    distance: wp.array(dtype=float),
):
    c = wp.tid()
    if contacts.shape0[c] < 0:
        return
    X0 = wp.transform_identity()
    X1 = wp.transform_identity()
    if shape_body[contacts.shape0[c]] >= 0:
        X0 = body_q[shape_body[contacts.shape0[c]]]
    if shape_body[contacts.shape1[c]] >= 0:
        X1 = body_q[shape_body[contacts.shape1[c]]]
    g = contact_geometry(c, X0, X1, contacts.normal[c], features)
    normal[c] = g.normal
    point[c] = g.point
    distance[c] = g.distance


@wp.kernel
def differentiate(
    contacts: ContactView,
    features: FeatureView,
    body_q: wp.array(dtype=wp.transform),
    moved: wp.array(dtype=wp.spatial_vector),
    shape_body: wp.array(dtype=int),
    normal: wp.array(dtype=wp.vec3),
    point: wp.array(dtype=wp.vec3),
    distance: wp.array(dtype=float),
):
    """Changes of all contacts where bodies turn and move by `moved` (turn, move of the origin)."""
    c = wp.tid()
    if contacts.shape0[c] < 0 or features.normal[c] == NORMAL_UNKNOWN:
        return
    X0 = wp.transform_identity()
    X1 = wp.transform_identity()
    m0 = Displacement()
    m1 = Displacement()
    b0 = shape_body[contacts.shape0[c]]
    b1 = shape_body[contacts.shape1[c]]
    if b0 >= 0:
        X0 = body_q[b0]
        m0.turn = wp.spatial_top(moved[b0])
        m0.move = wp.spatial_bottom(moved[b0])
        m0.at = wp.transform_get_translation(X0)
    if b1 >= 0:
        X1 = body_q[b1]
        m1.turn = wp.spatial_top(moved[b1])
        m1.move = wp.spatial_bottom(moved[b1])
        m1.at = wp.transform_get_translation(X1)
    g = contact_geometry(c, X0, X1, contacts.normal[c], features)
    y0 = touching_point(c, 0, X0, -g.normal, features)
    y1 = touching_point(c, 1, X1, g.normal, features)
    change = geometry_change(c, X0, X1, y0, y1, m0, m1, g.normal, features)
    normal[c] = change.normal
    point[c] = change.point
    distance[c] = change.distance


def add(builder, kind: str, body: int) -> None:
    tilt = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, -0.5)), 0.7)
    place = {"pos": (0.02, -0.03, 0.01), "rot": tilt}
    if kind == "sphere":
        builder.add_shape_sphere(body, radius=0.2, pos=place["pos"])
    elif kind == "capsule":
        builder.add_shape_capsule(body, radius=0.1, half_height=0.3, **place)
    elif kind == "box":
        builder.add_shape_box(body, hx=0.2, hy=0.3, hz=0.25, **place)
    elif kind == "cylinder":
        builder.add_shape_cylinder(body, radius=0.15, half_height=0.25, **place)
    elif kind == "cone":
        builder.add_shape_cone(body, radius=0.15, half_height=0.25, **place)
    elif kind == "ellipsoid":
        builder.add_shape_ellipsoid(body, a=0.1, b=0.2, c=0.3, **place)
    elif kind == "plane":
        builder.set_ground_plane()
    else:
        raise ValueError(kind)


def pair(device: str, kinds: tuple[str, str]):
    """Two bodies with a shape each; a plane needs no second body."""
    builder = newtonsim.ModelBuilder()
    for kind in kinds:
        add(builder, kind, -1 if kind == "plane" else builder.add_body(mass=1.0))
    model = builder.finalize(device)
    model.rigid_contact_margin = 0.5
    return model


def random_turn(rng, angle: float) -> np.ndarray:
    axis = rng.normal(size=3)
    return np.array(
        wp.quat_from_axis_angle(wp.vec3(*(axis / np.linalg.norm(axis)).tolist()), float(angle)), np.float32
    )


def collided(model, poses: np.ndarray, contacts) -> None:
    state = model.state()
    state.body_q.assign(poses.astype(np.float32))
    newtonsim.collide(model, state, contacts)


def values(contacts) -> dict[str, np.ndarray]:
    view, count = contacts.view, int(contacts.view.world_count.numpy().sum())
    return {name: getattr(view, name).numpy()[:count] for name in ("normal", "distance", "feature")}


def middle(model, contacts, poses: np.ndarray, count: int) -> np.ndarray:
    view = contacts.view
    ends = []
    for side in "01":
        bodies = model.shape_body.numpy()[getattr(view, f"shape{side}").numpy()[:count]]
        p = (getattr(view, f"point{side}").numpy() + getattr(view, f"offset{side}").numpy())[:count]
        ends.append(
            [
                np.array(wp.transform_point(wp.transform(*poses[b].tolist()), wp.vec3(*x.tolist())))
                if b >= 0
                else x
                for b, x in zip(bodies, p)
            ]
        )
    return 0.5 * (np.array(ends[0]) + np.array(ends[1]))


def features_of(model, contacts, poses) -> FeatureView:
    plan, room = collision_plan_of(model), collision_plan_of(model).contact_count
    view = FeatureView()
    for name, dtype in (("normal", int), ("partner", int), ("holder", int), ("face", wp.vec3)):
        setattr(view, name, wp.zeros(room, dtype=dtype, device=model.device))
    for name, dtype in (
        ("kind", int),
        ("core", wp.vec3),
        ("axis", wp.vec3),
        ("radius", float),
        ("size", wp.vec3),
        ("turn", wp.quat),
    ):
        setattr(view, name, wp.zeros((room, 2), dtype=dtype, device=model.device))
    body_q = wp.array(poses, dtype=wp.transform, device=model.device)
    wp.launch(
        find_features, room, [0, contacts.view, plan.shape, plan.hulls, body_q, view], device=model.device
    )
    wp.launch(share_normals, room, [0, contacts.view, plan.shape, body_q, view], device=model.device)
    return view


def touching_poses(model, rng, contacts, gap: float, level: bool) -> np.ndarray:
    """Random poses at that gap, which is reached by moving body 0 along the normal."""
    poses = np.zeros((model.body_count, 7), np.float32)
    for b in range(model.body_count):
        poses[b, 3:] = random_turn(rng, 0.0 if level else rng.uniform(0.0, 3.0))
    poses[0, :3] = rng.normal(size=3)
    poses[0, :3] *= 0.6 / np.linalg.norm(poses[0, :3])
    if model.body_count == 1:
        poses[0, :3] = (0.0, 0.5, 0.0)
    for _ in range(30):
        collided(model, poses, contacts)
        found = values(contacts)
        k = int(np.argmin(found["distance"]))
        sign = 1.0 if model.shape_body.numpy()[contacts.view.shape0.numpy()[k]] == 0 else -1.0
        poses[0, :3] += sign * (gap - found["distance"][k]) * found["normal"][k]
    return poses


PAIRS = [
    ("sphere", "plane"),
    ("capsule", "plane"),
    ("box", "plane"),
    ("cylinder", "plane"),
    ("cone", "plane"),
    ("ellipsoid", "plane"),
    ("sphere", "sphere"),
    ("sphere", "capsule"),
    ("capsule", "capsule"),
    ("sphere", "box"),
    ("capsule", "box"),
    ("box", "box"),
    ("sphere", "cylinder"),
    ("capsule", "cylinder"),
    ("box", "cylinder"),
]


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_geometry_follows_the_collision_pass(device: str, kinds: tuple[str, str]):
    """Moved by a little, a contact is where the collision pass finds it, to second order."""
    model = pair(device, kinds)
    rng = np.random.default_rng(7)
    checked, skipped, jumped = 0, 0, 0
    worst = np.zeros(3)
    size, close = SIZES.get(kinds, USUAL_SIZES)
    contacts, moved = newtonsim.Contacts(model), newtonsim.Contacts(model)
    for trial in range(24):
        poses = touching_poses(model, rng, contacts, gap=(-2.0e-3, 2.0e-3)[trial % 2], level=False)
        collided(model, poses, contacts)
        before = values(contacts)
        count = len(before["distance"])
        features = features_of(model, contacts, poses)
        after = poses.copy()
        for b in range(model.body_count):
            after[b, :3] += size * rng.normal(size=3) * 0.3
            turn = wp.quat(*random_turn(rng, size).tolist()) * wp.quat(*poses[b, 3:].tolist())
            after[b, 3:] = np.array(turn)
        collided(model, after, moved)
        found = values(moved)
        places = middle(model, moved, after, len(found["distance"]))
        room = collision_plan_of(model).contact_count
        out = [wp.zeros(room, dtype=t, device=device) for t in (wp.vec3, wp.vec3, float)]
        body_q = wp.array(after, dtype=wp.transform, device=device)
        wp.launch(evaluate, room, [contacts.view, features, body_q, model.shape_body], out, device=device)
        normal, point, distance = (a.numpy()[:count] for a in out)
        for c in range(count):
            same = np.flatnonzero(found["feature"] == before["feature"][c])
            # what lies off the contact by far touches with other features soon
            if len(same) != 1 or before["distance"][c] > 0.02:
                continue
            if features.normal.numpy()[c] == NORMAL_UNKNOWN:
                skipped += 1
                continue
            if np.abs(found["normal"][same[0]] - before["normal"][c]).max() > JUMP:
                jumped += 1
                continue
            errors = np.array(
                [
                    np.abs(normal[c] - found["normal"][same[0]]).max(),
                    np.abs(point[c] - places[same[0]]).max(),
                    abs(distance[c] - found["distance"][same[0]]),
                ]
            )
            worst = np.maximum(worst, errors)
            checked += 1
    print(kinds, "checked", checked, "without a rule", skipped, "other features", jumped, "worst", worst)
    assert checked >= 8
    assert worst.max() < close


def displace(pose: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """A pose turned on its left and moved."""
    angle = np.linalg.norm(moved[:3])
    turn = wp.quat_from_axis_angle(wp.vec3(*(moved[:3] / angle).tolist()), float(angle))
    return np.concatenate([pose[:3] + moved[3:], np.array(turn * wp.quat(*pose[3:].tolist()))])


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_changes_of_the_geometry_are_its_derivative(device: str, kinds: tuple[str, str]):
    """Forward mode against central differences, both good to 1e-3 where edges are almost parallel."""
    model = pair(device, kinds)
    rng = np.random.default_rng(11)
    contacts, room = newtonsim.Contacts(model), collision_plan_of(model).contact_count
    step, checked = 5.0e-4, 0

    def arrays() -> list[wp.array]:
        return [wp.zeros(room, dtype=t, device=device) for t in (wp.vec3, wp.vec3, float)]

    for trial in range(12):
        poses = touching_poses(model, rng, contacts, gap=(-2.0e-3, 2.0e-3)[trial % 2], level=False)
        collided(model, poses, contacts)
        count = int(contacts.view.world_count.numpy().sum())
        features = features_of(model, contacts, poses)
        moved = rng.normal(size=(model.body_count, 6))
        ends = []
        for sign in (1.0, -1.0):
            there = np.array([displace(p, sign * step * m) for p, m in zip(poses, moved)], np.float32)
            body_q, out = wp.array(there, dtype=wp.transform, device=device), arrays()
            given = [contacts.view, features, body_q, model.shape_body]
            wp.launch(evaluate, room, given, out, device=device)
            ends.append(np.concatenate([a.numpy()[:count].reshape(count, -1) for a in out], axis=1))
        expected = (ends[0] - ends[1]) / (2.0 * step)
        out = arrays()
        body_q = wp.array(poses, dtype=wp.transform, device=device)
        velocity = wp.array(moved.astype(np.float32), dtype=wp.spatial_vector, device=device)
        given = [contacts.view, features, body_q, velocity, model.shape_body]
        wp.launch(differentiate, room, given, out, device=device)
        found = np.concatenate([a.numpy()[:count].reshape(count, -1) for a in out], axis=1)
        known = features.normal.numpy()[:count] != NORMAL_UNKNOWN
        known &= np.abs(contacts.view.distance.numpy()[:count]) < 0.02
        checked += known.sum()
        scale = 1.0 + np.abs(expected[known])
        assert (np.abs(found - expected)[known] / scale).max(initial=0.0) < 5.0e-3
    assert checked >= 4
