"""The prims of a stage in order, with instances and point instances spelled out, each with its matrix."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from newtonsim.importers.files.clock import check_time
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.stage import StageView

if TYPE_CHECKING:
    from pxr import Usd

MAX_PRIMS = 1_000_000
MAX_NESTING = 16
"""Point instancers inside prototypes of point instancers."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One instance of a point instancer: what paths inside its prototype are called.

    Attributes:
        prefix: Path of the prototype.
        label: What replaces it.
        outer: The scope around the instancer.
        depth: Number of instancers around.
    """

    prefix: str
    label: str
    outer: "Scope | None"
    depth: int


@dataclass(slots=True, eq=False)
class Place:
    """A prim in the world.

    Attributes:
        element: The prim.
        matrix: From its local space (stage units) to the world [m], for column vectors (4, 4).
        body: Label of the rigid body that carries it, itself included; None for the world.
        scope: Point instance that it belongs to.
        visible: Whether nothing hides it.
    """

    element: Element
    matrix: np.ndarray
    body: str | None
    scope: Scope | None
    visible: bool

    def label_of(self, path: object) -> str:
        """Name of the prim that a path means when a relationship of this prim names it."""
        text, scope = str(path), self.scope
        while scope is not None:
            if text == scope.prefix or text.startswith(scope.prefix + "/"):
                return scope.label + text[len(scope.prefix) :]
            scope = scope.outer
        return text


@dataclass(slots=True)
class _Step:
    """What the walk has still to visit, with what it inherits from above."""

    prim: "Usd.Prim"
    label: str
    above: np.ndarray
    body: str | None
    scope: Scope | None
    visible: bool
    prototype: bool = False


@dataclass(slots=True)
class Walker:
    """Walks over a stage.

    Attributes:
        view: The stage.
        report: Receives remarks.
        ignore: Patterns of paths that are left out with all below them.
        only_enabled: Whether bodies that are switched off count as part of what is above them.
        only_enabled_joints: Whether joints that are switched off are left out.
        left_out: Paths that are left out with all below them.
        skipped: Labels of what was left out.
    """

    view: StageView
    report: ImportReport
    ignore: Sequence[re.Pattern] = ()
    only_enabled: bool = False
    only_enabled_joints: bool = True
    left_out: frozenset[str] = frozenset()
    skipped: list[str] = field(default_factory=list)

    def walk(self, root_path: str) -> Iterator[Place]:
        """Yield the prim at a path and all below it."""
        from pxr import Usd

        root = self.view.stage.GetPrimAtPath(root_path)
        children = Usd.TraverseInstanceProxies(Usd.PrimDefaultPredicate)
        above, body, visible = self._ancestry(root)
        stack = [_Step(root, str(root.GetPath()), above, body, None, visible)]
        count = 0
        while stack:
            step = stack.pop()
            if step.label in self.left_out or any(pattern.match(step.label) for pattern in self.ignore):
                self.skipped.append(step.label)
                continue
            count += 1
            place = self._place(step)
            check_time(self.view.path, element=step.label)
            if count > MAX_PRIMS:
                raise place.element.error(f"more than {MAX_PRIMS} prims and instances")
            yield place
            if step.prim.GetTypeName() == "PointInstancer":
                below = self._instances(place)
            else:
                below = [
                    _Step(
                        child,
                        f"{step.label.rstrip('/')}/{child.GetName()}",
                        place.matrix,
                        place.body,
                        step.scope,
                        place.visible,
                    )
                    for child in step.prim.GetFilteredChildren(children)
                ]
            stack.extend(reversed(below))

    def element(self, prim: "Usd.Prim", label: str | None = None) -> Element:
        """Wrap a prim."""
        return Element(prim, label or str(prim.GetPath()), self.view.path, self.view.time)

    def matrix_of(self, prim: "Usd.Prim") -> np.ndarray:
        """Matrix (4, 4) of any prim, whether or not the walk comes by."""
        from pxr import UsdGeom

        cache = UsdGeom.XformCache(self.view.time)
        return self.view.root_matrix() @ _columns(cache.GetLocalToWorldTransform(prim))

    def _ancestry(self, root: "Usd.Prim") -> tuple[np.ndarray, str | None, bool]:
        """What the prims above the root of the walk pass on: matrix, body, visibility."""
        chain, parent = [], root.GetParent()
        while parent:
            chain.append(parent)
            parent = parent.GetParent()
        step = _Step(root, "", self.view.root_matrix(), None, None, True)
        for prim in reversed(chain):
            place = self._place(_Step(prim, str(prim.GetPath()), step.above, step.body, None, step.visible))
            step.above, step.body, step.visible = place.matrix, place.body, place.visible
        return step.above, None, step.visible

    def _place(self, step: _Step) -> Place:
        from pxr import UsdGeom

        element = self.element(step.prim, step.label)
        matrix, visible = step.above, step.visible
        xformable = UsdGeom.Xformable(step.prim)
        if xformable and not step.prototype:
            local = _columns(xformable.GetLocalTransformation(self.view.time))
            if not np.isfinite(local).all():
                raise element.error("attribute 'xformOpOrder' gives a matrix that is not finite")
            matrix = (self.view.root_matrix() if xformable.GetResetXformStack() else step.above) @ local
        if element.value("visibility") == "invisible":
            visible = False
        body = step.body
        if element.has_api("PhysicsRigidBodyAPI") and self._is_body(element):
            if not xformable:
                raise element.error(
                    f"PhysicsRigidBodyAPI on a {step.prim.GetTypeName() or 'prim'} that has no transform"
                )
            if body is not None and not xformable.GetResetXformStack():
                self.report.approximated(element, f"is below the rigid body {body}, but moves independently")
            body = step.label
        return Place(element, matrix, body, step.scope, visible)

    def _is_body(self, element: Element) -> bool:
        if element.flag("physics:rigidBodyEnabled", True):
            return True
        if self.only_enabled:
            self.report.ignored(element, "the rigid body is not enabled: its colliders do not move")
            return False
        self.report.approximated(
            element, "the rigid body is not enabled, but loaded, as only_load_enabled_rigid_bodies is off"
        )
        return True

    def _instances(self, place: Place) -> list[_Step]:
        """One step per visible instance of a point instancer."""
        from pxr import UsdGeom

        element = place.element
        instancer = UsdGeom.PointInstancer(element.prim)
        prototypes = instancer.GetPrototypesRel().GetForwardedTargets()
        indices = element.array("protoIndices", np.int64)
        scope = place.scope
        if scope is not None and scope.depth >= MAX_NESTING:
            raise element.error(f"point instancers nested more than {MAX_NESTING} deep")
        if not len(indices):
            return []
        if indices.min() < 0 or indices.max() >= len(prototypes):
            raise element.error(
                f"attribute 'protoIndices' names a prototype outside 0..{len(prototypes) - 1}"
            )
        prims = [self._prototype(element, path) for path in prototypes]
        matrices = self._instance_matrices(instancer, element, len(indices))
        mask = instancer.ComputeMaskAtTime(self.view.time)
        steps = []
        for number, (index, matrix) in enumerate(zip(indices.tolist(), matrices)):
            if mask and not mask[number]:
                continue
            prim = prims[index]
            label = f"{element.label}/{prim.GetName()}_{number}"
            inner = Scope(str(prim.GetPath()), label, scope, 1 if scope is None else scope.depth + 1)
            above = place.matrix @ _columns(matrix)
            steps.append(_Step(prim, label, above, place.body, inner, place.visible, prototype=True))
        return steps

    def _prototype(self, element: Element, path: object) -> "Usd.Prim":
        prim = self.view.stage.GetPrimAtPath(path)
        if not prim:
            raise element.error(f"relationship 'prototypes' names {path}, which does not exist")
        if element.prim.GetPath().HasPrefix(path):
            raise element.error(
                f"relationship 'prototypes' names {path}, which contains the instancer itself"
            )
        return prim

    def _instance_matrices(self, instancer: object, element: Element, count: int) -> list:
        from pxr import UsdGeom

        matrices = instancer.ComputeInstanceTransformsAtTime(
            self.view.time,
            self.view.time,
            UsdGeom.PointInstancer.IncludeProtoXform,
            UsdGeom.PointInstancer.IgnoreMask,
        )
        if len(matrices) != count:
            raise element.error(
                f"attribute 'positions' does not have one entry for each of {count} instances"
            )
        if not np.isfinite(np.array([np.array(m) for m in matrices])).all():
            raise element.error("attributes of the instances give a matrix that is not finite")
        return matrices


def _columns(matrix: object) -> np.ndarray:
    """Matrix of OpenUSD, which acts on row vectors, for column vectors (4, 4)."""
    return np.array(matrix, dtype=np.float64).T
