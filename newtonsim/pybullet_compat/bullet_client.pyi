"""A client as an object, for editors and type checkers; written by tools/make_pybullet_stub.py."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from newtonsim.pybullet_compat.world.standing_links import StandingLink
from newtonsim.pybullet_compat.world.world_choice import Worlds
from newtonsim.scene.control import Control
from newtonsim.scene.model import Model
from newtonsim.scene.state import State
from newtonsim.simulator import Simulator
from newtonsim.solvers import FeatherstoneSolver

class BulletClient:
    def __init__(
        self,
        connection_mode: int | None = ...,
        hostName: str | None = ...,
        options: str = ...,
        num_worlds: int = ...,
        device: str | None = ...,
    ) -> None: ...
    num_worlds: int
    DIRECT: int
    GUI: int
    SHARED_MEMORY: int
    UDP: int
    TCP: int
    GUI_SERVER: int
    GUI_MAIN_THREAD: int
    SHARED_MEMORY_SERVER: int
    SHARED_MEMORY_GUI: int
    GRAPHICS_CLIENT: int
    GRAPHICS_SERVER: int
    GRAPHICS_SERVER_TCP: int
    GRAPHICS_SERVER_MAIN_THREAD: int
    SHARED_MEMORY_KEY: int
    SHARED_MEMORY_KEY2: int
    JOINT_REVOLUTE: int
    JOINT_FEEDBACK_IN_WORLD_SPACE: int
    JOINT_PRISMATIC: int
    JOINT_FEEDBACK_IN_JOINT_FRAME: int
    JOINT_SPHERICAL: int
    JOINT_PLANAR: int
    JOINT_FIXED: int
    JOINT_POINT2POINT: int
    JOINT_GEAR: int
    POSITION_CONTROL: int
    VELOCITY_CONTROL: int
    TORQUE_CONTROL: int
    PD_CONTROL: int
    STABLE_PD_CONTROL: int
    LINK_FRAME: int
    WORLD_FRAME: int
    GEOM_FORCE_CONCAVE_TRIMESH: int
    GEOM_CONCAVE_INTERNAL_EDGE: int
    GEOM_SPHERE: int
    GEOM_BOX: int
    GEOM_CYLINDER: int
    GEOM_MESH: int
    GEOM_PLANE: int
    GEOM_CAPSULE: int
    GEOM_HEIGHTFIELD: int
    URDF_USE_INERTIA_FROM_FILE: int
    URDF_USE_SELF_COLLISION: int
    URDF_USE_SELF_COLLISION_EXCLUDE_PARENT: int
    URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS: int
    URDF_USE_IMPLICIT_CYLINDER: int
    URDF_GLOBAL_VELOCITIES_MB: int
    URDF_ENABLE_CACHED_GRAPHICS_SHAPES: int
    URDF_ENABLE_SLEEPING: int
    URDF_INITIALIZE_SAT_FEATURES: int
    URDF_USE_SELF_COLLISION_INCLUDE_PARENT: int
    URDF_USE_MATERIAL_COLORS_FROM_MTL: int
    URDF_USE_MATERIAL_TRANSPARANCY_FROM_MTL: int
    URDF_MAINTAIN_LINK_ORDER: int
    URDF_ENABLE_WAKEUP: int
    URDF_MERGE_FIXED_LINKS: int
    URDF_IGNORE_VISUAL_SHAPES: int
    URDF_IGNORE_COLLISION_SHAPES: int
    URDF_PRINT_URDF_INFO: int
    URDF_GOOGLEY_UNDEFINED_COLORS: int
    MJCF_COLORS_FROM_FILE: int
    RESET_USE_DEFORMABLE_WORLD: int
    RESET_USE_DISCRETE_DYNAMICS_WORLD: int
    RESET_USE_SIMPLE_BROADPHASE: int
    RESET_USE_REDUCED_DEFORMABLE_WORLD: int
    CONSTRAINT_SOLVER_LCP_SI: int
    CONSTRAINT_SOLVER_LCP_PGS: int
    CONSTRAINT_SOLVER_LCP_DANTZIG: int
    ACTIVATION_STATE_ENABLE_SLEEPING: int
    ACTIVATION_STATE_DISABLE_SLEEPING: int
    ACTIVATION_STATE_WAKE_UP: int
    ACTIVATION_STATE_SLEEP: int
    ACTIVATION_STATE_ENABLE_WAKEUP: int
    ACTIVATION_STATE_DISABLE_WAKEUP: int
    CONTACT_REPORT_EXISTING: int
    CONTACT_RECOMPUTE_CLOSEST: int
    MAX_RAY_INTERSECTION_BATCH_SIZE: int
    SENSOR_FORCE_TORQUE: int
    IK_DLS: int
    IK_SDLS: int
    IK_HAS_TARGET_POSITION: int
    IK_HAS_TARGET_ORIENTATION: int
    IK_HAS_NULL_SPACE_VELOCITY: int
    IK_HAS_JOINT_DAMPING: int
    ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX: int
    ER_USE_PROJECTIVE_TEXTURE: int
    ER_NO_SEGMENTATION_MASK: int
    ER_TINY_RENDERER: int
    ER_BULLET_HARDWARE_OPENGL: int
    VISUAL_SHAPE_DATA_TEXTURE_UNIQUE_IDS: int
    VISUAL_SHAPE_DOUBLE_SIDED: int
    MESH_DATA_SIMULATION_MESH: int
    COV_ENABLE_GUI: int
    COV_ENABLE_SHADOWS: int
    COV_ENABLE_WIREFRAME: int
    COV_ENABLE_VR_TELEPORTING: int
    COV_ENABLE_VR_PICKING: int
    COV_ENABLE_VR_RENDER_CONTROLLERS: int
    COV_ENABLE_RENDERING: int
    COV_ENABLE_KEYBOARD_SHORTCUTS: int
    COV_ENABLE_MOUSE_PICKING: int
    COV_ENABLE_Y_AXIS_UP: int
    COV_ENABLE_TINY_RENDERER: int
    COV_ENABLE_RGB_BUFFER_PREVIEW: int
    COV_ENABLE_DEPTH_BUFFER_PREVIEW: int
    COV_ENABLE_SEGMENTATION_MARK_PREVIEW: int
    COV_ENABLE_PLANAR_REFLECTION: int
    COV_ENABLE_SINGLE_STEP_RENDERING: int
    STATE_LOGGING_MINITAUR: int
    STATE_LOGGING_GENERIC_ROBOT: int
    STATE_LOG_JOINT_MOTOR_TORQUES: int
    STATE_LOGGING_VR_CONTROLLERS: int
    STATE_LOG_JOINT_USER_TORQUES: int
    STATE_LOGGING_VIDEO_MP4: int
    STATE_LOG_JOINT_TORQUES: int
    STATE_LOGGING_CONTACT_POINTS: int
    STATE_LOGGING_PROFILE_TIMINGS: int
    STATE_LOGGING_ALL_COMMANDS: int
    STATE_REPLAY_ALL_COMMANDS: int
    STATE_LOGGING_CUSTOM_TIMER: int
    KEY_IS_DOWN: int
    KEY_WAS_TRIGGERED: int
    KEY_WAS_RELEASED: int
    B3G_SPACE: int
    B3G_F1: int
    B3G_F2: int
    B3G_F3: int
    B3G_F4: int
    B3G_F5: int
    B3G_F6: int
    B3G_F7: int
    B3G_F8: int
    B3G_F9: int
    B3G_F10: int
    B3G_F11: int
    B3G_F12: int
    B3G_F13: int
    B3G_F14: int
    B3G_F15: int
    B3G_LEFT_ARROW: int
    B3G_RIGHT_ARROW: int
    B3G_UP_ARROW: int
    B3G_DOWN_ARROW: int
    B3G_PAGE_UP: int
    B3G_PAGE_DOWN: int
    B3G_END: int
    B3G_HOME: int
    B3G_INSERT: int
    B3G_DELETE: int
    B3G_BACKSPACE: int
    B3G_SHIFT: int
    B3G_CONTROL: int
    B3G_ALT: int
    B3G_RETURN: int
    VR_BUTTON_IS_DOWN: int
    VR_CAMERA_TRACK_OBJECT_ORIENTATION: int
    VR_DEVICE_CONTROLLER: int
    VR_BUTTON_WAS_TRIGGERED: int
    VR_DEVICE_HMD: int
    VR_BUTTON_WAS_RELEASED: int
    VR_DEVICE_GENERIC_TRACKER: int
    VR_MAX_CONTROLLERS: int
    VR_MAX_BUTTONS: int
    PosixFileIO: int
    ZipFileIO: int
    CNSFileIO: int
    AddFileIOAction: int
    RemoveFileIOAction: int
    error: type[Exception]
    def isConnected(self) -> int:
        """Return 1 if there is such a client, else 0."""
    def getConnectionInfo(self) -> dict[str, int]:
        """Return whether there is such a client, and how it was connected."""
    def getAPIVersion(self) -> int:
        """Return the version of the API, that of PyBullet 3.2.7."""
    def isNumpyEnabled(self) -> int:
        """Return 1: images are NumPy arrays."""
    def getQuaternionFromEuler(self, eulerAngles: Any) -> Any:
        """Return the quaternion of roll, pitch and yaw."""
    def getEulerFromQuaternion(self, quaternion: Any) -> Any:
        """Return roll, pitch and yaw [rad]; roll is zero where pitch is a right angle."""
    def getMatrixFromQuaternion(self, quaternion: Any) -> tuple[float, ...]:
        """Return the nine elements of the rotation matrix, row by row."""
    def multiplyTransforms(self, positionA: Any, orientationA: Any, positionB: Any, orientationB: Any) -> Any:
        """Return pose B, given in the frame A, in the frame that A is given in."""
    def invertTransform(self, position: Any, orientation: Any) -> Any:
        """Return the inverse of a pose."""
    def getQuaternionSlerp(
        self, quaternionStart: Any, quaternionEnd: Any, interpolationFraction: float
    ) -> Any:
        """Return the quaternion on the shorter arc between two; lengths are interpolated too."""
    def getQuaternionFromAxisAngle(self, axis: Any, angle: float) -> Any:
        """Return the quaternion of a rotation about an axis."""
    def getAxisAngleFromQuaternion(self, quaternion: Any) -> Any:
        """Return the axis and the angle [rad] of a rotation; the axis is x where there is no rotation."""
    def getDifferenceQuaternion(self, quaternionStart: Any, quaternionEnd: Any) -> Any:
        """Return the rotation from one orientation to another the shorter way, `end * conjugate(start)`."""
    def getAxisDifferenceQuaternion(self, quaternionStart: Any, quaternionEnd: Any) -> Any:
        """Return the negative Euler angles [rad] of one orientation in the frame of another."""
    def calculateVelocityQuaternion(self, quaternionStart: Any, quaternionEnd: Any, deltaTime: float) -> Any:
        """Return the constant angular velocity [rad/s] that turns one orientation into another."""
    def rotateVector(self, quaternion: Any, vector: Any) -> Any:
        """Return a rotated vector."""
    def computeViewMatrix(
        self, cameraEyePosition: Any, cameraTargetPosition: Any, cameraUpVector: Any
    ) -> tuple[float, ...]:
        """Return the view matrix of a camera, column by column."""
    def computeViewMatrixFromYawPitchRoll(
        self,
        cameraTargetPosition: Any,
        distance: float,
        yaw: float,
        pitch: float,
        roll: float,
        upAxisIndex: int,
    ) -> tuple[float, ...]:
        """Return the view matrix of a camera that looks at a point, column by column."""
    def computeProjectionMatrix(
        self, left: float, right: float, bottom: float, top: float, nearVal: float, farVal: float
    ) -> tuple[float, ...]:
        """Return the projection matrix of a frustum, column by column."""
    def computeProjectionMatrixFOV(
        self, fov: float, aspect: float, nearVal: float, farVal: float
    ) -> tuple[float, ...]:
        """Return the projection matrix of a field of view, column by column."""
    def stepSimulation(self) -> Any:
        """Advance by one time step."""
    def resetSimulation(self, flags: int = ...) -> None:
        """Remove everything; time step, substeps and search path stay."""
    def setGravity(
        self,
        gravX: float | npt.ArrayLike,
        gravY: float | npt.ArrayLike,
        gravZ: float | npt.ArrayLike,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Set the gravity [m/s²], of each world its own where numbers come as arrays (W,)."""
    def setTimeStep(self, timeStep: float) -> None:
        """Set the time of one stepSimulation [s]."""
    def setDefaultContactERP(self, defaultContactERP: float) -> None:
        """Set the share of a penetration that one step removes."""
    def setRealTimeSimulation(self, enableRealTimeSimulation: int) -> None:
        """Let a thread step by the clock, or stop it; without effect in DIRECT mode."""
    def setInternalSimFlags(self, flags: int) -> None:
        """Do nothing: PyBullet's flags are for its own debugging."""
    def setTimeOut(self, timeOutInSeconds: float) -> None:
        """Do nothing: a client in this process answers at once."""
    def setPhysicsEngineParameter(
        self,
        fixedTimeStep: float | None = ...,
        numSolverIterations: int | None = ...,
        useSplitImpulse: int | None = ...,
        splitImpulsePenetrationThreshold: float | None = ...,
        numSubSteps: int | None = ...,
        collisionFilterMode: int | None = ...,
        contactBreakingThreshold: float | None = ...,
        maxNumCmdPer1ms: int | None = ...,
        enableFileCaching: int | None = ...,
        restitutionVelocityThreshold: float | None = ...,
        erp: float | None = ...,
        contactERP: float | None = ...,
        frictionERP: float | None = ...,
        enableConeFriction: int | None = ...,
        deterministicOverlappingPairs: int | None = ...,
        allowedCcdPenetration: float | None = ...,
        jointFeedbackMode: int | None = ...,
        solverResidualThreshold: float | None = ...,
        contactSlop: float | None = ...,
        enableSAT: int | None = ...,
        constraintSolverType: int | None = ...,
        globalCFM: float | None = ...,
        minimumSolverIslandSize: int | None = ...,
        reportSolverAnalytics: int | None = ...,
        warmStartingFactor: float | None = ...,
        sparseSdfVoxelSize: float | None = ...,
        numNonContactInnerIterations: int | None = ...,
    ) -> None:
        """Set parameters of the physics engine; those that are None or not given stay."""
    def getPhysicsEngineParameters(self, *, worlds: Worlds | None = None) -> dict[str, float | int]:
        """Return the parameters that PyBullet reports; gravity as arrays (W,) where worlds have their own."""
    def loadURDF(
        self,
        fileName: str,
        basePosition: Any = ...,
        baseOrientation: Any = ...,
        useMaximalCoordinates: int = ...,
        useFixedBase: int = ...,
        flags: int = ...,
        globalScaling: float | npt.ArrayLike = ...,
    ) -> int:
        """Load a robot from a URDF file."""
    def loadSDF(
        self, sdfFileName: str, useMaximalCoordinates: int = ..., globalScaling: float = ...
    ) -> tuple[int, ...]:
        """Load all models of an SDF file."""
    def loadMJCF(self, mjcfFileName: str, flags: int = ..., useMultiBody: int = ...) -> tuple[int, ...]:
        """Load the bodies of an MJCF file."""
    def setAdditionalSearchPath(self, path: str) -> None:
        """Look for files in this folder too, after the working directory, in all clients of the process."""
    def unsupportedChangeScaling(self, bodyUniqueId: int, scaling: Any) -> None:
        """Does nothing, as in PyBullet without its graphical window."""
    def createMultiBody(
        self,
        baseMass: float | npt.ArrayLike = ...,
        baseCollisionShapeIndex: int = ...,
        baseVisualShapeIndex: int = ...,
        basePosition: Any = ...,
        baseOrientation: Any = ...,
        baseInertialFramePosition: Any = ...,
        baseInertialFrameOrientation: Any = ...,
        linkMasses: Any = ...,
        linkCollisionShapeIndices: Any = ...,
        linkVisualShapeIndices: Any = ...,
        linkPositions: Any = ...,
        linkOrientations: Any = ...,
        linkInertialFramePositions: Any = ...,
        linkInertialFrameOrientations: Any = ...,
        linkParentIndices: Any = ...,
        linkJointTypes: Any = ...,
        linkJointAxis: Any = ...,
        useMaximalCoordinates: int = ...,
        flags: int = ...,
        batchPositions: Any = ...,
    ) -> int | tuple[int, ...]:
        """Make a body from shapes."""
    def vhacd(
        self,
        fileNameIn: str,
        fileNameOut: str,
        fileNameLogging: str,
        concavity: float = ...,
        alpha: float = ...,
        beta: float = ...,
        gamma: float = ...,
        minVolumePerCH: float = ...,
        resolution: int = ...,
        maxNumVerticesPerCH: int = ...,
        depth: int = ...,
        planeDownsampling: int = ...,
        convexhullDownsampling: int = ...,
        pca: int = ...,
        mode: int = ...,
        convexhullApproximation: int = ...,
    ) -> None:
        """Write the convex parts of a mesh file as groups of a Wavefront file."""
    def createCollisionShape(
        self,
        shapeType: int,
        radius: float | npt.ArrayLike = ...,
        halfExtents: Any = ...,
        height: float | npt.ArrayLike = ...,
        fileName: str = ...,
        meshScale: Any = ...,
        planeNormal: Any = ...,
        flags: int = ...,
        collisionFramePosition: Any = ...,
        collisionFrameOrientation: Any = ...,
        vertices: Any = ...,
        indices: Any = ...,
        heightfieldTextureScaling: float = ...,
        heightfieldData: Any = ...,
        numHeightfieldRows: int = ...,
        numHeightfieldColumns: int = ...,
        replaceHeightfieldIndex: int = ...,
    ) -> int:
        """Make a shape that collides."""
    def createCollisionShapeArray(
        self,
        shapeTypes: Any,
        radii: Any = ...,
        halfExtents: Any = ...,
        lengths: Any = ...,
        fileNames: Any = ...,
        meshScales: Any = ...,
        planeNormals: Any = ...,
        flags: Any = ...,
        collisionFramePositions: Any = ...,
        collisionFrameOrientations: Any = ...,
    ) -> int:
        """Make one collision shape of several; all lists have one entry per shape."""
    def removeCollisionShape(self, collisionShapeId: int) -> None:
        """Forget a collision shape that no body has."""
    def createVisualShape(
        self,
        shapeType: int,
        radius: float = ...,
        halfExtents: Any = ...,
        length: float = ...,
        fileName: str = ...,
        meshScale: Any = ...,
        planeNormal: Any = ...,
        flags: int = ...,
        rgbaColor: Any = ...,
        specularColor: Any = ...,
        visualFramePosition: Any = ...,
        visualFrameOrientation: Any = ...,
        vertices: Any = ...,
        indices: Any = ...,
        normals: Any = ...,
        uvs: Any = ...,
    ) -> int:
        """Make a shape that is seen."""
    def createVisualShapeArray(
        self,
        shapeTypes: Any,
        radii: Any = ...,
        halfExtents: Any = ...,
        lengths: Any = ...,
        fileNames: Any = ...,
        meshScales: Any = ...,
        planeNormals: Any = ...,
        flags: Any = ...,
        rgbaColors: Any = ...,
        visualFramePositions: Any = ...,
        visualFrameOrientations: Any = ...,
    ) -> int:
        """Make one visual shape of several; all lists have one entry per shape."""
    def saveState(self) -> int:
        """Keep the state in memory and return its id."""
    def restoreState(self, stateId: int = ..., fileName: str = ...) -> None:
        """Go back to a state in memory or in a file of saveBullet."""
    def removeState(self, stateUniqueId: int) -> None:
        """Forget a state; unknown ids do nothing."""
    def saveBullet(self, bulletFileName: str) -> None:
        """Write the coordinates of all bodies to a file, and the contacts of the last step."""
    def loadBullet(self, bulletFileName: str) -> Any:
        """Take the state from a file of saveBullet, for the bodies that the world has."""
    def saveWorld(self, worldFileName: str) -> None:
        """Write a script that loads the same files and puts their joints where they are."""
    def removeBody(self, bodyUniqueId: int) -> None:
        """Remove a body with the constraints on it."""
    def getNumBodies(self) -> int:
        """Return the number of bodies."""
    def getBodyUniqueId(self, serialIndex: int) -> int:
        """Return the unique id of the body at a place in the list, -1 outside it."""
    def getBodyInfo(self, bodyUniqueId: int) -> tuple[bytes, bytes]:
        """Return the names of the base link and of the body."""
    def syncBodyInfo(self) -> None:
        """Let getBodyUniqueId count bodies by their unique ids, whichever came first."""
    def getBasePositionAndOrientation(self, bodyUniqueId: int, *, worlds: Worlds | None = None) -> Any:
        """Return the world position [m] and quaternion xyzw of the base's inertial frame."""
    def resetBasePositionAndOrientation(
        self, bodyUniqueId: int, posObj: Any, ornObj: Any, *, worlds: Worlds | None = None
    ) -> None:
        """Put the base's inertial frame somewhere and stop the base."""
    def getBaseVelocity(self, bodyUniqueId: int, *, worlds: Worlds | None = None) -> Any:
        """Return the linear [m/s] and angular [rad/s] velocity of the base in the world."""
    def resetBaseVelocity(
        self,
        objectUniqueId: int,
        linearVelocity: Any = ...,
        angularVelocity: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Set the velocity of a base in the world."""
    def getLinkState(
        self,
        bodyUniqueId: int,
        linkIndex: int,
        computeLinkVelocity: int = ...,
        computeForwardKinematics: int = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Return poses and velocities of a link."""
    def getLinkStates(
        self,
        bodyUniqueId: int,
        linkIndices: Any,
        computeLinkVelocity: int = ...,
        computeForwardKinematics: int = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Return `getLinkState` of several links."""
    def getNumJoints(self, bodyUniqueId: int) -> int:
        """Return the number of joints of a body, 0 for unknown ones."""
    def getJointInfo(self, bodyUniqueId: int, jointIndex: int) -> Any:
        """Return the definition of a joint as PyBullet's 17 fields."""
    def computeDofCount(self, bodyUniqueId: int) -> int:
        """Return the number of velocities of the joints of a body; the base does not count."""
    def getJointState(self, bodyUniqueId: int, jointIndex: int, *, worlds: Worlds | None = None) -> Any:
        """Return position, velocity, reaction force and motor torque of a joint."""
    def getJointStates(self, bodyUniqueId: int, jointIndices: Any, *, worlds: Worlds | None = None) -> Any:
        """Return `getJointState` of several joints, None of none."""
    def getJointStateMultiDof(
        self, bodyUniqueId: int, jointIndex: int, *, worlds: Worlds | None = None
    ) -> Any:
        """Return position, velocity, reaction force and motor torque of a joint, all of them tuples."""
    def getJointStatesMultiDof(
        self, bodyUniqueId: int, jointIndex: Any, *, worlds: Worlds | None = None
    ) -> Any:
        """Return `getJointStateMultiDof` of several joints, None of none."""
    def resetJointState(
        self,
        bodyUniqueId: int,
        jointIndex: int,
        targetValue: float | npt.ArrayLike,
        targetVelocity: float | npt.ArrayLike = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Set position and velocity of a joint with one coordinate; its motor stays as it is."""
    def resetJointStateMultiDof(
        self,
        bodyUniqueId: int,
        jointIndex: int,
        targetValue: Any,
        targetVelocity: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Set position (quaternions of spherical joints) and velocity of a joint."""
    def resetJointStatesMultiDof(
        self,
        bodyUniqueId: int,
        jointIndices: Any,
        targetValues: Any,
        targetVelocities: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Set positions and velocities of several joints, see `resetJointStateMultiDof`."""
    def enableJointForceTorqueSensor(
        self, bodyUniqueId: int, jointIndex: int, enableSensor: int = ...
    ) -> None:
        """Let getJointState report the reaction force of a joint, or stop it."""
    def setJointMotorControl2(
        self,
        bodyUniqueId: int = ...,
        jointIndex: int = ...,
        controlMode: int = ...,
        targetPosition: float | npt.ArrayLike = ...,
        targetVelocity: float | npt.ArrayLike = ...,
        force: float | npt.ArrayLike = ...,
        positionGain: float | npt.ArrayLike = ...,
        velocityGain: float | npt.ArrayLike = ...,
        maxVelocity: float | npt.ArrayLike = ...,
        *,
        bodyIndex: int = ...,
        worlds: Worlds | None = None,
    ) -> None:
        """Control a joint until told otherwise, or by a torque for the next step."""
    def setJointMotorControlArray(
        self,
        bodyUniqueId: int = ...,
        jointIndices: Any = ...,
        controlMode: int = ...,
        targetPositions: Any = ...,
        targetVelocities: Any = ...,
        forces: Any = ...,
        positionGains: Any = ...,
        velocityGains: Any = ...,
        *,
        bodyIndex: int = ...,
        worlds: Worlds | None = None,
    ) -> None:
        """Control several joints, see `setJointMotorControl2`."""
    def setJointMotorControlMultiDof(
        self,
        bodyUniqueId: int,
        jointIndex: int,
        controlMode: int,
        targetPosition: Any = ...,
        targetVelocity: Any = ...,
        force: Any = ...,
        positionGain: Any = ...,
        velocityGain: Any = ...,
        maxVelocity: float | npt.ArrayLike = ...,
        damping: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Control a joint with any number of coordinates; targets of spherical joints are quaternions."""
    def setJointMotorControlMultiDofArray(
        self,
        bodyUniqueId: int,
        jointIndices: Any,
        controlMode: int,
        targetPositions: Any = ...,
        targetVelocities: Any = ...,
        forces: Any = ...,
        positionGains: Any = ...,
        velocityGains: Any = ...,
        maxVelocities: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Control several joints, see `setJointMotorControlMultiDof`."""
    def getDynamicsInfo(self, bodyUniqueId: int, linkIndex: int, *, worlds: Worlds | None = None) -> Any:
        """Return mass, friction, inertia and contact properties of a link as PyBullet's 12 fields."""
    def changeDynamics(
        self,
        bodyUniqueId: int,
        linkIndex: int,
        mass: float | npt.ArrayLike | None = ...,
        lateralFriction: float | npt.ArrayLike | None = ...,
        spinningFriction: float | npt.ArrayLike | None = ...,
        rollingFriction: float | npt.ArrayLike | None = ...,
        restitution: float | npt.ArrayLike | None = ...,
        linearDamping: float | npt.ArrayLike | None = ...,
        angularDamping: float | npt.ArrayLike | None = ...,
        contactStiffness: float | npt.ArrayLike | None = ...,
        contactDamping: float | npt.ArrayLike | None = ...,
        frictionAnchor: int | None = ...,
        localInertiaDiagonal: Any = ...,
        ccdSweptSphereRadius: float | npt.ArrayLike | None = ...,
        contactProcessingThreshold: float | npt.ArrayLike | None = ...,
        activationState: int | None = ...,
        jointDamping: float | npt.ArrayLike | None = ...,
        anisotropicFriction: Any = ...,
        maxJointVelocity: float | npt.ArrayLike | None = ...,
        collisionMargin: float | npt.ArrayLike | None = ...,
        jointLowerLimit: float | npt.ArrayLike | None = ...,
        jointUpperLimit: float | npt.ArrayLike | None = ...,
        jointLimitForce: float | npt.ArrayLike | None = ...,
        sleepThreshold: float | npt.ArrayLike | None = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Change properties of a link; what is None or negative stays, unknown bodies and links do
        nothing.
        """
    def applyExternalForce(
        self,
        objectUniqueId: int,
        linkIndex: int,
        forceObj: Any,
        posObj: Any,
        flags: int,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Apply a force at a point of a link during the next step."""
    def applyExternalTorque(
        self, objectUniqueId: int, linkIndex: int, torqueObj: Any, flags: int, *, worlds: Worlds | None = None
    ) -> None:
        """Apply a torque to a link during the next step, see `applyExternalForce`."""
    def createConstraint(
        self,
        parentBodyUniqueId: int,
        parentLinkIndex: int,
        childBodyUniqueId: int,
        childLinkIndex: int,
        jointType: int,
        jointAxis: Any,
        parentFramePosition: Any,
        childFramePosition: Any,
        parentFrameOrientation: Any = ...,
        childFrameOrientation: Any = ...,
    ) -> int:
        """Hold two links, or a link and the world, and return the constraint's unique id."""
    def changeConstraint(
        self,
        userConstraintUniqueId: int,
        jointChildPivot: Any = ...,
        jointChildFrameOrientation: Any = ...,
        maxForce: float | npt.ArrayLike | None = ...,
        gearRatio: float | None = ...,
        gearAuxLink: int | None = ...,
        relativePositionTarget: float | None = ...,
        erp: float | None = ...,
        *,
        worlds: Worlds | None = None,
    ) -> None:
        """Change the child's frame, the greatest force or a gear; unknown constraints do nothing."""
    def removeConstraint(self, userConstraintUniqueId: int) -> None:
        """Remove a constraint or the anchor of a soft body; unknown ones do nothing."""
    def getNumConstraints(self) -> int:
        """Return the number of constraints."""
    def getConstraintUniqueId(self, serialIndex: int) -> int:
        """Return the unique id of the constraint at a place in the list, -1 outside it."""
    def getConstraintInfo(self, constraintUniqueId: int, *, worlds: Worlds | None = None) -> Any:
        """Return the definition of a constraint as PyBullet's 15 fields."""
    def getConstraintState(
        self, constraintUniqueId: int, *, worlds: Worlds | None = None
    ) -> tuple | np.ndarray:
        """Return the forces of a constraint in the last step, zero before the first one."""
    def calculateInverseDynamics(
        self,
        bodyUniqueId: int = ...,
        objPositions: Any = ...,
        objVelocities: Any = ...,
        objAccelerations: Any = ...,
        flags: int = ...,
        *,
        bodyIndex: int = ...,
    ) -> tuple[float, ...] | np.ndarray:
        """Return the forces that give joints target accelerations, against gravity."""
    def calculateJacobian(
        self,
        bodyUniqueId: int,
        linkIndex: int,
        localPosition: Any,
        objPositions: Any,
        objVelocities: Any,
        objAccelerations: Any,
    ) -> Any:
        """Return the linear and the angular Jacobian of a point of a link."""
    def calculateMassMatrix(
        self, bodyUniqueId: int, objPositions: Any, flags: int = ...
    ) -> tuple[tuple[float, ...], ...] | np.ndarray:
        """Return the joint-space inertia of a body."""
    def calculateInverseKinematics(
        self,
        bodyUniqueId: int = ...,
        endEffectorLinkIndex: int = ...,
        targetPosition: Any = ...,
        targetOrientation: Any = ...,
        lowerLimits: Any = ...,
        upperLimits: Any = ...,
        jointRanges: Any = ...,
        restPoses: Any = ...,
        jointDamping: Any = ...,
        solver: int = ...,
        currentPositions: Any = ...,
        maxNumIterations: int = ...,
        residualThreshold: float = ...,
        *,
        bodyIndex: int = ...,
    ) -> tuple[float, ...] | np.ndarray:
        """Return coordinates of the joints that bring a link to a target; nothing is moved."""
    def calculateInverseKinematics2(
        self,
        bodyUniqueId: int,
        endEffectorLinkIndices: Any,
        targetPositions: Any,
        lowerLimits: Any = ...,
        upperLimits: Any = ...,
        jointRanges: Any = ...,
        restPoses: Any = ...,
        jointDamping: Any = ...,
        solver: int = ...,
        currentPositions: Any = ...,
        maxNumIterations: int = ...,
        residualThreshold: float = ...,
    ) -> tuple[float, ...] | np.ndarray:
        """Return coordinates of the joints that bring several links to targets; nothing is moved."""
    def performCollisionDetection(self) -> None:
        """Find contacts at the present poses, without a step; those that go on keep their forces."""
    def getContactPoints(
        self,
        bodyA: int = ...,
        bodyB: int = ...,
        linkIndexA: int = ...,
        linkIndexB: int = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Return the contact points of the last stepSimulation or performCollisionDetection."""
    def getClosestPoints(
        self,
        bodyA: int,
        bodyB: int,
        distance: float,
        linkIndexA: int = ...,
        linkIndexB: int = ...,
        collisionShapeA: int = ...,
        collisionShapeB: int = ...,
        collisionShapePositionA: Any = ...,
        collisionShapePositionB: Any = ...,
        collisionShapeOrientationA: Any = ...,
        collisionShapeOrientationB: Any = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Return the closest points of two bodies at their present poses, one for each pair of shapes."""
    def getOverlappingObjects(self, aabbMin: Any, aabbMax: Any, *, worlds: Worlds | None = None) -> Any:
        """Return the links whose boxes meet a box, by unique id and link."""
    def getAABB(self, bodyUniqueId: int, linkIndex: int = ..., *, worlds: Worlds | None = None) -> Any:
        """Return the box about a link, as PyBullet bounds its shapes."""
    def getCollisionShapeData(self, objectUniqueId: int, linkIndex: int) -> Any:
        """Return what a link collides as."""
    def getMeshData(
        self, bodyUniqueId: int, linkIndex: int = ..., collisionShapeIndex: int = ..., flags: int = ...
    ) -> Any:
        """Return the vertices of a soft body, or those of the convex hulls that a link collides as."""
    def rayTest(
        self,
        rayFromPosition: Any,
        rayToPosition: Any,
        collisionFilterMask: int = ...,
        reportHitNumber: int = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Cast one ray; see `rayTestBatch`."""
    def rayTestBatch(
        self,
        rayFromPositions: Any,
        rayToPositions: Any,
        numThreads: int = ...,
        parentObjectUniqueId: int = ...,
        parentLinkIndex: int = ...,
        reportHitNumber: int = ...,
        collisionFilterMask: int = ...,
        fractionEpsilon: float = ...,
        *,
        worlds: Worlds | None = None,
    ) -> Any:
        """Cast rays from point to point."""
    def setCollisionFilterPair(
        self, bodyUniqueIdA: int, bodyUniqueIdB: int, linkIndexA: int, linkIndexB: int, enableCollision: int
    ) -> None:
        """Switch collisions of two links on or off, whatever their groups and masks say."""
    def setCollisionFilterGroupMask(
        self, bodyUniqueId: int, linkIndexA: int, collisionFilterGroup: int, collisionFilterMask: int
    ) -> None:
        """Set group and mask of a link; two links collide if the group of one is in the mask of the other."""
    def getCameraImage(
        self,
        width: int,
        height: int,
        viewMatrix: Any = ...,
        projectionMatrix: Any = ...,
        lightDirection: Any = ...,
        lightColor: Any = ...,
        lightDistance: float | None = ...,
        shadow: int | None = ...,
        lightAmbientCoeff: float | None = ...,
        lightDiffuseCoeff: float | None = ...,
        lightSpecularCoeff: float | None = ...,
        renderer: int | None = ...,
        flags: int | None = ...,
        projectiveTextureView: Any = ...,
        projectiveTextureProj: Any = ...,
    ) -> Any:
        """Take a picture."""
    def getVisualShapeData(self, objectUniqueId: int, flags: int = ...) -> Any:
        """Return all visual shapes of a body."""
    def changeVisualShape(
        self,
        objectUniqueId: int,
        linkIndex: int,
        shapeIndex: int = ...,
        textureUniqueId: int | None = ...,
        rgbaColor: Any = ...,
        specularColor: Any = ...,
        flags: int = ...,
    ) -> None:
        """Change how visual shapes of a link look; a body or link that is not there changes nothing."""
    def resetVisualShapeData(
        self,
        objectUniqueId: int,
        linkIndex: int,
        shapeIndex: int = ...,
        textureUniqueId: int | None = ...,
        rgbaColor: Any = ...,
        specularColor: Any = ...,
        flags: int = ...,
    ) -> None:
        """Change how a link looks; the old name of `changeVisualShape`, with the same arguments."""
    def loadTexture(self, textureFilename: str) -> int:
        """Load an image and return its texture unique id."""
    def changeTexture(self, textureUniqueId: int, pixels: Any, width: int, height: int) -> None:
        """Replace the image of a texture."""
    def addUserDebugLine(
        self,
        lineFromXYZ: Any,
        lineToXYZ: Any,
        lineColorRGB: Any = ...,
        lineWidth: float = ...,
        lifeTime: float = ...,
        parentObjectUniqueId: int = ...,
        parentLinkIndex: int = ...,
        replaceItemUniqueId: int = ...,
    ) -> int:
        """Draw a line."""
    def addUserDebugPoints(
        self,
        pointPositions: Any,
        pointColorsRGB: Any,
        pointSize: float = ...,
        lifeTime: float = ...,
        parentObjectUniqueId: int = ...,
        parentLinkIndex: int = ...,
        replaceItemUniqueId: int = ...,
    ) -> int:
        """Draw points; see addUserDebugLine."""
    def addUserDebugText(
        self,
        text: str,
        textPosition: Any,
        textColorRGB: Any = ...,
        textSize: float = ...,
        lifeTime: float = ...,
        textOrientation: Any = ...,
        parentObjectUniqueId: int = ...,
        parentLinkIndex: int = ...,
        replaceItemUniqueId: int = ...,
    ) -> int:
        """Draw a text; see addUserDebugLine."""
    def addUserDebugParameter(
        self, paramName: str, rangeMin: float = ..., rangeMax: float = ..., startValue: float = ...
    ) -> int:
        """Add a slider, or with rangeMin above rangeMax a button; -1 without GUI."""
    def readUserDebugParameter(self, itemUniqueId: int) -> float:
        """Return the value of a slider, or how often a button was pressed plus its start value."""
    def removeUserDebugItem(self, itemUniqueId: int) -> None:
        """Remove a line, points or a text; others do nothing."""
    def removeAllUserDebugItems(self) -> None:
        """Remove all lines, points and texts."""
    def removeAllUserParameters(self) -> None:
        """Remove all sliders and buttons."""
    def setDebugObjectColor(
        self, objectUniqueId: int, linkIndex: int, objectDebugColorRGB: Any = ...
    ) -> None:
        """Set the wireframe colour of a link, or put the default back."""
    def configureDebugVisualizer(
        self,
        flag: int = ...,
        enable: int = ...,
        lightPosition: Any = ...,
        shadowMapResolution: int | None = ...,
        shadowMapWorldSize: int | None = ...,
        remoteSyncTransformInterval: float | None = ...,
        shadowMapIntensity: float | None = ...,
        rgbBackground: Any = ...,
    ) -> None:
        """Switch something in the window on or off, or set light, shadow and background."""
    def resetDebugVisualizerCamera(
        self, cameraDistance: float, cameraYaw: float, cameraPitch: float, cameraTargetPosition: Any
    ) -> None:
        """Move the camera of the window."""
    def getDebugVisualizerCamera(self) -> Any:
        """Return the camera of the window, all zeros without GUI."""
    def getKeyboardEvents(self) -> dict[int, int]:
        """Return the state of each key that changed or is held down, by key code."""
    def getMouseEvents(self) -> Any:
        """Return mouse events: (event type, x, y, button index, button state) each."""
    def getVREvents(self, deviceTypeFilter: int = ..., allAnalogAxes: int = ...) -> Any:
        """Return nothing: there is no support for headsets."""
    def setVRCameraState(
        self,
        rootPosition: Any = ...,
        rootOrientation: Any = ...,
        trackObject: int | None = ...,
        trackObjectFlag: int | None = ...,
    ) -> None:
        """Do nothing: there is no support for headsets."""
    def addUserData(
        self, bodyUniqueId: int, key: str, value: str, linkIndex: int = ..., visualShapeIndex: int = ...
    ) -> int:
        """Keep a text under a key, in the place of another one under the same key."""
    def removeUserData(self, userDataId: int) -> None:
        """Remove a text."""
    def getUserData(self, userDataId: int) -> bytes | None:
        """Return a text, None if there is none of that id."""
    def getUserDataId(
        self, bodyUniqueId: int, key: str, linkIndex: int = ..., visualShapeIndex: int = ...
    ) -> int:
        """Return the id of the text under a key, -1 if there is none; see addUserData."""
    def getNumUserData(self, bodyUniqueId: int) -> int:
        """Return how many texts a body has."""
    def getUserDataInfo(self, bodyUniqueId: int, userDataIndex: int) -> Any:
        """Return id, key, body, link and visual shape of a text."""
    def syncUserData(self, bodyUniqueIds: Any = ...) -> None:
        """Do nothing but check that there are such bodies: a client in this process is never behind."""
    def startStateLogging(
        self,
        loggingType: int,
        fileName: str,
        objectUniqueIds: Any = ...,
        maxLogDof: int = ...,
        bodyUniqueIdA: int = ...,
        bodyUniqueIdB: int = ...,
        linkIndexA: int = ...,
        linkIndexB: int = ...,
        deviceTypeFilter: int = ...,
        logFlags: int = ...,
    ) -> int | None:
        """Log what happens in every step to a file, or replay a log of commands."""
    def stopStateLogging(self, loggingId: int) -> None:
        """End a logger and close its file; ids of none do nothing."""
    def submitProfileTiming(self, eventName: str = ...) -> None:
        """Open a span in the log of timings, or without a name close the one that was opened last."""
    def loadPlugin(self, pluginPath: str, postFix: str = ...) -> int:
        """Load a plugin by name; see the table of this module."""
    def unloadPlugin(self, pluginUniqueId: int) -> None:
        """Unload a plugin; ids of none do nothing. Built-in ones cannot be loaded again."""
    def executePluginCommand(
        self, pluginUniqueId: int, textArgument: str = ..., intArgs: Any = ..., floatArgs: Any = ...
    ) -> int:
        """Let a plugin do something."""
    def loadSoftBody(
        self,
        fileName: str,
        basePosition: Any = ...,
        baseOrientation: Any = ...,
        scale: float = ...,
        mass: float | None = ...,
        collisionMargin: float | None = ...,
        useMassSpring: int = ...,
        useBendingSprings: int = ...,
        useNeoHookean: int = ...,
        springElasticStiffness: float | None = ...,
        springDampingStiffness: float | None = ...,
        springDampingAllDirections: int = ...,
        springBendingStiffness: float | None = ...,
        NeoHookeanMu: float | None = ...,
        NeoHookeanLambda: float | None = ...,
        NeoHookeanDamping: float | None = ...,
        frictionCoeff: float | None = ...,
        useFaceContact: int = ...,
        useSelfCollision: int = ...,
        repulsionStiffness: float | None = ...,
        simFileName: str = ...,
    ) -> int:
        """Load a soft body: cloth from an OBJ file, or a volume from a VTK file of tetrahedra."""
    def createSoftBodyAnchor(
        self,
        softBodyBodyUniqueId: int,
        nodeIndex: int,
        bodyUniqueId: int = ...,
        linkIndex: int = ...,
        bodyFramePosition: Any = ...,
    ) -> int:
        """Hold a point of a soft body where it is, or at a link."""
    def getTetraMeshData(self, bodyUniqueId: int, flags: int = ...) -> Any:
        """Return the simulated points of a soft body."""
    def resetMeshData(self, bodyUniqueId: int, vertices: Any) -> None:
        """Put the simulated points of a soft body somewhere and stop them."""
    def disconnect(self) -> None:
        """Close a connection; a world in this process is gone with it."""
    @property
    def model(self) -> Model:
        """The `newtonsim.Model` of all worlds."""
    @property
    def state(self) -> State:
        """The current `newtonsim.State`, with everything that was set since the last step."""
    @property
    def control(self) -> Control:
        """The `newtonsim.Control` that every step reads."""
    @property
    def solver(self) -> FeatherstoneSolver:
        """The solver that stepSimulation uses."""
    @property
    def simulator(self) -> Simulator:
        """The `newtonsim.Simulator` that stepSimulation advances."""
    @property
    def shape_links(self) -> list[tuple[int, int]]:
        """(body unique id, link index) of each shape of a world, in the order of `swept_bounds`."""
    def advance(self, steps: int) -> None:
        """Make some steps, as many calls of stepSimulation do; faster with many worlds."""
    def resetWorlds(self, worlds: Worlds) -> None:
        """Put the bodies of some worlds back to where they were loaded, at rest, and forget their last
        step.
        """
    def restore_worlds(self, state_id: int, worlds: Worlds) -> None:
        """Put some worlds back to a state of saveState, and let the solver forget their last step."""
    def mirror(self, physicsClientId: int, bodies: Collection[int] | None = ...) -> None:
        """Become like another client: its bodies, constraints, filters, motors, settings and last step."""
    def standing_links(self, links: Iterable[tuple[int, int]]) -> list[StandingLink]:
        """Return links (body unique id, link index) of the first world as they stand, for `surround`."""
    def surround(self, links: Iterable[StandingLink]) -> None:
        """Place links of another client around the bodies of all worlds, as obstacles that never move."""
    def watch_bounds(self) -> None:
        """Record boxes around what the shapes sweep over from now on, until bodies are added or removed."""
    def swept_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Corners of the boxes in which steps since `watch_bounds` have looked for contacts of each shape."""
    def differentiable_model(self) -> Model:
        """Return the scene as it is now as a new model that gradients flow through, for any solver."""
    def __getattr__(self, name: str) -> Any: ...
