"""Inertia as MuJoCo compiles it: positive moments of which no one exceeds the sum of the others.

Robot files have inertias that no distribution of mass has, and MuJoCo refuses a model with one. What is
written then is the nearest that some matter has; the inertia of the model stands beside it in <custom>, for
`parse_mjcf` to take.
"""

from xml.etree import ElementTree

import numpy as np

from newtonsim.geometry.principal_axes import principal_axes
from newtonsim.geometry.transforms import quat_from_matrix
from newtonsim.importers.files.mjcf_names import INERTIA
from newtonsim.importers.writers.records import BodyRecord, ShapeRecord
from newtonsim.importers.writers.report import ExportReport
from newtonsim.importers.writers.xml_text import element, numbers

_THINNEST = 1.0e-6
"""Least second moment of mass along an axis over the sum of all three; numbers are rounded by 1e-7."""

_LEAST = 1.0e-14
"""Least second moment [kg m^2]: MuJoCo refuses moments of inertia below 1e-15."""

_ROUNDING = 1.0e-5
"""Relative change that is not worth a word: that of a thin sheet."""


class InertiaWriter:
    """Writes the <inertial> of bodies, and what of it MuJoCo would not take.

    Args:
        root: The document.
        report: Receives what is written differently.
        by_axes: Whether inertias are written by their principal axes, on which a medium acts.
    """

    def __init__(self, root: ElementTree.Element, report: ExportReport, by_axes: bool):
        self.root, self.report, self.by_axes = root, report, by_axes
        self.custom: ElementTree.Element | None = None

    def write(self, own: ElementTree.Element, body: BodyRecord, shapes: list[ShapeRecord]) -> None:
        """Write the <inertial> of a body with mass or inertia and these shapes."""
        props = body.props
        if props.mass <= 0.0 and not props.inertia.any():
            return
        full = possible_inertia(props.inertia)
        if full is not props.inertia:
            self._keep(own.get("name", ""), props.inertia)
            if np.abs(full - props.inertia).max() > _ROUNDING * np.abs(props.inertia).max():
                message = "no distribution of mass has this inertia (A + B < C); MuJoCo sees the nearest one"
                self.report.approximated(body.key, message)
        off = _six(full)[3:]
        attributes = {"pos": numbers(props.com), "mass": numbers(props.mass)}
        if self.by_axes:
            moments, axes = principal_axes(full, np.array([shape.pose.q for shape in shapes]).reshape(-1, 4))
            x, y, z, w = quat_from_matrix(axes)
            attributes |= {"diaginertia": numbers(moments), "quat": numbers([w, x, y, z])}
        elif any(off):
            attributes["fullinertia"] = numbers(_six(full))
        else:
            attributes["diaginertia"] = numbers(np.diag(full))
        element(own, "inertial", attributes)

    def _keep(self, name: str, inertia: np.ndarray) -> None:
        if self.custom is None:
            self.custom = element(self.root, "custom")
        element(self.custom, "numeric", name=f"{INERTIA}{name}", data=numbers(_six(inertia)))


def possible_inertia(inertia: np.ndarray) -> np.ndarray:
    """Return an inertia (3, 3) itself, or the nearest one that MuJoCo compiles.

    An inertia is possible if the second moments of mass Σ = ½ tr(I) 1 - I are positive; those that are not
    are raised (Wensing, Kim, Slotine, "Linear matrix inequalities for physically consistent inertial
    parameter identification", RA-L 3(1), 2018).
    """
    moments, axes = np.linalg.eigh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
    least = max(_THINNEST * np.abs(moments).sum(), _LEAST)
    if moments[0] >= 0.5 * least:
        return inertia
    moments = np.maximum(moments, least)
    second = axes @ np.diag(moments) @ axes.T
    return np.trace(second) * np.eye(3) - second


def _six(full: np.ndarray) -> np.ndarray:
    """Ixx, Iyy, Izz, Ixy, Ixz, Iyz, as MJCF has them."""
    return np.array([*np.diag(full), full[0, 1], full[0, 2], full[1, 2]])
