"""A model that export_usd has written comes back from parse_usd, and moves as before."""

import importlib.util
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from export_scenes import crowd, driven, looped, many_shapes
from export_twins import Twins, robot
from oracles.compare import force_error, mass_matrix_error
from pxr import Usd
from usd_text import read

import newtonsim
from newtonsim import dynamics
from newtonsim.errors import ImportFileError, UnsupportedElementWarning
from newtonsim.scene.enums import JointType
from newtonsim.solvers import FeatherstoneSolver
from newtonsim.testing import random_model
from newtonsim.utils import export_usd, parse_usd

ROBOTS = (
    *("quadruped.xml", "humanoid.xml", "ant.xml", "half_cheetah.xml", "double_pendulum.xml"),
    *("arm7.urdf", "gripper.urdf", "cartpole.urdf"),
)
TREES = (
    *(JointType.REVOLUTE, JointType.PRISMATIC, JointType.FIXED, JointType.COMPOUND, JointType.UNIVERSAL),
    *(JointType.D6, JointType.BALL),
)


def check_dynamics(twins: Twins) -> None:
    for seed in range(2):
        ours, theirs = twins.mass_matrices(seed)
        assert mass_matrix_error(theirs, ours) < 1.0e-5
        assert force_error(*twins.bias_forces(seed)[::-1], ours) < 2.0e-5


@pytest.mark.parametrize("name", ROBOTS)
def test_same_dynamics(tmp_path, name):
    twins = Twins(robot(name), tmp_path / "out.usda")
    check_dynamics(twins)
    second = Twins(twins.again, tmp_path / "second.usda")
    names = [[path.rsplit("/", 1)[1] for path in one.report.bodies.values()] for one in (twins, second)]
    assert sorted(names[0]) == sorted(names[1])
    check_dynamics(second)


@pytest.mark.parametrize("name", ["ant", "humanoid", "boxes_fourbar"])
def test_stages_of_others_make_the_round_trip(tmp_path, name):
    """Robots of Newton's wheel: a stage, a model, a stage of ours, the same model."""
    assets = Path(importlib.util.find_spec("newton").origin).parent / "examples" / "assets"
    builder, _ = read(Usd.Stage.Open(str(assets / f"{name}.usda")))
    twins = Twins(builder, tmp_path / "out.usda")
    check_dynamics(twins)
    assert twins.again.constraint_count == twins.model.constraint_count


@pytest.mark.parametrize("base", [JointType.FREE, JointType.D6, JointType.FIXED])
def test_trees_of_all_joints(tmp_path, base):
    """Skew axes, several axes of one joint and balls come back with the coordinates that they had."""
    twins = Twins(random_model(3, joint_types=TREES, base=base, up_vector=(0, 0, 1)), tmp_path / "out.usda")
    assert not twins.read.of_kind("unsupported")
    check_dynamics(twins)


def test_floating_joints_and_distances(tmp_path):
    """Bodies that float below others float in the world instead: same places, energies, distances."""
    model = random_model(1).finalize("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsupportedElementWarning)
        report = export_usd(model, tmp_path / "out.usda")
    builder = newtonsim.ModelBuilder()
    parse_usd(report.path, builder)
    again = builder.finalize("cpu")
    states = []
    for one in (model, again):
        state = one.state()
        newtonsim.eval_fk(one, state.joint_q, state.joint_qd, None, state)
        states.append(state)
    places = [builder.body_key.index(report.bodies[body]) for body in range(model.body_count)]
    ours, theirs = states[0].body_q.numpy(), states[1].body_q.numpy()[places]
    np.testing.assert_allclose(theirs[:, :3], ours[:, :3], atol=1.0e-6)
    np.testing.assert_allclose(np.abs((theirs[:, 3:] * ours[:, 3:]).sum(axis=1)), 1.0, atol=1.0e-6)
    energies = [dynamics.potential_energy(m, s).numpy().sum() for m, s in zip((model, again), states)]
    assert energies[1] == pytest.approx(energies[0], rel=1.0e-5)
    assert again.constraint_count == model.joint_type.numpy().tolist().count(JointType.DISTANCE)


@pytest.mark.parametrize(
    ("name", "steps"), [("humanoid.xml", 100), ("ant.xml", 100), ("arm7.urdf", 100), ("quadruped.xml", 45)]
)
def test_same_trajectory(tmp_path, name, steps):
    """Principal axes are rounded, by 1e-7, which contacts amplify.

    The quadruped's motion forks at an impact after 45 steps, for any change of its start by 1e-7 as well.
    """
    twins = Twins(robot(name, ground=True), tmp_path / "out.usda")
    ours, theirs = twins.trajectories(steps, FeatherstoneSolver)
    np.testing.assert_allclose(theirs, ours, atol=1.0e-4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("damping", [1.0, 2.0], "'newtonsim:damping' has 2 entries, expected 1"),
        ("stiffness", [math.nan], "'newtonsim:stiffness' is .nan., expected finite numbers"),
        ("jointType", "SCREW", "'newtonsim:jointType' is 'SCREW'"),
    ],
)
def test_broken_attributes_are_named(tmp_path, name, value, message):
    report = export_usd(robot("double_pendulum.xml"), tmp_path / "out.usda")
    stage = Usd.Stage.Open(report.path)
    stage.GetPrimAtPath(report.joints[1][0]).GetAttribute(f"newtonsim:{name}").Set(value)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.raises(ImportFileError, match=message):
        parse_usd(stage, builder)
    assert builder.body_count == 0


def test_drives_and_passive_terms(tmp_path):
    twins = Twins(driven(), tmp_path / "out.usda")
    names = (
        "limit_lower",
        "limit_upper",
        "limit_ke",
        "limit_kd",
        "target_ke",
        "target_kd",
        "act",
        "axis_mode",
    )
    names += (
        "stiffness",
        "spring_ref",
        "effort_limit",
        "effort_lower",
        "velocity_limit",
        "damping",
        "friction",
        "armature",
    )
    for name in names:
        ours, theirs = (getattr(model, f"joint_{name}").numpy() for model in (twins.model, twins.again))
        if name == "target_ke":
            ours, theirs = ours[:2], theirs[:2]
        np.testing.assert_allclose(theirs, ours, rtol=1.0e-6, err_msg=name)


def test_shapes_and_materials(tmp_path):
    builder = many_shapes()
    builder.add_shape_cone(0, radius=0.2, half_height=0.4, key="cone", mu=0.3, restitution=0.2)
    builder.shape_mu_torsion[0], builder.shape_mu_rolling[0] = 0.01, 0.001
    twins = Twins(builder, tmp_path / "out.usda")
    pairs = [(shape, twins.again.shape_key.index(path)) for shape, (path,) in twins.report.shapes.items()]
    for ours, theirs in pairs:
        for name in ("ke", "kd", "kf", "ka", "mu", "restitution"):
            values = [getattr(m.shape_materials, name).numpy() for m in (twins.model, twins.again)]
            assert values[1][theirs] == pytest.approx(values[0][ours], rel=1e-6), name
        for name in ("mu_torsion", "mu_rolling"):
            values = [getattr(m, f"shape_{name}").numpy() for m in (twins.model, twins.again)]
            assert values[1][theirs] == pytest.approx(values[0][ours], rel=1e-6), name
    np.testing.assert_allclose(twins.again.body_mass.numpy(), twins.model.body_mass.numpy())


def touching(model, names) -> set[frozenset[int]]:
    return {frozenset(names[shape] for shape in pair) for pair in model.shape_contact_pairs.numpy().tolist()}


def test_pairs_and_constraints_come_back(tmp_path):
    twins = Twins(crowd(ground=False), tmp_path / "crowd.usda")
    ours = {shape: shape for shape in range(twins.model.shape_count)}
    theirs = {twins.again.shape_key.index(path): shape for shape, (path,) in twins.report.shapes.items()}
    assert touching(twins.again, theirs) == touching(twins.model, ours)
    twins = Twins(looped(), tmp_path / "loops.usda")
    order = [twins.again.constraint_key.index(twins.report.constraints[i][0]) for i in range(3)]
    names = ("X_p", "X_c", "coefficients", "enabled", "recovery_time", "type")
    for name in (*names, "solref", "solimp", "torque_scale"):
        ours, theirs = (getattr(m, f"constraint_{name}").numpy() for m in (twins.model, twins.again))
        np.testing.assert_allclose(theirs[order], ours, atol=1.0e-6, err_msg=name)
