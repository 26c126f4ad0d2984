"""Attributes that stages carry for engines, and what is made of each: the table of docs/usd.md.

The names are those of published schemas: UsdPhysics of OpenUSD, PhysxSchema of Omniverse, newton-usd-schemas
and MuJoCo's mjcPhysics. What the readers do not model is told here, once per attribute.
"""

import math
from dataclasses import dataclass
from functools import cache
from numbers import Real

from newtonsim.errors import did_you_mean
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.usd.element import Element
from newtonsim.importers.usd.walk import Place


@dataclass(frozen=True, slots=True)
class Entry:
    """Attributes and relationships of one schema that are treated alike.

    Attributes:
        schema: Name of the schema.
        made: "modelled", "approximated" (the reader tells how), "ignored" (without effect on the motion),
            "deferred" (a further call models it) or "unsupported".
        names: Their names; <i> stands for the instance of a schema that can be applied several times, a
            final * for all that begins so.
        words: What they become, or why they become nothing.
        neutral: Values that ask for nothing; without any these are zero, False and infinity.
    """

    schema: str
    made: str
    names: tuple[str, ...]
    words: str
    neutral: tuple = ()


def _entry(schema: str, made: str, prefix: str, names: str, words: str, neutral: tuple = ()) -> Entry:
    return Entry(schema, made, tuple(f"{prefix}{name}" for name in names.split()), words, neutral)


_JOINT = "body0 body1 localPos0 localRot0 localPos1 localRot1 jointEnabled collisionEnabled"
_MEMBERS = "colliders colliders:includes colliders:excludes colliders:expansionRule colliders:includeRoot"
_MEMBERS += " colliders:mode colliders:membershipExpression"
_SOLVER = "solverPositionIterationCount solverVelocityIterationCount sleepThreshold stabilizationThreshold"
_ACTUATOR = "gear gainType gainPrm biasType biasPrm forceRange:min forceRange:max forceLimited target"

USD_PHYSICS = (
    _entry("PhysicsScene", "modelled", "physics:", "gravityDirection gravityMagnitude", "gravity"),
    _entry("PhysicsRigidBodyAPI", "modelled", "physics:", "rigidBodyEnabled simulationOwner", "which bodies"),
    _entry("PhysicsRigidBodyAPI", "modelled", "physics:", "velocity angularVelocity", "initial velocities"),
    _entry("PhysicsRigidBodyAPI", "modelled", "physics:", "kinematicEnabled", "a body without mass"),
    _entry("PhysicsRigidBodyAPI", "ignored", "physics:", "startsAsleep", "solvers let resting bodies sleep"),
    _entry("PhysicsMassAPI", "modelled", "physics:", "mass density centerOfMass", "mass and its centre"),
    _entry("PhysicsMassAPI", "modelled", "physics:", "diagonalInertia principalAxes", "inertia"),
    _entry("PhysicsCollisionAPI", "modelled", "physics:", "collisionEnabled simulationOwner", "collides"),
    _entry("PhysicsMeshCollisionAPI", "modelled", "physics:", "approximation", "shape of a mesh"),
    _entry("PhysicsMaterialAPI", "modelled", "physics:", "dynamicFriction restitution density", "material"),
    _entry("PhysicsMaterialAPI", "approximated", "physics:", "staticFriction", "the dynamic one counts"),
    _entry("PhysicsCollisionGroup", "modelled", "collection:", _MEMBERS, "who is in the group"),
    _entry(
        "PhysicsCollisionGroup",
        "modelled",
        "physics:",
        "filteredGroups invertFilteredGroups mergeGroup",
        "who touches whom",
    ),
    _entry("PhysicsFilteredPairsAPI", "modelled", "physics:", "filteredPairs", "who touches whom"),
    _entry("PhysicsJoint", "modelled", "physics:", _JOINT, "joints of trees, and those that close loops"),
    _entry("PhysicsJoint", "modelled", "physics:", "excludeFromArticulation", "closes a loop"),
    _entry("PhysicsJoint", "unsupported", "physics:", "breakForce breakTorque", "joints cannot break"),
    _entry("PhysicsRevoluteJoint", "modelled", "physics:", "axis lowerLimit upperLimit", "one axis"),
    _entry("PhysicsPrismaticJoint", "modelled", "physics:", "axis lowerLimit upperLimit", "one axis"),
    _entry("PhysicsSphericalJoint", "modelled", "physics:", "axis", "ball joint"),
    _entry(
        "PhysicsSphericalJoint",
        "approximated",
        "physics:",
        "coneAngle0Limit coneAngle1Limit",
        "a round cone of the smaller angle",
    ),
    _entry("PhysicsDistanceJoint", "modelled", "physics:", "minDistance maxDistance", "a constraint"),
    _entry("PhysicsLimitAPI", "modelled", "limit:<i>:physics:", "low high", "limits of an axis"),
    _entry(
        "PhysicsDriveAPI",
        "modelled",
        "drive:<i>:physics:",
        "stiffness damping maxForce targetPosition targetVelocity",
        "drive of an axis",
    ),
    _entry("PhysicsDriveAPI", "approximated", "drive:<i>:physics:", "type", "gains for the initial inertia"),
)

PHYSX = (
    _entry("PhysxSceneAPI", "unsupported", "physxScene:", "invertCollisionGroupFilter", "groups as they are"),
    _entry("PhysxSceneAPI", "modelled", "physxScene:", "timeStepsPerSecond", "solver_hint['timestep']"),
    _entry("PhysxSceneAPI", "ignored", "physxScene:", "*", "settings of another solver"),
    _entry(
        "PhysxRigidBodyAPI",
        "deferred",
        "physxRigidBody:",
        "disableGravity",
        "gravity, unless a stage GravityCompensation of the solver is given report.gravcomp",
    ),
    _entry("PhysxRigidBodyAPI", "unsupported", "physxRigidBody:", "linearDamping angularDamping", "no drag"),
    _entry(
        "PhysxRigidBodyAPI",
        "unsupported",
        "physxRigidBody:",
        "maxLinearVelocity maxAngularVelocity",
        "no limit of speed",
    ),
    _entry("PhysxRigidBodyAPI", "unsupported", "physxRigidBody:", "lockedPosAxis lockedRotAxis", "free"),
    _entry(
        "PhysxRigidBodyAPI", "unsupported", "physxRigidBody:", "retainAccelerations", "forces act for a step"
    ),
    _entry("PhysxRigidBodyAPI", "unsupported", "physxRigidBody:", "maxContactImpulse", "no limit"),
    _entry("PhysxRigidBodyAPI", "unsupported", "physxRigidBody:", "solveContact", "touches", (True,)),
    _entry(
        "PhysxRigidBodyAPI",
        "ignored",
        "physxRigidBody:",
        f"{_SOLVER} maxDepenetrationVelocity cfmScale contactSlopCoefficient enableCCD"
        " enableSpeculativeCCD enableGyroscopicForces",
        "settings of another solver",
    ),
    _entry("PhysxCollisionAPI", "modelled", "physxCollision:", "restOffset", "thickness"),
    _entry("PhysxCollisionAPI", "ignored", "physxCollision:", "contactOffset", "contacts are found in time"),
    _entry(
        "PhysxCollisionAPI",
        "unsupported",
        "physxCollision:",
        "torsionalPatchRadius minTorsionalPatchRadius",
        "no friction about the normal from it",
    ),
    _entry("PhysxTriggerAPI", "modelled", "physxTrigger:", "*", "the shape does not collide"),
    _entry(
        "PhysxMaterialAPI",
        "unsupported",
        "physxMaterial:",
        "frictionCombineMode restitutionCombineMode",
        "the solver's options friction_combine and restitution_combine say it for all",
        ("average",),
    ),
    _entry(
        "PhysxMaterialAPI",
        "approximated",
        "physxMaterial:",
        "compliantContactStiffness compliantContactDamping",
        "ke and kd, which rigid contacts do not use",
    ),
    _entry(
        "PhysxMaterialAPI",
        "ignored",
        "physxMaterial:",
        "dampingCombineMode improvePatchFriction compliantContactAccelerationSpring",
        "settings of another solver",
    ),
    _entry(
        "PhysxArticulationAPI", "modelled", "physxArticulation:", "enabledSelfCollisions", "who touches whom"
    ),
    _entry(
        "PhysxArticulationAPI",
        "ignored",
        "physxArticulation:",
        f"articulationEnabled {_SOLVER}",
        "the motion is the same",
    ),
    _entry("PhysxJointAPI", "modelled", "physxJoint:", "armature maxJointVelocity", "of each axis"),
    _entry("PhysxJointAPI", "unsupported", "physxJoint:", "jointFriction", "depends on the joint's load"),
    _entry("PhysxJointAPI", "ignored", "physxJoint:", "enableProjection", "settings of another solver"),
    _entry(
        "PhysxJointAxisAPI",
        "modelled",
        "physxJointAxis:<i>:",
        "armature maxJointVelocity dynamicFrictionEffort viscousFrictionCoefficient",
        "of one axis",
    ),
    _entry(
        "PhysxJointAxisAPI",
        "approximated",
        "physxJointAxis:<i>:",
        "staticFrictionEffort",
        "the dynamic one counts",
    ),
    _entry("PhysxLimitAPI", "modelled", "physxLimit:<i>:", "stiffness damping", "limit_ke, limit_kd"),
    _entry("PhysxLimitAPI", "unsupported", "physxLimit:<i>:", "restitution", "limits do not bounce"),
    _entry("PhysxLimitAPI", "ignored", "physxLimit:<i>:", "bounceThreshold", "limits do not bounce"),
    _entry(
        "PhysxMimicJointAPI",
        "modelled",
        "physxMimicJoint:<i>:",
        "referenceJoint referenceJointAxis gearing offset",
        "coupling of two axes",
    ),
    _entry(
        "PhysxMimicJointAPI",
        "unsupported",
        "physxMimicJoint:<i>:",
        "naturalFrequency dampingRatio",
        "the coupling is rigid",
    ),
    _entry(
        "PhysicsJointStateAPI", "modelled", "state:<i>:physics:", "velocity", "initial velocity of an axis"
    ),
    _entry("PhysicsJointStateAPI", "approximated", "state:<i>:physics:", "position", "the poses count"),
    _entry(
        "PhysicsJointStateAPI", "ignored", "state:<i>:physics:", "appliedForce", "what a simulation wrote"
    ),
    _entry("(Omniverse)", "ignored", "physics:", "tensor:* newton:* engine", "what a simulation wrote"),
    _entry(
        "PhysxDrivePerformanceEnvelopeAPI",
        "unsupported",
        "physxDrivePerformanceEnvelope:<i>:",
        "*",
        "the effort limit is the same at any speed",
    ),
    _entry(
        "PhysxPhysicsDistanceJointAPI",
        "unsupported",
        "physxPhysicsDistanceJoint:",
        "*",
        "distances have no springs",
    ),
    _entry("PhysxForceAPI", "unsupported", "physxForce:", "*", "forces are not part of the model"),
    _entry("PhysxSurfaceVelocityAPI", "unsupported", "physxSurfaceVelocity:", "*", "surfaces stand still"),
    _entry("PhysxConvexHullCollisionAPI", "ignored", "physxConvexHullCollision:", "*", "hulls are exact"),
    _entry(
        "PhysxConvexDecompositionCollisionAPI",
        "ignored",
        "physxConvexDecompositionCollision:",
        "*",
        "settings of another cooker",
    ),
    _entry("PhysxTriangleMeshCollisionAPI", "ignored", "physxTriangleMeshCollision:", "*", "cooking"),
    _entry(
        "PhysxTriangleMeshSimplificationCollisionAPI",
        "ignored",
        "physxTriangleMeshSimplificationCollision:",
        "*",
        "no simplification",
    ),
    _entry("PhysxSDFMeshCollisionAPI", "ignored", "physxSDFMeshCollision:", "*", "settings of a cooker"),
    _entry("PhysxSphereFillCollisionAPI", "ignored", "physxSphereFillCollision:", "*", "convex parts"),
    _entry("PhysxCookedDataAPI", "ignored", "physxCookedData:", "*", "meshes are cooked again"),
    _entry("PhysxContactReportAPI", "ignored", "physxContactReport:", "*", "contacts are there"),
)

NEWTON = (
    _entry("NewtonSceneAPI", "modelled", "newton:", "gravityEnabled", "gravity"),
    _entry("NewtonSceneAPI", "modelled", "newton:", "timeStepsPerSecond", "solver_hint['timestep']"),
    _entry("NewtonSceneAPI", "ignored", "newton:", "maxSolverIterations", "settings of another solver"),
    _entry("NewtonXpbdSceneAPI", "ignored", "newton:xpbd:", "*", "settings of another solver"),
    _entry("NewtonVbdSceneAPI", "ignored", "newton:vbd:", "*", "settings of another solver"),
    _entry("NewtonKaminoSceneAPI", "ignored", "newton:kamino:", "*", "settings of another solver"),
    _entry("NewtonMPMSceneAPI", "ignored", "newton:mpm:", "*", "particles are not imported"),
    _entry("NewtonArticulationRootAPI", "modelled", "newton:", "selfCollisionEnabled", "who touches whom"),
    _entry(
        "NewtonArticulationRootAPI",
        "modelled",
        "newton:",
        "jointsAddMobility",
        "joints of the same bodies are one of several axes",
    ),
    _entry("NewtonMassAPI", "modelled", "newton:", "inertia", "inertia"),
    _entry("NewtonMassAPI", "unsupported", "newton:", "massModel", "shapes are solid", ("solid",)),
    _entry("NewtonMassAPI", "ignored", "newton:", "shellThickness", "belongs to massModel"),
    _entry(
        "NewtonJointAPI",
        "modelled",
        "newton:",
        "armature damping friction velocityLimit limitStiffness limitDamping",
        "of each axis",
    ),
    _entry("NewtonCollisionAPI", "modelled", "newton:", "contactMargin", "thickness"),
    _entry("NewtonCollisionAPI", "ignored", "newton:", "contactGap", "contacts are found in time"),
    _entry("NewtonMeshCollisionAPI", "ignored", "newton:", "maxHullVertices", "hulls are exact"),
    _entry(
        "NewtonSDFCollisionAPI",
        "ignored",
        "newton:",
        "sdfMaxResolution sdfTargetVoxelSize sdfNarrowBandInner sdfNarrowBandOuter sdfTextureFormat"
        " sdfPadding",
        "the triangles collide",
    ),
    _entry("NewtonSDFCollisionAPI", "unsupported", "newton:", "hydroelasticEnabled", "contacts are points"),
    _entry(
        "NewtonSDFCollisionAPI",
        "ignored",
        "newton:",
        "hydroelasticStiffness",
        "goes with hydroelasticEnabled",
    ),
    _entry(
        "NewtonMaterialAPI",
        "modelled",
        "newton:",
        "torsionalFriction rollingFriction contactStiffness contactDamping contactFrictionGain"
        " contactAdhesion",
        "mu_torsion, mu_rolling, ke, kd, kf, ka",
    ),
    _entry(
        "NewtonMimicAPI",
        "modelled",
        "newton:",
        "mimicEnabled mimicJoint mimicCoef0 mimicCoef1",
        "coupling of two axes",
    ),
    _entry("NewtonActuator", "modelled", "newton:", "targets", "which axis is driven"),
    _entry("NewtonPDControlAPI", "modelled", "newton:", "kp kd constEffort", "drive of an axis"),
    _entry("NewtonMaxEffortClampingAPI", "modelled", "newton:", "maxEffort", "effort limit of the drive"),
    _entry("NewtonPIDControlAPI", "unsupported", "newton:", "ki integralMax", "drives do not integrate"),
    _entry("NewtonActuatorDelayAPI", "unsupported", "newton:", "delaySteps", "drives act at once"),
    _entry("NewtonNeuralControlAPI", "unsupported", "newton:", "modelPath", "drives are linear"),
    _entry(
        "NewtonDCMotorClampingAPI",
        "unsupported",
        "newton:",
        "maxMotorEffort saturationEffort",
        "the effort limit is the same at any speed",
    ),
    _entry(
        "NewtonPositionBasedClampingAPI",
        "unsupported",
        "newton:",
        "lookupPositions lookupEfforts",
        "the effort limit is the same everywhere",
    ),
    _entry("NewtonCurvesDeformableMaterialAPI", "unsupported", "newton:curves", "*", "no soft bodies"),
)

MUJOCO = (
    _entry("MjcSceneAPI", "modelled", "mjc:", "option:timestep", "solver_hint['timestep']"),
    _entry("MjcSceneAPI", "modelled", "mjc:", "flag:gravity", "gravity"),
    _entry("MjcSceneAPI", "modelled", "mjc:", "compiler:angle", "unit of ref and springref"),
    _entry(
        "MjcSceneAPI",
        "unsupported",
        "mjc:",
        "option:wind option:density option:viscosity flag:override",
        "no medium, no overrides",
    ),
    _entry(
        "MjcSceneAPI",
        "unsupported",
        "mjc:",
        "flag:constraint flag:equality flag:frictionloss flag:limit flag:contact flag:spring flag:damper"
        " flag:filterparent flag:actuation",
        "all of it is active",
        (True,),
    ),
    _entry("MjcSceneAPI", "unsupported", "mjc:", "compiler:setTotalMass", "masses as they are", (-1.0,)),
    _entry(
        "MjcSceneAPI",
        "unsupported",
        "mjc:",
        "compiler:boundMass compiler:boundInertia compiler:balanceInertia",
        "masses as they are",
    ),
    _entry("MjcSceneAPI", "ignored", "mjc:option:", "*", "settings of another solver"),
    _entry("MjcSceneAPI", "ignored", "mjc:flag:", "*", "settings of another solver"),
    _entry("MjcSceneAPI", "ignored", "mjc:compiler:", "*", "settings of another compiler"),
    _entry("MjcSiteAPI, MjcImageableAPI", "ignored", "mjc:", "group", "what MuJoCo shows"),
    _entry("MjcCollisionAPI", "modelled", "mjc:", "solref solimp solmix priority condim", "the same here"),
    _entry("MjcCollisionAPI", "modelled", "mjc:", "margin", "thickness of shapes, margin of limits"),
    _entry("MjcCollisionAPI", "ignored", "mjc:", "gap", "contacts are found in time"),
    _entry("MjcCollisionAPI", "unsupported", "mjc:", "shellinertia", "shapes are solid"),
    _entry("MjcMeshCollisionAPI", "unsupported", "mjc:", "inertia", "volumes are exact", ("exact", "legacy")),
    _entry("MjcMeshCollisionAPI", "ignored", "mjc:", "maxhullvert", "hulls are exact"),
    _entry("MjcMaterialAPI", "modelled", "mjc:", "torsionalfriction rollingfriction", "with condim 4 and 6"),
    _entry(
        "MjcJointAPI",
        "modelled",
        "mjc:",
        "armature damping frictionloss stiffness springref solreflimit solimplimit solreffriction"
        " solimpfriction actuatorfrcrange:min actuatorfrcrange:max actuatorfrclimited",
        "of each axis",
    ),
    _entry("MjcJointAPI", "modelled", "mjc:", "ref", "report.joint_refs"),
    _entry("MjcJointAPI", "unsupported", "mjc:", "springdamper", "stiffness and damping count"),
    _entry("MjcJointAPI", "unsupported", "mjc:", "actuatorgravcomp", "gravcomp is a passive force"),
    _entry(
        "(bodies)",
        "deferred",
        "mjc:",
        "gravcomp",
        "gravity, unless a stage GravityCompensation of the solver is given report.gravcomp",
    ),
    _entry("MjcActuator", "modelled", "mjc:", _ACTUATOR, "drive of an axis, report.actuators"),
    _entry(
        "MjcActuator",
        "modelled",
        "mjc:",
        "ctrlRange:min ctrlRange:max ctrlLimited inheritRange",
        "report.actuators",
    ),
    _entry("MjcActuator", "unsupported", "mjc:", "dynType", "drives have no activation", ("none",)),
    _entry(
        "MjcActuator",
        "ignored",
        "mjc:",
        "dynPrm actDim actLimited actRange:min actRange:max actEarly lengthRange:min lengthRange:max"
        " crankLength jointInParent refSite sliderSite",
        "belongs to what is told otherwise",
    ),
    _entry(
        "MjcEqualityJointAPI", "modelled", "mjc:", "coef0 coef1 coef2 coef3 coef4", "coupling of two axes"
    ),
    _entry("MjcEqualityWeldAPI", "modelled", "mjc:", "torqueScale", "counts with solref"),
    _entry(
        "MjcTendon",
        "unsupported",
        "mjc:",
        "type path path:coef path:divisors path:indices path:segments range:min range:max limited rgba"
        " sideSites sideSites:indices springlength width",
        "tendons are not imported",
    ),
    _entry("MjcKeyframe", "ignored", "mjc:", "qpos qvel act ctrl mpos mquat", "the stage is the start"),
)

VOCABULARY = (*USD_PHYSICS, *PHYSX, *NEWTON, *MUJOCO)

NOT_MODELLED = (*("NewtonMPMMaterialAPI", "NewtonPointsDeformableSimAPI", "NewtonNeuralControlAPI"),)
"""Schemas that are told as a whole."""

_MADE = ("ignored", "unsupported", "deferred", "approximated", "modelled")
SCHEMAS = {
    "NewtonSiteAPI": "ignored",
    "MjcEqualityAPI": "modelled",
    "MjcEqualityConnectAPI": "modelled",
} | dict.fromkeys(NOT_MODELLED, "unsupported")
"""Schemas of which each attribute is told by itself, with the best that is made of one."""
for _known in VOCABULARY:
    for _name in _known.schema.split(", "):
        SCHEMAS[_name] = max(SCHEMAS.get(_name, "ignored"), _known.made, key=_MADE.index)

TYPES = {"MjcTendon": "unsupported", "MjcKeyframe": "ignored"}
"""Types of prims that are not read, by what is made of them."""

_SEVERAL = (
    *("drive", "limit", "state", "physxJointAxis", "physxLimit", "physxMimicJoint"),
    "physxDrivePerformanceEnvelope",
)
"""Namespaces in which the name of an instance follows."""

_NAMED = 8
"""Unknown properties that are named, and prims with such whose place is looked for."""

_SHOWN = 40
"""Characters of a value that are shown."""

_SPACES = ("physics", "drive", "limit", "state", "newton", "mjc")
_TOLD = frozenset(USD_PHYSICS)
"""What the readers tell of themselves."""


@cache
def look_up(name: str) -> Entry | None:
    """What is known of an attribute or relationship."""
    name = _key_of(name)
    for entry in VOCABULARY:
        if name in entry.names:
            return entry
    for entry in VOCABULARY:
        if any(known.endswith("*") and name.startswith(known[:-1]) for known in entry.names):
            return entry
    return None


def _key_of(name: str) -> str:
    """Name of a property as entries have it."""
    parts = name.split(":")
    return ":".join([parts[0], "<i>", *parts[2:]]) if parts[0] in _SEVERAL and len(parts) > 2 else name


@cache
def is_for_engines(name: str) -> bool:
    """Whether a property lies in a namespace of physics."""
    space = name.partition(":")[0]
    return ":" in name and (space in _SPACES or space.startswith("physx"))


def report_properties(places: list[Place], report: ImportReport) -> None:
    """Tell once of each property that no reader makes anything of: its first prim, and how many have it."""
    found: dict[str, list[Place]] = {}
    for place in places:
        if TYPES.get(place.element.prim.GetTypeName()):
            continue
        for name in map(str, place.element.prim.GetAuthoredPropertyNames()):
            if is_for_engines(name) and _asks(place, name):
                found.setdefault(name, []).append(place)
    unknown = [name for name in found if look_up(name) is None]
    for name, owners in found.items():
        entry = look_up(name)
        if entry is not None:
            count = f", of {len(owners)} prims," if len(owners) > 1 else ""
            verb = "read" if entry.made == "ignored" else "modelled"
            message = f"'{name}'{count} is not {verb}: {entry.words}"
            report.add(entry.made, owners[0].element, message)
    _report_unknown({name: found[name] for name in unknown}, report)
    _report_unapplied(places, report)


def _report_unapplied(places: list[Place], report: ImportReport) -> None:
    """Tell once of each property of UsdPhysics that counts for nothing, as its schema is not applied."""
    found: dict[str, list[Place]] = {}
    for place in places:
        element = place.element
        for name in map(str, element.prim.GetAuthoredPropertyNames()):
            schemas = _schemas_of(name)
            if not schemas or any(map(element.has_api, schemas)):
                continue
            if name not in element.prim.GetPrimDefinition().GetPropertyNames():
                found.setdefault(name, []).append(place)
    for name, owners in found.items():
        count = f", of {len(owners)} prims," if len(owners) > 1 else ""
        schemas = " or ".join(_schemas_of(name))
        message = f"'{name}'{count} is not read: the prim has no {schemas}"
        report.add("ignored", owners[0].element, message)
    still = [place for place in places if _keeps_transform(place)]
    if still:
        count = f", of {len(still)} prims," if len(still) > 1 else ""
        kind = still[0].element.prim.GetTypeName()
        words = f"a prim of type {kind}" if kind else "a prim without type, such as Xform,"
        message = f"'xformOpOrder'{count} is not read: {words} has no transform"
        report.add("ignored", still[0].element, message)


def _keeps_transform(place: Place) -> bool:
    """Whether a prim has transforms that OpenUSD does not apply, as that of its type has none."""
    prim = place.element.prim
    return bool(prim.GetAttribute("xformOpOrder")) and not prim.IsA("Xformable")


@cache
def _schemas_of(name: str) -> tuple[str, ...]:
    """Schemas of UsdPhysics with a property that is read, () for all others."""
    known = {entry.schema: None for entry in USD_PHYSICS if _key_of(name) in entry.names}
    return tuple(known) if is_for_engines(name) else ()


def _report_unknown(found: dict[str, list[Place]], report: ImportReport) -> None:
    """Tell of properties that no schema has, once of prims with the same ones: line, value, advice."""
    names_of: dict[int, list[str]] = {}
    places = {id(place): place for owners in found.values() for place in owners}
    for name, owners in found.items():
        for place in owners:
            names_of.setdefault(id(place), []).append(name)
    alike: dict[tuple[str, ...], list[Place]] = {}
    for number, names in names_of.items():
        alike.setdefault(tuple(names), []).append(places[number])
    for count, (names, owners) in enumerate(alike.items()):
        element = owners[0].element
        told = ", ".join(_unknown(element, name) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        prims = f", of {len(owners)} prims" if len(owners) > 1 else ""
        entry = report.add("unsupported", element, f"no schema knows {told}{more}{prims}")
        if count < _NAMED:  # each is looked for in the whole text of the layer
            entry.path, entry.line = element.place(names[0])


def _unknown(element: Element, name: str) -> str:
    """A property that no schema has, with its value and, in brackets, the name that was meant."""
    parts = name.split(":")
    instance = parts[1] if parts[0] in _SEVERAL and len(parts) > 2 else ""
    space, _, own = name.rpartition(":")  # which would make names alike that are not
    known = (one.replace("<i>", instance).rpartition(":") for entry in VOCABULARY for one in entry.names)
    value = element.value(name)
    text = "" if value is None else f" = {str(value)[:_SHOWN]}"
    meant = did_you_mean(own, (word for prefix, _, word in known if prefix == space)).removeprefix("; ")
    return f"'{name}'{text}{f' ({meant})' if meant else ''}"


def _asks(place: Place, name: str) -> bool:
    """Whether a property says something that the readers do not tell of."""
    entry = look_up(name)
    if entry is None:
        return True
    if entry.made not in ("unsupported", "deferred", "ignored") or entry in _TOLD:
        return False
    prim = place.element.prim
    relationship = prim.GetRelationship(name)
    if relationship:
        return bool(relationship.GetTargets())
    return not _says_nothing(place.element.value(name), entry.neutral)


def _says_nothing(value: object, neutral: tuple) -> bool:
    if value is None or value in neutral:
        return True
    if isinstance(value, Real):
        return not neutral and (value == 0 or abs(float(value)) > 1.0e30 or math.isnan(float(value)))
    if not isinstance(value, str) and hasattr(value, "__len__"):
        return all(_says_nothing(one, neutral) for one in value)  # pyright: ignore[reportGeneralTypeIssues]
    return value == ""
