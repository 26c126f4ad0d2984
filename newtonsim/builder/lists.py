"""The lists of a builder: creation, copies, and conversion to and from NumPy at C speed."""

import copy
from typing import Any

import numpy as np
import warp as wp

from newtonsim.arrays import COUNT_LISTS, MODEL_ARRAYS, ArraySpec
from newtonsim.errors import ModelError

INTEGER_TYPES = (wp.int32, wp.uint32, wp.uint8)

_SHAPE_OF_TYPE = {
    wp.vec3: (3,),
    wp.transform: (7,),
    wp.spatial_vector: (6,),
    wp.mat22: (2, 2),
    wp.mat33: (3, 3),
}
_HOST_TYPE = {wp.int32: np.int32, wp.uint32: np.uint32, wp.uint8: np.uint8}


def element_shape(spec: ArraySpec) -> tuple[int, ...]:
    """Return the shape of one list item."""
    if spec.columns:
        return (spec.columns,)
    return _SHAPE_OF_TYPE.get(spec.dtype, ())


def to_array(spec: ArraySpec, values: list) -> np.ndarray:
    """Convert a list of the builder to an array of the model's type.

    Raises:
        ModelError: An item has the wrong shape or is no number.
    """
    shape = element_shape(spec)
    host_type = _HOST_TYPE.get(spec.dtype, np.float32)
    if not values:
        return np.zeros((0, *shape), host_type)
    block = _packed(spec, values)
    if block is not None:
        return block.reshape(len(values), *shape)
    try:
        if spec.dtype in INTEGER_TYPES:
            return np.array(values, np.int64).reshape(len(values), *shape).astype(host_type)
        return np.array(values, host_type).reshape(len(values), *shape)
    except (TypeError, ValueError, OverflowError) as error:
        expected = "numbers" if not shape else f"items of shape {shape}"
        raise ModelError(f"{spec.name}: expected {expected}: {error}") from error


def _packed(spec: ArraySpec, values: list) -> np.ndarray | None:
    """Join Warp vectors byte by byte (five times faster than `np.array`); None for mixed items."""
    if spec.dtype not in _SHAPE_OF_TYPE or set(map(type, values)) != {spec.dtype}:
        return None
    return np.frombuffer(b"".join(values), np.float32).copy()


def to_list(spec: ArraySpec, array: np.ndarray) -> list:
    """Convert an array to list items of the kind that the builder keeps.

    Vectors and transforms become Warp values that share one block of memory, without a call per item.
    """
    if spec.dtype is wp.mat33:
        return list(np.array(array, np.float64))
    if spec.dtype in (wp.vec3, wp.transform, wp.spatial_vector, wp.mat22):
        block = np.ascontiguousarray(array, np.float32)
        return list((spec.dtype * len(block)).from_buffer_copy(block)) if len(block) else []
    if spec.columns:
        return list(map(tuple, array.tolist()))
    return array.tolist()


class BuilderLists:
    """The lists that `newtonsim.arrays` declares, as attributes, and their counts."""

    def _create_lists(self) -> None:
        for spec in MODEL_ARRAYS:
            setattr(self, spec.name, [])

    def _count(self, per: str) -> int:
        return len(getattr(self, COUNT_LISTS[per]))

    def _lists(self) -> list[tuple[ArraySpec, list[Any]]]:
        return [(spec, getattr(self, spec.name)) for spec in MODEL_ARRAYS]

    def _shallow_copy(self):
        """Return a builder with lists of its own that share their items with this one."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, set, dict)):
                setattr(twin, name, value.copy())
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
    def articulation_count(self) -> int:
        """Number of articulations declared with `add_articulation`."""
        return len(self.articulation_start)
