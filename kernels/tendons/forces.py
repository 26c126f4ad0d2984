"""Forces of tendons: springs with a range of rest lengths, damping, drives.

A tendon pulls with the force f = -k (l - l0) - b l' + drive, positive along a growing length; l0 is the
nearer end of the range of rest lengths, and there is no spring inside it. A muscle takes the place of the
drive, see `muscles`. The generalised force is J f. The forces here are those at the start of the step.
Springs, damping and servos that have a row are left out: it applies their forces at the end of the step, see
`rows`. The row of a muscle adds what its force changes within the step.

Source: MuJoCo's documentation, "Computation", section "Passive forces", and "XML reference", element tendon.

Stage: forces at the start of a step, of tendons
Called by: solvers/tendons.py, kernels/tendons/rows.py
Reads: TendonDrive, TendonMotion, TendonView, act, force, joint_f, weight
Writes: added, force, total, weight
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.tendons import muscles
from newtonsim.kernels.tendons.paths import TendonMotion, TendonView
from newtonsim.kernels.views.model import MODE_FORCE, MODE_POSITION

# code for the backward pass is compiled when it is needed, see newtonsim.runtime.compilation
wp.set_module_options({"enable_backward": False, "max_unroll": 0})
DIFFERENTIABLE = True


@wp.struct
class TendonDrive:
    """Springs and drives of T tendons."""

    stiffness: wp.array(dtype=float)  # (T)
    damping: wp.array(dtype=float)  # (T)
    spring_lower: wp.array(dtype=float)  # (T) range of rest lengths
    spring_upper: wp.array(dtype=float)  # (T)
    mode: wp.array(dtype=int)  # (T) as that of a joint axis
    target_ke: wp.array(dtype=float)  # (T)
    target_kd: wp.array(dtype=float)  # (T)
    effort_limit: wp.array(dtype=float)  # (T)
    muscle: wp.array2d(dtype=float)  # (T, 13) see `Model.tendon_muscle`; a vmax of 0 is none
    passive_row: wp.array(dtype=int)  # (T) 1 if spring, damping and armature are a row
    servo_row: wp.array(dtype=int)  # (T) 1 if the drive is a row while it is a servo
    muscle_row: wp.array(dtype=int)  # (T) 1 if what the force of a muscle changes is a row


@wp.func
def is_servo(t: int, drive: TendonDrive) -> bool:
    """Whether the drive of tendon t follows a length or a rate."""
    return drive.mode[t] != MODE_FORCE and drive.muscle[t, muscles.VMAX] <= 0.0


@wp.func
def spring_stretch(t: int, length: float, drive: TendonDrive) -> float:
    """How far a length is beyond the range of rest lengths; negative below it."""
    return wp.max(length - drive.spring_upper[t], 0.0) + wp.min(length - drive.spring_lower[t], 0.0)


@wp.func
def drive_force(t: int, act: float, length: float, rate: float, drive: TendonDrive) -> float:
    """Force of the drive of tendon t."""
    force = act
    if drive.muscle[t, muscles.VMAX] > 0.0:
        force = muscles.muscle_force(t, act, length, rate, drive.muscle)
    elif drive.mode[t] == MODE_POSITION:
        force = drive.target_ke[t] * (act - length) - drive.target_kd[t] * rate
    elif drive.mode[t] != MODE_FORCE:
        force = drive.target_ke[t] * (act - rate)
    return wp.clamp(force, -drive.effort_limit[t], drive.effort_limit[t])


@wp.func
def muscle_slopes(t: int, act: float, length: float, rate: float, drive: TendonDrive) -> wp.vec2:
    """Damping and stiffness of the muscle of tendon t; none at its largest effort or where they push."""
    slopes = wp.vec2(0.0, 0.0)
    if drive.muscle[t, muscles.VMAX] > 0.0:
        if wp.abs(drive_force(t, act, length, rate, drive)) < drive.effort_limit[t]:
            damping = muscles.damping_of(t, act, length, rate, drive.muscle)
            stiffness = muscles.stiffness_of(t, act, length, rate, drive.muscle)
            slopes = wp.vec2(wp.max(damping, 0.0), wp.max(stiffness, 0.0))
    return slopes


@wp.kernel
def weigh_tendons(
    first: int,
    drive: TendonDrive,
    motion: TendonMotion,
    act: wp.array(dtype=float),
    dt: float,
    weight: wp.array(dtype=float),
):
    """One thread per tendon: what rows of springs, damping and servos within bounds add to its inertia."""
    t = first + wp.tid()
    length = motion.length[t]
    total = float(0.0)
    if drive.passive_row[t] == 1:
        total += dt * drive.damping[t]
        if spring_stretch(t, length, drive) != 0.0:
            total += dt * dt * drive.stiffness[t]
    if drive.servo_row[t] == 1 and is_servo(t, drive):
        if wp.abs(drive_force(t, act[t], length, motion.rate[t], drive)) < drive.effort_limit[t]:
            if drive.mode[t] == MODE_POSITION:
                total += dt * (drive.target_kd[t] + dt * drive.target_ke[t])
            else:
                total += dt * drive.target_ke[t]
    if drive.muscle_row[t] == 1:
        slopes = muscle_slopes(t, act[t], length, motion.rate[t], drive)
        total += dt * (slopes[0] + dt * slopes[1])
    weight[t] = total


@wp.kernel
def add_up_weights(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    weight: wp.array(dtype=float),
    added: wp.array(dtype=float),
):
    """One thread per dof: what implicit forces of tendons add to its own inertia."""
    d = first + wp.tid()
    sum = float(0.0)
    for k in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[k]
        sum += motion.J[e] * motion.J[e] * weight[tendon.entry_tendon[e]]
    added[d] = sum


@wp.kernel
def pull_tendons(
    first: int,
    drive: TendonDrive,
    motion: TendonMotion,
    act: wp.array(dtype=float),
    force: wp.array(dtype=float),
):
    """One thread per tendon: its force, but for what a row applies."""
    t = first + wp.tid()
    length = motion.length[t]
    rate = motion.rate[t]
    total = float(0.0)
    if drive.passive_row[t] == 0:
        total -= drive.stiffness[t] * spring_stretch(t, length, drive) + drive.damping[t] * rate
    if drive.servo_row[t] == 0 or not is_servo(t, drive):
        total += drive_force(t, act[t], length, rate, drive)
    force[t] = total


@wp.kernel
def add_tendon_forces(
    first: int,
    tendon: TendonView,
    motion: TendonMotion,
    force: wp.array(dtype=float),
    joint_f: wp.array(dtype=float),
    total: wp.array(dtype=float),
):
    """One thread per dof: the generalised force of all tendons, added to the others."""
    d = first + wp.tid()
    sum = float(0.0) + joint_f[d]
    for k in range(tendon.dof_start[d], tendon.dof_start[d + 1]):
        e = tendon.dof_entry[k]
        sum += motion.J[e] * force[tendon.entry_tendon[e]]
    total[d] = sum
