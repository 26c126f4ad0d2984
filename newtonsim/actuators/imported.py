"""What a robot file asks for besides its model: a solver that has it, and controls in the file's order."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from newtonsim.actuators.activation import tendon_actuators
from newtonsim.actuators.actuators import Actuators
from newtonsim.actuators.general import general_actuators
from newtonsim.actuators.patterns import as_pattern
from newtonsim.actuators.solver import ActuatedSolver
from newtonsim.errors import ModelError, UnsupportedElementWarning
from newtonsim.scene.control import Control
from newtonsim.scene.model import MEDIUM, Model, check_model
from newtonsim.scene.patterns import match_labels
from newtonsim.solvers import FeatherstoneSolver, GravityCompensation, Medium, MuJoCoSolver
from newtonsim.solvers.base import SolverBase
from newtonsim.solvers.gravity_shares import Shares
from newtonsim.solvers.model_actuators import unmodelled_actuators

_INPUTS = {"axis": "joint_act", "tendon": "tendon_act", "actuator": "actuator_ctrl"}
"""Array of a control by what an entry of `ImportReport.actuators` writes."""

Entry = Mapping[str, Any]


class Imported(Protocol):
    """What is needed of an `ImportReport`."""

    @property
    def actuators(self) -> Sequence[Entry]:
        """Actuators, in the order of the file."""
        ...

    @property
    def gravcomp(self) -> Shares:
        """Which bodies are relieved of their weight."""
        ...

    @property
    def mujoco(self) -> Mapping[str, Mapping[int, Mapping[str, Any]]]:
        """What only MuJoCo models."""
        ...


def solver_from_report(
    report: Imported,
    model: Model,
    dt: float,
    kind: type[SolverBase] = FeatherstoneSolver,
    *,
    strict: bool = False,
    **options: Any,
) -> ActuatedSolver:
    """Return a solver with all that a file asks for and a model does not hold.

    It has the actuators of the file with their activations, gains and ranges (`general_actuators`,
    `tendon_actuators`), gravity compensation, the medium, and what only MuJoCo models. `Control.joint_act`
    and `Control.tendon_act` then hold MuJoCo's `ctrl` where an axis or tendon has one actuator, and the input
    of the drive where it has several; `FileControls` writes them all in the order of the file.

    Example:
        >>> from newtonsim import ModelBuilder, Simulator
        >>> from newtonsim.importers import parse_mjcf
        >>> text = '''<mujoco><worldbody><body gravcomp="1"><joint name="j"/><geom size="1"/></body>
        ... </worldbody><actuator><position joint="j" kp="9" kv="2" timeconst=".1"/></actuator></mujoco>'''
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> report = parse_mjcf(text, builder, strict=True)
        >>> model = builder.finalize("cpu")
        >>> simulator = Simulator(model, solver_from_report(report, model, dt=0.002), dt=0.002)

    Args:
        report: Of `parse_mjcf`, `parse_usd` or another importer, into the builder of the model or of the
            robot that the model replicates.
        model: The model. Its drives that actuators replace are switched off, and its initial controls set.
        dt: Time of a solver step [s].
        kind: Class of the solver.
        strict: Raise instead of warning about what this solver lacks.
        **options: Arguments of the solver.

    Raises:
        ModelError: `strict`, and the solver lacks something that the report or the model holds; or report,
            model or kind of solver are none.
    """
    _check_report(report)
    check_model(model)
    if not (isinstance(kind, type) and issubclass(kind, SolverBase)):
        raise ModelError(f"kind: expected a class of solvers, such as FeatherstoneSolver, got {kind!r}")
    lacking = _lacking(report, model, kind)
    if lacking:
        text = f"{kind.__name__} lacks what the file asks for: {'; '.join(lacking)}"
        if strict:
            raise ModelError(text)
        warnings.warn(text, UnsupportedElementWarning, stacklevel=2)
    tendons = tendon_actuators(report.actuators, model.tendon_key or ())
    # before the solver, which may copy the drives that they take the place of
    actuators = Actuators(model, general_actuators(_alone(report)), dt, tendons=tendons)
    if issubclass(kind, MuJoCoSolver):
        options = {"gravcomp": report.gravcomp, "element_args": report.mujoco} | options
        return ActuatedSolver(kind(model, **options), actuators)
    made: Any = kind(model, **options)
    stages: list[Any] = [GravityCompensation(model, report.gravcomp)] if report.gravcomp else []
    if _has_medium(model):
        stages.append(Medium(model))
    if stages and hasattr(kind, "before_step"):
        made.before_step = (*made.before_step, *stages)
    return ActuatedSolver(made, actuators)


def _check_report(report: object) -> None:
    missing = [name for name in ("actuators", "gravcomp", "mujoco") if not hasattr(report, name)]
    if missing:
        what = "expected what an importer returns, such as parse_mjcf(...)"
        raise ModelError(f"report: {what}, got {report!r:.80}, which has no {missing[0]!r}")


def _alone(report: Imported) -> list[Entry]:
    """Actuators that have a joint axis for themselves, and a law."""
    own = [entry for entry in report.actuators if entry["tendon"] is None and entry["actuator"] is None]
    shares = Counter((entry["key"], entry["place"]) for entry in own)
    known = [entry for entry in own if entry["law"] is not None or entry["activation"] is not None]
    return [one for one in known if one["key"] is not None and shares[one["key"], one["place"]] == 1]


def _has_medium(model: Model) -> bool:
    return any(name in model.solver_hint for name in MEDIUM)


def _lacking(report: Imported, model: Model, solver: type[SolverBase]) -> list[str]:
    """What of a file a solver has no place for."""
    if issubclass(solver, MuJoCoSolver):
        return []
    found = []
    if not hasattr(solver, "before_step"):
        if report.gravcomp:
            found.append(f"gravity compensation of {len(report.gravcomp)} bodies")
        if _has_medium(model):
            found.append("the medium")
    if issubclass(solver, FeatherstoneSolver):
        found += [f"actuator {one}, which MuJoCoSolver has" for one in unmodelled_actuators(model)]
    elif model.actuator_count:
        found.append(f"{model.actuator_count} actuators of the model, which FeatherstoneSolver has")
    for element, entries in report.mujoco.items():
        names = ", ".join(sorted({name for one in entries.values() for name in one}))
        found.append(f"of {len(entries)} elements of kind {element} what MuJoCoSolver has: {names}")
    return [*found, *solver.ignored(model)]


class FileControls:
    """Writes MuJoCo's `ctrl` of a file, in its order, to the inputs of a model of `solver_from_report`.

    Each control is clamped to its range before those of one joint or tendon are summed, as in MuJoCo.

    Example:
        >>> from newtonsim import ModelBuilder
        >>> from newtonsim.importers import parse_mjcf
        >>> text = '''<mujoco><worldbody><body><joint name="j"/><geom size=".1"/></body></worldbody>
        ... <actuator><motor joint="j" gear="5" ctrlrange="-1 1"/><position joint="j" kp="20"/></actuator>
        ... </mujoco>'''
        >>> builder = ModelBuilder(up_vector=(0, 0, 1))
        >>> report = parse_mjcf(text, builder)
        >>> model = builder.finalize("cpu")
        >>> control = model.control()
        >>> FileControls(report, model).write(control, [3.0, 0.5])
        >>> round(float(control.joint_act.numpy()[0]), 3)  # the target of the servo with the motor's share
        0.75

    Args:
        report: See `solver_from_report`.
        model: The model.

    Attributes:
        count: How many actuators the file has; those of unknown kinds do nothing.

    Raises:
        ModelError: There are several things of the name of what an actuator acts on in a world; or report or
            model are none.
    """

    def __init__(self, report: Imported, model: Model):
        _check_report(report)
        check_model(model)
        self._model = model
        self._worlds, self.count = model.world_count, len(report.actuators)
        self._names = [entry["name"] for entry in report.actuators]
        direct = {id(entry) for entry in _alone(report)}
        self._maps: list[tuple[int, str, np.ndarray, float, float, tuple[float, float]]] = []
        for number, entry in enumerate(report.actuators):
            kind = next((kind for kind in ("actuator", "tendon", "axis") if entry[kind] is not None), None)
            if id(entry) in direct:
                kind = "axis"
            if kind is None:
                continue
            raw = id(entry) in direct or kind == "actuator"
            raw = raw or (kind == "tendon" and entry["activation"] is not None)
            scale, offset = (1.0, 0.0) if raw else (entry["scale"], entry["offset"])
            span = (-np.inf, np.inf) if raw or entry["ctrl_range"] is None else entry["ctrl_range"]
            places = self._places(kind, entry, model)
            self._maps.append((number, _INPUTS[kind], places, scale, offset, span))

    def _places(self, kind: str, entry: Entry, model: Model) -> np.ndarray:
        """Entries of an array of controls in all worlds, (world_count,)."""
        if kind != "axis":
            keys = model.tendon_key if kind == "tendon" else model.actuator_key
            found = np.array(match_labels(as_pattern(keys[entry[kind]]), keys, f"{kind}s"))
        else:
            starts = model.joint_axis_start.numpy()
            key, place = entry["key"], entry["place"]
            if place is None:  # a file that names axes by themselves
                joint = int(np.searchsorted(starts, entry["axis"], side="right")) - 1
                key, place = model.joint_key[joint], entry["axis"] - starts[joint]
            found = starts[match_labels(as_pattern(key), model.joint_key, "joints")] + place
        if len(found) != self._worlds:
            what = entry["target"][1] or entry["name"]
            raise ModelError(
                f"controls: {len(found)} elements have the name of what {what!r} names, in {self._worlds} "
                "worlds"
            )
        return found

    def write(self, control: Control, ctrl: Sequence[float] | np.ndarray) -> None:
        """Write controls.

        Args:
            control: Of the model, in place.
            ctrl: In the order of the file, of all worlds (count,) or of each (world_count, count).

        Raises:
            ModelError: The shape is another one, the control is of another model, or a number is not finite.
        """
        self._model.check_control(control)
        values = np.asarray(ctrl, dtype=np.float64)
        if values.shape not in ((self.count,), (self._worlds, self.count)):
            wanted = f"({self.count},) or ({self._worlds}, {self.count})"
            raise ModelError(f"ctrl: expected shape {wanted}, got {values.shape}")
        values = np.broadcast_to(values, (self._worlds, self.count))
        if not np.isfinite(values).all():
            world, number = np.argwhere(~np.isfinite(values))[0]
            name = f" {self._names[number]!r}" if self._names[number] else ""
            raise ModelError(f"ctrl: {values[world, number]} for actuator {number}{name} in world {world}")
        arrays = {name: getattr(control, name) for name in {array for _, array, *_ in self._maps}}
        inputs = {name: array.numpy().copy() for name, array in arrays.items()}
        for _, name, places, *_ in self._maps:
            inputs[name][places] = 0.0
        for number, name, places, scale, offset, span in self._maps:
            inputs[name][places] += scale * np.clip(values[:, number], *span) + offset
        for name, array in arrays.items():
            array.assign(inputs[name])
