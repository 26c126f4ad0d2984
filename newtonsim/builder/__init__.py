"""ModelBuilder: the description of a scene in plain Python lists."""

import copy

import numpy as np
import numpy.typing as npt

from newtonsim.builder.actuators import ActuatorLaw as ActuatorLaw
from newtonsim.builder.actuators import ActuatorMethods
from newtonsim.builder.actuators import ActuatorTarget as ActuatorTarget
from newtonsim.builder.axis import JointAxis as JointAxis
from newtonsim.builder.collapse import CollapseMethods
from newtonsim.builder.finalize import FinalizeMethods
from newtonsim.builder.grids import GridMethods
from newtonsim.builder.plot import PlotMethods
from newtonsim.builder.tendons import TendonMethods
from newtonsim.builder.tendons import TendonMuscle as TendonMuscle
from newtonsim.builder.tendons import TendonWrap as TendonWrap
from newtonsim.builder.worlds import WorldMethods
from newtonsim.scene.columns import PairSet


class ModelBuilder(
    WorldMethods,
    FinalizeMethods,
    CollapseMethods,
    GridMethods,
    PlotMethods,
    TendonMethods,
    ActuatorMethods,
):
    """Describes a scene step by step; `finalize` turns it into a `Model`.

    The lists (`body_q`, `joint_target_ke`, `shape_material_mu`, ...: every row of
    `newtonsim.scene.arrays.MODEL_ARRAYS`) have the same names as the model's arrays and may be edited between
    calls.

    Example::

        builder = ModelBuilder()
        builder.add_particle((0, 1.0, 0.0), (0.0, 0.0, 0.0), 0.0)  # mass 0: an anchor
        for i in range(1, 10):
            builder.add_particle((i, 1.0, 0.0), (0.0, 0.0, 0.0), 1.0)
            builder.add_spring(i - 1, i, 1.0e3, 0.0, 0)
        model = builder.finalize()

    Attributes:
        up_vector: Up direction, a unit vector (3,).
        gravity: Acceleration along `up_vector` [m/s^2], or a vector (3,) of any direction.
        num_envs: Number of worlds added by `add_builder` and `replicate`.
        articulation_start: First joint of each declared articulation.
        articulation_key: Names of the articulations.
        shape_collision_filter_pairs: Set of pairs of shapes that pass through each other.
        keep_overlaps: Whether links of one kinematic tree may collide although they overlap in the pose of
            `body_q`. Otherwise `finalize` leaves such pairs out, and issues an `OverlapWarning`.
        joint_mimic: Tuples (joint, other joint, factor, offset): q = factor * q_other + offset. The model has
            one coupling for each, after all other constraints.
        sites: Dicts with "name", "body", "xform".
        keyframes: Dicts with "name", "joint_q", "joint_qd", "joint_act"; those of MJCF files also with
            "ctrl" and "act", MuJoCo's of each entry of `ImportReport.actuators` (0 where it has none).
        solver_hint: Settings that a file asks for, such as "timestep", or "density", "viscosity" and "wind"
            of the medium.
        particle_color_groups: Particles of each colour.
    """

    def __init__(self, up_vector: npt.ArrayLike = (0.0, 1.0, 0.0), gravity: float | npt.ArrayLike = -9.81):
        self._create_lists()
        self.up_vector = np.array(up_vector, np.float64)
        self.gravity = gravity
        self.num_envs = 0
        self.articulation_start = []
        self.articulation_end = []
        self.articulation_key = []
        self.shape_collision_filter_pairs = PairSet()
        self.keep_overlaps = False
        self.last_collision_group = 0
        self.joint_mimic = []
        self.sites = []
        self.keyframes = []
        self.solver_hint = {}
        self.particle_color_groups = []
        self.ground_settings = None

    def __deepcopy__(self, memo):
        """Copy the lists; meshes and fields are shared, since they do not change."""
        twin = self._shallow_copy()
        memo[id(self)] = twin
        for name, value in vars(twin).items():
            if name not in ("shape_geo_src", "particle_color_groups"):
                setattr(twin, name, copy.deepcopy(value, memo))
        return twin
