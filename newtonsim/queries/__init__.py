"""Queries of a scene: rays, closest points, overlap and boxes."""

from newtonsim.queries.results import ClosestPoints as ClosestPoints
from newtonsim.queries.results import RayHits as RayHits
from newtonsim.queries.results import ShapesInBoxes as ShapesInBoxes
from newtonsim.queries.scene_query import ALL_BITS as ALL_BITS
from newtonsim.queries.scene_query import SceneQuery as SceneQuery
from newtonsim.queries.selection import Selection as Selection
