"""Gradients of robots that push, grip and tip, with softened contact, beside differences."""

import warnings

import numpy as np
import pytest
import warp as wp
from tasks import pushing_scenes as scenes
from tasks.pushing import SCENES, error, gradients_of, scene_of

import newtonsim

SMOOTH = ("fingers close", "arm and a heavy ball")
"""Scenes in which rigid contact hardly switches over a millimetre."""


@pytest.mark.parametrize("steps", [16, 64])
@pytest.mark.parametrize("name", SCENES)
def test_the_way_of_what_is_pushed_agrees_with_differences(device, name, steps):
    """By all speeds, forces and masses over spans up to 1e-2, and by all positions up to 1e-3.

    Shorter spans by masses, and by forces on a single body, have the rounding of single precision.
    """
    scene = scene_of(name, steps, 5.0e-3, device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # all positions at once leave the width within a millimetre, here and there
        warnings.filterwarnings("ignore", message=".*from differences by state.joint_q ")
        gradients = gradients_of(scene)
    errors = {
        "joint_qd": error(scene.all_slopes("joint_qd", (1e-3, 3e-3, 1e-2)), gradients["joint_qd"]),
        "joint_f": error(scene.all_slopes("joint_f", (3e-3, 1e-2)), gradients["joint_f"]),
        "body_mass": error(scene.all_slopes("body_mass", (3e-3, 1e-2)), gradients["body_mass"]),
        "joint_q": error(scene.all_slopes("joint_q", (3e-4, 1e-3)), gradients["joint_q"]),
    }
    print(name, steps, {key: np.round(100.0 * value, 2) for key, value in errors.items()})
    for key in ("joint_qd", "joint_f", "body_mass"):
        assert errors[key].max() < 0.02, key
    assert errors["joint_q"].max() < 0.06


@pytest.mark.parametrize("name", [name for name in SCENES if name not in SMOOTH])
def test_what_rigid_contact_makes_of_it_warns(device, name):
    """Positions of all bodies at random move contacts of rigid faces from one slope to another."""
    scene = scene_of(name, 16, 0.0, device)
    with pytest.warns(
        RuntimeWarning, match=r"differs by \d+% from differences by (state|control|model).*: contact of body"
    ):
        gradients_of(scene)


@pytest.mark.parametrize("speeds", [(0.3, 0.5, 2.0, 0.4, 0.1, 0.0), (0.01, 0.02, 0.1, 0.0, 0.01, 0.0)])
@pytest.mark.parametrize("entry", [1, 2, 3])
def test_torsional_and_rolling_friction_agree_with_differences(device, speeds, entry):
    """A ball that spins and rolls, faster and slower than the widths, by its speeds and by forces."""
    builder, options = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0)), {"smoothing": 5.0e-3}
    body = builder.add_body(origin=wp.transform((0.0, 0.0, 0.1), wp.quat_identity()))
    builder.add_shape_sphere(body, radius=0.1, density=400.0, **scenes.MATERIAL)
    builder.shape_mu_torsion[:], builder.shape_mu_rolling[:] = [0.02], [0.005]
    q, _ = scenes.settled(builder, 120, options, device)
    push = np.array([0.01, 0.02, 0.05, 0.3, 0.2, 0.0])
    scene = scenes.Scene(builder, q, np.array(speeds), ("joint_qd", entry), 16, options, device, push)
    gradients = gradients_of(scene)
    for key in ("joint_qd", "joint_f"):
        assert error(scene.all_slopes(key, (1e-3, 3e-3)), gradients[key]).max() < 5e-3, key
