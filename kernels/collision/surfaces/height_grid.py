"""Height fields as grids, on which the surface at a place is found without a search.

The mesh is that of `Heightfield.to_mesh`: vertices row by row along x, rows along z, heights along y; two
triangles a cell, the first at the corner with the least x and z. All lengths are those of the unscaled mesh.

Stage: narrow phase and queries, height fields
Called by: kernels/collision/families/mesh.py, kernels/queries/ray_surfaces.py
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp


@wp.struct
class HeightGrid:
    """Layout of the vertices."""

    corner: wp.vec3  # [m] the first vertex
    dx: float  # [m] width of a cell
    dz: float  # [m] its depth
    columns: int  # of vertices
    rows: int


@wp.struct
class GridPlace:
    """The surface at a place."""

    triangle: int  # -1 beyond the grid
    height: float  # [m]
    normal: wp.vec3  # upward, of any length


@wp.func
def height_grid(mesh: wp.uint64) -> HeightGrid:
    """Derive the layout from the corners of the grid."""
    points = wp.mesh_get(mesh).points
    grid = HeightGrid()
    grid.corner = points[0]
    extent = points[points.shape[0] - 1] - grid.corner
    grid.columns = int(wp.round(extent[0] / (points[1][0] - grid.corner[0]))) + 1
    grid.rows = points.shape[0] // grid.columns
    grid.dx = extent[0] / float(grid.columns - 1)
    grid.dz = extent[2] / float(grid.rows - 1)
    return grid


@wp.func
def surface_at(mesh: wp.uint64, x: float, z: float) -> GridPlace:
    """The triangle above or below a place, and its height there."""
    grid = height_grid(mesh)
    place = GridPlace()
    place.triangle = -1
    u = (x - grid.corner[0]) / grid.dx
    v = (z - grid.corner[2]) / grid.dz
    if not (u >= 0.0 and v >= 0.0 and u <= float(grid.columns - 1) and v <= float(grid.rows - 1)):
        return place
    i = wp.min(int(u), grid.columns - 2)
    j = wp.min(int(v), grid.rows - 2)
    u -= float(i)
    v -= float(j)
    points = wp.mesh_get(mesh).points
    k = j * grid.columns + i
    place.triangle = 2 * (j * (grid.columns - 1) + i)
    right = points[k + 1][1]
    below = points[k + grid.columns][1]
    if u + v <= 1.0:
        near = points[k][1]
        along_x = right - near
        along_z = below - near
        place.height = near + u * along_x + v * along_z
    else:
        across = points[k + grid.columns + 1][1]
        along_x = across - below
        along_z = across - right
        place.height = across - (1.0 - u) * along_x - (1.0 - v) * along_z
        place.triangle += 1
    place.normal = wp.vec3(-along_x / grid.dx, 1.0, -along_z / grid.dz)
    return place
