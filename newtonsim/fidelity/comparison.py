"""What is compared of a file, how far apart it is, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from newtonsim import dynamics
from newtonsim.errors import ModelError, OracleError
from newtonsim.fidelity import motion, ours
from newtonsim.fidelity.mujoco_oracle import MujocoOracle, Placed
from newtonsim.fidelity.ours import Reading
from newtonsim.fidelity.pinocchio_oracle import PinocchioOracle
from newtonsim.geometry.transforms import quat_conjugate, quat_multiply
from newtonsim.importers.mjcf.equality import SAME_BODY
from newtonsim.testing import random_state

if TYPE_CHECKING:
    from newtonsim.scene.model import Model
    from newtonsim.scene.state import State

MASSES = 1.0e-5
INERTIA = 1.0e-4
BIAS = 1.0e-3
PLACES = 1.0e-5
ANGLES = 1.0e-4
MOTION = 1.0e-3

REFUSED = "the solver refuses the model"
"""How the remark on a motion begins that there is none of."""

WEIGHS = "what moves here weighs"
"""How the remark on a motion begins to tell that shapes with a mass are left out."""

LEAST_BIAS = 0.1
"""Acceleration [m/s²] of the whole mass below which forces count as small."""

LEAST_INERTIA = 1.0e-14
"""Largest entry of M(q) [kg or kg m²] of robots that have no mass but for rounding."""

MASSLESS = 1.0e-8
"""Mass [kg] and inertia [kg m²] that robots without any are compared with; bodies have next to none here."""


@dataclass(frozen=True)
class Item:
    """One comparison.

    Attributes:
        name: What is compared.
        error: Largest difference; infinite where one side lacks something.
        unit: Its unit; "" for differences relative to the oracle's number.
        where: Where it is, "" where there is one place.
        tolerance: Largest difference that counts as agreement.
        remark: What is to be said besides.
    """

    name: str
    error: float
    unit: str
    where: str
    tolerance: float
    remark: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        size = "missing" if np.isinf(self.error) else f"{self.error:.1e} {self.unit}".strip()
        place = f" at {self.where}" if self.where else ""
        remark = f"; {self.remark}" if self.remark else ""
        verdict = "agrees" if self.agrees else f"differs by more than {self.tolerance:g}"
        return f"{self.name}: {size}{place}, {verdict}{remark}"


@dataclass
class Comparison:
    """A file compared with its oracle.

    Attributes:
        path: The file.
        oracle: Name of the engine.
        items: What was compared.
        remarks: What the importer repaired, approximates or does not model: possible causes of a
            difference, and what no item compares.
    """

    path: str
    oracle: str
    items: list[Item] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether all of it agrees."""
        return all(item.agrees for item in self.items)

    def lines(self) -> list[str]:
        """Return one line for each item, and what the reader had to say, also where all agrees."""
        said = [f"- {remark}" for remark in self.remarks]
        heading = ["not modelled, approximated or repaired:"] if said else []
        return [f"compared with {self.oracle}:", *(f"- {item}" for item in self.items), *heading, *said]


def compare_with_oracle(
    path: str | os.PathLike, states: int = 4, seconds: float = 1.0, seed: int = 0
) -> Comparison:
    """Compare a robot file as it is read here with MuJoCo (MJCF) or pinocchio (URDF).

    Compared are masses in all and of each body, for MJCF the number of equalities, the joint-space inertia
    M(q), the forces without acceleration and the frames of all bodies in random states, and for MJCF the
    motion of origins and centres of mass from the reference pose at equal time step and integrator, without
    contacts: MuJoCo's "discrete" and `FeatherstoneSolver(coriolis="start", references="end")`, with actuators
    as `general_actuators` makes them under a tenth of their largest control. A motion that diverges in MuJoCo
    counts as missing. The file is read with `mujoco_defaults`, `floating=None` and its own inertias.

    Errors of M(q) are those of entries after scaling each degree of freedom to unit inertia, those of forces
    likewise, relative to the largest force. Mocap bodies have a mass in MuJoCo that moves nothing, and none
    here; they are left out.

    Example:
        >>> from newtonsim.examples import asset_path
        >>> from newtonsim.fidelity import compare_with_oracle
        >>> compare_with_oracle(asset_path("humanoid.xml"), seconds=0.0).agrees
        True

    Args:
        path: The file, MJCF or URDF.
        states: Number of random states.
        seconds: Length of the motion [s]; 0 for none.
        seed: Of the random states and controls.

    Returns:
        What was found.

    Raises:
        ImportFileError: We cannot read the file.
        OracleError: The oracle is not installed, or refuses the file.
        NewtonsimError: The file is neither MJCF nor URDF.
    """
    path = os.fspath(path)
    kind = ours.kind_of(path)
    oracle = MujocoOracle(path) if kind == "mjcf" else PinocchioOracle(path)
    reading = ours.read(path, kind)
    remarks = [entry.message for entry in reading.report.entries if entry.kind != "ignored"]
    found = Comparison(path, oracle.name, remarks=list(dict.fromkeys(remarks)))
    if isinstance(oracle, MujocoOracle):
        found.items += [*_mass_items(reading, oracle), _equalities(reading, oracle)]
    else:
        found.items += _group_items(reading, oracle)
    missing = abs(reading.model.joint_dof_count - oracle.dof_count)
    remark = f"there are {oracle.dof_count}"
    found.items.append(Item("degrees of freedom", float(missing), "", "", 0.0, remark))
    if not missing and reading.model.body_count:
        found.items += _state_items(reading, oracle, states, seed)
        if isinstance(oracle, MujocoOracle) and seconds > 0.0 and reading.model.joint_dof_count:
            found.items.append(_motion_item(reading, oracle, seconds, seed))
    return found


def compare_mujoco_solver(path: str | os.PathLike, seconds: float = 1.0, seed: int = 0) -> Item:
    """Compare the motion of an MJCF file by `MuJoCoSolver` with MuJoCo's on the file itself.

    Both move from the reference pose without contacts, with time step, integrator and all other options of
    the file, under a tenth of its largest controls. `gravcomp`, `element_args`, `general_actuators` and
    `tendon_actuators` are those of the importer's report, and `noslip_iterations` is set in `mj_model.opt`.

    Args:
        path: The file.
        seconds: Length of the motion [s].
        seed: Of the controls.

    Returns:
        The largest distance of the origins and centres of mass of all bodies; infinite if MuJoCo diverges.

    Raises:
        ImportFileError: We cannot read the file.
        ModelError: MuJoCoSolver refuses the model.
        OracleError: MuJoCo is not installed, refuses the file, has other degrees of freedom, or none.
    """
    path = os.fspath(path)
    oracle = MujocoOracle(path)
    reading = ours.read(path, "mjcf")
    if reading.model.joint_dof_count != oracle.dof_count:
        count = reading.model.joint_dof_count
        raise OracleError(f"{path}: {oracle.dof_count} degrees of freedom in MuJoCo, {count} here")
    if not oracle.dof_count:
        raise OracleError(f"{path}: nothing in it moves")
    apart = motion.compare_mujoco_solver(reading, oracle, seconds, seed, PLACES)
    error = apart.distance if apart.lost is None else np.inf  # there is nothing to agree with
    where = f"{apart.body} after {apart.time:.2g} s"
    remark = apart.remark + _missing_mass(reading, oracle)
    return Item("motion by MuJoCoSolver", error, "m", where, PLACES, remark)


def _missing_mass(reading: Reading, oracle: MujocoOracle) -> str:
    """A remark if what moves here has another mass than in MuJoCo, with what is left out; "" if not."""
    mine, theirs = (
        sum(mass for mass, *_ in found.values()) for found in (ours.masses(reading), oracle.masses())
    )
    if abs(mine - theirs) <= MASSES * theirs:
        return ""
    left = dict.fromkeys(entry.message for entry in reading.report.of_kind("unsupported"))
    return f", {WEIGHS} {mine:.3g} of {theirs:.6g} kg: {', '.join(left)}"


def _larger(known: tuple[float, str], found: tuple[float, str]) -> tuple[float, str]:
    """Return the larger of two errors with their places; what is not a number counts as infinite."""
    error, where = found
    return max(known, (np.inf if np.isnan(error) else error, where))


def _total(name: str, mine: float, other: float) -> Item:
    return Item(
        name, abs(mine - other) / max(other, 1.0e-6), "", "", MASSES, f"{mine:.6g} and {other:.6g} kg"
    )


def _mass_items(reading: Reading, oracle: MujocoOracle) -> list[Item]:
    """Masses, centres of mass and inertias of bodies."""
    mine, theirs = ours.masses(reading), oracle.masses()
    total = _total("total mass", sum(m for m, *_ in mine.values()), sum(m for m, *_ in theirs.values()))
    worst = {"mass": (0.0, ""), "centre of mass": (0.0, ""), "inertia": (0.0, "")}
    for name, (mass, com, inertia) in theirs.items():
        if name not in mine:
            worst["mass"] = (np.inf, name)
            continue
        own_mass, own_com, own_inertia = mine[name]
        away = float(np.linalg.norm(own_com - com)) if mass > 0.0 else 0.0
        turned = float(np.abs(own_inertia - inertia).max() / max(np.abs(inertia).max(), 1.0e-12))
        for key, error in (
            ("mass", abs(own_mass - mass) / max(mass, 1.0e-6)),
            ("centre of mass", away),
            ("inertia", turned),
        ):
            worst[key] = _larger(worst[key], (error, name))
    (mass, at), (away, there), (turned, body) = worst.values()
    return [
        total,
        Item("masses of bodies", mass, "", at, MASSES),
        Item("centres of mass", away, "m", there, PLACES),
        Item("inertias of bodies", turned, "", body, INERTIA),
    ]


def _motion_item(reading: Reading, oracle: MujocoOracle, seconds: float, seed: int) -> Item:
    """How far motions are apart; a model that the solver refuses does not move."""
    try:
        apart = motion.compare(reading, oracle, seconds, seed, MOTION)
    except ModelError as error:
        return Item("motion", np.inf, "m", "", MOTION, f"{REFUSED}: {error}")
    where = f"{apart.body} after {apart.time:.2g} s"
    error = apart.distance if apart.lost is None else np.inf  # there is nothing to agree with
    return Item("motion", error, "m", where, MOTION, apart.remark)


def _equalities(reading: Reading, oracle: MujocoOracle) -> Item:
    """How many equalities are missing; those within one body, which do nothing, do not count."""
    mine = reading.model.constraint_count + len(reading.model.tendon_equality_key or ())
    idle = sum(entry.message == SAME_BODY for entry in reading.report.of_kind("ignored"))
    theirs = int(oracle.model.neq) - idle
    return Item("equalities", float(abs(mine - theirs)), "", "", 0.0, f"there are {theirs}")


def _group_items(reading: Reading, oracle: PinocchioOracle) -> list[Item]:
    """Masses of what moves together."""
    theirs, groups = oracle.masses(), oracle.groups()
    mine = dict.fromkeys(theirs, 0.0)
    own = ours.masses(reading)
    for link, (mass, *_) in own.items():
        if link in groups:
            mine[groups[link]] += mass
    error, name = max((abs(mine[name] - mass) / max(mass, 1.0e-6), name) for name, mass in theirs.items())
    total = _total("total mass", sum(m for m, *_ in own.values()), sum(theirs.values()))
    return [total, Item("masses of bodies", error, "", name, MASSES)]


def _state_items(
    reading: Reading, oracle: MujocoOracle | PinocchioOracle, states: int, seed: int
) -> list[Item]:
    """Inertia, bias and frames in random states."""
    found = {"M(q)": (0.0, ""), "bias": (0.0, ""), "place": (0.0, ""), "angle": (0.0, "")}
    moves = bool(reading.model.joint_dof_count)
    for number in range(states if moves else 1):
        state = random_state(reading.model, seed + number) if moves else reading.model.state()
        for name, (error, where) in _state_errors(reading, state, oracle.place(reading, state)).items():
            found[name] = _larger(found[name], (error, f"{where}, state {number}"))
    units = {"M(q)": ("", INERTIA), "bias": ("", BIAS), "place": ("m", PLACES), "angle": ("rad", ANGLES)}
    names = {"M(q)": "M(q)", "bias": "bias forces", "place": "frames, places", "angle": "frames, angles"}
    items = []
    for name, (unit, tolerance) in units.items():
        items.append(Item(names[name], found[name][0], unit, found[name][1], tolerance))
    return items if moves else items[2:]


def _state_errors(reading: Reading, state, placed: Placed) -> dict[str, tuple[float, str]]:
    found = {}
    if reading.model.joint_dof_count:
        names = reading.dof_names
        largest = float(np.diag(placed.M).max())
        least = 1.0e-9 * largest if largest > LEAST_INERTIA else MASSLESS
        scale = np.sqrt(np.maximum(np.diag(placed.M), least))
        off = np.abs(joint_space_inertia(reading.model, state) - placed.M) / np.outer(scale, scale)
        i, j = np.unravel_index(int(off.argmax()), off.shape)
        place = names[i] if i == j else f"{names[i]} and {names[j]}"
        found["M(q)"] = float(off[i, j]), place
        bias = dynamics.bias(reading.model, state).numpy()
        # where gravity and motion bring about next to nothing, rounding of what cancels is not a difference
        least = LEAST_BIAS * float(np.sqrt(max(reading.model.body_mass.numpy().sum(), MASSLESS)))
        off = np.abs((bias - placed.bias) / scale) / max(np.abs(placed.bias / scale).max(), least)
        found["bias"] = float(off.max()), names[int(off.argmax())]
    poses = state.body_q.numpy().astype(np.float64)
    found["place"] = found["angle"] = (0.0, "")
    for name, body in reading.report.bodies.items():
        if body >= 0 and name in placed.poses:
            away, turn = _apart(poses[body], placed.poses[name])
            found["place"] = _larger(found["place"], (away, name))
            found["angle"] = _larger(found["angle"], (turn, name))
    return found


def joint_space_inertia(model: Model, state: State, armature: bool = True) -> np.ndarray:
    """M(q) over all degrees of freedom (n, n), from the blocks of articulations."""
    blocks = dynamics.mass_matrix(model, state, armature=armature).numpy().astype(np.float64)
    M, start = np.zeros((model.joint_dof_count,) * 2), model.joint_qd_start.numpy()
    first = model.articulation_start.numpy()
    for number, block in enumerate(blocks):
        low, high = start[first[number]], start[first[number + 1]]
        M[low:high, low:high] = block[: high - low, : high - low]
    return M


def _apart(pose: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Distance of two poses [m], relative for those further than a metre from the origin, and angle [rad]."""
    away = float(np.linalg.norm(pose[:3] - other[:3])) / max(1.0, float(np.linalg.norm(other[:3])))
    turn = quat_multiply(pose[3:], quat_conjugate(other[3:]))
    return away, 2.0 * float(np.arctan2(np.linalg.norm(turn[:3]), abs(turn[3])))
