"""Options of the constraint solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import warp as wp

from newtonsim.errors import NewtonsimError
from newtonsim.kernels.constraints.dof_rows import ConstraintSettings
from newtonsim.kernels.constraints.solve.solve import SolveOptions
from newtonsim.scene.revisions import Revised
from newtonsim.solvers.option_ranges import check_counts, check_not_negative, check_shares, check_words

_COMBINES = ("mean", "product", "max")
_SOFTNESSES = ("rigid", "material", "shape")
_REFERENCES = ("start", "end")
_CHOICES = {
    "cone": ("elliptic", "pyramidal", "weighted"),
    "contact_softness": _SOFTNESSES,
    "friction_combine": _COMBINES,
    "restitution_combine": _COMBINES[:2],
    "references": _REFERENCES,
}
_SHARES = ("contact_erp", "limit_erp", "loop_erp", "warm_start")
_NOT_NEGATIVE = (
    "contact_cfm",
    "contact_slop",
    "contact_skin",
    "max_push_speed",
    "restitution_speed",
    "limit_cfm",
    "max_limit_speed",
    "limit_margin",
    "warm_start",
    "smoothing",
)
# minimal sweeps and tolerance for softened rows: the derivative of a step that ends short of their solution
# differs from that of the solution
_SMOOTH_SWEEPS, _SMOOTH_TOLERANCE = 200, 1.0e-7
# an island of a robot that Newton's method solves costs as much as 90 sweeps; where a launch waits for its
# slowest world, sweeps that Newton's method follows after all are dearer than on a CPU
_CPU_SWEEPS, GPU_SWEEPS = 96, 16


@dataclass
class ConstraintOptions(Revised):
    """Stiffness, damping and accuracy of the constraint solve.

    Attributes:
        iterations: Most Gauss-Seidel sweeps in a step; after ten, Newton's method takes over where so many
            will not do. The default is that of a CPU; `FeatherstoneSolver` has 16 on a GPU.
        tolerance: The solve ends when no row's velocity changes by more in a sweep [m/s or rad/s].
        factorizations: Most factorizations of Newton's method for an island in a step; 0 for sweeps alone.
        direct_cost: Largest factorization, as Σ n l² over the columns of the matrix in blocks, n wide and l
            long, about twice its multiplications; islands of bodies that would take more are left to the
            sweeps; 0 for sweeps alone.
        cone: "elliptic" or "pyramidal" friction cone; or "weighted" for one of the size of the elliptic cone,
            in which friction does not oppose the slip, but leans to the tangent along which the bodies are
            heavier, as under Gauss-Seidel methods that divide each tangential row by its own Delassus number
            (PyBullet's).
        contact_softness: "rigid" for contacts with the four numbers that follow; "material" for springs and
            dampers with the mean ke and kd of both materials, which act at the end of the step and are stable
            at any value. With n contacts, a body of weight G sinks in by G / (n ke). "shape" for springs and
            dampers only where a shape has ke > 0: those of one shape, or of both in series with the sum of
            their kd; all other contacts are rigid.
        friction_combine: "mean" or "product" of both shapes' friction coefficients, or their "max", as MuJoCo
            has it. With "product" torsional and rolling friction of each shape are multiplied by the friction
            coefficient of the other one and added up; else they are combined as the coefficients are.
        restitution_combine: "mean" or "product" of both shapes' restitution.
        contact_erp: Share of a penetration that one step removes.
        contact_cfm: Softness of contacts, added to the Delassus diagonal [1/kg].
        contact_slop: Penetration that is tolerated [m].
        contact_skin: Gap below which a contact counts as closed [m].
        max_push_speed: Fastest removal of penetration [m/s].
        recovery_time: Shortest time constant of removing penetrations and violated limits [s]; where the ERP
            asks for more, as at small steps, the removal would kick bodies apart.
        restitution_speed: Slowest approach that bounces [m/s].
        limit_erp: Share of a joint limit's violation that one step removes.
        limit_cfm: Softness of joint limits.
        max_limit_speed: Fastest removal of a joint limit's violation or a loop's error [rad/s or m/s].
        limit_margin: Distance to a joint limit at which its row exists [rad or m].
        loop_erp: Share of the error of loop joints and couplings that one step removes.
        warm_start: Share of the last step's impulses to start from.
        smoothing: Width [m] over which rigid contacts and the limits of joint axes are softened, for
            gradients; 0 for rigid ones, 5e-3 for robots of half a metre. Under its weight at 9.81 m/s², a
            body sinks in by this width, and by less if several contacts bear it. Contacts that would stick
            creep, at 12 times the width per second at half of the friction bound; see
            `kernels.constraints.smoothing`. Softened contacts have neither slop nor skin, and restitution is
            not read, as for compliant contact. Contacts with springs of their materials keep these. Steps
            with softened contacts are solved with at least 200 iterations and a tolerance of 1e-7.
        references: When rows with solref and solimp take the velocity and position that their spring and
            damper answer to: at the "start" of a step, as MuJoCo's integrators Euler and implicitfast do,
            with time constants of at least two steps; or at its "end", as its integrator discrete does,
            stable at any time constant, of limits and contacts with springs that take at least a step to
            close a gap. With "end", muscles of tendons pull as they do at the end of the step, too,
            linearised, by a row for each of them.
    """

    iterations: int = _CPU_SWEEPS
    tolerance: float = 1.0e-5
    factorizations: int = 60
    direct_cost: float = 1.0e9
    cone: str = "elliptic"
    contact_softness: str = "rigid"
    friction_combine: str = "mean"
    restitution_combine: str = "mean"
    contact_erp: float = 0.2
    contact_cfm: float = 0.0
    contact_slop: float = 1.0e-4
    contact_skin: float = 5.0e-5
    max_push_speed: float = 1.0
    recovery_time: float = 0.028
    restitution_speed: float = 0.1
    limit_erp: float = 0.2
    limit_cfm: float = 0.0
    max_limit_speed: float = 5.0
    limit_margin: float = 0.05
    loop_erp: float = 0.5
    warm_start: float = 1.0
    smoothing: float = 0.0
    references: str = "start"

    def __post_init__(self) -> None:
        self.check()

    @classmethod
    def on(cls, device: wp.Device, **options: Any) -> ConstraintOptions:
        """Return options with the defaults for a device."""
        if not device.is_cpu:
            options.setdefault("iterations", GPU_SWEEPS)
        return cls(**options)

    def check(self) -> None:
        """Raise a NewtonsimError that names an option which is out of range."""
        check_words(self, _CHOICES)
        check_counts(self, ("iterations",))
        check_counts(self, ("factorizations",), 0)
        check_shares(self, _SHARES)
        check_not_negative(self, (*_NOT_NEGATIVE, "tolerance", "recovery_time", "direct_cost"))
        if self.smoothing > 0.0:
            for name in ("max_push_speed", "max_limit_speed", "contact_erp", "limit_erp"):
                if not getattr(self, name) > 0.0:
                    raise NewtonsimError(
                        f"{name}: expected more than 0 with smoothing={self.smoothing}, got 0"
                    )

    def solve_options(self, keep: bool = False) -> SolveOptions:
        """Return what the kernel takes; `keep` if impulses that remove penetrations are wanted."""
        s = SolveOptions()
        s.sweeps, s.factorizations = self.iterations, self.factorizations
        s.tolerance = self.tolerance
        if self.smoothing > 0.0:
            s.sweeps, s.tolerance = max(s.sweeps, _SMOOTH_SWEEPS), min(s.tolerance, _SMOOTH_TOLERANCE)
        s.cost = self.direct_cost if self.factorizations > 0 else 0.0
        s.pyramidal = int(self.cone == "pyramidal")
        s.keep = int(keep)
        return s

    def settings(self, dt: float) -> ConstraintSettings:
        """Return the device struct for one time step [s].

        Raises:
            NewtonsimError: An option was set to what is out of range.
        """
        self.check()
        s = ConstraintSettings()
        s.dt = dt
        fastest = 1.0 / max(self.recovery_time, dt)
        s.contact_rate = min(self.contact_erp / dt, fastest)
        s.limit_rate = min(self.limit_erp / dt, fastest)
        s.loop_rate = self.loop_erp / dt
        s.soft_contacts = _SOFTNESSES.index(self.contact_softness)
        s.friction_product = _COMBINES.index(self.friction_combine)
        s.restitution_product = _COMBINES.index(self.restitution_combine)
        s.contact_cfm = self.contact_cfm
        s.contact_slop = self.contact_slop
        s.contact_skin = self.contact_skin
        s.max_push_speed = self.max_push_speed
        s.restitution_speed = self.restitution_speed
        s.limit_cfm = self.limit_cfm
        s.max_limit_speed = self.max_limit_speed
        s.limit_margin = self.limit_margin
        s.warm_start = self.warm_start
        s.smoothing = self.smoothing
        s.weighted = int(self.cone == "weighted" and self.smoothing == 0.0)
        s.late = _REFERENCES.index(self.references)
        return s
