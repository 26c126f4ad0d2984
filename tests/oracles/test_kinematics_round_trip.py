"""eval_ik is the inverse of eval_fk, for every joint type."""

import numpy as np
import pytest

import newtonsim
from newtonsim.scene.enums import JointType
from newtonsim.testing import TREE_JOINT_TYPES, poison, random_model, random_state

TOLERANCE = 1.0e-5
MOVING = [kind for kind in TREE_JOINT_TYPES if kind != JointType.FIXED]


def canonical(model, joint_q: np.ndarray) -> np.ndarray:
    """Choose the sign of every quaternion: q and -q are the same rotation."""
    result = joint_q.copy()
    starts = model.joint_q_start.numpy()
    for joint, kind in enumerate(model.joint_type.numpy()):
        if kind in (JointType.BALL, JointType.FREE, JointType.DISTANCE):
            quaternion = result[starts[joint + 1] - 4 : starts[joint + 1]]
            quaternion *= np.sign(quaternion[np.argmax(np.abs(quaternion))])
    return result


def round_trip(model, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates before and after eval_fk and eval_ik."""
    state = random_state(model, seed)
    q, qd = state.joint_q.numpy().copy(), state.joint_qd.numpy().copy()
    poison(state, "joint_q", "joint_qd")
    newtonsim.eval_ik(model, state, state.joint_q, state.joint_qd)
    return canonical(model, q), canonical(model, state.joint_q.numpy()), qd, state.joint_qd.numpy()


@pytest.fixture(scope="module", params=[*MOVING, "chain", "shuffled"])
def model(request: pytest.FixtureRequest, device: str):
    if request.param == "chain":
        return random_model(11).finalize(device)
    if request.param == "shuffled":
        return random_model(12, shuffle=True).finalize(device)
    return random_model(13, joint_types=[request.param], body_count=3).finalize(device)


@pytest.mark.parametrize("seed", range(4))
def test_round_trip_returns_the_coordinates(model, seed: int):
    q, q_back, qd, qd_back = round_trip(model, seed)
    np.testing.assert_allclose(q_back, q, rtol=0.0, atol=TOLERANCE)
    np.testing.assert_allclose(qd_back, qd, rtol=0.0, atol=TOLERANCE * 10.0)


def test_mask_selects_articulations(device: str):
    builder = newtonsim.ModelBuilder()
    one = random_model(14, joint_types=[JointType.REVOLUTE, JointType.BALL], body_count=3)
    for _ in range(3):
        builder.add_builder(one)
    model = builder.finalize(device)
    state = random_state(model, 0)
    expected = state.body_q.numpy().copy()
    poison(state, "body_q")
    import warp as wp

    mask = wp.array([True, False, True], dtype=bool, device=device)
    newtonsim.eval_fk(model, state.joint_q, state.joint_qd, mask, state)
    poses = state.body_q.numpy().reshape(3, 3, 7)
    np.testing.assert_array_equal(poses[[0, 2]], expected.reshape(3, 3, 7)[[0, 2]])
    assert np.isnan(poses[1]).all()
