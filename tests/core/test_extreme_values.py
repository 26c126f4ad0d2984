"""Numbers that single precision cannot work with are refused by name, with what would be allowed."""

import warnings

import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim import ModelError
from newtonsim.builder import validate


def scene(mass: float = 1.0, inertia: float = 0.1, at: float = 0.0, radius: float = 0.1):
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=mass, I_m=np.eye(3) * inertia, key="arm")
    frame = wp.transform((at, 0.0, 1.0), wp.quat_identity())
    builder.add_joint_revolute(-1, body, axis=(0.0, 1.0, 0.0), parent_xform=frame, key="elbow")
    builder.add_shape_sphere(body, radius=radius, density=0.0, key="ball")
    return builder


@pytest.mark.parametrize(
    ("values", "where", "allowed"),
    [
        ({"mass": 1e-44}, "body 'arm': its mass is .*e-4", "1e-18 to 1e.20"),
        ({"mass": 1e25}, "body 'arm': its mass is 1e.25 kg", "1e-18 to 1e.20"),
        ({"inertia": 1e-36}, "body 'arm': its moments of inertia are 1e-36", "1e-30 to 1e.30"),
        ({"inertia": 1e33}, "body 'arm': its moments of inertia are 1e.33", "1e-30 to 1e.30"),
        ({"at": 1e20}, "joint 'elbow': its frame in the parent contains 1e.20 m", "at most 1e.12"),
        ({"at": -1e20}, "joint 'elbow': its frame in the parent contains 1e.20 m", "at most 1e.12"),
        ({"radius": 1e25}, "shape 'ball': its size contains 1e.25 m", "at most 1e.12"),
    ],
)
def test_extreme_values_are_refused_by_name(values: dict, where: str, allowed: str):
    with pytest.raises(ModelError, match=f"{where}.*expected.*{allowed}"):
        scene(**values).finalize("cpu")


def with_moments(moments: list[float], copies: int = 1) -> newtonsim.ModelBuilder:
    """Bodies with principal moments along turned axes."""
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    builder = newtonsim.ModelBuilder()
    for n in range(copies):
        builder.add_body(mass=1.0, I_m=axes @ np.diag(moments) @ axes.T, key=f"arm{n}")
    return builder


def test_moments_that_no_mass_has_are_told():
    """A rod has A + B = C; the bound is that of the integral of x^2 + y^2 against those of its parts."""
    for fits in ([0.1, 0.2, 0.3], [1e-6, 1.0, 1.0], [0.1, 0.2, 0.3 * 1.0005]):
        with warnings.catch_warnings():
            warnings.simplefilter("error", newtonsim.InertiaWarning)
            with_moments(fits).finalize("cpu")
    with pytest.warns(
        newtonsim.InertiaWarning, match=r"of 'arm0' \(0\.1, 0\.2, 0\.31\): .*at most the sum"
    ) as told:
        with_moments([0.1, 0.2, 0.31]).finalize("cpu")
    assert told[0].filename == __file__
    with pytest.warns(newtonsim.InertiaWarning, match=r"'arm0' .*'arm1' .*'arm2' .* and 2 more: ") as told:
        with_moments([0.1, 0.2, 0.4], 5).finalize("cpu")
    scene = newtonsim.ModelBuilder()
    scene.replicate(with_moments([0.1, 0.2, 0.4]), 9)
    with pytest.warns(newtonsim.InertiaWarning, match=r"of 'arm0' \(0\.1, 0\.2, 0\.4\): "):
        scene.finalize("cpu")


@pytest.mark.parametrize(
    "values",
    [
        {"mass": 2.0 * validate.LEAST_MASS, "inertia": 2.0 * validate.LEAST_INERTIA},
        {"mass": 0.5 * validate.LARGEST_MASS, "inertia": 0.5 * validate.LARGEST_INERTIA},
        {"at": 0.5 * validate.LARGEST_LENGTH},
    ],
)
def test_what_is_allowed_has_finite_inverses_and_steps(values: dict, device):
    model = scene(**values).finalize(device)
    assert np.isfinite(model.body_inv_mass.numpy()).all()
    assert np.isfinite(model.body_inv_inertia.numpy()).all()
    assert (model.body_inv_mass.numpy() > 0.0).all()
    simulator = newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 1e-3)
    simulator.step(10)
    assert np.isfinite(simulator.state.joint_qd.numpy()).all()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("joint_armature", 1e30, "1e.20"),
        ("joint_damping", 1e30, "1e.20"),
        ("joint_target_ke", -1e30, "1e.20"),
        ("joint_q", 1e25, "1e.12"),
        ("joint_qd", -1e25, "1e.12"),
    ],
)
def test_numbers_whose_products_overflow_are_refused(name: str, value: float, allowed: str):
    builder = scene()
    getattr(builder, name)[0] = value
    with pytest.raises(
        ModelError, match=f"joint 'elbow': {name} .*1e.{np.log10(abs(value)):.0f}, .*at most {allowed}"
    ):
        builder.finalize("cpu")


def test_gravity_is_bounded_in_builder_and_model():
    builder = scene()
    builder.gravity = 1e30
    with pytest.raises(ModelError, match=r"gravity is 1e.30, expected at most 1e.12"):
        builder.finalize("cpu")
    builder.gravity = -9.81
    model = builder.finalize("cpu")
    with pytest.raises(ModelError, match=r"gravity: expected at most 1e.12 m/s\^2, got \(0, 0, 1e.30\)"):
        model.gravity = (0, 0, 1e30)
    assert np.allclose(model.gravity, (0, 0, -9.81))


def test_keyframes_are_bounded_with_their_element():
    text = """<mujoco><worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody>
    <keyframe><key name="far" qpos="1e25"/></keyframe></mujoco>"""
    builder = newtonsim.ModelBuilder()
    with pytest.raises(
        newtonsim.ImportFileError, match=r"line 2: <key name='far'>: attribute 'qpos' contains 1e.25, .*1e.12"
    ):
        newtonsim.importers.parse_mjcf(text, builder)
    assert builder.body_count == 0
    assert not builder.keyframes
