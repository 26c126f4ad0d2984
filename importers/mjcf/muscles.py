"""Muscles of MJCF files: their parameters, and forces that are given by what they accelerate.

Reference: https://mujoco.readthedocs.io/en/stable/modeling.html#muscles
"""

from itertools import pairwise

import numpy as np

from newtonsim.builder import ModelBuilder, TendonMuscle
from newtonsim.builder.tendons import MUSCLE_FORCE, path_length
from newtonsim.dynamics import Dynamics
from newtonsim.errors import ModelError
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.records import Muscle
from newtonsim.kinematics import eval_fk, reference_state
from newtonsim.scene.enums import ON_AXIS
from newtonsim.scene.model import Model

_SHORTCUT: dict[str, tuple[float, ...]] = {
    "range": (0.75, 1.05),
    "force": (-1.0,),
    "scale": (200.0,),
    "lmin": (0.5,),
    "lmax": (1.6,),
    "vmax": (1.5,),
    "fpmax": (1.3,),
    "fvmax": (1.2,),
}
"""Attributes of <muscle> in the order of gainprm, with their defaults."""
_CURVES = ("lmin", "lmax", "vmax", "fpmax", "fvmax")
"""Those of them that shape the curves."""


_STEP = 0.02
_STENCIL = {-2: 1.0 / 12.0, -1: -2.0 / 3.0, 1: 2.0 / 3.0, 2: -1.0 / 12.0}
"""Step [rad or m] of differences of the fourth order, and their weights by number of steps."""


def is_muscle(node: Node) -> bool:
    """Whether an actuator is a muscle, as a shortcut or in general terms."""
    return node.tag == "muscle" or (node.tag == "general" and node.text_of("gaintype") == "muscle")


def muscle_of(node: Node, gear: float) -> Muscle | None:
    """Read the muscle of an actuator with a range of lengths; None if it does nothing."""
    if node.tag == "muscle":
        numbers = list(muscle_numbers(node)[0])
    else:
        numbers = _nine(node, "gainprm")
    given = node.floats("lengthrange", 2, (0.0, 0.0))
    low, high, force, scale, *curves = numbers
    if gear == 0.0:
        return None
    times = activation_times(node)
    try:
        lengths = (float(given[0]) / gear, float(given[1]) / gear)
        curve = dict(zip(_CURVES, curves))
        unit = TendonMuscle(1.0, lengths, (low, high), **curve, time_constants=times[:2], smoothing=times[2])
    except ModelError as error:
        raise node.error(str(error)) from error
    return Muscle(unit, force, scale, gear)


def muscle_numbers(node: Node) -> tuple[tuple[float, ...], tuple[float, float, float]]:
    """Return gainprm and dynprm of a <muscle>."""
    numbers = tuple(float(x) for name, own in _SHORTCUT.items() for x in node.floats(name, len(own), own))
    return numbers, activation_times(node)


def has_own_bias(node: Node) -> bool:
    """Whether a muscle in general terms has a bias that differs from its gain."""
    same = node.text_of("biastype") == "muscle" and _nine(node, "biasprm") == _nine(node, "gainprm")
    return node.tag != "muscle" and not same


def has_length_range(node: Node) -> bool:
    """Whether an actuator says between which lengths it works."""
    low, high = node.floats("lengthrange", 2, (0.0, 0.0))
    return low != high


def _nine(node: Node, name: str) -> list[float]:
    given = [float(x) for x in node.floats(name, default=())]
    return (given + [0.0] * 9)[:9]


def activation_times(node: Node) -> tuple[float, float, float]:
    """Time constants of a muscle's rising and falling activation [s], and its smoothing."""
    if node.tag == "muscle":
        rise, fall = node.floats("timeconst", 2, (0.01, 0.04), at_least=1)[[0, -1]]
        return float(rise), float(fall), float(node.float("tausmooth", 0.0))
    given = [float(x) for x in node.floats("dynprm", default=())]
    rise, fall, smooth, *_ = [*given, 0.0, 0.0, 0.0]
    return rise or 0.01, fall or 0.04, smooth


def set_forces(builder: ModelBuilder, muscles: dict[int, Muscle]) -> None:
    """Set the largest forces of muscles, by tendon, in a builder that holds the whole file.

    A negative force stands for scale over the acceleration that a unit force brings about in the reference
    pose, over all hinges and slides.
    """
    forces = {t: abs(one.gear) * one.force for t, one in muscles.items()}
    if min(forces.values(), default=0.0) < 0.0:
        trial = ModelBuilder(up_vector=builder.up_vector)
        trial.add_builder(builder)
        accelerations = _accelerations(trial)
        for t, one in muscles.items():
            if one.force < 0.0:
                # gears cancel: force times gear is scale over the acceleration by the tendon itself
                forces[t] = one.scale / accelerations[t] if accelerations[t] > 0.0 else 0.0
    for t, force in forces.items():
        row = list(builder.tendon_muscle[t])
        row[MUSCLE_FORCE] = force
        builder.tendon_muscle[t] = tuple(row)


def _accelerations(builder: ModelBuilder) -> np.ndarray:
    """Norm of the accelerations that a unit force along each tendon brings about, where all joints are 0."""
    model = builder.finalize("cpu")
    J = tendon_jacobian(model)
    blocks = Dynamics(model).mass_matrix(reference_state(model)).numpy().astype(np.float64)
    starts: np.ndarray = model.articulation_start.numpy()
    ends: np.ndarray = model.joint_qd_start.numpy()[starts]
    found = np.zeros(len(J))
    for M, (first, last) in zip(blocks, pairwise(ends)):
        found += np.sum(np.linalg.solve(M[: last - first, : last - first], J[:, first:last].T) ** 2, axis=0)
    return np.sqrt(found)


def tendon_jacobian(model: Model) -> np.ndarray:
    """Return how lengths of tendons change with dofs of hinges and slides, where all joints are 0 (T, D)."""
    names = ("kind", "axis", "body", "point", "factor")
    path = {name: getattr(model, f"tendon_element_{name}").numpy() for name in names}
    ends = np.append(model.tendon_start.numpy(), model.tendon_element_count)
    spans = [range(first, last) for first, last in pairwise(ends)]
    q_start, qd_start = model.joint_q_start.numpy(), model.joint_qd_start.numpy()
    axis_start, J = model.joint_axis_start.numpy(), np.zeros((len(spans), model.joint_dof_count))
    for joint in np.flatnonzero(np.diff(q_start) == np.diff(qd_start)).tolist():
        for k in range(qd_start[joint + 1] - qd_start[joint]):
            lengths = {}
            for steps in _STENCIL:
                state = reference_state(model)
                state.joint_q.numpy()[q_start[joint] + k] = steps * _STEP
                eval_fk(model, state.joint_q, state.joint_qd, None, state)
                poses = state.body_q.numpy().astype(np.float64)
                lengths[steps] = np.array([path_length(path, span, poses) for span in spans])
            slope = sum(share * lengths[steps] for steps, share in _STENCIL.items()) / _STEP
            along = (path["kind"] == ON_AXIS) & (path["axis"] == axis_start[joint] + k)
            J[:, qd_start[joint] + k] = slope + np.add.reduceat(path["factor"] * along, ends[:-1])
    return J
