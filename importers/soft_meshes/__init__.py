"""Meshes of cloth and soft bodies from files: tetrahedra and triangles in VTK, VTU, Gmsh and OBJ files.

`load_tet_mesh` and `load_cloth_mesh` return what `ModelBuilder.add_soft_mesh` and `add_cloth_mesh` take;
`read_cells` returns all cells of a file.
"""

from newtonsim.importers.soft_meshes.cells import CellBlock as CellBlock
from newtonsim.importers.soft_meshes.cells import CellFile as CellFile
from newtonsim.importers.soft_meshes.load import load_cloth_mesh as load_cloth_mesh
from newtonsim.importers.soft_meshes.load import load_tet_mesh as load_tet_mesh
from newtonsim.importers.soft_meshes.load import read_cells as read_cells
