"""Struct views of the shapes, shared by every kernel that reads geometry or contact materials.

Stage: constraints and penalties of contacts
Used by: newtonsim/__init__.py, newtonsim/builder/finalize.py, newtonsim/scene/, render/recordings/model.py,
    kernels/constraints/adjoint/contact_terms.py, kernels/constraints/contact_rows.py,
    kernels/constraints/linear/contacts.py, kernels/maximal/adjoint/contact_terms.py,
    kernels/maximal/contacts.py, kernels/penalty/, kernels/views/
"""

import newtonsim.kernels.lazy_warp as wp


@wp.struct
class ModelShapeMaterials:
    """Contact material of each shape; every array has shape [shape_count]."""

    ke: wp.array(dtype=float)  # elastic stiffness [N/m]
    kd: wp.array(dtype=float)  # damping [N s/m]
    kf: wp.array(dtype=float)  # friction stiffness [N s/m]
    ka: wp.array(dtype=float)  # adhesion distance [m]
    mu: wp.array(dtype=float)  # coefficient of friction
    restitution: wp.array(dtype=float)  # coefficient of restitution


@wp.struct
class ModelShapeGeometry:
    """Geometry of each shape; every array has shape [shape_count]."""

    type: wp.array(dtype=wp.int32)  # GeoType
    is_solid: wp.array(dtype=wp.uint8)
    thickness: wp.array(dtype=float)  # [m]
    source: wp.array(dtype=wp.uint64)  # id of a wp.Mesh or wp.Volume, 0 where there is none
    scale: wp.array(dtype=wp.vec3)  # meaning depends on the type, see GeoType
