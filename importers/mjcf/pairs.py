"""Contact parameters of <pair> elements, which replace those of both geoms.

A pair that gives any takes MuJoCo's defaults for the others, not what its geoms say; one that gives none
keeps the parameters of its geoms here, unless MuJoCo's defaults are asked for.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html#contact-pair
"""

from newtonsim.builder import ModelBuilder
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node
from newtonsim.importers.mjcf.geoms import solver_parameters
from newtonsim.importers.mjcf.records import Scene, SolverParameters

_OWN = {"condim", "friction", "solref", "solimp", "solreffriction", "margin"}
_FRICTION = (1.0, 1.0, 0.005, 0.0001, 0.0001)
_SMALL_MARGIN = 1.0e-3
"""Difference of margins [m] that counts as an approximation."""


def add_pair_parameters(
    scene: Scene,
    shapes: dict[str, int],
    scale: float,
    builder: ModelBuilder,
    report: ImportReport,
    faults: Faults,
) -> None:
    """Give pairs of shapes the parameters of the file's pairs.

    Args:
        scene: The records.
        shapes: Shape of each geom by its name.
        scale: Factor on all lengths.
        builder: Receives the pairs.
        report: Receives what is not modelled.
        faults: Decides about parameters out of their range.
    """
    margins = {geom.name: geom.margin or 0.0 for body in scene.bodies for geom in body.geoms}
    for node, first, second in scene.pairs:
        if first not in shapes or second not in shapes:
            continue
        if scene.pair_solver is None and not _OWN & set(node.attrib):
            continue
        solver = solver_parameters(node, "solref", "solimp", faults) or scene.pair_solver
        solref, solimp = (0.0, 0.0), SolverParameters().solimp
        if solver is not None:
            solref, solimp = solver.solref, solver.scaled(scale).solimp
        builder.add_contact_pair(shapes[first], shapes[second], _friction(node, report), solref, solimp)
        difference = abs(node.float("margin", 0.0) * scale - margins[first] - margins[second])
        if difference > 0.0:
            # contacts act, and bodies rest, that much nearer or farther
            tell = report.unsupported if difference > _SMALL_MARGIN * scale else report.approximated
            tell(node, "the margin of a pair; the sum of those of its geoms is used")
        if node.floats("solreffriction", default=()).any():  # zeros stand for solref
            report.approximated(node, "solreffriction; friction is not softened")


def _friction(node: Node, report: ImportReport) -> tuple[float, float, float]:
    """Sliding, torsional and rolling friction that the dimensions of the contact leave."""
    given = node.floats("friction", 5, _FRICTION, at_least=1)
    slide, across, spin, roll, roll_across = (*map(float, given), *_FRICTION[len(given) :])
    if slide != across or roll != roll_across:
        report.unsupported(node, "friction that differs by direction; the first number is used for both")
    condim = node.int("condim", 3)
    if condim not in (1, 3, 4, 6):
        raise node.error(f"attribute 'condim' is {condim}, expected 1, 3, 4 or 6")
    if min(slide, spin, roll) < 0.0:
        raise node.error("attribute 'friction' must not be negative")
    return slide if condim > 1 else 0.0, spin if condim > 3 else 0.0, roll if condim > 4 else 0.0
