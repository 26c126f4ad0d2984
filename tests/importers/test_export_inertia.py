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


def test_what_mujoco_sees_is_the_nearest_in_second_moments(tmp_path):
    """diag(1, 2, 5) has second moments 3, 2 and -1, of which the last is raised to zero: diag(2, 3, 5)."""
    with pytest.warns(newtonsim.UnsupportedElementWarning, match="MuJoCo sees the nearest one"):
        export_mjcf(hanging(np.diag([1.0, 2.0, 5.0])), tmp_path / "out.xml")
    oracle = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    np.testing.assert_allclose(np.sort(oracle.body_inertia[1]), (2.0, 3.0, 5.0), rtol=1e-4)


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
