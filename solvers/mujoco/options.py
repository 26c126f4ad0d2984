"""Options of the conversion to MuJoCo, with their valid ranges."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from newtonsim.errors import NewtonsimError
from newtonsim.solvers.gravity_shares import Shares

_WHOLE = {"iterations": 1, "ls_iterations": 1, "nefc_per_env": 1, "ncon_per_env": 1, "disableflags": 0}
"""Options that are whole numbers, with the smallest valid value of each."""

_POSITIVE = ("impratio", "timestep", "joint_limit_threshold")
_NOT_NEGATIVE = ("tolerance", "ls_tolerance", "default_joint_damping")
_LENGTHS = {"geom_solref": 2, "geom_solimp": 5, "geom_friction": 3}
_TRUTHS = ("separate_envs_to_worlds", "register_collision_groups", "skip_visual_only_geoms", "add_axes")
_CONDIMS = (1, 3, 4, 6)


ElementArgs = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""By kind of element and its index the attributes, by their names in MjSpec."""


@dataclass
class MujocoOptions:
    """Options of a conversion, see `MuJoCoSolver.convert_to_mjc`.

    Attributes:
        separate_envs_to_worlds: Whether each world becomes a world of MuJoCo's; if not, one contains them
            all.
        iterations: Iterations of the constraint solver.
        ls_iterations: Iterations of its line search.
        nefc_per_env: Capacity for constraint rows of each world of mujoco_warp.
        ncon_per_env: Capacity for contacts of each world; None to leave it to mujoco_warp.
        solver: "cg", "newton" or "pgs" (MuJoCo only), or MuJoCo's number for it.
        integrator: "euler", "rk4", "implicit" or "implicitfast", or MuJoCo's number for it.
        disableflags: Bits of MuJoCo's mjtDisableBit.
        impratio: Ratio of frictional to normal impedance.
        tolerance: Tolerance of the constraint solver.
        ls_tolerance: Tolerance of its line search.
        timestep: Time step before the first step sets its own [s].
        cone: Friction cone: 0 or "pyramidal", 1 or "elliptic".
        is_sparse: Whether matrices are sparse; None to leave it to MuJoCo.
        register_collision_groups: Whether collision groups, flags and filter pairs of the model are used; if
            not, all shapes collide except those of neighbours in the tree.
        joint_limit_threshold: Size from which a joint limit is ignored [rad or m].
        default_joint_damping: Damping of joint axes for which the model has none [N m s/rad or N s/m].
        geom_solref: Time constant [s] and damping ratio of contacts.
        geom_solimp: Impedance of contacts.
        geom_friction: Factor on the shapes' coefficients of friction; torsional and rolling coefficients [m]
            of shapes that have none, also not in `shape_spin_friction`, as an MJCF file fills it.
        geom_condim: Dimensions of contacts: 1, 3, 4 or 6; 1 for shapes without friction, higher for those
            with torsional or rolling friction.
        default_actuator_args: Further attributes of every actuator, by their names in MjSpec.
        default_actuator_gear: Transmission ratio of drives; None for 1.
        actuator_gears: Transmission ratios by name of the joint.
        actuated_axes: Joint axes that become actuators; None for all.
        gravcomp: Shares of their weight that bodies are relieved of, by body, each with the point of
            application in the body frame [m], which has to be the centre of mass: `ImportReport.gravcomp`.
        element_args: Attributes that elements of the model have in MjSpec besides those that it gives them:
            for "joint" by its first degree of freedom or, if it has axes, by that of the axis, for "tendon"
            by tendon and for "geom" by shape: `ImportReport.mujoco`.
        skip_visual_only_geoms: Whether shapes that collide with nothing are left out.
        add_axes: Whether the world's axes are drawn, as sites.
    """

    separate_envs_to_worlds: bool = True
    iterations: int = 20
    ls_iterations: int = 10
    nefc_per_env: int = 100
    ncon_per_env: int | None = None
    solver: int | str = "cg"
    integrator: int | str = "euler"
    disableflags: int = 0
    impratio: float = 1.0
    tolerance: float = 1e-8
    ls_tolerance: float = 0.01
    timestep: float = 0.01
    cone: int | str = 0
    is_sparse: bool | None = None
    register_collision_groups: bool = True
    joint_limit_threshold: float = 1e3
    default_joint_damping: float = 0.0
    geom_solref: Sequence[float] = (0.02, 1.0)
    geom_solimp: Sequence[float] = (0.9, 0.95, 0.001, 0.5, 2.0)
    geom_friction: Sequence[float] = (1.0, 0.05, 0.05)
    geom_condim: int = 3
    default_actuator_args: Mapping[str, Any] | None = None
    default_actuator_gear: float | None = None
    actuator_gears: Mapping[str, float] | None = None
    actuated_axes: Collection[int] | None = None
    gravcomp: Shares | None = None
    element_args: ElementArgs | None = None
    skip_visual_only_geoms: bool = True
    add_axes: bool = True

    def __post_init__(self):
        for name, least in _WHOLE.items():
            value: Any = getattr(self, name)
            if value is None and name == "ncon_per_env":
                continue
            if not _is(value, Integral) or value < least:
                raise NewtonsimError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        for name in (*_POSITIVE, *_NOT_NEGATIVE):
            value = getattr(self, name)
            if not _is_number(value) or value < 0.0 or (value == 0.0 and name in _POSITIVE):
                kind = "positive number" if name in _POSITIVE else "number of at least 0"
                raise NewtonsimError(f"{name}: expected a {kind}, got {value!r}")
        for name, count in _LENGTHS.items():
            values = getattr(self, name)
            is_list = isinstance(values, Sequence | np.ndarray) and len(values) == count
            if not is_list or not all(map(_is_number, values)):
                raise NewtonsimError(f"{name}: expected {count} numbers, got {values!r}")
        for name in _TRUTHS:
            if not isinstance(getattr(self, name), bool):
                raise NewtonsimError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.geom_condim not in _CONDIMS:
            raise NewtonsimError(f"geom_condim: expected one of {_CONDIMS}, got {self.geom_condim!r}")
        gears = {"default_actuator_gear": self.default_actuator_gear, **(self.actuator_gears or {})}
        for name, value in gears.items():
            if value is not None and not _is_number(value):
                raise NewtonsimError(f"gear of {name!r}: expected a number, got {value!r}")


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is(value, Real) and math.isfinite(value)
