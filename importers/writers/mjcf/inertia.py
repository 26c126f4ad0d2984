"""Inertia as MuJoCo compiles it: positive moments of which no one exceeds the sum of the others.

Robot files have inertias that no distribution of mass has, and MuJoCo refuses a model with one. What is
written then moves the robot alike (`regrouping`), or, where nothing does, is the nearest that some matter
has; what the bodies of the model have stands beside it in <custom>, for `parse_mjcf` to take.
"""

from xml.etree import ElementTree

import numpy as np

from newtonsim.geometry.principal_axes import principal_axes
from newtonsim.geometry.transforms import quat_from_matrix
from newtonsim.importers.files.mjcf_names import INERTIA
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.writers.mjcf.regrouping import inertia_of, regroup, second_moments
from newtonsim.importers.writers.records import BodyRecord, Scene, ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import element, numbers

_THINNEST = 1.0e-6
"""Least second moment of mass along an axis over the sum of all three; numbers are rounded by 1e-7."""

_LEAST = 1.0e-15
"""Least second moment [kg m^2]: MuJoCo refuses moments of inertia below 1e-15, which are sums of two."""

_ROUNDING = 1.0e-5
"""Relative change that is not worth a word: that of a thin sheet."""


class InertiaWriter:
    """Writes the <inertial> of bodies, and what of it MuJoCo would not take.

    Args:
        root: The document.
        scene: The scene.
        report: Receives what is written differently.
        by_axes: Whether inertias are written by their principal axes, on which a medium acts.
        keep_masses: Whether bodies keep their masses and centres of mass, on which the file lets forces act.
    """

    def __init__(
        self,
        root: ElementTree.Element,
        scene: Scene,
        report: ExportReport,
        by_axes: bool,
        keep_masses: bool,
    ):
        self.root, self.report, self.by_axes = root, report, by_axes
        self.custom: ElementTree.Element | None = None
        wanting = [n for n, body in enumerate(scene.bodies) if _lacks(body.props.inertia)]
        # a medium acts on the inertia of each body
        alike = regroup(scene, wanting, keep_masses) if wanting and not by_axes else {}
        self._alike = {scene.bodies[n].index: props for n, props in alike.items()}

    def write(self, own: ElementTree.Element, body: BodyRecord, shapes: list[ShapeRecord]) -> None:
        """Write the <inertial> of a body with mass or inertia and these shapes."""
        props = body.props
        if props.mass <= 0.0 and not props.inertia.any():
            return
        seen = self._alike.get(body.index, props)
        full = possible_inertia(seen.inertia)
        if full is not props.inertia:
            self._keep(own.get("name", ""), props, seen.mass != props.mass or seen.com is not props.com)
            if _is_far(props.inertia):
                self._tell(body)
        off = _six(full)[3:]
        attributes = {"pos": numbers(seen.com), "mass": numbers(seen.mass)}
        if self.by_axes:
            moments, axes = principal_axes(full, np.array([shape.pose.q for shape in shapes]).reshape(-1, 4))
            x, y, z, w = quat_from_matrix(axes)
            attributes |= {"diaginertia": numbers(moments), "quat": numbers([w, x, y, z])}
        elif any(off):
            attributes["fullinertia"] = numbers(_six(full))
        else:
            attributes["diaginertia"] = numbers(np.diag(full))
        element(own, "inertial", attributes)

    def _tell(self, body: BodyRecord) -> None:
        alike = body.index in self._alike
        sees = "one that moves alike, with its neighbours' as well" if alike else "the nearest one"
        what = "no distribution of mass has this inertia (A + B < C)"
        self.report.approximated(body.key, f"{what}; MuJoCo sees {sees}")

    def _keep(self, name: str, props: MassProps, is_moved: bool) -> None:
        if self.custom is None:
            self.custom = element(self.root, "custom")
        place = [props.mass, *props.com] if is_moved else []
        element(self.custom, "numeric", name=f"{INERTIA}{name}", data=numbers([*_six(props.inertia), *place]))


def possible_inertia(inertia: np.ndarray) -> np.ndarray:
    """Return an inertia (3, 3) itself, or the nearest one that MuJoCo compiles.

    An inertia is possible if the second moments of mass Σ = ½ tr(I) 1 - I are positive; those that are not
    are raised (Wensing, Kim, Slotine, "Linear matrix inequalities for physically consistent inertial
    parameter identification", RA-L 3(1), 2018).
    """
    if is_possible(inertia):
        return inertia
    moments, axes = np.linalg.eigh(second_moments(inertia))
    moments = np.maximum(moments, _least(moments))
    return inertia_of(axes @ np.diag(moments) @ axes.T)


def is_possible(inertia: np.ndarray) -> bool:
    """Return whether MuJoCo compiles an inertia (3, 3)."""
    moments = np.linalg.eigvalsh(second_moments(inertia))
    return bool(moments[0] >= 0.5 * _least(moments))


def _is_far(inertia: np.ndarray) -> bool:
    """Return whether an inertia is impossible, and not for its rounding alone."""
    return float(np.abs(possible_inertia(inertia) - inertia).max()) > _ROUNDING * np.abs(inertia).max()


def _lacks(inertia: np.ndarray) -> bool:
    """Return whether a second moment of mass is negative, and not for its rounding alone."""
    moments = np.linalg.eigvalsh(second_moments(inertia))
    return bool(moments[0] < -_ROUNDING * np.abs(moments).sum())


def _least(moments: np.ndarray) -> float:
    return max(_THINNEST * float(np.abs(moments).sum()), _LEAST)


def _six(full: np.ndarray) -> np.ndarray:
    """Ixx, Iyy, Izz, Ixy, Ixz, Iyz, as MJCF has them."""
    return np.array([*np.diag(full), full[0, 1], full[0, 2], full[1, 2]])
