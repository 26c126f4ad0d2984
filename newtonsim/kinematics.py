"""Forward and inverse kinematics of a whole model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.arguments import show
from newtonsim.errors import ModelError, NotDifferentiableError
from newtonsim.kernels.trees import inverse_kinematics
from newtonsim.runtime import compilation
from newtonsim.runtime.active_tape import active_tape
from newtonsim.runtime.launcher import Launcher, Motion
from newtonsim.scene.joint_types import quaternion_starts
from newtonsim.scene.model import check_model
from newtonsim.scene.topology import topology_of

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State


def reference_state(model: Model) -> State:
    """Return a state at rest where all joint coordinates are zero; its bodies are not placed."""
    state = model.state()
    if model.joint_coord_count:
        q = np.zeros(model.joint_coord_count, np.float32)
        q[quaternion_starts(model.joint_type.numpy(), model.joint_q_start.numpy()[:-1]) + 3] = 1.0
        state.joint_q.assign(q)
        state.joint_qd.zero_()
    return state


def eval_fk(
    model: Model,
    joint_q: wp.array,
    joint_qd: wp.array,
    mask: wp.array | np.ndarray | None,
    state: State,
) -> None:
    """Evaluate body poses and velocities from joint coordinates; differentiable.

    Args:
        model: The model.
        joint_q: Joint coordinates, shape (joint_coord_count,).
        joint_qd: Joint velocities, shape (joint_dof_count,).
        mask: Articulations to evaluate, bool, shape (articulation_count,); None for all.
        state: `body_q` (world poses) and `body_qd` (ω and velocity of the COM, world axes) are written.

    Raises:
        ModelError: An array has the wrong length, or the state belongs to another model.
    """
    check_model(model)
    check_length("joint_q", joint_q, model.joint_coord_count, wp.float32)
    check_length("joint_qd", joint_qd, model.joint_dof_count, wp.float32)
    model.check_state(state)
    if model.joint_count == 0:
        return
    tree_mask = None if mask is None else _tree_mask(model, mask)
    launch = Launcher(model, record_tape=True)
    motion = Motion(model, requires_grad=active_tape() is not None)
    launch.poses(motion, joint_q)
    launch.velocities(motion, joint_qd)
    launch.write_bodies(motion, state.body_q, state.body_qd, tree_mask)


def eval_ik(model: Model, state: State, joint_q: wp.array, joint_qd: wp.array) -> None:
    """Find the joint coordinates that belong to body poses and velocities.

    Angles are returned in [-π, π]; of the two ways to split a rotation about three axes, the one with the
    smaller angles is returned. Motion that a joint does not allow is removed by least squares.

    Args:
        model: The model.
        state: `body_q` and `body_qd` are read.
        joint_q: Written, shape (joint_coord_count,).
        joint_qd: Written, shape (joint_dof_count,).

    Raises:
        ModelError: An array has the wrong length, or the state belongs to another model.
        NotDifferentiableError: A tape records and the state or the model requires gradients.
    """
    check_model(model)
    check_length("joint_q", joint_q, model.joint_coord_count, wp.float32)
    check_length("joint_qd", joint_qd, model.joint_dof_count, wp.float32)
    model.check_state(state)
    refuse_gradient(model, state, "eval_ik has no gradient")
    launch = Launcher(model, record_tape=False)
    launch(
        inverse_kinematics.read_joints,
        "joint",
        reads=dict(
            joint=launch.views.joint, body_com=model.body_com, body_q=state.body_q, body_qd=state.body_qd
        ),
        writes=dict(q=joint_q, qd=joint_qd),
    )


def refuse_gradient(model: Model, state: State, message: str) -> None:
    """Raise an error rather than leave a gradient that a tape requests at zero."""
    if active_tape() is not None and (model.requires_grad or state.requires_grad):
        raise NotDifferentiableError(message)


def check_length(name: str, array: wp.array, expected: int, dtype: type | None = None) -> None:
    """Refuse an array of the wrong length before a kernel reads beyond it, by a ModelError.

    Args:
        name: Its name in the message.
        array: The array; None for none.
        expected: Its length.
        dtype: Type of its entries; None for any.
    """
    got = (0,) if array is None else getattr(array, "shape", None)
    if got != (expected,):
        raise ModelError(f"{name}: expected shape ({expected},), got {show(array) if got is None else got}")
    if dtype is None or array is None or array.dtype is dtype:
        return
    kind = array.dtype
    if isinstance(array, np.ndarray):
        if wp.dtype_to_numpy(dtype) == kind:
            return
    elif not isinstance(array, wp.array):
        return  # of another library, which Warp converts
    raise ModelError(f"{name}: expected {dtype.__name__}, got {getattr(kind, '__name__', kind)}")


def _tree_mask(model: Model, mask: wp.array | np.ndarray) -> wp.array:
    if not isinstance(mask, wp.array):
        mask = wp.array(np.asarray(mask, dtype=bool), dtype=bool, device=model.device)
    check_length("mask", mask, model.articulation_count)
    topology = topology_of(model)
    tree_mask = wp.zeros(topology.tree_count, dtype=bool, device=model.device)
    compilation.launch(
        inverse_kinematics.spread_mask,
        reads=dict(tree_articulation=topology.tree_articulation, mask=mask),
        writes=dict(tree_mask=tree_mask),
        dim=topology.tree_count,
        device=model.device,
    )
    return tree_mask
