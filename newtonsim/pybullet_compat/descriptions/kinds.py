"""PyBullet's codes for shapes, joints and loading flags, as typed enumerations."""

from enum import IntEnum, IntFlag


class Geom(IntEnum):
    """Kinds of shapes (GEOM_...)."""

    SPHERE = 2
    BOX = 3
    CYLINDER = 4
    MESH = 5
    PLANE = 6
    CAPSULE = 7
    HEIGHTFIELD = 9


class GeomFlag(IntFlag):
    """Flags of createCollisionShape (GEOM_...)."""

    FORCE_CONCAVE_TRIMESH = 1
    CONCAVE_INTERNAL_EDGE = 2


class JointKind(IntEnum):
    """Kinds of joints (JOINT_...)."""

    REVOLUTE = 0
    PRISMATIC = 1
    SPHERICAL = 2
    PLANAR = 3
    FIXED = 4


class LoadFlag(IntFlag):
    """Flags of loadURDF, loadMJCF and createMultiBody (URDF_..., MJCF_...)."""

    USE_INERTIA_FROM_FILE = 2
    USE_SELF_COLLISION = 8
    USE_SELF_COLLISION_EXCLUDE_PARENT = 16
    USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS = 32
    USE_IMPLICIT_CYLINDER = 128
    GLOBAL_VELOCITIES_MB = 256
    COLORS_FROM_FILE = 512
    ENABLE_CACHED_GRAPHICS_SHAPES = 1024
    ENABLE_SLEEPING = 2048
    INITIALIZE_SAT_FEATURES = 4096
    USE_SELF_COLLISION_INCLUDE_PARENT = 8192
    USE_MATERIAL_COLORS_FROM_MTL = 32768
    USE_MATERIAL_TRANSPARANCY_FROM_MTL = 65536
    MAINTAIN_LINK_ORDER = 131072
    ENABLE_WAKEUP = 262144
    MERGE_FIXED_LINKS = 524288
    IGNORE_VISUAL_SHAPES = 1048576
    IGNORE_COLLISION_SHAPES = 2097152
    PRINT_URDF_INFO = 4194304
    GOOGLEY_UNDEFINED_COLORS = 8388608
