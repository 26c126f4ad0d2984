"""A world with something of everything, and a good call of every function with all its arguments."""

import pybullet_data

import newtonsim.pybullet_compat as compat

DATA = pybullet_data.getDataPath()
V, Q = [0.1, 0.2, 0.3], [0.0, 0.0, 0.0, 1.0]
PLANE, ARM, CUBE, BALL, HELD, CLOTH = range(6)
CONSTRAINT, GEAR = 1, 2
BOX, FIELD = 1, 2
SEVEN = [0.1] * 7
IDENTITY = [float(i % 5 == 0) for i in range(16)]
PROJECTION = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.02, -1.0, 0.0, 0.0, -0.2, 0.0]
COLOR = [1.0, 0.0, 0.0, 1.0]
LINES = {"lifeTime": 1.0, "parentObjectUniqueId": CUBE, "parentLinkIndex": -1, "replaceItemUniqueId": -1}
MOTOR = {"targetPosition": Q, "targetVelocity": V, "force": [9.0, 9.0, 9.0], "positionGain": V}
MOTOR |= {"velocityGain": V}
FRAME = {"collisionFramePosition": V, "collisionFrameOrientation": Q}
LOOK = {"objectUniqueId": CUBE, "linkIndex": -1, "shapeIndex": -1, "textureUniqueId": -1}
LOOK |= {"rgbaColor": COLOR, "specularColor": V, "flags": 0}
SHAPES = {"radii": [0.1, 0.1], "halfExtents": [V, V], "lengths": [0.2, 0.2], "fileNames": ["", ""]}
SHAPES |= {"meshScales": [V, V], "planeNormals": [V, V]}
INVERSE = {"lowerLimits": [-1.0] * 7, "upperLimits": [1.0] * 7, "jointRanges": [2.0] * 7}
INVERSE |= {"restPoses": SEVEN, "jointDamping": SEVEN, "solver": 0, "currentPositions": SEVEN}
INVERSE |= {"maxNumIterations": 5, "residualThreshold": 1e-3}

CALLS: dict[str, dict[str, object]] = {
    "getQuaternionFromEuler": {"eulerAngles": V},
    "getEulerFromQuaternion": {"quaternion": Q},
    "getMatrixFromQuaternion": {"quaternion": Q},
    "multiplyTransforms": {"positionA": V, "orientationA": Q, "positionB": V, "orientationB": Q},
    "invertTransform": {"position": V, "orientation": Q},
    "getQuaternionSlerp": {"quaternionStart": Q, "quaternionEnd": COLOR, "interpolationFraction": 0.5},
    "getQuaternionFromAxisAngle": {"axis": V, "angle": 0.3},
    "getAxisAngleFromQuaternion": {"quaternion": Q},
    "getDifferenceQuaternion": {"quaternionStart": Q, "quaternionEnd": COLOR},
    "getAxisDifferenceQuaternion": {"quaternionStart": Q, "quaternionEnd": COLOR},
    "calculateVelocityQuaternion": {"quaternionStart": Q, "quaternionEnd": COLOR, "deltaTime": 0.1},
    "rotateVector": {"quaternion": Q, "vector": V},
    "computeViewMatrix": {"cameraEyePosition": V, "cameraTargetPosition": [1, 0, 0], "cameraUpVector": V},
    "computeViewMatrixFromYawPitchRoll": {"cameraTargetPosition": V, "distance": 1.0, "yaw": 10.0}
    | {"pitch": 20.0, "roll": 0.0, "upAxisIndex": 2},
    "computeProjectionMatrix": {"left": -1.0, "right": 1.0, "bottom": -1.0, "top": 1.0}
    | {"nearVal": 0.1, "farVal": 9.0},
    "computeProjectionMatrixFOV": {"fov": 60.0, "aspect": 1.0, "nearVal": 0.1, "farVal": 9.0},
    "resetSimulation": {"flags": 0},
    "setGravity": {"gravX": 0.0, "gravY": 0.0, "gravZ": -9.0},
    "setTimeStep": {"timeStep": 0.004},
    "setDefaultContactERP": {"defaultContactERP": 0.1},
    "setRealTimeSimulation": {"enableRealTimeSimulation": 0},
    "setInternalSimFlags": {"flags": 0},
    "setTimeOut": {"timeOutInSeconds": 1.0},
    "setPhysicsEngineParameter": {"fixedTimeStep": 0.005, "numSolverIterations": 30, "useSplitImpulse": 1}
    | {"splitImpulsePenetrationThreshold": 0.1, "numSubSteps": 1, "collisionFilterMode": 0}
    | {"contactBreakingThreshold": 0.02, "maxNumCmdPer1ms": 0, "enableFileCaching": 1}
    | {"restitutionVelocityThreshold": 0.1, "erp": 0.1, "contactERP": 0.1, "frictionERP": 0.1}
    | {"enableConeFriction": 1, "deterministicOverlappingPairs": 1, "allowedCcdPenetration": 0.01}
    | {"jointFeedbackMode": 0, "solverResidualThreshold": 1e-7, "contactSlop": 0.001, "enableSAT": 0}
    | {"constraintSolverType": 1, "globalCFM": 0.0, "minimumSolverIslandSize": 1}
    | {"reportSolverAnalytics": 0, "warmStartingFactor": 0.85, "sparseSdfVoxelSize": 0.1}
    | {"numNonContactInnerIterations": 1},
    "loadURDF": {"fileName": "cube_small.urdf", "basePosition": V, "baseOrientation": Q}
    | {"useMaximalCoordinates": 0, "useFixedBase": 0, "flags": 0, "globalScaling": 1.0},
    "loadSDF": {"sdfFileName": "plane_stadium.sdf", "useMaximalCoordinates": 0, "globalScaling": 1.0},
    "loadMJCF": {"mjcfFileName": "mjcf/sphere.xml", "flags": 0, "useMultiBody": 1},
    "setAdditionalSearchPath": {"path": DATA},
    "unsupportedChangeScaling": {"bodyUniqueId": CUBE, "scaling": V},
    "createMultiBody": {"baseMass": 1.0, "baseCollisionShapeIndex": BOX, "baseVisualShapeIndex": -1}
    | {"basePosition": [0, 3, 3], "baseOrientation": Q, "baseInertialFramePosition": V}
    | {"baseInertialFrameOrientation": Q, "linkMasses": [1.0, 1.0], "linkCollisionShapeIndices": [BOX, BOX]}
    | {"linkVisualShapeIndices": [-1, -1], "linkPositions": [[0, 0, 1], [0, 0, 1]]}
    | {"linkOrientations": [Q, Q], "linkInertialFramePositions": [V, V]}
    | {"linkInertialFrameOrientations": [Q, Q], "linkParentIndices": [0, 1], "linkJointTypes": [0, 2]}
    | {"linkJointAxis": [[0, 0, 1], [0, 1, 0]], "useMaximalCoordinates": 0, "flags": 0}
    | {"batchPositions": [[0, 4, 3], [0, 5, 3]]},
    "vhacd": {"fileNameIn": "", "fileNameOut": "", "fileNameLogging": "", "concavity": 0.0025, "alpha": 0.05}
    | {
        "beta": 0.05,
        "gamma": 0.00125,
        "minVolumePerCH": 0.0001,
        "resolution": 1000,
        "maxNumVerticesPerCH": 64,
    }
    | {"depth": 2, "planeDownsampling": 4, "convexhullDownsampling": 4, "pca": 0, "mode": 0}
    | {"convexhullApproximation": 1},
    "createCollisionShape": {"shapeType": compat.GEOM_BOX, "radius": 0.1, "halfExtents": V, "height": 0.5}
    | {"fileName": "", "meshScale": V, "planeNormal": V, "flags": 0, **FRAME, "vertices": None}
    | {"indices": None, "heightfieldTextureScaling": 1.0, "heightfieldData": None}
    | {"numHeightfieldRows": -1, "numHeightfieldColumns": -1, "replaceHeightfieldIndex": -1},
    "createCollisionShapeArray": {"shapeTypes": [2, 3], **SHAPES, "flags": [0, 0]}
    | {"collisionFramePositions": [V, V], "collisionFrameOrientations": [Q, Q]},
    "removeCollisionShape": {"collisionShapeId": 1},
    "createVisualShape": {"shapeType": compat.GEOM_BOX, "radius": 0.1, "halfExtents": V, "length": 0.5}
    | {"fileName": "", "meshScale": V, "planeNormal": V, "flags": 0, "rgbaColor": COLOR, "specularColor": V}
    | {"visualFramePosition": V, "visualFrameOrientation": Q, "vertices": None, "indices": None}
    | {"normals": None, "uvs": None},
    "createVisualShapeArray": {"shapeTypes": [2, 3], **SHAPES, "flags": [0, 0], "rgbaColors": [COLOR, COLOR]}
    | {"visualFramePositions": [V, V], "visualFrameOrientations": [Q, Q]},
    "restoreState": {"stateId": 0, "fileName": ""},
    "removeState": {"stateUniqueId": 0},
    "saveBullet": {"bulletFileName": ""},
    "loadBullet": {"bulletFileName": ""},
    "saveWorld": {"worldFileName": ""},
    "removeBody": {"bodyUniqueId": HELD},
    "getBodyUniqueId": {"serialIndex": 0},
    "getBodyInfo": {"bodyUniqueId": CUBE},
    "getBasePositionAndOrientation": {"bodyUniqueId": CUBE},
    "resetBasePositionAndOrientation": {"bodyUniqueId": CUBE, "posObj": V, "ornObj": Q},
    "getBaseVelocity": {"bodyUniqueId": CUBE},
    "resetBaseVelocity": {"objectUniqueId": CUBE, "linearVelocity": V, "angularVelocity": V},
    "getLinkState": {"bodyUniqueId": ARM, "linkIndex": 2, "computeLinkVelocity": 1}
    | {"computeForwardKinematics": 1},
    "getLinkStates": {"bodyUniqueId": ARM, "linkIndices": [1, 2], "computeLinkVelocity": 1}
    | {"computeForwardKinematics": 1},
    "getNumJoints": {"bodyUniqueId": ARM},
    "getJointInfo": {"bodyUniqueId": ARM, "jointIndex": 2},
    "computeDofCount": {"bodyUniqueId": ARM},
    "getJointState": {"bodyUniqueId": ARM, "jointIndex": 2},
    "getJointStates": {"bodyUniqueId": ARM, "jointIndices": [1, 2]},
    "getJointStateMultiDof": {"bodyUniqueId": BALL, "jointIndex": 0},
    "getJointStatesMultiDof": {"bodyUniqueId": ARM, "jointIndex": [1, 2]},
    "resetJointState": {"bodyUniqueId": ARM, "jointIndex": 2, "targetValue": 0.3, "targetVelocity": 0.1},
    "resetJointStateMultiDof": {"bodyUniqueId": BALL, "jointIndex": 0, "targetValue": Q, "targetVelocity": V},
    "resetJointStatesMultiDof": {"bodyUniqueId": ARM, "jointIndices": [1, 2]}
    | {"targetValues": [[0.1], [0.2]], "targetVelocities": [[0.1], [0.2]]},
    "enableJointForceTorqueSensor": {"bodyUniqueId": ARM, "jointIndex": 2, "enableSensor": 1},
    "setJointMotorControl2": {"bodyUniqueId": ARM, "jointIndex": 2, "controlMode": compat.POSITION_CONTROL}
    | {"targetPosition": 0.1, "targetVelocity": 0.1, "force": 10.0, "positionGain": 0.1, "velocityGain": 0.5}
    | {"maxVelocity": 1.0},
    "setJointMotorControlArray": {"bodyUniqueId": ARM, "jointIndices": [1, 2], "controlMode": 2}
    | {"targetPositions": [0.1, 0.2], "targetVelocities": [0.1, 0.2], "forces": [10.0, 20.0]}
    | {"positionGains": [0.1, 0.2], "velocityGains": [0.1, 0.2]},
    "setJointMotorControlMultiDof": {"bodyUniqueId": BALL, "jointIndex": 0, "controlMode": 2, **MOTOR}
    | {"maxVelocity": 1.0, "damping": V},
    "setJointMotorControlMultiDofArray": {"bodyUniqueId": ARM, "jointIndices": [1, 2], "controlMode": 2}
    | {"targetPositions": [[0.1], [0.2]], "targetVelocities": [[0.1], [0.2]], "forces": [[10.0], [20.0]]}
    | {"positionGains": [0.1, 0.2], "velocityGains": [0.1, 0.2], "maxVelocities": [1.0, 1.0]},
    "getDynamicsInfo": {"bodyUniqueId": ARM, "linkIndex": 2},
    "changeDynamics": {"bodyUniqueId": CUBE, "linkIndex": -1, "mass": 2.0, "lateralFriction": 0.3}
    | {"spinningFriction": 0.01, "rollingFriction": 0.01, "restitution": 0.1, "linearDamping": 0.1}
    | {"angularDamping": 0.1, "contactStiffness": 1e4, "contactDamping": 100.0, "frictionAnchor": 1}
    | {"localInertiaDiagonal": V, "ccdSweptSphereRadius": 0.1, "contactProcessingThreshold": 0.1}
    | {"activationState": 0, "jointDamping": 0.1, "anisotropicFriction": V, "maxJointVelocity": 10.0}
    | {"collisionMargin": 0.001, "jointLowerLimit": -1.0, "jointUpperLimit": 1.0, "jointLimitForce": 10.0}
    | {"sleepThreshold": 0.1},
    "applyExternalForce": {"objectUniqueId": CUBE, "linkIndex": -1, "forceObj": V, "posObj": V, "flags": 1},
    "applyExternalTorque": {"objectUniqueId": CUBE, "linkIndex": -1, "torqueObj": V, "flags": 1},
    "createConstraint": {"parentBodyUniqueId": CUBE, "parentLinkIndex": -1, "childBodyUniqueId": -1}
    | {"childLinkIndex": -1, "jointType": compat.JOINT_FIXED, "jointAxis": [0, 0, 1]}
    | {"parentFramePosition": [0, 0, 0], "childFramePosition": V, "parentFrameOrientation": Q}
    | {"childFrameOrientation": Q},
    "changeConstraint": {"userConstraintUniqueId": CONSTRAINT, "jointChildPivot": V, "maxForce": 10.0}
    | {"jointChildFrameOrientation": Q, "gearRatio": 1.0, "gearAuxLink": 1, "relativePositionTarget": 0.1}
    | {"erp": 0.1},
    "removeConstraint": {"userConstraintUniqueId": CONSTRAINT},
    "getConstraintUniqueId": {"serialIndex": 0},
    "getConstraintInfo": {"constraintUniqueId": CONSTRAINT},
    "getConstraintState": {"constraintUniqueId": CONSTRAINT},
    "calculateInverseDynamics": {"bodyUniqueId": ARM, "objPositions": SEVEN, "objVelocities": SEVEN}
    | {"objAccelerations": SEVEN, "flags": 0},
    "calculateJacobian": {"bodyUniqueId": ARM, "linkIndex": 6, "localPosition": V, "objPositions": SEVEN}
    | {"objVelocities": SEVEN, "objAccelerations": SEVEN},
    "calculateMassMatrix": {"bodyUniqueId": ARM, "objPositions": SEVEN, "flags": 0},
    "calculateInverseKinematics": {"bodyUniqueId": ARM, "endEffectorLinkIndex": 6, "targetPosition": V}
    | {"targetOrientation": Q, **INVERSE},
    "calculateInverseKinematics2": {"bodyUniqueId": ARM, "endEffectorLinkIndices": [5, 6]}
    | {"targetPositions": [V, V], **INVERSE},
    "getContactPoints": {"bodyA": CUBE, "bodyB": ARM, "linkIndexA": -1, "linkIndexB": 1},
    "getClosestPoints": {"bodyA": CUBE, "bodyB": ARM, "distance": 1.0, "linkIndexA": -1, "linkIndexB": 1}
    | {"collisionShapeA": -1, "collisionShapeB": -1, "collisionShapePositionA": V}
    | {"collisionShapePositionB": V, "collisionShapeOrientationA": Q, "collisionShapeOrientationB": Q},
    "getOverlappingObjects": {"aabbMin": [-1.0] * 3, "aabbMax": [1.0] * 3},
    "getAABB": {"bodyUniqueId": CUBE, "linkIndex": -1},
    "getCollisionShapeData": {"objectUniqueId": ARM, "linkIndex": 2},
    "getMeshData": {"bodyUniqueId": CUBE, "linkIndex": -1, "collisionShapeIndex": -1, "flags": 0},
    "rayTest": {"rayFromPosition": [0.0, 0.0, 5.0], "rayToPosition": [0.0, 0.0, -5.0]}
    | {"collisionFilterMask": -1, "reportHitNumber": -1},
    "rayTestBatch": {"rayFromPositions": [V, V], "rayToPositions": [V, [0, 0, -1]], "numThreads": 1}
    | {"parentObjectUniqueId": CUBE, "parentLinkIndex": -1, "reportHitNumber": -1}
    | {"collisionFilterMask": -1, "fractionEpsilon": -1.0},
    "setCollisionFilterPair": {"bodyUniqueIdA": CUBE, "bodyUniqueIdB": ARM, "linkIndexA": -1}
    | {"linkIndexB": -1, "enableCollision": 0},
    "setCollisionFilterGroupMask": {"bodyUniqueId": CUBE, "linkIndexA": -1, "collisionFilterGroup": 1}
    | {"collisionFilterMask": 1},
    "getCameraImage": {"width": 4, "height": 4, "viewMatrix": IDENTITY, "projectionMatrix": PROJECTION}
    | {"lightDirection": V, "lightColor": V, "lightDistance": 2.0, "shadow": 1, "lightAmbientCoeff": 0.5}
    | {"lightDiffuseCoeff": 0.5, "lightSpecularCoeff": 0.1, "renderer": compat.ER_TINY_RENDERER, "flags": 0}
    | {"projectiveTextureView": IDENTITY, "projectiveTextureProj": PROJECTION},
    "getVisualShapeData": {"objectUniqueId": CUBE, "flags": 0},
    "changeVisualShape": LOOK,
    "resetVisualShapeData": LOOK,
    "loadTexture": {"textureFilename": "nothing.png"},
    "changeTexture": {"textureUniqueId": 0, "pixels": [0, 0, 0], "width": 1, "height": 1},
    "addUserDebugLine": {"lineFromXYZ": V, "lineToXYZ": V, "lineColorRGB": V, "lineWidth": 1.0, **LINES},
    "addUserDebugPoints": {"pointPositions": [V, V], "pointColorsRGB": [V, V], "pointSize": 1.0, **LINES},
    "addUserDebugText": {"text": "a", "textPosition": V, "textColorRGB": V, "textSize": 1.0}
    | {"textOrientation": Q, **LINES},
    "addUserDebugParameter": {"paramName": "a", "rangeMin": 0.0, "rangeMax": 1.0, "startValue": 0.5},
    "readUserDebugParameter": {"itemUniqueId": 0},
    "removeUserDebugItem": {"itemUniqueId": 0},
    "setDebugObjectColor": {"objectUniqueId": CUBE, "linkIndex": -1, "objectDebugColorRGB": V},
    "configureDebugVisualizer": {"flag": 1, "enable": 0, "lightPosition": V, "shadowMapResolution": 64}
    | {"shadowMapWorldSize": 5, "remoteSyncTransformInterval": 0.1, "shadowMapIntensity": 0.5}
    | {"rgbBackground": V},
    "resetDebugVisualizerCamera": {"cameraDistance": 1.0, "cameraYaw": 1.0, "cameraPitch": 1.0}
    | {"cameraTargetPosition": V},
    "getVREvents": {"deviceTypeFilter": 1, "allAnalogAxes": 0},
    "setVRCameraState": {"rootPosition": V, "rootOrientation": Q, "trackObject": CUBE, "trackObjectFlag": 0},
    "addUserData": {"bodyUniqueId": CUBE, "key": "a", "value": "b", "linkIndex": -1, "visualShapeIndex": -1},
    "removeUserData": {"userDataId": 0},
    "getUserData": {"userDataId": 0},
    "getUserDataId": {"bodyUniqueId": CUBE, "key": "a", "linkIndex": -1, "visualShapeIndex": -1},
    "getNumUserData": {"bodyUniqueId": CUBE},
    "getUserDataInfo": {"bodyUniqueId": CUBE, "userDataIndex": 0},
    "syncUserData": {"bodyUniqueIds": [CUBE]},
    "startStateLogging": {"loggingType": compat.STATE_LOGGING_PROFILE_TIMINGS, "fileName": ""}
    | {"objectUniqueIds": [CUBE], "maxLogDof": 12, "bodyUniqueIdA": CUBE, "bodyUniqueIdB": ARM}
    | {"linkIndexA": -1, "linkIndexB": 1, "deviceTypeFilter": 1, "logFlags": 0},
    "stopStateLogging": {"loggingId": 0},
    "submitProfileTiming": {"eventName": ""},
    "loadPlugin": {"pluginPath": "", "postFix": ""},
    "unloadPlugin": {"pluginUniqueId": 0},
    "executePluginCommand": {"pluginUniqueId": 0, "textArgument": "", "intArgs": [1], "floatArgs": [1.0]},
    "loadSoftBody": {"fileName": "cube.obj", "basePosition": [3, 3, 1], "baseOrientation": Q, "scale": 0.1}
    | {"mass": 1.0, "collisionMargin": 0.01, "useMassSpring": 1, "useBendingSprings": 1, "useNeoHookean": 0}
    | {"springElasticStiffness": 40.0, "springDampingStiffness": 0.1, "springDampingAllDirections": 1}
    | {"springBendingStiffness": 1.0, "NeoHookeanMu": 60.0, "NeoHookeanLambda": 200.0}
    | {"NeoHookeanDamping": 0.01, "frictionCoeff": 0.5, "useFaceContact": 1, "useSelfCollision": 0}
    | {"repulsionStiffness": 800.0, "simFileName": ""},
    "createSoftBodyAnchor": {"softBodyBodyUniqueId": CLOTH, "nodeIndex": 0, "bodyUniqueId": -1}
    | {"linkIndex": -1, "bodyFramePosition": V},
    "getTetraMeshData": {"bodyUniqueId": CLOTH, "flags": 0},
    "resetMeshData": {"bodyUniqueId": CLOTH, "vertices": [V] * 4},
}
"""A good call of each function: every argument is there."""

VARIANTS: list[tuple[str, dict[str, object]]] = [
    *[("createCollisionShape", {"shapeType": kind}) for kind in (2, 4, 6, 7)],
    *[("createVisualShape", {"shapeType": kind}) for kind in (2, 4, 6, 7)],
    ("createCollisionShape", {"shapeType": 5, "fileName": "cube.obj"}),
    ("createCollisionShape", {"shapeType": 5, "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]}),
    (
        "createCollisionShape",
        {"shapeType": 5, "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]}
        | {"indices": [0, 1, 2, 0, 2, 3, 0, 3, 1, 1, 3, 2]},
    ),
    (
        "createCollisionShape",
        {"shapeType": 9, "heightfieldData": [0.0, 0.1, 0.2, 0.3]}
        | {"numHeightfieldRows": 2, "numHeightfieldColumns": 2},
    ),
    (
        "createVisualShape",
        {"shapeType": 5, "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]], "indices": [0, 1, 2]}
        | {"normals": [[0, 0, 1]] * 3, "uvs": [[0, 0], [1, 0], [0, 1]]},
    ),
    ("createMultiBody", {"batchPositions": None}),
    ("createMultiBody", {"baseMass": 0.0, "batchPositions": None}),
    *[("setJointMotorControl2", {"controlMode": mode}) for mode in (0, 1, 3, 4)],
    *[("setJointMotorControlArray", {"controlMode": mode}) for mode in (0, 1, 3, 4)],
    *[("setJointMotorControlMultiDof", {"controlMode": mode}) for mode in (0, 1, 3, 4)],
    (
        "setJointMotorControlMultiDof",
        {"bodyUniqueId": ARM, "targetPosition": [0.1], "targetVelocity": [0.1]}
        | {"force": [1.0], "positionGain": 0.1, "velocityGain": 0.5},
    ),
    *[("setJointMotorControlMultiDofArray", {"controlMode": mode}) for mode in (0, 1, 3, 4)],
    (
        "setJointMotorControlMultiDofArray",
        {"bodyUniqueId": BALL, "jointIndices": [0], "targetPositions": [Q]}
        | {"targetVelocities": [V], "forces": [V], "positionGains": [V], "velocityGains": [V]}
        | {"maxVelocities": [1.0]},
    ),
    ("setJointMotorControl2", {"bodyUniqueId": BALL, "jointIndex": 0}),
    ("resetJointStateMultiDof", {"bodyUniqueId": ARM, "targetValue": [0.1], "targetVelocity": [0.1]}),
    ("changeDynamics", {"bodyUniqueId": ARM, "linkIndex": 3}),
    ("changeDynamics", {"mass": None}),
    ("changeConstraint", {"userConstraintUniqueId": GEAR}),
    ("applyExternalForce", {"objectUniqueId": ARM, "linkIndex": 3, "flags": 2}),
    ("applyExternalForce", {"flags": 2}),
    ("applyExternalTorque", {"flags": 2}),
    *[("createConstraint", {"childBodyUniqueId": HELD, "jointType": kind}) for kind in (0, 1, 4, 5, 6)],
    *[("calculateInverseKinematics", {"solver": solver}) for solver in (1, 2)],
    ("resetBasePositionAndOrientation", {"bodyUniqueId": CLOTH}),
    ("resetBaseVelocity", {"objectUniqueId": CLOTH}),
    ("resetBaseVelocity", {"objectUniqueId": PLANE}),
    ("resetBasePositionAndOrientation", {"bodyUniqueId": PLANE}),
    ("resetBasePositionAndOrientation", {"bodyUniqueId": ARM}),
]
"""Calls whose arguments matter in other cases: what differs from the call above."""


def add_link_on_ball_joint(module, shape: int, call: dict[str, int]) -> None:
    """Make a fixed base and, on a ball joint 3 m above it, a link of 1 kg with a shape."""
    module.createMultiBody(
        linkMasses=[1.0],
        linkCollisionShapeIndices=[shape],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 3]],
        linkOrientations=[Q],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[Q],
        linkParentIndices=[0],
        linkJointTypes=[module.JOINT_SPHERICAL],
        linkJointAxis=[[0, 0, 1]],
        **call,
    )


def build(client: int, soft: bool = False) -> None:
    """A plane, an arm, a cube, a ball joint, a cube on a constraint, shapes, and cloth where it is wanted."""
    call = {"physicsClientId": client}
    compat.setAdditionalSearchPath(DATA, **call)
    compat.setGravity(0.0, 0.0, -9.81, **call)
    compat.loadURDF("plane.urdf", **call)
    compat.loadURDF("kuka_iiwa/model.urdf", [2, 0, 0], useFixedBase=True, **call)
    compat.loadURDF("cube_small.urdf", [0, 0, 0.03], **call)
    ball = compat.createCollisionShape(compat.GEOM_SPHERE, radius=0.1, **call)
    add_link_on_ball_joint(compat, ball, call)
    compat.loadURDF("cube_small.urdf", [0, -1, 0.5], **call)
    compat.createConstraint(HELD, -1, -1, -1, compat.JOINT_FIXED, [0, 0, 0], [0, 0, 0], [0, -1, 0.5], **call)
    gear = [0, 0, 1], [0, 0, 0], [0, 0, 0]
    compat.createConstraint(ARM, 1, ARM, 2, compat.JOINT_GEAR, *gear, **call)
    compat.createCollisionShape(compat.GEOM_BOX, halfExtents=V, **call)
    if soft:
        compat.loadSoftBody("cloth_z_up.obj", basePosition=[5, 5, 1], scale=0.1, mass=0.1, **call)
    compat.stepSimulation(**call)
