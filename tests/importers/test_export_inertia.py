"""Inertias that no matter has: MuJoCo compiles what is written, and the model comes back with its own."""

import mujoco
import numpy as np
import pinocchio
import pytest

import newtonsim
from newtonsim.utils import export_mjcf, export_urdf, export_usd, parse_mjcf, parse_usd

TURN = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]])
"""A rotation."""

INERTIAS = {
    "A + B < C": np.diag([0.01, 0.02, 0.05]),
    "A + B < C, turned": TURN @ np.diag([0.01, 0.02, 0.05]) @ TURN.T,
    "one nearly zero": TURN @ np.diag([1e-9, 0.02, 0.05]) @ TURN.T,
    "a rod": np.diag([1e-10, 0.02, 0.02]),
    "a sheet": TURN @ np.diag([0.01, 0.02, 0.03]) @ TURN.T,
    "a grain": np.diag([1e-15, 1e-15, 3e-15]),
    "a ball": np.diag([0.02, 0.02, 0.02]),
}


def hanging(inertia: np.ndarray) -> newtonsim.Model:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(I_m=inertia, mass=2.0, com=(0.1, 0.2, -0.3), key="bob")
    builder.add_joint_revolute(-1, body, axis=(0, 1, 0), key="hinge")
    return builder.finalize("cpu")


@pytest.mark.filterwarnings("ignore::newtonsim.UnsupportedElementWarning")
@pytest.mark.parametrize("name", INERTIAS)
def test_mujoco_compiles_it_and_the_model_comes_back(name, tmp_path):
    model = hanging(INERTIAS[name])
    report = export_mjcf(model, tmp_path / "out.xml")
    oracle = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(report.path, builder, **report.read_with)
    given = model.body_inertia.numpy()[0].astype(float)
    size = np.abs(given).max()
    np.testing.assert_allclose(builder.body_inertia[0], given, atol=2e-7 * size)
    assert builder.body_mass[0] == 2.0
    impossible = "A + B" in name or name in ("one nearly zero", "a grain")
    assert bool(report.of_kind("approximated")) == impossible
    moments = np.sort(oracle.body_inertia[1])
    assert moments[0] + moments[1] >= moments[2] * (1 - 1e-9)
    if not impossible:
        np.testing.assert_allclose(moments, np.linalg.eigvalsh(given), atol=2e-6 * size)


def test_what_mujoco_sees_of_a_floating_body_is_the_nearest_in_second_moments(tmp_path):
    """diag(1, 2, 5) has second moments 3, 2 and -1, of which the last is raised to zero: diag(2, 3, 5)."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.add_joint_free(builder.add_body(I_m=np.diag([1.0, 2.0, 5.0]), mass=2.0))
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="MuJoCo sees the nearest one"):
        export_mjcf(builder, tmp_path / "out.xml")
    oracle = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    np.testing.assert_allclose(np.sort(oracle.body_inertia[1]), (2.0, 3.0, 5.0), rtol=1e-4)


AXES = TURN.T @ np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).T
"""Axes of the joints of an arm, as columns."""


def arm(inertias: list[np.ndarray]) -> newtonsim.ModelBuilder:
    """Two hinges, a slide, a hinge and a fixed joint."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parent = -1
    for number, inertia in enumerate(inertias):
        body = builder.add_body(I_m=inertia, mass=2.0, com=(0.1, 0.2, -0.3), key=f"link{number}")
        places = {"parent_xform": ((0.1, 0.3, 0.2), (0.0, 0.6, 0.0, 0.8)), "key": f"joint{number}"}
        if number == 4:
            builder.add_joint_fixed(parent, body, **places)
        else:
            add = builder.add_joint_prismatic if number == 2 else builder.add_joint_revolute
            options = {"limit_lower": -2.0, "limit_upper": 2.0, "armature": 0.0}
            add(parent, body, axis=AXES[:, number], **places, **options)
        parent = body
    return builder


def lacking(along: np.ndarray) -> np.ndarray:
    """An inertia with less than no matter along a direction: second moments -0.003 along it, 0.03 across."""
    along = along / np.linalg.norm(along)
    second = 0.03 * np.eye(3) - 0.033 * np.outer(along, along)
    return np.trace(second) * np.eye(3) - second


ASIDE = np.array([0.1, 0.2, -0.3]) - (np.array([0.1, 0.2, -0.3]) @ AXES[:, 3]) * AXES[:, 3]
"""From the axis of the last hinge to the centre of mass behind it."""

TILT = np.array([[0.28, 0.0, 0.96], [0.0, 1.0, 0.0], [-0.96, 0.0, 0.28]])
"""Rotation of the places of the arm's joints."""

SPARE = np.diag([0.06, 0.05, 0.07])
LACKING = {
    "along its hinge": [SPARE, lacking(AXES[:, 1]), SPARE, SPARE, SPARE],
    "between slide and hinge": [SPARE, SPARE, lacking(TURN[0]), SPARE, SPARE],
    "on a hinge of the world": [lacking(TURN[2]), SPARE, SPARE, SPARE, SPARE],
    "behind a slide, and on a fixed joint": [SPARE, SPARE, lacking(TURN[1]), SPARE, lacking(TURN[0])],
    "across its hinge": [SPARE, SPARE, SPARE, lacking(ASIDE), lacking(TILT.T @ ASIDE)],
}


@pytest.mark.filterwarnings("ignore::newtonsim.UnsupportedElementWarning")
@pytest.mark.parametrize("where", LACKING)
def test_mujoco_moves_an_arm_as_pinocchio_does_with_inertias_that_it_refuses(where, tmp_path):
    """Mass matrices and bias forces in random states, and the model comes back with its own inertias.

    What lacks second moments across a hinge gets mass on its axis.
    """
    model = arm(LACKING[where]).finalize("cpu")
    export_urdf(model, tmp_path / "out.urdf")
    report = export_mjcf(model, tmp_path / "out.xml")
    assert "moves alike" in report.of_kind("approximated")[0].message
    ours = pinocchio.buildModelFromUrdf(str(tmp_path / "out.urdf"))
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    theirs.opt.gravity[:] = ours.gravity.linear
    data, rng, full = mujoco.MjData(theirs), np.random.default_rng(3), np.zeros((4, 4))
    for _ in range(5):
        data.qpos[:], data.qvel[:] = rng.uniform(-2, 2, 4), rng.uniform(-2, 2, 4)
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, data, full)
        scratch = ours.createData()
        mass = np.triu(pinocchio.crba(ours, scratch, data.qpos))
        mass += np.triu(mass, 1).T
        np.testing.assert_allclose(full, mass, atol=2e-6 * np.abs(mass).max())
        bias = pinocchio.rnea(ours, scratch, data.qpos, data.qvel, np.zeros(4))
        np.testing.assert_allclose(data.qfrc_bias, bias, atol=5e-6 * np.abs(bias).max())
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(report.path, builder, **report.read_with)
    np.testing.assert_allclose(builder.body_inertia, model.body_inertia.numpy(), atol=2e-8)
    np.testing.assert_array_equal(builder.body_mass, model.body_mass.numpy())
    np.testing.assert_allclose(builder.body_com, model.body_com.numpy(), atol=1e-7)
    np.testing.assert_allclose(theirs.body_mass.sum(), model.body_mass.numpy().sum(), rtol=1e-6)
    moved = np.abs(theirs.body_mass[1:] - model.body_mass.numpy()).max() > 0.01
    assert moved == (where == "across its hinge")


@pytest.mark.parametrize("name", INERTIAS)
def test_the_other_formats_hold_it_as_it_is(name, tmp_path):
    model = hanging(INERTIAS[name])
    given = model.body_inertia.numpy()[0].astype(float)
    export_urdf(model, tmp_path / "out.urdf")
    oracle = pinocchio.buildModelFromUrdf(str(tmp_path / "out.urdf"))
    np.testing.assert_allclose(oracle.inertias[1].inertia, given, atol=3e-7 * np.abs(given).max())
    report = export_usd(model, tmp_path / "out.usda")
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_usd(report.path, builder)
    np.testing.assert_allclose(builder.body_inertia[0], given, atol=1e-6 * np.abs(given).max())


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("1 1 1 0 0 0 2", "attribute 'data' needs 6 or 10 numbers, got 7"),
        ("1 1 1 0 0 0 -2 0 0 0", "attribute 'data' gives a negative mass, -2 kg"),
    ],
)
def test_a_kept_inertia_that_cannot_be_is_refused(numbers, message):
    text = f"""<mujoco><custom><numeric name="newtonsim:inertia:bob" data="{numbers}"/></custom>
    <worldbody><body name="bob"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><freejoint/></body>
    </worldbody></mujoco>"""
    with pytest.raises(newtonsim.errors.ImportFileError, match=message):
        parse_mjcf(text, newtonsim.ModelBuilder())
