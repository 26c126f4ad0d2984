"""newtonsim: a GPU-batched, differentiable physics simulator for robots."""

import os
from typing import TYPE_CHECKING

# In a clone the other rooms lie beside this folder, not inside it: they are found there, installed or not.
if not os.path.isdir(os.path.join(__path__[0], "kernels")):
    __path__.append(os.path.dirname(__path__[0]))

from newtonsim._version import __version__ as __version__
from newtonsim.errors import BufferWarning as BufferWarning
from newtonsim.errors import CheckError as CheckError
from newtonsim.errors import DeviceError as DeviceError
from newtonsim.errors import ImportFileError as ImportFileError
from newtonsim.errors import InertiaWarning as InertiaWarning
from newtonsim.errors import LimitError as LimitError
from newtonsim.errors import ModelError as ModelError
from newtonsim.errors import NewtonsimError as NewtonsimError
from newtonsim.errors import NotDifferentiableError as NotDifferentiableError
from newtonsim.errors import OverlapWarning as OverlapWarning
from newtonsim.errors import RendererUnavailableError as RendererUnavailableError
from newtonsim.errors import SmallTeamWarning as SmallTeamWarning
from newtonsim.errors import SweepError as SweepError
from newtonsim.errors import UnsupportedElementWarning as UnsupportedElementWarning
from newtonsim.errors import UnusedGainsWarning as UnusedGainsWarning
from newtonsim.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    import newtonsim.diff as diff
    import newtonsim.dynamics as dynamics
    import newtonsim.importers as importers
    import newtonsim.optimize as optimize
    import newtonsim.render as render
    import newtonsim.solvers as solvers
    import newtonsim.utils as utils
    from newtonsim.builder import JointAxis as JointAxis
    from newtonsim.builder import ModelBuilder as ModelBuilder
    from newtonsim.builder import TendonWrap as TendonWrap
    from newtonsim.collision.collide import collide as collide
    from newtonsim.collision.contacts import Contact as Contact
    from newtonsim.collision.contacts import Contacts as Contacts
    from newtonsim.fields.spares import Spares as Spares
    from newtonsim.fields.view import View as View
    from newtonsim.geometry import SDF as SDF
    from newtonsim.geometry import Heightfield as Heightfield
    from newtonsim.geometry import Mesh as Mesh
    from newtonsim.inspection import inspect as inspect
    from newtonsim.kernel_warmup import warmup as warmup
    from newtonsim.kernels.views.structs import ModelShapeGeometry as ModelShapeGeometry
    from newtonsim.kernels.views.structs import ModelShapeMaterials as ModelShapeMaterials
    from newtonsim.kinematics import eval_fk as eval_fk
    from newtonsim.kinematics import eval_ik as eval_ik
    from newtonsim.queries.scene_query import SceneQuery as SceneQuery
    from newtonsim.runtime.checked import config as config
    from newtonsim.scene.control import Control as Control
    from newtonsim.scene.enums import GEO_BOX as GEO_BOX
    from newtonsim.scene.enums import GEO_CAPSULE as GEO_CAPSULE
    from newtonsim.scene.enums import GEO_CONE as GEO_CONE
    from newtonsim.scene.enums import GEO_CYLINDER as GEO_CYLINDER
    from newtonsim.scene.enums import GEO_ELLIPSOID as GEO_ELLIPSOID
    from newtonsim.scene.enums import GEO_HFIELD as GEO_HFIELD
    from newtonsim.scene.enums import GEO_MESH as GEO_MESH
    from newtonsim.scene.enums import GEO_NONE as GEO_NONE
    from newtonsim.scene.enums import GEO_PLANE as GEO_PLANE
    from newtonsim.scene.enums import GEO_SDF as GEO_SDF
    from newtonsim.scene.enums import GEO_SPHERE as GEO_SPHERE
    from newtonsim.scene.enums import JOINT_BALL as JOINT_BALL
    from newtonsim.scene.enums import JOINT_COMPOUND as JOINT_COMPOUND
    from newtonsim.scene.enums import JOINT_D6 as JOINT_D6
    from newtonsim.scene.enums import JOINT_DISTANCE as JOINT_DISTANCE
    from newtonsim.scene.enums import JOINT_FIXED as JOINT_FIXED
    from newtonsim.scene.enums import JOINT_FREE as JOINT_FREE
    from newtonsim.scene.enums import JOINT_MODE_FORCE as JOINT_MODE_FORCE
    from newtonsim.scene.enums import JOINT_MODE_TARGET_POSITION as JOINT_MODE_TARGET_POSITION
    from newtonsim.scene.enums import JOINT_MODE_TARGET_VELOCITY as JOINT_MODE_TARGET_VELOCITY
    from newtonsim.scene.enums import JOINT_PRISMATIC as JOINT_PRISMATIC
    from newtonsim.scene.enums import JOINT_REVOLUTE as JOINT_REVOLUTE
    from newtonsim.scene.enums import JOINT_UNIVERSAL as JOINT_UNIVERSAL
    from newtonsim.scene.enums import PARTICLE_FLAG_ACTIVE as PARTICLE_FLAG_ACTIVE
    from newtonsim.scene.enums import ColoringAlgorithm as ColoringAlgorithm
    from newtonsim.scene.enums import ConstraintType as ConstraintType
    from newtonsim.scene.enums import GeoType as GeoType
    from newtonsim.scene.enums import JointMode as JointMode
    from newtonsim.scene.enums import JointType as JointType
    from newtonsim.scene.enums import ShapeFlags as ShapeFlags
    from newtonsim.scene.memory import memory_report as memory_report
    from newtonsim.scene.model import Model as Model
    from newtonsim.scene.state import State as State
    from newtonsim.simulator import Simulator as Simulator
    from newtonsim.solvers import FeatherstoneSolver as FeatherstoneSolver
    from newtonsim.solvers import MuJoCoSolver as MuJoCoSolver
    from newtonsim.solvers import SemiImplicitSolver as SemiImplicitSolver
    from newtonsim.solvers import SolverBase as SolverBase
    from newtonsim.solvers import VBDSolver as VBDSolver
    from newtonsim.solvers import XPBDSolver as XPBDSolver
    from newtonsim.studies.sweep import sweep as sweep

__all__ = [
    "GEO_BOX",
    "GEO_CAPSULE",
    "GEO_CONE",
    "GEO_CYLINDER",
    "GEO_ELLIPSOID",
    "GEO_HFIELD",
    "GEO_MESH",
    "GEO_NONE",
    "GEO_PLANE",
    "GEO_SDF",
    "GEO_SPHERE",
    "JOINT_BALL",
    "JOINT_COMPOUND",
    "JOINT_D6",
    "JOINT_DISTANCE",
    "JOINT_FIXED",
    "JOINT_FREE",
    "JOINT_MODE_FORCE",
    "JOINT_MODE_TARGET_POSITION",
    "JOINT_MODE_TARGET_VELOCITY",
    "JOINT_PRISMATIC",
    "JOINT_REVOLUTE",
    "JOINT_UNIVERSAL",
    "PARTICLE_FLAG_ACTIVE",
    "SDF",
    "BufferWarning",
    "CheckError",
    "ColoringAlgorithm",
    "ConstraintType",
    "Contact",
    "Contacts",
    "Control",
    "DeviceError",
    "FeatherstoneSolver",
    "GeoType",
    "Heightfield",
    "ImportFileError",
    "InertiaWarning",
    "JointAxis",
    "JointMode",
    "JointType",
    "LimitError",
    "Mesh",
    "Model",
    "ModelBuilder",
    "ModelError",
    "ModelShapeGeometry",
    "ModelShapeMaterials",
    "MuJoCoSolver",
    "NewtonsimError",
    "NotDifferentiableError",
    "OverlapWarning",
    "RendererUnavailableError",
    "SceneQuery",
    "SemiImplicitSolver",
    "ShapeFlags",
    "Simulator",
    "SmallTeamWarning",
    "SolverBase",
    "Spares",
    "State",
    "SweepError",
    "TendonWrap",
    "UnsupportedElementWarning",
    "UnusedGainsWarning",
    "VBDSolver",
    "View",
    "XPBDSolver",
    "collide",
    "config",
    "diff",
    "dynamics",
    "eval_fk",
    "eval_ik",
    "importers",
    "inspect",
    "memory_report",
    "optimize",
    "render",
    "solvers",
    "sweep",
    "utils",
    "warmup",
]

_LAZY = {
    "ColoringAlgorithm": "newtonsim.scene.enums",
    "ConstraintType": "newtonsim.scene.enums",
    "Contact": "newtonsim.collision.contacts",
    "Contacts": "newtonsim.collision.contacts",
    "Control": "newtonsim.scene.control",
    "FeatherstoneSolver": "newtonsim.solvers",
    "GEO_BOX": "newtonsim.scene.enums",
    "GEO_CAPSULE": "newtonsim.scene.enums",
    "GEO_CONE": "newtonsim.scene.enums",
    "GEO_CYLINDER": "newtonsim.scene.enums",
    "GEO_ELLIPSOID": "newtonsim.scene.enums",
    "GEO_HFIELD": "newtonsim.scene.enums",
    "GEO_MESH": "newtonsim.scene.enums",
    "GEO_NONE": "newtonsim.scene.enums",
    "GEO_PLANE": "newtonsim.scene.enums",
    "GEO_SDF": "newtonsim.scene.enums",
    "GEO_SPHERE": "newtonsim.scene.enums",
    "GeoType": "newtonsim.scene.enums",
    "Heightfield": "newtonsim.geometry",
    "JOINT_BALL": "newtonsim.scene.enums",
    "JOINT_COMPOUND": "newtonsim.scene.enums",
    "JOINT_D6": "newtonsim.scene.enums",
    "JOINT_DISTANCE": "newtonsim.scene.enums",
    "JOINT_FIXED": "newtonsim.scene.enums",
    "JOINT_FREE": "newtonsim.scene.enums",
    "JOINT_MODE_FORCE": "newtonsim.scene.enums",
    "JOINT_MODE_TARGET_POSITION": "newtonsim.scene.enums",
    "JOINT_MODE_TARGET_VELOCITY": "newtonsim.scene.enums",
    "JOINT_PRISMATIC": "newtonsim.scene.enums",
    "JOINT_REVOLUTE": "newtonsim.scene.enums",
    "JOINT_UNIVERSAL": "newtonsim.scene.enums",
    "JointAxis": "newtonsim.builder",
    "TendonWrap": "newtonsim.builder",
    "JointMode": "newtonsim.scene.enums",
    "JointType": "newtonsim.scene.enums",
    "Mesh": "newtonsim.geometry",
    "Model": "newtonsim.scene.model",
    "ModelBuilder": "newtonsim.builder",
    "ModelShapeGeometry": "newtonsim.kernels.views.structs",
    "ModelShapeMaterials": "newtonsim.kernels.views.structs",
    "MuJoCoSolver": "newtonsim.solvers",
    "PARTICLE_FLAG_ACTIVE": "newtonsim.scene.enums",
    "SDF": "newtonsim.geometry",
    "SceneQuery": "newtonsim.queries.scene_query",
    "SemiImplicitSolver": "newtonsim.solvers",
    "ShapeFlags": "newtonsim.scene.enums",
    "Simulator": "newtonsim.simulator",
    "SolverBase": "newtonsim.solvers",
    "State": "newtonsim.scene.state",
    "VBDSolver": "newtonsim.solvers",
    "Spares": "newtonsim.fields.spares",
    "View": "newtonsim.fields.view",
    "XPBDSolver": "newtonsim.solvers",
    "config": "newtonsim.runtime.checked",
    "collide": "newtonsim.collision.collide",
    "eval_fk": "newtonsim.kinematics",
    "eval_ik": "newtonsim.kinematics",
    "inspect": "newtonsim.inspection",
    "memory_report": "newtonsim.scene.memory",
    "sweep": "newtonsim.studies.sweep",
    "warmup": "newtonsim.kernel_warmup",
}
_LAZY_MODULES = ("diff", "dynamics", "importers", "optimize", "render", "solvers", "utils")
_LAZY_ROOMS = ("builder", "collision", "fields", "geometry", "kernels", "runtime", "scene")
# Not listed, because not everything in them can be imported without extras.
_LAZY_DOORS = ("bullet_world", "envs", "learn", "pybullet_compat")

__getattr__, __dir__ = _lazy_names(globals(), _LAZY, _LAZY_MODULES, _LAZY_ROOMS + _LAZY_DOORS)
