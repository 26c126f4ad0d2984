"""Detection, planes and forces of self-contact, against brute force and by adversarial motion.

No solver takes part: what wants to go through is only cut short.
"""

import warnings

import numpy as np
import pytest
import warp as wp
from intersections import crossings, edges_of
from scipy.optimize import lsq_linear

import newtonsim
from newtonsim.errors import ModelError
from newtonsim.kernels.particles.self_contact.contact import SelfContactView, press, self_contact_terms
from newtonsim.runtime.launcher import Launcher
from newtonsim.runtime.shards import Shard
from newtonsim.solvers.particles.self_contact import SelfContact

RADIUS, MARGIN, CELL = 0.003, 0.005, 0.01
PLACES = [np.zeros(3), np.array([100.0, -50.0, 30.0])]


class Sheets:
    """Square cloths on top of each other, and their self-contact without forces.

    Args:
        device: Where.
        cells: Along each side.
        sheets: Number of cloths, 2 cm apart.
        place: Of the corner [m].
        worlds: Copies of all this.
        options: Of SelfContact.
    """

    def __init__(self, device, cells=10, sheets=2, place=PLACES[0], worlds=1, radius=RADIUS, **options):
        world = newtonsim.ModelBuilder()
        for k in range(sheets):
            corner = place + np.array([0.0, 0.0, 0.02 * k])
            world.add_cloth_grid(corner, (0, 0, 0, 1), (0, 0, 0), cells, cells, CELL, CELL, 0.1)
        builder = newtonsim.ModelBuilder()
        for _ in range(worlds):
            builder.add_builder(world)
        self.model = builder.finalize(device)
        self.contact = SelfContact(self.model, radius, MARGIN, **options)
        self.launch = Launcher(self.model, False, Shard(self.model).with_starts(self.contact.starts))
        self.x = wp.clone(self.model.particle_q)
        self.rest = self.model.particle_q.numpy().copy()
        self.triangles = self.model.tri_indices.numpy()
        self.free = wp.zeros(self.model.particle_count, dtype=int, device=device)

    def put(self, x: np.ndarray) -> wp.array:
        return wp.array(x.astype(np.float32), dtype=wp.vec3, device=self.model.device)

    def at(self) -> np.ndarray:
        """Copy of the positions (n, 3) [m]."""
        return self.x.numpy().copy()

    def find(self, x: np.ndarray) -> None:
        """Detect and refresh at positions where nothing moves."""
        self.x = self.put(x)
        self.contact.detect(self.launch, self.x, self.x)
        self.contact.refresh(self.launch, self.x, self.x)

    def go(self, target: np.ndarray, sweeps: int = 3) -> None:
        """Let all particles go to their targets as far as they may."""
        to = self.put(target)
        self.contact.detect(self.launch, self.x, to, self.free)
        for _ in range(sweeps):
            self.contact.refresh(self.launch, self.x, self.x)
            self.contact.truncate(self.launch, to, self.x)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners (n, 4) of the pairs of vertex and triangle, and of the pairs of edges, of world 0."""
        view = self.contact.view
        count = int(view.pair_count.numpy()[0])
        corners, triangle = view.corners.numpy()[:count], view.triangle.numpy()[:count]
        return corners[triangle >= 0], corners[triangle < 0]


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """Distance of the hulls of two sets of points (m, 3): a bounded least-squares problem."""
    columns = [p - first[0] for p in first[1:]] + [second[0] - p for p in second[1:]]
    a, b = np.stack(columns, axis=1), second[0] - first[0]
    best = lsq_linear(a, b, (0.0, 1.0), tol=1e-12).x
    if len(second) < 3 or best.sum() <= 1.0 + 1e-9:
        return float(np.linalg.norm(a @ best - b))
    # outside of the triangle, in the other half of the parallelogram: nearest is a side
    return min(distance(first, second[[i, j]]) for i, j in ((0, 1), (1, 2), (2, 0)))


def may_be_near(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether boxes around two sets of points may be nearer than the margin."""
    gap = np.maximum(first.min(axis=0) - second.max(axis=0), second.min(axis=0) - first.max(axis=0))
    return bool(np.all(gap < MARGIN))


def rough(sheets: Sheets, size: float, seed: int = 0) -> np.ndarray:
    x = sheets.rest.copy()
    return x + np.random.default_rng(seed).uniform(-size, size, x.shape)


def test_all_near_pairs_are_found_once(device):
    sheets = Sheets(device, cells=5)
    x = rough(sheets, 0.3 * CELL).astype(np.float32)
    x[len(x) // 2 :, 2] -= 0.012
    sheets.find(x)
    vertices, edges = sheets.pairs()
    found = {(p[0], *sorted(p[1:])) for p in vertices.tolist()}
    joined = {frozenset((tuple(sorted(p[:2])), tuple(sorted(p[2:])))) for p in edges.tolist()}
    assert len(found) == len(vertices)
    assert len(joined) == len(edges)
    points = x.astype(np.float64)
    near = RADIUS + 2.0 * sheets.contact.view.reach.spread
    wanted = 0
    for v in range(len(x)):
        for t in sheets.triangles:
            if v not in t and may_be_near(points[[v]], points[t]) and distance(points[[v]], points[t]) < near:
                wanted += 1
                assert (v, *sorted(t.tolist())) in found
    sides = edges_of(sheets.triangles)
    for n, a in enumerate(sides):
        for b in sides[n + 1 :]:
            if set(a) & set(b) or not may_be_near(points[a], points[b]):
                continue
            if distance(points[a], points[b]) < near:
                wanted += 1
                assert frozenset((tuple(a.tolist()), tuple(b.tolist()))) in joined
    assert wanted > 150
    assert len(vertices) + len(edges) < 1.1 * wanted


def aim(motion: str, x: np.ndarray, place: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Where particles want to go from x."""
    half = len(x) // 2
    if motion == "collapse":
        return place + 0.0 * x
    if motion == "exchange":
        return np.concatenate([x[half:], x[:half]]) + rng.normal(0.0, 0.003, x.shape)
    if motion == "shake":
        return x + rng.normal(0.0, 0.02, x.shape)
    return x + np.array([0.3, 0.2, 0.5]) + rng.normal(0.0, 0.003, x.shape)


@pytest.mark.parametrize("place", PLACES, ids=["origin", "far"])
@pytest.mark.parametrize("options", [{}, {"vertex_buffer": 1, "edge_buffer": 1}], ids=["room", "no room"])
@pytest.mark.parametrize("motion", ["collapse", "exchange", "shake", "fly"])
def test_nothing_passes_through_whatever_the_targets(device, place, options, motion):
    sheets = Sheets(device, place=place, **options)
    rng = np.random.default_rng(3)
    start = sheets.at()
    for _ in range(12):
        target = aim(motion, sheets.at(), place, rng)
        sheets.go(target)
        assert len(crossings(sheets.at(), sheets.triangles)) == 0
    moved = np.linalg.norm(sheets.at() - start, axis=1).mean()
    assert moved > (5.0 if motion == "fly" else 0.0005)


def test_the_intersection_test_sees_what_goes_unchecked(device):
    """The targets of the test above do lead through: without truncation, edges cross triangles."""
    sheets = Sheets(device)
    x = sheets.at()
    half = len(x) // 2
    x += np.random.default_rng(3).normal(0.0, 0.003, x.shape)
    x[:half, 2] += 0.02
    assert len(crossings(x, sheets.triangles)) > 50


def test_sliding_is_free(device):
    """Close layers go along each other by a part of a cell at once, whatever the gap between them."""
    sheets = Sheets(device)
    x = sheets.at()
    half = len(x) // 2
    x[half:, 2] = RADIUS
    sheets.x = sheets.put(x)
    target = x.copy()
    target[half:, 0] += 0.3 * CELL
    sheets.go(target, sweeps=1)
    np.testing.assert_allclose(sheets.at(), target, atol=1e-6)


def test_gaps_close_to_a_part_of_themselves_each_sweep(device):
    sheets = Sheets(device)
    x = sheets.at()
    half = len(x) // 2
    target = x.copy()
    target[half:, 2] -= 0.04
    target[:half, 2] += 0.04
    gap = 0.02
    to = sheets.put(target)
    sheets.contact.detect(sheets.launch, sheets.x, to)
    for _ in range(3):
        sheets.contact.refresh(sheets.launch, sheets.x, sheets.x)
        sheets.contact.truncate(sheets.launch, to, sheets.x)
        gap *= 1.0 - 2.0 * 0.42
        z = sheets.at()[:, 2]
        np.testing.assert_allclose(z[half:] - z[:half], gap, rtol=1e-2)


def test_full_buffers_are_reported(device):
    sheets = Sheets(device, vertex_buffer=1, edge_buffer=1)
    sheets.find(layers(sheets, RADIUS))
    with pytest.warns(UserWarning, match="pairs did not fit"):
        sheets.contact.report()
    roomy = Sheets(device)
    roomy.find(layers(roomy, RADIUS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roomy.contact.report()


@wp.kernel
def gather_terms(
    view: SelfContactView,
    x: wp.array(dtype=wp.vec3),
    dt: float,
    force: wp.array(dtype=wp.vec3),
    hessian: wp.array(dtype=wp.mat33),
):
    """One thread per particle: force and Hessian."""
    i = wp.tid()
    terms = self_contact_terms(view, i, x, dt)
    force[i] = terms.force
    hessian[i] = terms.hessian


def terms_of(sheets: Sheets, x: wp.array, dt: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    count, device = sheets.model.particle_count, sheets.model.device
    force = wp.zeros(count, dtype=wp.vec3, device=device)
    hessian = wp.zeros(count, dtype=wp.mat33, device=device)
    wp.launch(gather_terms, count, [sheets.contact.view, x, dt], [force, hessian], device=device)
    return force.numpy().astype(np.float64), hessian.numpy().astype(np.float64)


def layers(sheets: Sheets, gap: float, shift=(0.0, 0.0)) -> np.ndarray:
    """Positions of two flat sheets [m]."""
    x = sheets.rest.copy()
    x[len(x) // 2 :] += (*shift, gap - 0.02)
    return x


def test_forces_conserve_momentum_and_hessians_are_definite(device):
    sheets = Sheets(device)
    sheets.contact.set_material(1e3, 0.0, 0.0)
    x = layers(sheets, 0.4 * RADIUS) + np.random.default_rng(1).normal(0.0, 4e-4, (sheets.x.shape[0], 3))
    sheets.find(x)
    force, hessian = terms_of(sheets, sheets.x)
    size = np.abs(force).sum()
    assert size > 10.0
    assert np.abs(force.sum(axis=0)).max() < 1e-5 * size
    arm = sheets.at() - x.mean(axis=0)
    assert np.abs(np.cross(arm, force).sum(axis=0)).max() < 1e-5 * size * CELL * 10
    assert np.linalg.eigvalsh(hessian).min() > -1e-2
    np.testing.assert_allclose(hessian, hessian.transpose(0, 2, 1))


def test_flat_layers_press_evenly(device):
    """Each vertex over a triangle presses once, also where triangles meet; edges that cross come on top."""
    sheets = Sheets(device)
    sheets.contact.set_material(1e3, 0.0, 0.0)
    for shift in ((0.3 * CELL, 0.1 * CELL), (0.6 * CELL, 0.7 * CELL), (-0.4 * CELL, 0.3 * CELL)):
        sheets.find(layers(sheets, 0.8 * RADIUS, shift))
        force, _ = terms_of(sheets, sheets.x)
        inner = np.all(np.abs(sheets.rest[:, :2] - 5.0 * CELL) < 3.5 * CELL, axis=1)
        assert np.abs(force[inner, :2]).max() < 1e-3 * np.abs(force[inner, 2]).max()
        view = sheets.contact.view
        corners, load = view.corners.numpy(), view.load.numpy()
        count = int(view.pair_count.numpy()[0])
        single = (view.triangle.numpy()[:count] >= 0) & (load[:count] > 0.0)
        presses = np.bincount(corners[:count][single][:, 0], minlength=sheets.model.particle_count)
        assert presses.max() == 1
        single &= inner[corners[:count, 0]]
        np.testing.assert_allclose(load[:count][single], 1e3 * 0.2 * RADIUS, rtol=1e-3)


@wp.kernel
def press_kernelless(radius: float, gap: wp.array(dtype=float), result: wp.array(dtype=wp.vec2)):
    """One thread per gap."""
    i = wp.tid()
    result[i] = press(radius, gap[i])


def test_pressure_is_the_slope_of_one_smooth_energy(device):
    gaps = np.linspace(0.001, 1.2, 2000)
    result = wp.zeros(len(gaps), dtype=wp.vec2, device=device)
    values = wp.array(gaps, dtype=float, device=device)
    wp.launch(press_kernelless, len(gaps), [1.0, values], [result], device=device)
    force, stiffness = result.numpy().T.astype(np.float64)
    quadratic, barrier = 0.5 * (1.0 - gaps) ** 2, -0.25 * np.log(gaps)
    barrier += 0.125 + 0.25 * np.log(0.5)
    energy = np.where(gaps > 1.0, 0.0, np.where(gaps > 0.5, quadratic, barrier))
    smooth = gaps > 0.03  # a parabola below
    np.testing.assert_allclose(force[smooth], -np.gradient(energy, gaps)[smooth], rtol=2e-3, atol=1e-3)
    slope = -np.gradient(force, gaps)
    np.testing.assert_allclose(stiffness[smooth][:-1], slope[smooth][:-1], rtol=0.05, atol=0.5)
    assert np.all(np.diff(force) <= 1e-6)


@pytest.mark.parametrize("slip", [1e-5, 1e-3])
def test_friction_is_that_of_coulomb_above_its_speed(device, slip):
    """The lower of two layers feels mu times the load along the motion; less below the speed of 1 cm/s."""
    sheets = Sheets(device)
    sheets.contact.set_material(1e3, 0.0, 0.3)
    sheets.contact.set_friction(1e-2, sweeps=10**6)  # as many as it takes to carry the stiffest friction
    start = layers(sheets, 0.8 * RADIUS, (0.3 * CELL, 0.1 * CELL))
    end = start.copy()
    half = len(end) // 2
    end[half:, 0] += slip
    sheets.x = sheets.put(end)
    sheets.contact.detect(sheets.launch, sheets.x, sheets.x)
    sheets.contact.refresh(sheets.launch, sheets.x, sheets.put(start))
    force, _ = terms_of(sheets, sheets.x, dt=0.01)
    part = min(1.0, slip / 1e-4)
    total = force[:half].sum(axis=0)
    assert total[2] < 0.0
    np.testing.assert_allclose(total[0], 0.3 * (2.0 - part) * part * -total[2], rtol=2e-2)


def test_neighbours_at_rest_do_not_press(device):
    """A radius beyond the size of the cells is cut down where parts of one surface are near each other."""
    sheets = Sheets(device, sheets=1, radius=2.0 * CELL)
    sheets.find(sheets.rest)
    force, _ = terms_of(sheets, sheets.x)
    assert np.all(force == 0.0)


def test_worlds_do_not_know_of_each_other(device):
    """Each of three worlds comes out as it does alone, bit for bit, and not-a-number stays where it is."""
    alone, three = Sheets(device, worlds=1), Sheets(device, worlds=3)
    count = alone.model.particle_count
    target = rough(alone, 0.02)
    targets = np.concatenate([target, np.full_like(target, np.nan), target])
    for _ in range(4):
        alone.go(target)
        three.go(targets)
    x = three.at()
    np.testing.assert_array_equal(x[:count], alone.at())
    np.testing.assert_array_equal(x[2 * count :], alone.at())
    assert np.abs(alone.at() - alone.rest).max() > 0.005


def test_shards_do_the_same_as_the_whole(device):
    whole, parts = Sheets(device, worlds=2), Sheets(device, worlds=2)
    targets = rough(whole, 0.02)
    whole.go(targets)
    for world in (1, 0):
        shard = Shard(parts.model, range(world, world + 1), parts.contact.starts)
        parts.launch = Launcher(parts.model, False, shard)
        parts.go(targets)
    np.testing.assert_array_equal(parts.at(), whole.at())


def test_rebuilding_changes_no_pair(device):
    sheets = Sheets(device)
    x = rough(sheets, 0.4 * CELL)
    sheets.find(x)
    before = [{tuple(sorted(p)) for p in pairs.tolist()} for pairs in sheets.pairs()]
    sheets.contact.rebuild(sheets.x)
    sheets.find(x)
    after = [{tuple(sorted(p)) for p in pairs.tolist()} for pairs in sheets.pairs()]
    assert before == after


@pytest.mark.parametrize(
    ("name", "value"),
    [("radius", 0.0), ("radius", np.nan), ("margin", -1.0), ("relaxation", 0.5), ("friction_epsilon", 0.0)],
)
def test_arguments_out_of_range_are_named(name, value):
    model = Sheets("cpu", cells=2).model
    with pytest.raises(ModelError, match=name):
        SelfContact(model, **{"radius": RADIUS, "margin": MARGIN, name: value})


def test_a_model_without_triangles_is_inactive():
    builder = newtonsim.ModelBuilder()
    builder.add_particle((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0)
    contact = SelfContact(builder.finalize("cpu"), RADIUS, MARGIN)
    assert not contact.active
    contact.report()
