"""Options for loading a file."""

from dataclasses import dataclass, field

from newtonsim.importers.geometry.pose import Pose
from newtonsim.pybullet_compat.descriptions.kinds import LoadFlag

NO_FLAGS = LoadFlag(0)


@dataclass(slots=True)
class LoadOptions:
    """Arguments of loadURDF, loadSDF and loadMJCF.

    Attributes:
        flags: URDF_... flags.
        scale: globalScaling.
        pose: Link frame of the base in the world.
        fixed: useFixedBase.
        maximal: useMaximalCoordinates.
        use_cache: Whether unchanged files are read once (enableFileCaching).
    """

    flags: LoadFlag = NO_FLAGS
    scale: float = 1.0
    pose: Pose = field(default_factory=Pose.identity)
    fixed: bool = False
    maximal: bool = False
    use_cache: bool = True
