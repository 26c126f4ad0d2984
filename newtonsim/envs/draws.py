"""Fields of the model that differ between worlds: what is drawn, from which distribution, and when."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from newtonsim.collision.plan import PLAN
from newtonsim.envs.values import is_number
from newtonsim.errors import NewtonsimError, did_you_mean
from newtonsim.fields.presence import check_trees, roots_of_bodies
from newtonsim.fields.table import FieldSpec, find_field
from newtonsim.fields.updates import check_changeable, follow
from newtonsim.fields.view import View
from newtonsim.kernels.envs import draws as draw_kernels
from newtonsim.scene.allocation import put, zeros

if TYPE_CHECKING:
    from newtonsim.fields.field import Field
    from newtonsim.kernels.envs.views import EnvView
    from newtonsim.runtime.launcher import Launcher
    from newtonsim.scene.model import Model

_CHOICES = {
    "distribution": {"uniform": 0, "log-uniform": 1, "normal": 2, "count": 3},
    "how": {"scale": 0, "add": 1, "set": 2},
    "each": {"number": 0, "element": 1, "world": 2},
    "when": {"start": 0, "reset": 1, "interval": 2},
}
_POSES = ("X_p", "X_c", "transform")
_CUT = float(draw_kernels.CUT)


@dataclass(frozen=True)
class Draw:
    """How the values of a field of the model are drawn in each world.

    Attributes:
        range: Smallest and largest number; for a normal distribution, which is truncated at three standard
            deviations, its mean and standard deviation. Each is a number, or one for each component of a
            vector.
        distribution: "uniform", "log-uniform" or "normal"; "count", for "bodies.present" only: the range is
            that of the number of bodies, or of trees, that are present in a world; which ones is random.
        how: "scale" multiplies the model's initial value, "add" adds to it, "set" replaces it.
        select: Elements, by a pattern of their labels, see `newtonsim.View`.
        each: What gets its own number: each "number" (component of an element), each "element", or each
            "world". None for "element" with factors, and "number" otherwise.
        when: "start" for once after seeding, "reset" for each episode, "interval" for each episode and again
            every `seconds` within it.
        seconds: Time between two draws at intervals [s].

    Raises:
        NewtonsimError: A value is none of these, or the range is empty.
    """

    range: tuple[Any, Any]
    distribution: str = "uniform"
    how: str = "scale"
    select: str = "*"
    each: str | None = None
    when: str = "reset"
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "each" and value is None):
                raise NewtonsimError(f"{name}: expected one of {sorted(choices)}, got {value!r}")
        low, high = self.bounds()
        if self.distribution == "normal":
            if np.any(high < 0.0):
                raise NewtonsimError(
                    f"range: expected a standard deviation of at least 0, got {self.range!r}"
                )
        elif np.any(low > high):
            raise NewtonsimError(f"range: expected (low, high), got {self.range!r}")
        if self.distribution == "log-uniform" and np.any(low <= 0.0):
            raise NewtonsimError(f"range: expected positive numbers for 'log-uniform', got {self.range!r}")
        if not is_number(self.seconds) or not 0.0 <= self.seconds < math.inf:
            raise NewtonsimError(f"seconds: expected a time of at least 0, got {self.seconds!r}")
        if self.when == "interval" and self.seconds == 0.0:
            raise NewtonsimError("seconds: expected the time between draws for when='interval', got 0")
        if self.when != "interval" and self.seconds > 0.0:
            raise NewtonsimError(
                f"seconds: used only with when='interval', got {self.seconds!r} and {self.when!r}"
            )

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Both numbers of the range, or vectors.

        Raises:
            NewtonsimError: They are not finite numbers.
        """
        try:
            low, high = (np.asarray(end, np.float64) for end in self.range)
        except (TypeError, ValueError):
            raise NewtonsimError(f"range: expected two numbers or vectors, got {self.range!r}") from None
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and low.ndim < 2 and high.ndim < 2):
            raise NewtonsimError(f"range: expected two finite numbers or vectors, got {self.range!r}")
        return low, high

    def reach(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest number that can be drawn."""
        low, high = self.bounds()
        return (low - _CUT * high, low + _CUT * high) if self.distribution == "normal" else (low, high)


def read_draws(name: str, given: object) -> list[Draw]:
    """Read the draws of a field: a range, a `Draw`, a dict of its fields, or a list of these.

    Raises:
        NewtonsimError: It is something else; the error begins with the name.
    """
    several = isinstance(given, list) and any(isinstance(one, Draw | Mapping) for one in given)
    found = []
    for one in given if several else [given]:
        try:
            if isinstance(one, Draw):
                found.append(one)
            elif isinstance(one, Mapping):
                found.append(_read_dict(one))
            elif isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 2:
                found.append(Draw((one[0], one[1])))
            else:
                raise NewtonsimError(
                    f"expected a range (low, high), a Draw or a dict of its fields, got {one!r}"
                )
        except NewtonsimError as error:
            raise NewtonsimError(f"{name}: {error}") from None
    return found


def _read_dict(given: Mapping[str, Any]) -> Draw:
    known = [field.name for field in dataclasses.fields(Draw)]
    for key in given:
        if key not in known:
            raise NewtonsimError(f"there is no {key!r}{did_you_mean(key, known)}; there are {known}")
    if "range" not in given:
        raise NewtonsimError(f"range: missing in {dict(given)!r}")
    return Draw(**given)


class FieldDraws:
    """Draws for fields of the worlds of a model; the initial values are the nominal ones.

    Args:
        draws: Draws by name of the field.
        model: The model, whose arrays are written.
        control_dt: Time of a step of the environment [s].

    Raises:
        NewtonsimError: A field cannot be drawn, or values that can be drawn are invalid for it.
    """

    def __init__(self, draws: Mapping[str, Sequence[Draw]], model: Model, control_dt: float):
        self._model = model
        named = [(find_field(name), draw) for name, several in draws.items() for draw in several]
        self._views = [
            _view_of(model, spec, draw, number, control_dt) for number, (spec, draw) in enumerate(named)
        ]
        _check_limits(model, named)
        self._attributes = [spec.attribute for spec, _ in named]
        self._counts = [draw.distribution == "count" for _, draw in named]
        # what follows outside the model belongs to checkpoints too
        plan = model.kept(PLAN) if "shape_geo.scale" in self._attributes else None
        self._boxes = None if plan is None else (plan.shape.local_lower, plan.shape.local_upper)
        self._due = zeros(model.world_count, dtype=bool, device=model.device)

    def launch_draw(self, launch: Launcher, env: EnvView, mask: wp.array) -> None:
        """Draw the fields that change at the start of an episode of the masked worlds."""
        self._launch(launch, env, mask, range(len(self._views)))

    def launch_intervals(self, launch: Launcher, env: EnvView) -> None:
        """Draw the fields that are due in a step, before it."""
        for number, view in enumerate(self._views):
            if view.every:
                launch(
                    draw_kernels.mark_due,
                    "world",
                    reads=dict(env=env, every=view.every),
                    writes=dict(due=self._due),
                )
                self._launch(launch, env, self._due, [number])

    def _launch(self, launch: Launcher, env: EnvView, mask: wp.array, numbers: Sequence[int]) -> None:
        for number in numbers:
            reads, view = dict(env=env, mask=mask), self._views[number]
            if self._counts[number]:
                present = dict(present=self._model.body_present)
                launch(draw_kernels.draw_present, "world", reads=dict(**reads, draw=view), writes=present)
            else:
                launch(draw_kernels.draw_field, "world", reads=reads, writes=dict(draw=view))
        for attribute in dict.fromkeys(self._attributes[number] for number in numbers):
            follow(self._model, attribute, launch, mask)


def _check_limits(model: Model, named: Sequence[tuple[FieldSpec, Draw]]) -> None:
    """Refuse draws that could put the lower limit of a joint axis above the upper one.

    Raises:
        NewtonsimError: They could; the error names the axis.
    """
    highest, lowest = model.joint_limit_lower.numpy().copy(), model.joint_limit_upper.numpy().copy()
    for spec, draw in named:
        if spec.name not in ("joints.limit_lower", "joints.limit_upper"):
            continue
        field = View(model, draw.select).field(spec.name)
        results = np.stack([_applied(draw, np.array(field.numpy(), np.float64), e) for e in draw.reach()])
        if spec.key == "limit_lower":
            highest[field.entries] = results.max(axis=0)
        else:
            lowest[field.entries] = results.min(axis=0)
        crossed = (highest > lowest)[field.entries]
        if crossed.any():
            at = np.unravel_index(int(np.argmax(crossed)), crossed.shape)
            axis = field.entries[at]
            raise NewtonsimError(
                f"{spec.name} of {field.names[at[1]]!r}: the lower limit could become {highest[axis]:g}, "
                f"above an upper one of {lowest[axis]:g}"
            )


def _applied(draw: Draw, nominal: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return values after a drawn number is applied."""
    change = {"scale": np.multiply, "add": np.add, "set": lambda _, new: new}[draw.how]
    return np.broadcast_to(change(nominal, number), nominal.shape)


def _view_of(
    model: Model, spec: FieldSpec, draw: Draw, number: int, control_dt: float
) -> draw_kernels.DrawView:
    """Return what kernels need to know of a draw."""
    if spec.owner != "model":
        raise NewtonsimError(f"{spec.name}: is set at the start of an episode by the task: see spawn")
    if spec.key in _POSES or spec.key == "enabled":
        raise NewtonsimError(f"{spec.name}: cannot be drawn, it is not a plain number")
    field = View(model, draw.select if spec.group else "*").field(spec.name)
    if (draw.distribution == "count") != (spec.name == "bodies.present"):
        raise NewtonsimError(
            f"{spec.name}: distribution='count' is for bodies.present only, which allows no other"
        )
    if draw.distribution == "count":
        return _count_view(model, spec, draw, field, number, control_dt)
    nominal = np.array(field.numpy(), np.float64)
    check_changeable(model, spec, field.entries)
    low, high = _components(spec, draw, field)
    _check_reach(spec, draw, field, nominal)
    device = model.device
    view = draw_kernels.DrawView()
    view.index = put(field.entries, dtype=int, device=device)
    view.low, view.high = put(low, dtype=float, device=device), put(high, dtype=float, device=device)
    view.nominal = put(nominal.reshape(-1), dtype=float, device=device)
    view.target = field.memory
    each = draw.each or ("element" if draw.how == "scale" else "number")
    view.distribution, view.how = _CHOICES["distribution"][draw.distribution], _CHOICES["how"][draw.how]
    view.each = _CHOICES["each"][each]
    _set_times(view, draw, number, control_dt)
    return view


def _set_times(view: draw_kernels.DrawView, draw: Draw, number: int, control_dt: float) -> None:
    """Set when it is drawn, and from which random numbers."""
    view.when = _CHOICES["when"][draw.when]
    view.every = max(1, round(draw.seconds / control_dt)) if draw.when == "interval" else 0
    view.stream = number


def _count_view(
    model: Model, spec: FieldSpec, draw: Draw, field: Field, number: int, control_dt: float
) -> draw_kernels.DrawView:
    """Return what kernels need to know of the number of trees that are present."""
    check_trees(model, field.entries, np.ones(field.entries.shape, int))
    roots = roots_of_bodies(model)[field.entries]
    trees = roots[roots == field.entries].reshape(len(roots), -1)
    low, high = draw.range
    whole = all(is_number(end) and end == int(end) for end in (low, high))
    if not (whole and 0 <= low <= high <= trees.shape[1]):
        raise NewtonsimError(
            f"{spec.name}: range: expected whole numbers (low, high) from 0 to {trees.shape[1]}, "
            f"got {draw.range!r}"
        )
    check_changeable(model, spec, field.entries)
    view = draw_kernels.DrawView()
    view.index = put(trees, dtype=int, device=model.device)
    view.low, view.high = (put([end], dtype=float, device=model.device) for end in (low, high))
    _set_times(view, draw, number, control_dt)
    return view


def _components(spec: FieldSpec, draw: Draw, field: Field) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of each component."""
    width = field.entry_size
    if spec.name == "gravity" and draw.how == "set" and not any(map(np.ndim, draw.range)):
        raise NewtonsimError(f"gravity: range: expected vectors to set it to, got {draw.range!r}")
    try:
        low, high = (np.broadcast_to(end, width) for end in draw.bounds())
    except ValueError:
        raise NewtonsimError(
            f"{spec.name}: range: expected numbers or {width} components each, got {draw.range!r}"
        ) from None
    return np.array(low), np.array(high)


def _check_reach(spec: FieldSpec, draw: Draw, field: Field, nominal: np.ndarray) -> None:
    """Refuse draws that can give invalid values, before the first step."""
    if spec.key == "inertia" and (draw.how != "scale" or draw.each == "number"):
        raise NewtonsimError(
            f"{spec.name}: can only be scaled as a whole; got how={draw.how!r}, each={draw.each!r}"
        )
    if draw.how == "scale" and not nominal.any():
        raise NewtonsimError(f"{spec.name}: is 0, which no factor changes: choose how='set' or how='add'")
    ends = [np.broadcast_to(end, nominal.shape[-1:]) if np.ndim(end) else end for end in draw.reach()]
    results = np.stack([_applied(draw, nominal, end) for end in ends])
    low, high = results.min(axis=0), results.max(axis=0)
    if spec.key == "inertia":
        wrong = np.broadcast_to(np.asarray(draw.reach()[0]) <= 0.0, nominal.shape)
    else:
        floor = low < spec.least
        if spec.positive or spec.stays_positive:
            floor = (low <= spec.least) & (nominal != 0.0)
        wrong = floor | (high > spec.most)
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        of = f" of {field.names[at[1]]!r}" if field.names else ""
        raise NewtonsimError(
            f"{spec.name}{of} could become {low[at]:g} to {high[at]:g}, expected {spec.allowed()}: "
            f"it is {nominal[at]:g}, and {draw.how} by {draw.distribution} {draw.range!r}"
        )
