"""Shapes on the host: meshes, fields and mass properties."""

from newtonsim.geometry.heightfield import Heightfield as Heightfield
from newtonsim.geometry.mesh import Mesh as Mesh
from newtonsim.geometry.sdf import SDF as SDF
from newtonsim.geometry.tetmesh import TetMesh as TetMesh
from newtonsim.geometry.tetmesh import tetrahedralize as tetrahedralize
