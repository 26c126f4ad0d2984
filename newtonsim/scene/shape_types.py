"""The meaning of the sizes of each type of shape, in one table for messages and printed shapes."""

from newtonsim.scene.enums import GeoType

SIZE_NAMES = {
    GeoType.PLANE: ("width", "length"),
    GeoType.SPHERE: ("radius",),
    GeoType.BOX: ("half extent hx", "half extent hy", "half extent hz"),
    GeoType.ELLIPSOID: ("semi-axis a", "semi-axis b", "semi-axis c"),
    **dict.fromkeys((GeoType.CAPSULE, GeoType.CYLINDER, GeoType.CONE), ("radius", "half_height")),
}
"""Names of the sizes [m] in `scale`, in this order; for types that are not listed, `scale` holds factors."""
