"""The lists of a builder: creation, copies and counts."""

import copy
from typing import Any, Self

import numpy as np

from newtonsim.builder.placement import Unplaced
from newtonsim.scene.array_types import BuilderColumns
from newtonsim.scene.arrays import COUNT_LISTS, MODEL_ARRAYS, SPECS, ArraySpec
from newtonsim.scene.columns import Column, PairSet


class BuilderLists(BuilderColumns):
    """The lists that `newtonsim.scene.arrays` declares, as attributes, with their counts and settings."""

    up_vector: np.ndarray
    gravity: Any
    num_envs: int
    articulation_start: list[int]
    articulation_end: list[int]
    articulation_key: list[str]
    shape_collision_filter_pairs: PairSet
    keep_overlaps: bool
    last_collision_group: int
    joint_mimic: list[tuple[int, int, float, float]]
    sites: list[dict]
    keyframes: list[dict]
    solver_hint: dict
    particle_color_groups: list[np.ndarray]
    ground_settings: dict | None
    _unplaced: Unplaced

    default_particle_radius = 0.1

    default_tri_ke = 100.0
    default_tri_ka = 100.0
    default_tri_kd = 10.0
    default_tri_drag = 0.0
    default_tri_lift = 0.0

    default_spring_ke = 100.0
    default_spring_kd = 0.0

    default_edge_ke = 100.0
    default_edge_kd = 0.0

    default_shape_ke = 1.0e5
    default_shape_kd = 1000.0
    default_shape_kf = 1000.0
    default_shape_ka = 0.0
    default_shape_mu = 0.5
    default_shape_restitution = 0.0
    default_shape_density = 1000.0
    default_shape_thickness = 1e-5

    default_joint_limit_ke = 100.0
    default_joint_limit_kd = 1.0

    def _create_lists(self) -> None:
        for spec in MODEL_ARRAYS:
            setattr(self, spec.name, ())
        self._unplaced = Unplaced()

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign an attribute; a value that replaces a list of the builder is converted to one."""
        if name in SPECS and not isinstance(value, Column):
            value = Column(SPECS[name], value)
        elif name == "shape_collision_filter_pairs" and not isinstance(value, PairSet):
            value = PairSet(value)
        super().__setattr__(name, value)

    def _count(self, per: str) -> int:
        return len(getattr(self, COUNT_LISTS[per]))

    def _lists(self) -> list[tuple[ArraySpec, Column]]:
        return [(spec, getattr(self, spec.name)) for spec in MODEL_ARRAYS]

    def _shallow_copy(self) -> Self:
        """Return a builder with lists of its own that share their items with this one."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, Column, PairSet, Unplaced)):
                setattr(twin, name, value.copy())
        return twin

    def _blank_copy(self) -> Self:
        """Return a builder without elements, with the up vector and the defaults for shapes of this one."""
        twin = type(self).__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name.startswith("default_")}
        vars(twin).update(kept, up_vector=self.up_vector, last_collision_group=0)
        twin._create_lists()
        return twin

    @property
    def shape_count(self) -> int:
        """Number of shapes, without the ground plane."""
        return self._count("shape")

    @property
    def body_count(self) -> int:
        """Number of bodies."""
        return self._count("body")

    @property
    def joint_count(self) -> int:
        """Number of joints, without those that `finalize` adds for bodies without one."""
        return self._count("joint")

    @property
    def joint_axis_count(self) -> int:
        """Number of joint axes."""
        return self._count("axis")

    @property
    def joint_coord_count(self) -> int:
        """Number of position coordinates of all joints."""
        return self._count("coord")

    @property
    def joint_dof_count(self) -> int:
        """Number of velocity degrees of freedom of all joints."""
        return self._count("dof")

    @property
    def constraint_count(self) -> int:
        """Number of constraints, without those that `finalize` adds for mimic joints."""
        return self._count("constraint")

    @property
    def particle_count(self) -> int:
        """Number of particles."""
        return self._count("particle")

    @property
    def tri_count(self) -> int:
        """Number of triangles."""
        return self._count("tri")

    @property
    def tet_count(self) -> int:
        """Number of tetrahedra."""
        return self._count("tet")

    @property
    def edge_count(self) -> int:
        """Number of bending edges."""
        return self._count("edge")

    @property
    def spring_count(self) -> int:
        """Number of springs."""
        return self._count("spring")

    @property
    def muscle_count(self) -> int:
        """Number of muscles."""
        return self._count("muscle")

    @property
    def tendon_count(self) -> int:
        """Number of tendons."""
        return self._count("tendon")

    @property
    def actuator_count(self) -> int:
        """Number of actuators."""
        return self._count("actuator")

    @property
    def articulation_count(self) -> int:
        """Number of articulations declared with `add_articulation`."""
        return len(self.articulation_start)
