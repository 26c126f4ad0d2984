"""The parts of VBDSolver that the interface document names: one step with or without surfaces, adjacency."""

import numpy as np
import pytest
import warp as wp
from intersections import crossings

import newtonsim
from newtonsim.solvers import VBDSolver

RADIUS = 0.02
DT = 1.0 / 60.0


def two_sheets(gap: float, cells: int = 2) -> newtonsim.ModelBuilder:
    """A held sheet in the plane y = 0 and a free one above it, both of 0.1 m cells."""
    builder = newtonsim.ModelBuilder()
    turn = wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.5 * np.pi)
    size = 0.1 * cells
    options = {"tri_ke": 100.0, "tri_ka": 100.0, "tri_kd": 0.0, "edge_ke": 1e-3}
    for mass, height, shift in ((0.0, 0.0, 0.0), (0.01, gap, 0.03)):
        place = (shift - 0.5 * size, height, shift - 0.5 * size)
        builder.add_cloth_grid(place, turn, (0, 0, 0), cells, cells, 0.1, 0.1, mass, **options)
    builder.color(include_bending=True)
    return builder


def made(gap: float, device, **options) -> tuple[newtonsim.Model, VBDSolver]:
    model = two_sheets(gap).finalize(device)
    model.soft_contact_radius, model.soft_contact_margin = RADIUS, 0.03
    return model, VBDSolver(model, handle_self_contact=True, **options)


def test_adjacency_is_that_of_the_mesh(device):
    model, solver = made(0.5, device)
    found = solver.compute_force_element_adjacency(model)
    for elements, listed, offsets in (
        (model.tri_indices, found.vertex_adjacent_faces, found.vertex_adjacent_faces_offsets),
        (model.edge_indices, found.vertex_adjacent_edges, found.vertex_adjacent_edges_offsets),
    ):
        corners, listed, offsets = elements.numpy(), listed.numpy(), offsets.numpy()
        for particle in range(model.particle_count):
            own = sorted(listed[offsets[particle] : offsets[particle + 1]])
            assert own == np.flatnonzero((corners == particle).any(axis=1)).tolist()
        assert offsets[-1] == len(listed) == (corners >= 0).sum()


def test_its_kernels_take_the_documented_arguments(device):
    """Two triangles with a common side: two elements around its ends."""
    faces = wp.array([[0, 1, 2], [2, 1, 3]], dtype=int, device=device)
    count, filled = wp.zeros(4, dtype=int, device=device), wp.zeros(4, dtype=int, device=device)
    wp.launch(VBDSolver.count_num_adjacent_faces, 2, inputs=[faces, count], device=device)
    assert count.numpy().tolist() == [1, 2, 2, 1]
    offsets = wp.array([0, 1, 3, 5], dtype=int, device=device)
    listed = wp.full(6, -1, dtype=int, device=device)
    wp.launch(VBDSolver.fill_adjacent_faces, 2, inputs=[faces, offsets, filled, listed], device=device)
    assert [sorted(part) for part in np.split(listed.numpy(), (1, 3, 5))] == [[0], [0, 1], [0, 1], [1]]
    edges = wp.array([[0, 3, 1, 2], [-1, 0, 1, 2]], dtype=int, device=device)
    count.zero_(), filled.zero_(), listed.fill_(-1)
    wp.launch(VBDSolver.count_num_adjacent_edges, 2, inputs=[edges, count], device=device)
    assert count.numpy().tolist() == [2, 2, 2, 1]
    offsets, listed = (
        wp.array([0, 2, 4, 6], dtype=int, device=device),
        wp.full(7, -1, dtype=int, device=device),
    )
    wp.launch(VBDSolver.fill_adjacent_edges, 2, inputs=[edges, offsets, filled, listed], device=device)
    assert [sorted(part) for part in np.split(listed.numpy(), (2, 4, 6))] == [[0, 1], [0, 1], [0, 1], [0]]


def test_one_step_with_collisions_is_step_and_keeps_sheets_apart(device):
    model, solver = made(0.05, device)
    _, twin = made(0.05, device)
    twin_model = twin.model
    ours, theirs = model.state(), twin_model.state()
    for _ in range(40):
        solver.simulate_one_step_with_collisions_penetration_free(model, ours, ours, DT)
        twin.step(twin_model, theirs, theirs, None, None, DT)
    np.testing.assert_array_equal(ours.particle_q.numpy(), theirs.particle_q.numpy())
    triangles, x = model.tri_indices.numpy(), ours.particle_q.numpy()
    assert not len(crossings(x, triangles))
    assert x[len(x) // 2 :, 1].min() > -1e-3


def test_one_step_without_self_contact_falls_through(device):
    """As a solver without self-contact does, bit by bit; the held sheet feels nothing."""
    model, solver = made(0.05, device)
    plain_model = two_sheets(0.05).finalize(device)
    plain = VBDSolver(plain_model)
    ours, theirs = model.state(), plain_model.state()
    for _ in range(40):
        solver.simulate_one_step_no_self_contact(model, ours, ours, DT, control=model.control())
        plain.simulate_one_step_no_self_contact(plain_model, theirs, theirs, DT)
    np.testing.assert_array_equal(ours.particle_q.numpy(), theirs.particle_q.numpy())
    free = ours.particle_q.numpy()[model.particle_count // 2 :].copy()
    assert free[:, 1].max() < -0.5
    # and a step that keeps surfaces apart goes on from there
    solver.step(model, ours, ours, None, None, DT)
    after = ours.particle_q.numpy()[model.particle_count // 2 :]
    np.testing.assert_allclose(after.mean(axis=0)[[0, 2]], free.mean(axis=0)[[0, 2]], atol=1e-4)
    assert (after[:, 1] < free[:, 1]).all()


def test_detection_finds_what_can_touch_in_time(device):
    model, solver = made(0.1, device)
    state = model.state()
    assert not len(solver.collision_detection_penetration_free(state, DT).distance)
    velocity = state.particle_qd.numpy()
    velocity[model.particle_count // 2 :] = 0.0, -9.0, 0.0  # 0.15 m in a step
    state.particle_qd.assign(velocity)
    before = state.particle_q.numpy().copy()
    pairs = solver.collision_detection_penetration_free(state, DT)
    np.testing.assert_array_equal(state.particle_q.numpy(), before)
    assert len(pairs.distance)
    assert pairs.is_edges.any()
    assert not pairs.is_edges.all()
    upper = pairs.corners >= model.particle_count // 2
    between = upper.any(axis=1) & ~upper.all(axis=1)
    assert between.any()
    # level sheets: no two points of them are nearer than their gap
    assert pairs.distance[between].min() == pytest.approx(0.1, abs=1e-5)


def test_what_needs_self_contact_says_so(device):
    model = two_sheets(0.1).finalize(device)
    solver, state = VBDSolver(model), model.state()
    with pytest.raises(newtonsim.ModelError, match="handle_self_contact=True"):
        solver.simulate_one_step_with_collisions_penetration_free(model, state, state, DT)
    with pytest.raises(newtonsim.ModelError, match="handle_self_contact=True"):
        solver.collision_detection_penetration_free(state, DT)
