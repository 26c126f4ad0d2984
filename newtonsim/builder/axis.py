"""One axis of a joint."""

import math
from collections.abc import Sequence

import numpy.typing as npt

from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import as_vector, warp_vector
from newtonsim.scene.arrays import SOLIMP
from newtonsim.scene.enums import JOINT_MODE_FORCE, JointMode


def _solimp(given: Sequence[float]) -> tuple[float, ...]:
    return SOLIMP if given is SOLIMP else tuple(map(float, given))


class JointAxis:
    """One axis of a joint, with its limits, drive and passive forces.

    Attributes:
        axis: Unit vector in the joint frame (3,).
        limit_lower: Lower limit [rad or m].
        limit_upper: Upper limit [rad or m].
        limit_ke: Stiffness of the limits [N m/rad or N/m].
        limit_kd: Damping of the limits [N m s/rad or N s/m].
        action: Initial control input; None means 0, clamped to the limits if it is a target position.
        target_ke: Gain of the drive. FORCE: not used. TARGET_POSITION: stiffness [N m/rad or N/m] of the
            effort ke (target - q) - kd qd. TARGET_VELOCITY: gain [N m s/rad or N s/m] of ke (target - qd).
        target_kd: Damping of the drive [N m s/rad or N s/m] in TARGET_POSITION; other modes do not use it.
        mode: What the control input means, see JointMode: an effort [N m or N], a target position [rad or m]
            or a target velocity [rad/s or m/s].
        damping: Passive damping [N m s/rad or N s/m].
        stiffness: Passive spring [N m/rad or N/m].
        spring_ref: Rest position of that spring [rad or m].
        friction: Dry friction [N m or N].
        effort_limit: Largest effort of the drive [N m or N], not negative.
        effort_lower: Its least effort [N m or N], not positive; minus infinity for minus `effort_limit`.
        velocity_limit: Largest velocity [rad/s or m/s].
        limit_solref: Time constant [s] and damping ratio of the limits, or minus stiffness and minus damping,
            as MuJoCo's solref; None for the solver's own stiffness.
        limit_solimp: Impedance at the limit, impedance beyond the width, width [rad or m], midpoint and
            power, as MuJoCo's solimp; used only with `limit_solref`.
        limit_margin: Distance at which the limits begin to act [rad or m]; used only with `limit_solref`.
        friction_solref: Softness of dry friction, as `limit_solref`; None for Coulomb friction.
        friction_solimp: Likewise, as `limit_solimp`.
        armature: Rotor inertia [kg m^2 or kg]; None for that of the joint.
    """

    def __init__(
        self,
        axis: "JointAxis | npt.ArrayLike",
        limit_lower: float = -math.inf,
        limit_upper: float = math.inf,
        limit_ke: float = 100.0,
        limit_kd: float = 10.0,
        action: float | None = None,
        target_ke: float = 0.0,
        target_kd: float = 0.0,
        mode: int = JOINT_MODE_FORCE,
        *,
        damping: float = 0.0,
        stiffness: float = 0.0,
        spring_ref: float = 0.0,
        friction: float = 0.0,
        effort_limit: float = math.inf,
        effort_lower: float = -math.inf,
        velocity_limit: float = math.inf,
        armature: float | None = None,
        limit_solref: Sequence[float] | None = None,
        limit_solimp: Sequence[float] = SOLIMP,
        limit_margin: float = 0.0,
        friction_solref: Sequence[float] | None = None,
        friction_solimp: Sequence[float] = SOLIMP,
    ):
        if isinstance(axis, JointAxis):
            self.__dict__.update(axis.__dict__)
            return
        vector = as_vector(axis, 3, "joint axis")
        norm = math.sqrt(vector @ vector)
        if not norm > 1e-12:
            raise ModelError(f"joint axis {vector.tolist()} has no direction")
        self.axis = warp_vector(vector / norm)
        self.limit_lower, self.limit_upper = limit_lower, limit_upper
        self.limit_ke, self.limit_kd = limit_ke, limit_kd
        self.target_ke, self.target_kd = target_ke, target_kd
        try:
            self.mode = mode if type(mode) is JointMode else JointMode(mode)  # a call of an enum is slow
        except ValueError as error:
            raise ModelError(f"joint axis: mode {mode!r} is not a JointMode") from error
        self.damping, self.stiffness, self.spring_ref, self.friction = (
            damping,
            stiffness,
            spring_ref,
            friction,
        )
        self.effort_limit, self.effort_lower = effort_limit, effort_lower
        self.velocity_limit, self.armature = velocity_limit, armature
        self.limit_solref = None if limit_solref is None else tuple(map(float, limit_solref))
        self.limit_solimp, self.limit_margin = _solimp(limit_solimp), limit_margin
        self.friction_solref = None if friction_solref is None else tuple(map(float, friction_solref))
        self.friction_solimp = _solimp(friction_solimp)
        if action is not None:
            self.action = action
        elif mode == JointMode.TARGET_POSITION:
            self.action = min(max(0.0, limit_lower), limit_upper)
        else:
            self.action = 0.0

    def __repr__(self) -> str:
        return f"JointAxis({tuple(self.axis)}, {self.limit_lower}..{self.limit_upper}, {self.mode.name})"
