"""Memory: what the report counts, and that room for contacts is neither short nor wasted."""

import numpy as np
import pytest
import warp as wp

from newtonsim import Mesh, ModelBuilder, Simulator, memory_report
from newtonsim.collision.collide import collide
from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.solvers import FeatherstoneSolver

TETRAHEDRON = np.array([[0, 0, 0], [0.4, 0, 0], [0, 0.4, 0], [0, 0, 0.4]])


def add_shape(builder: ModelBuilder, kind: str, body: int) -> int:
    size = {"radius": 0.2, "half_height": 0.3}
    if kind == "sphere":
        return builder.add_shape_sphere(body, radius=0.2)
    if kind == "box":
        return builder.add_shape_box(body, hx=0.2, hy=0.3, hz=0.25)
    if kind == "ellipsoid":
        return builder.add_shape_ellipsoid(body, a=0.2, b=0.3, c=0.25)
    if kind == "hull":
        mesh = Mesh(TETRAHEDRON, [0, 2, 1, 0, 1, 3, 1, 2, 3, 0, 3, 2])
        return builder.add_shape_mesh(body, mesh=mesh, convex=True)
    return getattr(builder, f"add_shape_{kind}")(body, **size)


def two_bodies(first: str, second: str | None) -> ModelBuilder:
    """Two free bodies, or one over the ground."""
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    for kind in (first, second) if second else (first,):
        add_shape(builder, kind, builder.add_body())
    if second is None:
        builder.set_ground_plane()
    return builder


KINDS = ("sphere", "capsule", "box", "cylinder", "cone", "ellipsoid", "hull")
PAIRS = [(a, b) for i, a in enumerate(KINDS) for b in (*KINDS[i:], None)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0]}-{p[1] or 'plane'}")
def test_room_for_points_suffices(pair, device):
    """Random and aligned poses give as many contacts as with more room than any pair can need."""
    scene = two_bodies(*pair)
    worlds = 400
    builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.replicate(scene, worlds, (0.0, 0.0, 0.0))
    if pair[1] is None:
        builder.set_ground_plane()
    model, roomy = builder.finalize(device), builder.finalize(device)
    roomy.rigid_contact_max_per_world = 20
    roomy.rigid_contact_margin = model.rigid_contact_margin = 0.1
    collision_plan_of(roomy).pair_points = 8
    rng = np.random.default_rng(0)
    q = rng.normal(size=(worlds, model.body_count // worlds, 7))
    q[: worlds // 2, :, 3:] = np.round(q[: worlds // 2, :, 3:])  # many faces and edges lie flat
    q[..., 3:] += 1e-9
    q[..., 3:] /= np.linalg.norm(q[..., 3:], axis=-1, keepdims=True)
    q[..., :3] *= 0.2
    counts = []
    for one in (model, roomy):
        state = one.state()
        state.body_q.assign(q.reshape(-1, 7).astype(np.float32))
        contacts = collide(one, state, Contacts(one))
        counts.append((contacts.world_count.numpy(), contacts.contacts_needed.numpy()))
    assert counts[1][0].max() > 0
    np.testing.assert_array_equal(counts[0][0], counts[1][0])
    np.testing.assert_array_equal(counts[0][1], counts[1][1])


def test_contacts_with_what_stands_still_have_one_side():
    def plan(*parts: str):
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        for part in parts:
            body = builder.add_body() if part == "ball" else -1
            add_shape(builder, "sphere" if part == "ball" else "box", body)
        builder.set_ground_plane()
        return collision_plan_of(builder.finalize("cpu"))

    assert not plan("ball").two_sided
    assert not plan("ball", "static").two_sided
    assert plan("static", "ball").two_sided  # the static shape comes first
    assert plan("ball", "ball").two_sided


def test_report_counts_every_array_once():
    builder = ModelBuilder()
    builder.replicate(two_bodies("box", "sphere"), 10, (5.0, 5.0, 0.0))
    model = builder.finalize("cpu")
    solver = FeatherstoneSolver(model)
    simulator = Simulator(model, solver, 0.01)
    report = memory_report(model=model, solver=solver, simulator=simulator)
    assert report.arrays["model.body_q"] == 20 * 7 * 4
    assert report.arrays["model.shape_materials.mu"] == 20 * 4
    assert report.arrays["simulator.state.body_q"] == 20 * 7 * 4
    assert "simulator.model.body_q" not in report.arrays
    assert memory_report(model=model, again=model).total == memory_report(model=model).total
    assert sum(report.parts(1).values()) == report.total
    assert set(report.parts(1)) == {"model", "solver", "simulator"}
    assert f"{report.total / 10 / 1e3:.1f} kB for each world" in str(report)


def test_gradients_count():
    builder = ModelBuilder()
    builder.add_shape_box(builder.add_body())
    plain, with_gradients = (builder.finalize("cpu", requires_grad=flag) for flag in (False, True))
    report = memory_report(model=with_gradients)
    assert report.arrays["model.body_mass.grad"] == 4
    assert report.total > memory_report(model=plain).total


def test_report_needs_a_model():
    with pytest.raises(TypeError, match="expected a model"):
        memory_report(array=wp.zeros(3, dtype=float, device="cpu"))
