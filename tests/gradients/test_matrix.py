"""Gradients of every solver in every scene of the acceptance matrix, against central differences.

The scenes and the check are those of `benchmarks/gradient_table.py`, which writes docs/gradient_errors.md.
"""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
import warp as wp
from collision.surfaces_lab import box_mesh
from gradient_table import Entry, measure, tolerance_of
from tasks.gradient_cases import COLUMNS, GROUPS, make_case
from tasks.gradient_scenes import SCENES, STEPS

import newtonsim
from newtonsim import diff
from newtonsim.errors import ModelError, NewtonsimError, NotDifferentiableError
from newtonsim.geometry import SDF
from newtonsim.solvers import FeatherstoneSolver, SemiImplicitSolver, VBDSolver, XPBDSolver

LONG = (
    "2-link arm, torques",
    "7-link arm, torques",
    "7-link arm, drives",
    "quadruped in flight",
    "quadruped landing",
)
"""What XPBD takes long for, beside scenes of the same kind: measured for the table alone."""
SAME = {name for name, scene in SCENES.items() if not scene.particles} - {"box sticking"}
"""Bodies under VBD are those of XPBD, to the bit: one of their scenes shows it."""
MEASURED = {"XPBD": (*LONG, "box sticking"), "VBD": SAME}
SWEEPS = ("XPBD", "VBD")
"""Solvers whose steps take some hundred sweeps: their rollouts are shorter here than for the table. The
adjoint of a step is that of all, and what hits something does so on the way of a shorter rollout, too."""
SHORT = dict.fromkeys(SCENES, 20) | {"quadruped standing": 30}
"""Their steps; in fewer ones differences do not tell what a pose at rest does."""
PAST_KINKS = {("quadruped landing", "Featherstone, hard"): STEPS + 1}
"""Steps of rollouts that would else end where a contact opens, with other slopes on both sides."""
ENTRIES = [
    (scene, column)
    for scene in SCENES
    for column in COLUMNS
    if scene not in COLUMNS[column].missing and scene not in MEASURED.get(column, ())
]
STATE = ("particle_q", "particle_qd", "body_q", "body_qd", "joint_q", "joint_qd")


def exceeding(entry: Entry, tolerance: float) -> dict[str, float]:
    """Parts of the gradient with an error above the tolerance, or one that differences do not tell."""
    return {name: group.worst for name, group in entry.groups.items() if not group.worst <= tolerance}


@pytest.mark.parametrize(("scene", "column"), [pytest.param(*e, id="-".join(e)) for e in ENTRIES])
def test_gradient(scene, column, device):
    """Within 1e-2 with contact and 1e-3 without, in initial state, in inputs and forces, and in parameters.

    Derivatives along mixtures of all entries of an array see the whole vector; where they tell too little, or
    something wrong, single entries of that part are checked, as for the table.
    """
    tolerance, steps = (
        tolerance_of(scene),
        SHORT[scene] if column in SWEEPS else PAST_KINKS.get((scene, column), STEPS),
    )
    wrong: Iterable[str] = GROUPS
    for samples in (0, 8):
        entry = measure(scene, column, device, samples, tuple(wrong), steps)
        assert not entry.failure, entry.failure
        wrong = exceeding(entry, tolerance)
        if not wrong:
            return
    raise AssertionError(f"{wrong}\n{entry.groups}\n{entry.report}")


@pytest.mark.parametrize("column", COLUMNS)
def test_forward_does_not_depend_on_gradients(column, device):
    """The same bits without gradients, and recorded on a tape with them."""
    wanted = ("cloth",) if column in ("XPBD", "VBD") else ("box sliding", "2-link arm, drives")
    for scene in wanted:
        ends = []
        for requires_grad in (False, True):
            case = make_case(scene, column, device, requires_grad=requires_grad)
            states = [case.state, *(case.model.state() for _ in range(12))]

            def run(case=case, states=states):
                for before, after in itertools.pairwise(states):
                    case.solver.step(case.model, before, after, case.control, None, case.dt)

            if requires_grad:
                with wp.Tape():
                    run()
            else:
                run()
            ends.append(states[-1])
        for name in STATE:
            a, b = (getattr(end, name) for end in ends)
            if a is not None:
                np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=f"{scene} {name}")


@pytest.mark.parametrize("column", COLUMNS)
def test_backward_leaves_the_states_of_the_rollout(column, device):
    """A backward pass steps again in memory of its own: no state and no later step changes by a bit."""
    case = make_case("cloth" if column in ("XPBD", "VBD") else "sphere bounce", column, device)
    states = [case.state, *(case.model.state() for _ in range(8))]
    losses = wp.zeros(1, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        for before, after in itertools.pairwise(states):
            case.solver.step(case.model, before, after, case.control, None, case.dt)
        case.loss(states[-1], losses)
    names = [name for name in STATE if getattr(case.state, name) is not None]
    before = [[getattr(state, name).numpy().copy() for name in names] for state in states]
    tape.backward(loss=losses)
    for state, values in zip(states, before):
        for name, value in zip(names, values):
            np.testing.assert_array_equal(getattr(state, name).numpy(), value, err_msg=name)


def ball_on_sheet(device):
    """Particles and bodies in one model."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_cloth_grid(
        pos=(0.0, 0.0, 0.0), rot=wp.quat_identity(), vel=(0.0, 0.0, 0.0), dim_x=2, dim_y=2, cell_x=0.1,
        cell_y=0.1, mass=0.1,
    )  # fmt: skip
    return builder.finalize(device, requires_grad=True)


def test_missing_entries_are_refused_by_name(device):
    """What has no entry in the table raises, and says why."""
    model = ball_on_sheet(device)
    with pytest.raises(ModelError, match="deformables"):
        FeatherstoneSolver(model)
    solver = FeatherstoneSolver(model, deformables=XPBDSolver(model))
    states = model.state(), model.state()
    with wp.Tape(), pytest.raises(NotDifferentiableError, match="deformables"):
        solver.step(model, *states, None, None, 1.0e-3)


def test_every_scene_has_an_entry_or_a_reason():
    for column in COLUMNS.values():
        for scene, reason in column.missing.items():
            assert scene in SCENES
            assert len(reason) > 20
        assert all(len(reason) > 20 for reason in column.silent.values())


@pytest.mark.parametrize("solver", [FeatherstoneSolver, SemiImplicitSolver, XPBDSolver, VBDSolver])
def test_what_has_no_gradient_raises(solver, device):
    """In place, without `requires_grad`, and arrays without a derivative."""
    scene = "cloth" if solver in (XPBDSolver, VBDSolver) else "box sliding"
    builder = SCENES[scene].build(COLUMNS["SemiImplicit"].setting)
    model = builder.finalize(device, requires_grad=True)
    instance, a = solver(model), model.state()
    with wp.Tape(), pytest.raises((NewtonsimError, ValueError), match="must differ"):
        instance.step(model, a, a, None, None, 1.0e-3)
    plain = builder.finalize(device)
    instance = solver(plain)
    grads = plain.state(requires_grad=True), plain.state(requires_grad=True)
    with wp.Tape(), pytest.raises((NewtonsimError, ValueError), match="requires_grad=True"):
        instance.step(plain, *grads, None, None, 1.0e-3)
    with pytest.raises(NotDifferentiableError, match="shape_transform"):
        diff.Rollout(model, solver(model), 2, 1.0e-3, lambda s, l: None, wrt=("model.shape_transform",))


def test_contact_without_a_rule_is_refused(device):
    """A distance field in contact has no rule for its normal: it raises, and in graphs gradients are NaN."""
    field = SDF.from_mesh(box_mesh(0.5, 0.1, 0.5), resolution=24, device=device)
    builder = newtonsim.ModelBuilder()
    builder.add_shape_sdf(-1, sdf=field)
    body = builder.add_body(origin=wp.transform((0.1, 0.195, 0.0), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, thickness=0.0)
    model = builder.finalize(device, requires_grad=True)
    solver, a, b = SemiImplicitSolver(model), model.state(), model.state()
    with wp.Tape() as tape:
        solver.step(model, a, b, None, None, 1.0e-3)
    seed = wp.array(np.ones((1, 6), np.float32), dtype=wp.spatial_vector, device=device)
    with pytest.raises(NotDifferentiableError, match=r"worlds \[0\]: contacts between bodies"):
        tape.backward(grads={b.body_qd: seed})
    tape.zero()
    with wp.ScopedCapture(device=device) as capture:
        tape.backward(grads={b.body_qd: seed})
    wp.capture_launch(capture.graph)
    assert np.isnan(a.body_qd.grad.numpy()).any()
    with pytest.raises(NotDifferentiableError, match="contacts between bodies"):
        solver.check_gradient()
    solver.check_gradient()
