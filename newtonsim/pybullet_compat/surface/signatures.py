"""The functions of PyBullet 3.2.7: their modules, parameters, order and defaults.

One entry per function, under the module of this package that holds it: `[module]`, then `name(parameters)`.
A parameter is its type, its name and, if it is optional, its default. Types are those that PyBullet checks:
`i` int, `d` float, `s` str, `O` any object, which the function converts. Of floats, `q` is a coordinate or a
velocity, and `l` bounds something, so that infinity is no bound; `surface.arguments` says how large they may
be. `Q` and `L` are objects of such numbers. None stands for "not given" where the manual names no default.
The last parameter of every function, `i physicsClientId=0`, is left out.
The names are those of the quickstart guide and of the module's own complaints about arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from newtonsim.pybullet_compat.surface.arguments import Size

TABLE = """
[clients.table]
disconnect()
isConnected()
getConnectionInfo()
getAPIVersion()
isNumpyEnabled()

[surface.maths]
getQuaternionFromEuler(O eulerAngles)
getEulerFromQuaternion(O quaternion)
getMatrixFromQuaternion(O quaternion)
multiplyTransforms(O positionA, O orientationA, O positionB, O orientationB)
invertTransform(O position, O orientation)
getQuaternionSlerp(O quaternionStart, O quaternionEnd, d interpolationFraction)
getQuaternionFromAxisAngle(O axis, d angle)
getAxisAngleFromQuaternion(O quaternion)
getDifferenceQuaternion(O quaternionStart, O quaternionEnd)
getAxisDifferenceQuaternion(O quaternionStart, O quaternionEnd)
calculateVelocityQuaternion(O quaternionStart, O quaternionEnd, d deltaTime)
rotateVector(O quaternion, O vector)
computeViewMatrix(O cameraEyePosition, O cameraTargetPosition, O cameraUpVector)
computeViewMatrixFromYawPitchRoll(
    O cameraTargetPosition, d distance, d yaw, d pitch, d roll, i upAxisIndex)
computeProjectionMatrix(d left, d right, d bottom, d top, d nearVal, d farVal)
computeProjectionMatrixFOV(d fov, d aspect, d nearVal, d farVal)

[api.stepping]
stepSimulation()
resetSimulation(i flags=0)
setGravity(d gravX, d gravY, d gravZ)
setTimeStep(d timeStep)
setDefaultContactERP(d defaultContactERP)
setRealTimeSimulation(i enableRealTimeSimulation)
setInternalSimFlags(i flags)
setTimeOut(l timeOutInSeconds)
setPhysicsEngineParameter(
    d fixedTimeStep=None, i numSolverIterations=None, i useSplitImpulse=None,
    d splitImpulsePenetrationThreshold=None, i numSubSteps=None, i collisionFilterMode=None,
    d contactBreakingThreshold=None, i maxNumCmdPer1ms=None, i enableFileCaching=None,
    d restitutionVelocityThreshold=None, d erp=None, d contactERP=None, d frictionERP=None,
    i enableConeFriction=None, i deterministicOverlappingPairs=None, d allowedCcdPenetration=None,
    i jointFeedbackMode=None, d solverResidualThreshold=None, d contactSlop=None, i enableSAT=None,
    i constraintSolverType=None, d globalCFM=None, i minimumSolverIslandSize=None,
    i reportSolverAnalytics=None, d warmStartingFactor=None, d sparseSdfVoxelSize=None,
    i numNonContactInnerIterations=None)
getPhysicsEngineParameters()

[api.loading]
loadURDF(
    s fileName, O basePosition=(0.0, 0.0, 0.0), O baseOrientation=(0.0, 0.0, 0.0, 1.0),
    i useMaximalCoordinates=0, i useFixedBase=0, i flags=0, d globalScaling=1.0)
loadSDF(s sdfFileName, i useMaximalCoordinates=0, d globalScaling=1.0)
loadMJCF(s mjcfFileName, i flags=0, i useMultiBody=1)
setAdditionalSearchPath(s path)
unsupportedChangeScaling(i bodyUniqueId, O scaling)
createMultiBody(
    d baseMass=0.0, i baseCollisionShapeIndex=-1, i baseVisualShapeIndex=-1,
    O basePosition=(0.0, 0.0, 0.0), O baseOrientation=(0.0, 0.0, 0.0, 1.0),
    O baseInertialFramePosition=(0.0, 0.0, 0.0), O baseInertialFrameOrientation=(0.0, 0.0, 0.0, 1.0),
    O linkMasses=None, O linkCollisionShapeIndices=None, O linkVisualShapeIndices=None,
    O linkPositions=None, O linkOrientations=None, O linkInertialFramePositions=None,
    O linkInertialFrameOrientations=None, O linkParentIndices=None, O linkJointTypes=None,
    O linkJointAxis=None, i useMaximalCoordinates=0, i flags=0, O batchPositions=None)
vhacd(
    s fileNameIn, s fileNameOut, s fileNameLogging, d concavity=0.0025, d alpha=0.05, d beta=0.05,
    d gamma=0.00125, d minVolumePerCH=0.0001, i resolution=100000, i maxNumVerticesPerCH=64, i depth=20,
    i planeDownsampling=4, i convexhullDownsampling=4, i pca=0, i mode=0, i convexhullApproximation=1)

[api.shapes]
createCollisionShape(
    i shapeType, d radius=0.5, O halfExtents=(1.0, 1.0, 1.0), d height=1.0, s fileName="",
    O meshScale=(1.0, 1.0, 1.0), O planeNormal=(0.0, 0.0, 1.0), i flags=0,
    O collisionFramePosition=(0.0, 0.0, 0.0), O collisionFrameOrientation=(0.0, 0.0, 0.0, 1.0),
    O vertices=None, O indices=None, d heightfieldTextureScaling=1.0, O heightfieldData=None,
    i numHeightfieldRows=-1, i numHeightfieldColumns=-1, i replaceHeightfieldIndex=-1)
createCollisionShapeArray(
    O shapeTypes, O radii=None, O halfExtents=None, O lengths=None, O fileNames=None, O meshScales=None,
    O planeNormals=None, O flags=None, O collisionFramePositions=None, O collisionFrameOrientations=None)
removeCollisionShape(i collisionShapeId)
createVisualShape(
    i shapeType, d radius=0.5, O halfExtents=(1.0, 1.0, 1.0), d length=1.0, s fileName="",
    O meshScale=(1.0, 1.0, 1.0), O planeNormal=(0.0, 0.0, 1.0), i flags=0, O rgbaColor=None,
    O specularColor=None, O visualFramePosition=(0.0, 0.0, 0.0),
    O visualFrameOrientation=(0.0, 0.0, 0.0, 1.0), O vertices=None, O indices=None, O normals=None,
    O uvs=None)
createVisualShapeArray(
    O shapeTypes, O radii=None, O halfExtents=None, O lengths=None, O fileNames=None, O meshScales=None,
    O planeNormals=None, O flags=None, O rgbaColors=None, O visualFramePositions=None,
    O visualFrameOrientations=None)

[api.state_files]
saveState()
restoreState(i stateId=-1, s fileName="")
removeState(i stateUniqueId)
saveBullet(s bulletFileName)
loadBullet(s bulletFileName)
saveWorld(s worldFileName)

[api.bodies]
removeBody(i bodyUniqueId)
getNumBodies()
getBodyUniqueId(i serialIndex)
getBodyInfo(i bodyUniqueId)
syncBodyInfo()
getBasePositionAndOrientation(i bodyUniqueId)
resetBasePositionAndOrientation(i bodyUniqueId, O posObj, O ornObj)
getBaseVelocity(i bodyUniqueId)
resetBaseVelocity(i objectUniqueId, O linearVelocity=None, O angularVelocity=None)
getLinkState(i bodyUniqueId, i linkIndex, i computeLinkVelocity=0, i computeForwardKinematics=0)
getLinkStates(i bodyUniqueId, O linkIndices, i computeLinkVelocity=0, i computeForwardKinematics=0)

[api.joints]
getNumJoints(i bodyUniqueId)
getJointInfo(i bodyUniqueId, i jointIndex)
computeDofCount(i bodyUniqueId)
getJointState(i bodyUniqueId, i jointIndex)
getJointStates(i bodyUniqueId, O jointIndices)
getJointStateMultiDof(i bodyUniqueId, i jointIndex)
getJointStatesMultiDof(i bodyUniqueId, O jointIndex)
resetJointState(i bodyUniqueId, i jointIndex, q targetValue, q targetVelocity=0.0)
resetJointStateMultiDof(i bodyUniqueId, i jointIndex, O targetValue, O targetVelocity=None)
resetJointStatesMultiDof(i bodyUniqueId, O jointIndices, O targetValues, O targetVelocities=None)
enableJointForceTorqueSensor(i bodyUniqueId, i jointIndex, i enableSensor=1)

[api.motors]
setJointMotorControl2(
    i bodyUniqueId, i jointIndex, i controlMode, q targetPosition=0.0, q targetVelocity=0.0,
    l force=100000.0, d positionGain=0.1, d velocityGain=1.0, l maxVelocity=-1.0)
setJointMotorControlArray(
    i bodyUniqueId, O jointIndices, i controlMode, O targetPositions=None, O targetVelocities=None,
    O forces=None, O positionGains=None, O velocityGains=None)
setJointMotorControlMultiDof(
    i bodyUniqueId, i jointIndex, i controlMode, O targetPosition=None, O targetVelocity=None,
    O force=None, O positionGain=None, O velocityGain=None, l maxVelocity=-1.0, O damping=None)
setJointMotorControlMultiDofArray(
    i bodyUniqueId, O jointIndices, i controlMode, O targetPositions=None, O targetVelocities=None,
    O forces=None, O positionGains=None, O velocityGains=None, O maxVelocities=None)

[api.dynamics]
getDynamicsInfo(i bodyUniqueId, i linkIndex)
changeDynamics(
    i bodyUniqueId, i linkIndex, d mass=None, d lateralFriction=None, d spinningFriction=None,
    d rollingFriction=None, d restitution=None, d linearDamping=None, d angularDamping=None,
    d contactStiffness=None, d contactDamping=None, i frictionAnchor=None, O localInertiaDiagonal=None,
    l ccdSweptSphereRadius=None, l contactProcessingThreshold=None, i activationState=None,
    d jointDamping=None, O anisotropicFriction=None, l maxJointVelocity=None, d collisionMargin=None,
    l jointLowerLimit=None, l jointUpperLimit=None, l jointLimitForce=None, l sleepThreshold=None)
applyExternalForce(i objectUniqueId, i linkIndex, O forceObj, O posObj, i flags)
applyExternalTorque(i objectUniqueId, i linkIndex, O torqueObj, i flags)

[api.constraints]
createConstraint(
    i parentBodyUniqueId, i parentLinkIndex, i childBodyUniqueId, i childLinkIndex, i jointType,
    O jointAxis, O parentFramePosition, O childFramePosition,
    O parentFrameOrientation=(0.0, 0.0, 0.0, 1.0), O childFrameOrientation=(0.0, 0.0, 0.0, 1.0))
changeConstraint(
    i userConstraintUniqueId, O jointChildPivot=None, O jointChildFrameOrientation=None, l maxForce=None,
    q gearRatio=None, i gearAuxLink=None, q relativePositionTarget=None, d erp=None)
removeConstraint(i userConstraintUniqueId)
getNumConstraints()
getConstraintUniqueId(i serialIndex)
getConstraintInfo(i constraintUniqueId)
getConstraintState(i constraintUniqueId)

[api.kinematics]
calculateInverseDynamics(i bodyUniqueId, Q objPositions, Q objVelocities, Q objAccelerations, i flags=0)
calculateJacobian(
    i bodyUniqueId, i linkIndex, Q localPosition, Q objPositions, Q objVelocities, Q objAccelerations)
calculateMassMatrix(i bodyUniqueId, Q objPositions, i flags=0)

[kinematics.inverse]
calculateInverseKinematics(
    i bodyUniqueId, i endEffectorLinkIndex, Q targetPosition, Q targetOrientation=None, L lowerLimits=None,
    L upperLimits=None, L jointRanges=None, Q restPoses=None, Q jointDamping=None, i solver=0,
    Q currentPositions=None, i maxNumIterations=20, d residualThreshold=0.0001)
calculateInverseKinematics2(
    i bodyUniqueId, O endEffectorLinkIndices, Q targetPositions, L lowerLimits=None, L upperLimits=None,
    L jointRanges=None, Q restPoses=None, Q jointDamping=None, i solver=0, Q currentPositions=None,
    i maxNumIterations=20, d residualThreshold=0.0001)

[queries.contact_points]
performCollisionDetection()
getContactPoints(i bodyA=-1, i bodyB=-1, i linkIndexA=-2, i linkIndexB=-2)

[queries.closest_points]
getClosestPoints(
    i bodyA, i bodyB, l distance, i linkIndexA=-2, i linkIndexB=-2, i collisionShapeA=-1,
    i collisionShapeB=-1, O collisionShapePositionA=None, O collisionShapePositionB=None,
    O collisionShapeOrientationA=None, O collisionShapeOrientationB=None)

[queries.shape_data]
getOverlappingObjects(O aabbMin, O aabbMax)
getAABB(i bodyUniqueId, i linkIndex=-1)
getCollisionShapeData(i objectUniqueId, i linkIndex)
getMeshData(i bodyUniqueId, i linkIndex=-1, i collisionShapeIndex=-1, i flags=0)

[queries.ray_tests]
rayTest(O rayFromPosition, O rayToPosition, i collisionFilterMask=-1, i reportHitNumber=-1)
rayTestBatch(
    O rayFromPositions, O rayToPositions, i numThreads=1, i parentObjectUniqueId=-1, i parentLinkIndex=-1,
    i reportHitNumber=-1, i collisionFilterMask=-1, d fractionEpsilon=-1.0)

[queries.filters]
setCollisionFilterPair(
    i bodyUniqueIdA, i bodyUniqueIdB, i linkIndexA, i linkIndexB, i enableCollision)
setCollisionFilterGroupMask(i bodyUniqueId, i linkIndexA, i collisionFilterGroup, i collisionFilterMask)

[api.rendering]
getCameraImage(
    i width, i height, O viewMatrix=None, O projectionMatrix=None, O lightDirection=None,
    O lightColor=None, d lightDistance=None, i shadow=None, d lightAmbientCoeff=None,
    d lightDiffuseCoeff=None, d lightSpecularCoeff=None, i renderer=None, i flags=None,
    O projectiveTextureView=None, O projectiveTextureProj=None)
getVisualShapeData(i objectUniqueId, i flags=0)
changeVisualShape(
    i objectUniqueId, i linkIndex, i shapeIndex=-1, i textureUniqueId=None, O rgbaColor=None,
    O specularColor=None, i flags=0)
resetVisualShapeData(
    i objectUniqueId, i linkIndex, i shapeIndex=-1, i textureUniqueId=None, O rgbaColor=None,
    O specularColor=None, i flags=0)
loadTexture(s textureFilename)
changeTexture(i textureUniqueId, O pixels, i width, i height)

[api.debug_items]
addUserDebugLine(
    O lineFromXYZ, O lineToXYZ, O lineColorRGB=(1.0, 1.0, 1.0), d lineWidth=1.0, l lifeTime=0.0,
    i parentObjectUniqueId=-1, i parentLinkIndex=-1, i replaceItemUniqueId=-1)
addUserDebugPoints(
    O pointPositions, O pointColorsRGB, d pointSize=1.0, l lifeTime=0.0, i parentObjectUniqueId=-1,
    i parentLinkIndex=-1, i replaceItemUniqueId=-1)
addUserDebugText(
    s text, O textPosition, O textColorRGB=(1.0, 1.0, 1.0), d textSize=1.0, l lifeTime=0.0,
    O textOrientation=None, i parentObjectUniqueId=-1, i parentLinkIndex=-1, i replaceItemUniqueId=-1)
addUserDebugParameter(s paramName, d rangeMin=0.0, d rangeMax=1.0, d startValue=0.0)
readUserDebugParameter(i itemUniqueId)
removeUserDebugItem(i itemUniqueId)
removeAllUserDebugItems()
removeAllUserParameters()
setDebugObjectColor(i objectUniqueId, i linkIndex, O objectDebugColorRGB=None)
configureDebugVisualizer(
    i flag=-1, i enable=-1, O lightPosition=None, i shadowMapResolution=None, i shadowMapWorldSize=None,
    d remoteSyncTransformInterval=None, d shadowMapIntensity=None, O rgbBackground=None)
resetDebugVisualizerCamera(q cameraDistance, d cameraYaw, d cameraPitch, O cameraTargetPosition)
getDebugVisualizerCamera()

[api.events]
getKeyboardEvents()
getMouseEvents()
getVREvents(i deviceTypeFilter=1, i allAnalogAxes=0)
setVRCameraState(O rootPosition=None, O rootOrientation=None, i trackObject=None, i trackObjectFlag=None)

[api.user_data]
addUserData(i bodyUniqueId, s key, s value, i linkIndex=-1, i visualShapeIndex=-1)
removeUserData(i userDataId)
getUserData(i userDataId)
getUserDataId(i bodyUniqueId, s key, i linkIndex=-1, i visualShapeIndex=-1)
getNumUserData(i bodyUniqueId)
getUserDataInfo(i bodyUniqueId, i userDataIndex)
syncUserData(O bodyUniqueIds=None)

[logs.state_logging]
startStateLogging(
    i loggingType, s fileName, O objectUniqueIds=None, i maxLogDof=12, i bodyUniqueIdA=-1,
    i bodyUniqueIdB=-1, i linkIndexA=-2, i linkIndexB=-2, i deviceTypeFilter=1, i logFlags=0)
stopStateLogging(i loggingId)
submitProfileTiming(s eventName="")

[api.plugins]
loadPlugin(s pluginPath, s postFix="")
unloadPlugin(i pluginUniqueId)
executePluginCommand(i pluginUniqueId, s textArgument="", O intArgs=(), O floatArgs=())

[api.soft_bodies]
loadSoftBody(
    s fileName, O basePosition=(0.0, 0.0, 0.0), O baseOrientation=(0.0, 0.0, 0.0, 1.0), d scale=1.0,
    d mass=None, q collisionMargin=None, i useMassSpring=0, i useBendingSprings=0, i useNeoHookean=0,
    d springElasticStiffness=None, d springDampingStiffness=None, i springDampingAllDirections=0,
    d springBendingStiffness=None, d NeoHookeanMu=None, d NeoHookeanLambda=None, d NeoHookeanDamping=None,
    d frictionCoeff=None, i useFaceContact=0, i useSelfCollision=0, d repulsionStiffness=None,
    s simFileName="")
createSoftBodyAnchor(
    i softBodyBodyUniqueId, i nodeIndex, i bodyUniqueId=-1, i linkIndex=-1,
    O bodyFramePosition=(0.0, 0.0, 0.0))
getTetraMeshData(i bodyUniqueId, i flags=0)
resetMeshData(i bodyUniqueId, O vertices)
"""

POSITIONAL = {
    "setJointMotorControl": "api.motors",
    "renderImage": "api.rendering",
}
"""Obsolete functions that take their arguments by place and no client, and their modules."""

ALIASES = {
    "setJointMotorControl2": "bodyIndex",
    "setJointMotorControlArray": "bodyIndex",
    "calculateInverseDynamics": "bodyIndex",
    "calculateInverseKinematics": "bodyIndex",
}
"""Functions that accept another name for their first parameter."""


_SIZES: dict[str, Size] = {"d": "number", "q": "coordinate", "l": "bound"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function.

    Attributes:
        kind: Type that is checked, one of "i", "d", "s" and "O".
        name: Its name.
        default: Its default as Python source, None for required parameters.
        size: Which numbers a float may be, or those in an object; "" if the function looks at them itself.
    """

    kind: str
    name: str
    default: str | None
    size: Size | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """One function.

    Attributes:
        name: Its name.
        module: Module of this package that holds it.
        parameters: Its parameters in order, without physicsClientId.
    """

    name: str
    module: str
    parameters: tuple[Parameter, ...]


def _parse(text: str) -> dict[str, Signature]:
    """Return the functions of a table by name."""
    module, found = "", {}
    entry = re.compile(r"^\[([\w.]+)\]$|^(\w+)\((.*?)\)$", re.MULTILINE | re.DOTALL)
    parameter = re.compile(r"([idqlsOQL]) (\w+)(?:=(\([^)]*\)|[^,\s]+))?")
    for header, name, inside in entry.findall(text):
        if header:
            module = header
        else:
            parameters = tuple(_parameter(*parts) for parts in parameter.findall(inside))
            found[name] = Signature(name, module, parameters)
    return found


def _parameter(letter: str, name: str, default: str) -> Parameter:
    kind = "O" if letter in "QL" else "d" if letter in "ql" else letter
    return Parameter(kind, name, default or None, _SIZES.get(letter.lower(), ""))


SIGNATURES = _parse(TABLE)
"""All functions with named parameters except connect, by name."""

PER_WORLD = {
    "setGravity": {"gravX", "gravY", "gravZ"},
    "resetJointState": {"targetValue", "targetVelocity"},
    "setJointMotorControl2": {"targetPosition", "targetVelocity", "force"}
    | {"positionGain", "velocityGain", "maxVelocity"},
    "setJointMotorControlMultiDof": {"maxVelocity"},
    "changeDynamics": {p.name for p in SIGNATURES["changeDynamics"].parameters if p.kind == "d"},
    "changeConstraint": {"maxForce"},
    "createCollisionShape": {"radius", "height"},
    "createMultiBody": {"baseMass"},
    "loadURDF": {"globalScaling"},
}
"""Numbers that may differ between the worlds of a client of several, by function."""

SETTERS = frozenset(
    [
        "setGravity",
        "resetBasePositionAndOrientation",
        "resetBaseVelocity",
        "resetJointState",
        "resetJointStateMultiDof",
        "resetJointStatesMultiDof",
        "setJointMotorControl2",
        "setJointMotorControlArray",
        "setJointMotorControlMultiDof",
        "setJointMotorControlMultiDofArray",
        "applyExternalForce",
        "applyExternalTorque",
        "changeDynamics",
        "changeConstraint",
    ]
)
"""Functions that take `worlds`: values are those of these worlds, others stay."""
BY_WORLD = frozenset(["getContactPoints", "getClosestPoints", "getOverlappingObjects"])
"""Functions that return a tuple with an item for each world of several."""
GETTERS = BY_WORLD | frozenset(
    [
        "getPhysicsEngineParameters",
        "getBasePositionAndOrientation",
        "getBaseVelocity",
        "getLinkState",
        "getLinkStates",
        "getJointState",
        "getJointStates",
        "getJointStateMultiDof",
        "getJointStatesMultiDof",
        "getDynamicsInfo",
        "getAABB",
        "getConstraintInfo",
        "getConstraintState",
        "rayTest",
        "rayTestBatch",
    ]
)
"""Functions that take `worlds` likewise, and return the part of these worlds."""

MODULES = {
    "connect": "connections",
    **{name: signature.module for name, signature in SIGNATURES.items()},
    **POSITIONAL,
}
"""Module of this package that holds each function."""

WITHOUT_CLIENT = ("connections", "clients.table", "surface.maths")
"""Modules whose functions act on no client's world."""

SERVED = frozenset(name for name, module in MODULES.items() if module not in WITHOUT_CLIENT)
"""Functions that act on a client's world: what a physics server and the replay of a log may call."""
