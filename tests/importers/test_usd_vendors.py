"""Schemas of PhysX, Newton and MuJoCo: what each attribute becomes; nothing is dropped in silence."""

import importlib.util
import random
import re
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
from pxr import Tf, Usd
from usd_text import BODY, MASS, SOLID, ops, prim, read, remarks, run, stage_of

import newtonsim
from newtonsim.geometry.transforms import quat_between
from newtonsim.importers import parse_usd
from newtonsim.importers.usd.vocabulary import MUJOCO, NEWTON, PHYSX, VOCABULARY, look_up
from newtonsim.scene.enums import JointMode
from newtonsim.solvers import FeatherstoneSolver

DEGREE = np.pi / 180.0
HINGE = (
    'rel physics:body0 = </a>\nrel physics:body1 = </b>\nuniform token physics:axis = "Y"\n'
    "point3f physics:localPos0 = (0, 0, 2)\nfloat physics:lowerLimit = -60\nfloat physics:upperLimit = 60\n"
)


def scene(**inside: str) -> str:
    """A scene, a material, two bodies on a hinge, a follower on a second one, and an actuator's prim."""
    bound = "rel material:binding = </wood>\n"
    text = prim("PhysicsScene", "scene", inside=inside.get("scene", ""))
    text += prim("Material", "wood", "PhysicsMaterialAPI", inside=inside.get("wood", ""))
    text += prim("Cube", "a", BODY, SOLID, "PhysicsArticulationRootAPI", inside=inside.get("a", ""))
    text += prim(
        "Cube", "b", BODY, SOLID, MASS, "MaterialBindingAPI", *inside.get("b_schemas", "").split(),
        inside=bound + ops(translate=(0, 0, 2)) + inside.get("b", ""),
    )  # fmt: skip
    text += prim("Cube", "c", BODY, SOLID, inside=ops(translate=(0, 0, 6)))
    text += prim(
        "PhysicsRevoluteJoint", "j", *inside.get("j_schemas", "").split(), inside=HINGE + inside.get("j", "")
    )
    follower = HINGE.replace("</b>", "</c>").replace("(0, 0, 2)", "(0, 0, 6)")
    text += prim(
        "PhysicsRevoluteJoint",
        "k",
        *inside.get("k_schemas", "").split(),
        inside=follower + inside.get("k", ""),
    )
    return text + inside.get("more", "")


def contents(builder: newtonsim.ModelBuilder, result: dict) -> dict[str, object]:
    """Everything that a reader may have changed, as text by name."""
    lists = {name: repr(list(value)) for name, value in vars(builder).items() if hasattr(value, "__len__")}
    report = result["report"]
    lists |= {
        name: repr(getattr(report, name)) for name in ("gravcomp", "joint_refs", "actuators", "constraints")
    }
    return lists | {"gravity": repr(builder.gravity), "hint": repr(builder.solver_hint)}


PD = 'prepend apiSchemas = ["NewtonPDControlAPI", "NewtonMaxEffortClampingAPI"]'
PULL = "rel newton:targets = </j>\nfloat newton:kp = 3\n"
MIMIC = {"k_schemas": "NewtonMimicAPI", "k": "rel newton:mimicJoint = </j>\n"}
GEARED = {"k_schemas": "PhysxMimicJointAPI:rotY", "k": "rel physxMimicJoint:rotY:referenceJoint = </j>\n"}
EQUAL = {"k_schemas": "MjcEqualityJointAPI", "k": "rel mjc:target = </j>\n"}
GLUE = {
    "more": prim(
        "PhysicsFixedJoint",
        "glue",
        "MjcEqualityWeldAPI",
        inside="rel physics:body0 = </b>\nrel physics:body1 = </c>\n"
        "bool physics:excludeFromArticulation = 1\npoint3f physics:localPos0 = (0, 0, 4)\n",
    )
}
LIMIT = "uniform double[] mjc:solreflimit = [0.05, 1]\n"
SPRING = "uniform double mjc:stiffness = 2\n"
TARGET = "rel mjc:target = </j>\n"
BIAS = TARGET + "double[] mjc:biasPrm = [0, -2, 0]\n"
KIND = 'token mjc:biasType = "affine"\n'
AFFINE = BIAS + KIND
STRONG = AFFINE + "double mjc:forceRange:max = 5\n"
FAR = AFFINE + "double mjc:ctrlRange:max = 5\n"
SECOND = prim("PhysicsRevoluteJoint", "j2", inside=HINGE.replace('"Y"', '"X"'))


def newton_actuator(inside: str) -> dict[str, str]:
    """An actuator of Newton's."""
    return {"more": prim("NewtonActuator", "motor", meta=PD, inside=inside)}


def mujoco_actuator(inside: str) -> dict[str, str]:
    """An actuator of MuJoCo's."""
    return {"more": prim("MjcActuator", "motor", inside=inside)}


EFFECTS = {
    "physxScene:timeStepsPerSecond": ({}, "scene", "uint", "50"),
    "physxCollision:restOffset": ({}, "b", "float", "0.01"),
    "physxArticulation:enabledSelfCollisions": ({}, "a", "bool", "0"),
    "physxJoint:armature": ({}, "j", "float", "0.5"),
    "physxJoint:maxJointVelocity": ({}, "j", "float", "50"),
    "physxJointAxis:angular:armature": ({}, "j", "float", "0.5"),
    "physxJointAxis:angular:maxJointVelocity": ({}, "j", "float", "50"),
    "physxJointAxis:angular:dynamicFrictionEffort": ({}, "j", "float", "0.5"),
    "physxJointAxis:angular:viscousFrictionCoefficient": ({}, "j", "float", "0.5"),
    "physxLimit:angular:stiffness": ({}, "j", "float", "7"),
    "physxLimit:angular:damping": ({}, "j", "float", "7"),
    "physxMimicJoint:rotY:referenceJoint": ({"k_schemas": "PhysxMimicJointAPI:rotY"}, "k", "rel", "</j>"),
    "physxMimicJoint:rotY:gearing": (GEARED, "k", "float", "2"),
    "physxMimicJoint:rotY:offset": (GEARED, "k", "float", "2"),
    "state:angular:physics:velocity": ({}, "j", "float", "90"),
    "newton:gravityEnabled": ({}, "scene", "bool", "0"),
    "newton:timeStepsPerSecond": ({}, "scene", "int", "50"),
    "newton:selfCollisionEnabled": ({}, "a", "bool", "0"),
    "newton:jointsAddMobility": ({"more": SECOND}, "a", "bool", "1"),
    "newton:inertia": ({}, "b", "double[]", "[1, 2, 2.5, 0.1, 0.1, 0.1]"),
    "newton:armature": ({}, "j", "float", "0.5"),
    "newton:damping": ({}, "j", "float", "0.5"),
    "newton:friction": ({}, "j", "float", "0.5"),
    "newton:velocityLimit": ({}, "j", "float", "50"),
    "newton:limitStiffness": ({}, "j", "float", "7"),
    "newton:limitDamping": ({}, "j", "float", "7"),
    "newton:contactMargin": ({}, "b", "float", "0.01"),
    "newton:torsionalFriction": ({}, "wood", "float", "0.01"),
    "newton:rollingFriction": ({}, "wood", "float", "0.01"),
    "newton:contactStiffness": ({}, "wood", "float", "77"),
    "newton:contactDamping": ({}, "wood", "float", "77"),
    "newton:contactFrictionGain": ({}, "wood", "float", "77"),
    "newton:contactAdhesion": ({}, "wood", "float", "0.01"),
    "newton:mimicJoint": ({"k_schemas": "NewtonMimicAPI"}, "k", "rel", "</j>"),
    "newton:mimicEnabled": (MIMIC, "k", "bool", "0"),
    "newton:mimicCoef0": (MIMIC, "k", "float", "3"),
    "newton:mimicCoef1": (MIMIC, "k", "float", "3"),
    "newton:targets": (newton_actuator(PULL.replace("/j", "/k")), None, "rel", "</j>"),
    "newton:kp": (newton_actuator(PULL), None, "float", "5"),
    "newton:kd": (newton_actuator(PULL), None, "float", "5"),
    "newton:constEffort": (newton_actuator(PULL), None, "float", "5"),
    "newton:maxEffort": (newton_actuator(PULL), None, "float", "5"),
    "mjc:option:timestep": ({}, "scene", "double", "0.001"),
    "mjc:flag:gravity": ({}, "scene", "bool", "0"),
    "mjc:compiler:angle": ({"j": SPRING + "double mjc:springref = 9\n"}, "scene", "token", '"radian"'),
    "mjc:solref": ({}, "b", "double[]", "[0.05, 1]"),
    "mjc:solimp": ({}, "b", "double[]", "[0.5, 0.6, 0.01]"),
    "mjc:solmix": ({}, "b", "double", "3"),
    "mjc:priority": ({}, "b", "int", "3"),
    "mjc:condim": ({}, "b", "int", "6"),
    "mjc:margin": ({}, "b", "double", "0.02"),
    "mjc:torsionalfriction": ({"b": "int mjc:condim = 4\n"}, "wood", "double", "0.02"),
    "mjc:rollingfriction": ({"b": "int mjc:condim = 6\n"}, "wood", "double", "0.02"),
    "mjc:armature": ({}, "j", "double", "0.5"),
    "mjc:damping": ({}, "j", "double", "0.5"),
    "mjc:frictionloss": ({}, "j", "double", "0.5"),
    "mjc:stiffness": ({}, "j", "double", "0.5"),
    "mjc:springref": ({"j": SPRING}, "j", "double", "9"),
    "mjc:solreflimit": ({}, "j", "double[]", "[0.05, 1]"),
    "mjc:solimplimit": ({}, "j", "double[]", "[0.5, 0.6, 0.01]"),
    "mjc:solreffriction": ({}, "j", "double[]", "[0.05, 1]"),
    "mjc:solimpfriction": ({}, "j", "double[]", "[0.5, 0.6, 0.01]"),
    "mjc:actuatorfrcrange:max": ({"j": "double mjc:actuatorfrcrange:min = -1\n"}, "j", "double", "3"),
    "mjc:actuatorfrcrange:min": ({"j": "double mjc:actuatorfrcrange:max = 1\n"}, "j", "double", "-3"),
    "mjc:actuatorfrclimited": ({"j": "double mjc:actuatorfrcrange:max = 3\n"}, "j", "token", '"false"'),
    "mjc:ref": ({}, "j", "double", "9"),
    "mjc:target": (mujoco_actuator(""), None, "rel", "</j>"),
    "mjc:gear": (mujoco_actuator(TARGET), None, "double[]", "[3, 0, 0, 0, 0, 0]"),
    "mjc:gainType": (mujoco_actuator(TARGET), None, "token", '"affine"'),
    "mjc:gainPrm": (mujoco_actuator(TARGET), None, "double[]", "[3]"),
    "mjc:biasType": (mujoco_actuator(BIAS), None, "token", '"affine"'),
    "mjc:biasPrm": (mujoco_actuator(TARGET + KIND), None, "double[]", "[1, -2, -3]"),
    "mjc:forceRange:max": (mujoco_actuator(AFFINE), None, "double", "5"),
    "mjc:forceRange:min": (mujoco_actuator(AFFINE), None, "double", "-5"),
    "mjc:forceLimited": (mujoco_actuator(STRONG), None, "token", '"false"'),
    "mjc:ctrlRange:max": (mujoco_actuator(AFFINE), None, "double", "5"),
    "mjc:ctrlRange:min": (mujoco_actuator(AFFINE), None, "double", "-5"),
    "mjc:ctrlLimited": (mujoco_actuator(FAR), None, "token", '"false"'),
    "mjc:inheritRange": (mujoco_actuator(AFFINE), None, "double", "0.5"),
    "mjc:coef0": (EQUAL, "k", "double", "0.3"),
    "mjc:coef1": (EQUAL, "k", "double", "0.3"),
    "mjc:coef2": (EQUAL, "k", "double", "0.3"),
    "mjc:coef3": (EQUAL, "k", "double", "0.3"),
    "mjc:coef4": (EQUAL, "k", "double", "0.3"),
    "mjc:torqueScale": (GLUE, None, "double", "0.3"),
}  # fmt: skip
"""What is around each attribute that is read, where it stands (None: in an actuator), type and value."""

_INSTANCES = {"physxMimicJoint": "rotY"}
_ELSEWHERE = {"physxMimicJoint:rotY:referenceJointAxis", "physxTrigger:*"}
"""A joint of one axis has no choice; triggers are told by their schema."""


def test_every_attribute_that_is_read_is_tested():
    """The table above is complete: it has all that the vocabulary calls modelled."""
    names = {
        name.replace("<i>", _INSTANCES.get(name.partition(":")[0], "angular"))
        for entry in (*PHYSX, *NEWTON, *MUJOCO)
        if entry.made == "modelled"
        for name in entry.names
    }
    assert names - _ELSEWHERE == set(EFFECTS)


@pytest.mark.parametrize("name", EFFECTS)
def test_every_attribute_that_is_read_changes_the_model(name):
    """With and without it, the builder or the report differ, and nothing is said against it."""
    around, where, kind, value = EFFECTS[name]
    line = f"{kind} {name} = {value}\n"
    if where is None:
        text = scene(**{"more": around["more"].rsplit("}", 1)[0] + line + "}\n"})
    else:
        text = scene(**(around | {where: around.get(where, "") + line}))
    before, after = (read(one) for one in (scene(**around), text))
    assert contents(*before) != contents(*after)
    said = [entry for entry in after[1]["report"].entries if f"'{name}'" in entry.message]
    assert not said or name == "mjc:target"


def test_usd_physics_is_known_whole():
    """Every property of every schema of UsdPhysics, as OpenUSD lists them."""
    registry = Usd.SchemaRegistry()
    missing = set()
    for schema in Tf.Type.FindByName("UsdSchemaBase").GetAllDerivedTypes():
        name = registry.GetSchemaTypeName(schema)
        if not name.startswith("Physics"):
            continue
        found = registry.FindConcretePrimDefinition(name) or registry.FindAppliedAPIPrimDefinition(name)
        for attribute in found.GetPropertyNames() if found else ():
            plain = attribute.replace("__INSTANCE_NAME__", "x")
            if plain.startswith(("physics:", "limit:", "drive:", "collection:")) and look_up(plain) is None:
                missing.add(attribute)
    assert not missing


TEXTS = {bool: ("bool", "1"), float: ("float", "0.25"), str: ("token", '"other"')}


@pytest.mark.parametrize("made", ["unsupported", "deferred", "ignored"])
def test_what_is_not_read_is_told_by_name(made):
    """Each attribute of the vocabulary, all on one prim: told once, with the number of prims that have it."""
    names = [
        name.replace("<i>", "angular").replace("*", "something")
        for entry in (*PHYSX, *NEWTON, *MUJOCO)
        if entry.made == made and entry.schema not in ("MjcTendon", "MjcKeyframe")
        for name in entry.names
    ]
    names = [name for name in names if look_up(name).made == made]
    lines = "".join(f"float {name} = 0.25\n" for name in names if "disableGravity" not in name)
    lines = lines.replace("float mjc:inertia = 0.25", 'token mjc:inertia = "shell"')
    lines = lines.replace('float mjc:dynType = 0.25', 'token mjc:dynType = "filter"').replace(
        "float mjc:gravcomp", "double mjc:gravcomp")  # fmt: skip
    lines += "bool physxRigidBody:disableGravity = 1\n" if made == "deferred" else ""
    text = prim("Xform", "one", inside=lines) + prim("Xform", "two", inside=lines)
    _, result = read(text)
    told = {entry.message.split("'")[1]: entry for entry in result["report"].of_kind(made)}
    assert set(names) <= set(told)
    assert all("of 2 prims" in told[name].message and told[name].element == "/one" for name in names)


def test_neutral_values_are_not_told():
    """Zero, infinity, and what a flag is anyway."""
    lines = (
        "float physxRigidBody:linearDamping = 0\nfloat physxRigidBody:maxLinearVelocity = inf\n"
        "bool physxRigidBody:solveContact = 1\nint physxRigidBody:lockedPosAxis = 0\n"
        'token physxMaterial:frictionCombineMode = "average"\ndouble mjc:compiler:setTotalMass = -1\n'
        "double[] mjc:solreffriction = [0.02, 1]\n"
    )
    assert not read(prim("Xform", "one", inside=lines))[1]["report"].entries


def test_unknown_attributes_are_warned_about():
    """A word that no schema has, and one of UsdPhysics that is misspelt."""
    text = prim("Cube", "box", BODY, SOLID, MASS, inside="float physics:masss = 3\nfloat newton:magic = 1\n")
    with pytest.warns(
        newtonsim.UnsupportedElementWarning,
        match=r"/box.*no schema knows 'newton:magic' = 1.0, 'physics:masss' = 3.0 \(did you mean 'mass'",
    ):
        parse_usd(stage_of(text), newtonsim.ModelBuilder())
    with pytest.raises(newtonsim.ImportFileError, match=r"newton:magic"):
        parse_usd(stage_of(text), newtonsim.ModelBuilder(), strict=True)


def test_one_warning_for_each_kind_with_a_count():
    """Three joints that break are one remark of the warning, with the first path and the number."""
    bodies = "".join(prim("Cube", name, BODY, SOLID) for name in "abcd")
    joints = "".join(
        prim("PhysicsFixedJoint", f"j{one}", inside=f"rel physics:body0 = </{one}>\n"
             f"rel physics:body1 = </{two}>\nfloat physics:breakForce = 5\n")
        for one, two in ("ab", "bc", "cd")
    )  # fmt: skip
    with pytest.warns(newtonsim.UnsupportedElementWarning, match=r"</ja> \(3 times\): joints cannot break"):
        parse_usd(stage_of(bodies + joints), newtonsim.ModelBuilder())


def test_types_and_schemas_that_are_not_modelled():
    """Tendons, welds by MuJoCo's schema and gear joints of PhysX."""
    text = prim("MjcTendon", "cord") + prim("PhysxPhysicsGearJoint", "gear") + prim("MjcKeyframe", "home")
    text += prim("Xform", "spot", "NewtonMPMMaterialAPI")
    _, result = read(text)
    assert remarks(result, "unsupported", "/cord")
    assert remarks(result, "unsupported", "/gear")
    assert remarks(result, "ignored", "/home")
    assert remarks(result, "unsupported", "/spot NewtonMPMMaterialAPI")


# -- units and precedence ------------------------------------------------------------------------------------

CENTIMETRES = {"meters": 0.01, "kilograms": 0.5}
TORQUE, FORCE = 0.5 * 1.0e-4, 0.5 * 0.01


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("float newton:damping = 3", "joint_damping", 3.0 * TORQUE / DEGREE),
        ("double mjc:damping = 3", "joint_damping", 3.0 * TORQUE),
        ("float newton:friction = 3", "joint_friction", 3.0 * TORQUE),
        ("double mjc:armature = 3", "joint_armature", 3.0 * TORQUE),
        ("float newton:velocityLimit = 90", "joint_velocity_limit", np.pi / 2),
        ("float newton:limitStiffness = 3", "joint_limit_ke", 3.0 * TORQUE / DEGREE),
        ("float physxLimit:angular:damping = 3", "joint_limit_kd", 3.0 * TORQUE / DEGREE),
        ("float physxJointAxis:angular:dynamicFrictionEffort = 3", "joint_friction", 3.0 * TORQUE),
        ("double mjc:actuatorfrcrange:max = 3\ndouble mjc:actuatorfrcrange:min = -3", "joint_effort_limit",
            3.0 * TORQUE),
        ("double mjc:stiffness = 3\ndouble mjc:springref = 90", "joint_spring_ref", np.pi / 2),
    ],
)  # fmt: skip
def test_units_of_turning_axes(line, field, value):
    """Degrees of Newton and PhysX, radians of MuJoCo, lengths and masses of the stage."""
    builder, result = read(scene(j=line + "\n"), **CENTIMETRES)
    index = result["path_joint_map"]["/j"]
    of_dofs = field in ("joint_damping", "joint_friction", "joint_armature")
    at = builder.joint_qd_start[index] if of_dofs else builder.joint_axis_start[index]
    assert getattr(builder, field)[at] == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("float newton:damping = 3", "joint_damping", 1.5),
        ("float newton:friction = 3", "joint_friction", 3.0 * FORCE),
        ("float newton:velocityLimit = 90", "joint_velocity_limit", 0.9),
        ("float newton:limitStiffness = 3", "joint_limit_ke", 1.5),
        ("double mjc:springref = 90\ndouble mjc:stiffness = 3", "joint_spring_ref", 0.9),
    ],
)
def test_units_of_sliding_axes(line, field, value):
    """Forces for each length, and for each length in a second, are masses by the units."""
    text = prim("Cube", "a", BODY, SOLID) + prim(
        "PhysicsPrismaticJoint", "j", inside="rel physics:body1 = </a>\n" + line + "\n"
    )
    assert getattr(read(text, **CENTIMETRES)[0], field)[0] == pytest.approx(value, rel=1e-5)


def test_the_more_special_schema_counts():
    """MuJoCo's before Newton's, Newton's before PhysX's, that of the axis before that of the joint."""
    lines = [
        "double mjc:armature = 1",
        "float newton:armature = 2",
        "float physxJointAxis:angular:armature = 3",
    ]
    lines += ["float physxJoint:armature = 4"]
    for first in range(4):
        builder, result = read(scene(j="\n".join(lines[first:]) + "\n"))
        dof = result["report"].joint_dofs["/j"]
        assert builder.joint_armature[dof] == first + 1.0


def test_ball_joints_have_rotors_too():
    """Armature, damping and friction of all three degrees of freedom."""
    text = prim("Cube", "a", BODY, SOLID) + prim(
        "PhysicsSphericalJoint", "j",
        inside="rel physics:body1 = </a>\nfloat newton:armature = 2\nfloat newton:friction = 3\n"
            "double mjc:damping = 4\n",
    )  # fmt: skip
    builder, _ = read(text)
    for field, value in (("armature", 2.0), ("friction", 3.0), ("damping", 4.0)):
        assert list(getattr(builder, f"joint_{field}")) == [value] * 3


def test_newtons_schemas_apply_those_of_openusd():
    """A collider, its material, its mass and an articulation that only Newton's schemas name."""
    text = prim("Material", "wood", "NewtonMaterialAPI", inside="float physics:dynamicFriction = 0.2\n")
    text += prim(
        "Cube", "a", BODY, "NewtonCollisionAPI", "NewtonMassAPI", "MaterialBindingAPI",
        inside="rel material:binding = </wood>\nfloat physics:mass = 3\n",
    )  # fmt: skip
    builder, result = read(text)
    assert result["path_shape_map"] == {"/a": 0}
    assert builder.body_mass[0] == 3.0
    assert builder.shape_material_mu[0] == pytest.approx(0.2)


def test_triggers_do_not_collide():
    """A ball falls through a plate that is a trigger."""
    plate = prim(
        "Cube", "plate", SOLID, "PhysxTriggerAPI", inside=ops(translate=(0, 0, -2), scale=(9, 9, 0.1))
    )
    text = prim("PhysicsScene", "scene") + plate + prim("Sphere", "ball", BODY, SOLID)
    _, state = run(read(text)[0], 240)
    assert state.body_q.numpy()[0, 2] == pytest.approx(-0.5 * 9.81, abs=0.05)


@pytest.mark.parametrize(
    ("where", "line", "words"),
    [
        ("j", "double mjc:armature = -1", ["/j", "mjc:armature", "-1"]),
        ("j", 'string newton:damping = "much"', ["/j", "newton:damping", "much"]),
        ("j", "double[] mjc:solreflimit = [0.02, -1]", ["/j", "mjc:solreflimit"]),
        ("j", "double[] mjc:solimplimit = [1, 1, 1, 1, 1, 1]", ["/j", "mjc:solimplimit", "6"]),
        ("b", "int mjc:condim = 2", ["/b", "mjc:condim", "2"]),
        ("b", "double[] newton:inertia = [1, 2]", ["/b", "newton:inertia", "2"]),
        ("wood", "float newton:rollingFriction = -2", ["/wood", "newton:rollingFriction", "-2"]),
        ("scene", 'token mjc:compiler:angle = "grad"', ["/scene", "mjc:compiler:angle", "grad"]),
        ("more", prim("NewtonActuator", "motor"), ["/motor", "newton:targets"]),
        ("more", prim("MjcActuator", "motor", inside="double[] mjc:gear = [nan]"), ["/motor", "mjc:gear"]),
    ],
)  # fmt: skip
def test_wrong_values_are_named_and_nothing_is_changed(where, line, words):
    """Prim, attribute and value; the builder stays as it was."""
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    if where == "more" and "gear" in line:
        line = line.replace("double[] mjc:gear", TARGET + "double[] mjc:gear")
    with pytest.raises(newtonsim.ImportFileError) as caught:
        read(scene(**{where: line + "\n"}), builder=builder)
    assert all(word in str(caught.value) for word in words)
    assert (builder.body_count, builder.joint_count, builder.solver_hint) == (0, 0, {})


def test_mutated_attributes_raise_our_errors_or_pass(tmp_path):
    """Files with all attributes that are read, in which one to three words are replaced by others."""
    lines: dict[str, str] = {}
    for name, (_, where, kind, value) in EFFECTS.items():
        if where is not None:
            lines[where] = lines.get(where, "") + f"{kind} {name} = {value}\n"
    schemas = "NewtonMimicAPI PhysxMimicJointAPI:rotY MjcEqualityJointAPI"
    motors = mujoco_actuator(FAR + "double[] mjc:gear = [1]\n")["more"]
    motors += prim("NewtonActuator", "other", inside=PULL.replace("/j", "/k"))
    head = '#usda 1.0\n(\nmetersPerUnit = 1\nupAxis = "Z"\n)\n'
    whole = head + scene(k_schemas=schemas, more=motors, **lines)
    numbers = list(re.finditer(r"(?<== )[-\w.\[\], \"</>]+(?=\n)", whole))
    others = [
        '"x"',
        "-1",
        "1e38",
        "[]",
        "</World/none>",
        "None",
        "nan",
        "inf",
        "1e-30",
        "[1e30]",
        "</a>",
        "0",
    ]
    source, file = random.Random(1), tmp_path / "scene.usda"
    for _ in range(150):
        text = whole
        for word in sorted(source.sample(numbers, source.choice((1, 1, 2, 3))), key=lambda m: -m.start()):
            text = text[: word.start()] + source.choice(others) + text[word.end() :]
        file.write_text(text)
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                parse_usd(file, builder)
            except newtonsim.NewtonsimError:
                assert builder.body_count == builder.joint_count == 0


# -- the motion ----------------------------------------------------------------------------------------------

ARM = """<mujoco><compiler angle="radian"/><option timestep="0.0005"/><worldbody>
<body name="a" pos="0 0 2"><joint name="j" type="hinge" axis="0 1 0" armature="0.3" damping="0.4" {joint}/>
<geom type="box" size="0.1 0.2 0.5" pos="0 0 -1" mass="2"/></body></worldbody>{rest}</mujoco>"""


def swing(text: str, steps: int, key: str = "/j") -> np.ndarray:
    """Angles of the hinge over time, 0.5 ms steps."""
    builder, result = read(text)
    model = builder.finalize("cpu")
    coord = result["report"].joint_coords[key]
    solver, state, control = FeatherstoneSolver(model), model.state(), model.control()
    path = []
    for _ in range(steps):
        solver.step(model, state, state, control, None, 0.0005)
        path.append(float(state.joint_q.numpy()[coord]))
    return np.array(path)


@pytest.mark.parametrize(
    ("ours", "actuator", "joint", "rest"),
    [
        ("double mjc:stiffness = 30\ndouble mjc:springref = 40\n", "",
            f'stiffness="30" springref="{40 * DEGREE}"', ""),
        ("double mjc:stiffness = 30\ndouble mjc:frictionloss = 2\ndouble mjc:springref = 60\n", "",
            f'stiffness="30" frictionloss="2" springref="{60 * DEGREE}"', ""),
        ("", KIND + "double[] mjc:gainPrm = [40]\ndouble[] mjc:biasPrm = [8, -40, -3]\n"
            "double[] mjc:gear = [1.5, 0, 0, 0, 0, 0]\ndouble mjc:forceRange:min = -9\n"
            "double mjc:forceRange:max = 9\n",
            "", '<actuator><general joint="j" gainprm="40" biastype="affine" biasprm="8 -40 -3" gear="1.5" '
            'forcerange="-9 9"/></actuator>'),
        ("double mjc:ref = 20\n", 'double[] mjc:gainPrm = [40]\ntoken mjc:biasType = "affine"\n'
            "double[] mjc:biasPrm = [0, -40, 0]\n", f'ref="{20 * DEGREE}"',
            '<actuator><position joint="j" kp="40"/></actuator>'),
    ],
)  # fmt: skip
def test_mujocos_schema_moves_as_mujoco(ours, actuator, joint, rest):
    """An arm with rotor, damping, spring, dry friction, an actuator: half a second against the same MJCF.

    Drives act at the end of the step here, at its start there: both differ in proportion to the step.
    """
    body = prim(
        "Xform", "a", BODY,
        inside=ops(translate=(0, 0, 2)) + prim("Cube", "box", SOLID, MASS, inside=ops(
            translate=(0, 0, -1), scale=(0.1, 0.2, 0.5)) + "float physics:mass = 2\n"),
    )  # fmt: skip
    text = prim("PhysicsScene", "scene", inside="float physics:gravityMagnitude = 9.81\n") + body
    text += prim(
        "PhysicsRevoluteJoint", "j",
        inside='rel physics:body1 = </a>\nuniform token physics:axis = "Y"\n'
            "point3f physics:localPos0 = (0, 0, 2)\ndouble mjc:armature = 0.3\n"
            "double mjc:damping = 0.4\n" + ours,
    )  # fmt: skip
    if actuator:
        text += prim("MjcActuator", "motor", inside=TARGET + actuator)
    path = swing(text, 1000)
    oracle = mujoco.MjModel.from_xml_string(ARM.format(joint=joint, rest=rest))
    data, theirs = mujoco.MjData(oracle), []
    reference = float(oracle.qpos0[0])
    for _ in range(1000):
        mujoco.mj_step(oracle, data)
        theirs.append(float(data.qpos[0]) - reference)
    assert np.ptp(theirs) > 0.1
    np.testing.assert_allclose(path, theirs, atol=2.0e-3 * np.ptp(theirs))


@pytest.mark.parametrize(
    ("schema", "lines", "law"),
    [
        ("NewtonMimicAPI", "rel newton:mimicJoint = </j>\nfloat newton:mimicCoef0 = 10\n"
            "float newton:mimicCoef1 = -0.5\n",
            lambda q: 10 * DEGREE - 0.5 * q),
        ("PhysxMimicJointAPI:rotY", "rel physxMimicJoint:rotY:referenceJoint = </j>\n"
            "float physxMimicJoint:rotY:gearing = 0.5\nfloat physxMimicJoint:rotY:offset = -10\n",
            lambda q: 10 * DEGREE - 0.5 * q),
        ("MjcEqualityJointAPI", "rel mjc:target = </j>\ndouble mjc:coef0 = 0.1\ndouble mjc:coef1 = 0.5\n"
            "double mjc:coef2 = 0.3\n", lambda q: 0.1 + 0.5 * q + 0.3 * q * q),
    ],
)  # fmt: skip
def test_followers_follow(schema, lines, law):
    """The second hinge is where the law of each schema puts it while the first one is driven."""
    drive = "float newton:kp = 2000000\nfloat newton:kd = 200000\nfloat newton:constEffort = 800000\n"
    text = scene(
        k_schemas=schema, k=lines,
        more=prim("NewtonActuator", "motor", inside="rel newton:targets = </j>\n" + drive)
        + prim("PhysicsFixedJoint", "root", inside="rel physics:body1 = </a>\n"),
    )  # fmt: skip
    builder, result = read(text)
    assert not result["report"].of_kind("unsupported")
    assert JointMode.TARGET_POSITION in list(builder.joint_axis_mode)
    _, state = run(builder, 400)
    q = state.joint_q.numpy()
    coords = result["report"].joint_coords
    assert q[coords["/j"]] == pytest.approx(0.4, abs=0.05)
    assert q[coords["/k"]] == pytest.approx(law(q[coords["/j"]]), abs=2.0e-3)


STACK = """<mujoco><option timestep="0.0005"/><worldbody><body name="a" pos="0.3 0 1">
<joint name="slide" type="slide" axis="0 0.6 0.8" stiffness="500" damping="3"/>
<joint name="tilt" axis="1 0 0.5" pos="0.1 0 0" armature="0.02"/>
<joint name="turn" axis="0 1 0" pos="0.1 0 0" damping="0.1"/>
<geom type="box" size="0.1 0.2 0.3" pos="0.1 0.2 -0.3" mass="2"/></body></worldbody>
<actuator><position joint="turn" kp="4"/><motor joint="tilt" gear="2"/></actuator></mujoco>"""
SLIDE = (0.0, 0.6, 0.8)
TILT = (1.0 / 1.25**0.5, 0.0, 0.5 / 1.25**0.5)


def stacked(name: str, kind: str, axis: tuple, at: float, inside: str) -> str:
    """One of several joints of a body that stands at (0.3, 0, 1)."""
    q = quat_between((1.0, 0.0, 0.0), axis)
    turn = f"({q[3]}, {q[0]}, {q[1]}, {q[2]})"
    ends = f"point3f physics:localPos0 = ({0.3 + at}, 0, 1)\npoint3f physics:localPos1 = ({at}, 0, 0)\n"
    ends += f"quatf physics:localRot0 = {turn}\nquatf physics:localRot1 = {turn}\n"
    return prim(kind, name, "MjcJointAPI", inside="rel physics:body1 = </a>\n" + ends + inside)


def test_several_joints_of_one_body_move_as_in_mujoco():
    """A slide and two hinges with skew axes, a spring and a drive: half a second against the MJCF."""
    geom = prim("Cube", "box", SOLID, MASS, inside=ops(
        translate=(0.1, 0.2, -0.3), scale=(0.1, 0.2, 0.3)) + "float physics:mass = 2\n")  # fmt: skip
    text = prim("PhysicsScene", "scene", inside="float physics:gravityMagnitude = 9.81\n")
    text += prim("Xform", "a", BODY, inside=ops(translate=(0.3, 0, 1)) + geom)
    spring = "double mjc:stiffness = 500\ndouble mjc:damping = 3\n"
    text += stacked("slide", "PhysicsPrismaticJoint", SLIDE, 0.0, spring)
    text += stacked("tilt", "PhysicsRevoluteJoint", TILT, 0.1, "double mjc:armature = 0.02\n")
    text += stacked("turn", "PhysicsRevoluteJoint", (0, 1, 0), 0.1, "double mjc:damping = 0.1\n")
    gains = KIND + "double[] mjc:gainPrm = [4]\ndouble[] mjc:biasPrm = [0, -4, 0]\n"
    text += prim("MjcActuator", "hold", inside="rel mjc:target = </turn>\n" + gains)
    text += prim("MjcActuator", "push", inside="rel mjc:target = </tilt>\ndouble[] mjc:gear = [2]\n")
    builder, result = read(text)
    report = result["report"]
    assert not report.of_kind("unsupported")
    assert builder.joint_count == 1
    names = ("/slide", "/tilt", "/turn")
    assert [report.joint_coords[name] for name in names] == [0, 1, 2]
    assert [entry["axis"] for entry in report.actuators] == [2, 1]
    oracle = mujoco.MjModel.from_xml_string(STACK)
    data = mujoco.MjData(oracle)
    model = builder.finalize("cpu")
    solver, state, control = FeatherstoneSolver(model), model.state(), model.control()
    act = control.joint_act.numpy()
    for entry, ctrl in zip(report.actuators, (0.5, 1.5)):
        act[entry["axis"]] += entry["scale"] * ctrl
    control.joint_act.assign(act)
    data.ctrl[:] = (0.5, 1.5)
    for _ in range(1000):
        solver.step(model, state, state, control, None, 0.0005)
        mujoco.mj_step(oracle, data)
    assert np.abs(data.qpos).min() > 0.01
    np.testing.assert_allclose(state.joint_q.numpy(), data.qpos, atol=0.01 * np.abs(data.qpos).max())


def test_a_stack_that_turns_about_two_points_is_told():
    """No joint has such axes: the second one closes a loop, with a warning."""
    text = prim("Cube", "a", BODY, SOLID, inside=ops(translate=(0.3, 0, 1)))
    text += stacked("tilt", "PhysicsRevoluteJoint", (1, 0, 0), 0.1, "")
    text += stacked("turn", "PhysicsRevoluteJoint", (0, 1, 0), 0.2, "")
    _, result = read(text)
    assert "constrain each other" in remarks(result, "unsupported", "/turn")[0]


def test_the_humanoid_of_mujocos_converter_has_all_its_joints():
    """Of Newton's wheel: 21 hinges in stacks of up to three, with all their drives."""
    assets = Path(importlib.util.find_spec("newton").origin).parent / "tests" / "assets"
    builder, result = read(Usd.Stage.Open(str(assets / "humanoid_mjc.usda")))
    assert builder.joint_dof_count == 21 + 6
    assert builder.constraint_count == 0
    assert not result["report"].of_kind("unsupported")
    assert all(entry["axis"] is not None for entry in result["report"].actuators)


def test_equalities_count_from_the_start():
    """MuJoCo's polynomial is of displacements: a leader at 30 degrees leaves its follower where it is."""
    text = scene(
        k_schemas="MjcEqualityJointAPI",
        k="rel mjc:target = </j>\ndouble mjc:coef1 = 2\ndouble mjc:coef2 = 1\n",
    )
    turned = text.replace(ops(translate=(0, 0, 2)), ops(translate=(0, 0, 2), rotateXYZ=(0, 30, 0)))
    builder, result = read(turned)
    (index,) = result["path_constraint_map"].values()
    x, x0 = 0.7, np.pi / 6
    coefficients = builder.constraint_coefficients[index]
    assert np.polynomial.Polynomial(coefficients)(x) == pytest.approx(2 * (x - x0) + (x - x0) ** 2, abs=1e-6)


def test_equalities_give_way():
    """solref and solimp of a weld and of a coupling; a solimp out of range is told with prim and value."""
    softness = "double[] mjc:solref = [0.1, 0.5]\ndouble[] mjc:solimp = [0.5, 1.5, -1, 0.5, 0.2]\n"
    glue = GLUE["more"].rsplit("}", 1)[0] + softness + "}\n"
    equal = EQUAL | {"k": EQUAL["k"] + softness}
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    with pytest.warns(
        newtonsim.UnsupportedElementWarning, match=r"'mjc:solimp' is out of range: 0\.5 1\.5 -1"
    ):
        result = parse_usd(stage_of(scene(more=glue, **equal)), builder)
    assert builder.constraint_solref == [(0.1, 0.5)] * 2
    assert builder.constraint_solimp == [(0.5, 1.0, 0.0, 0.5, 1.0)] * 2
    mended = result["report"].of_kind("mended")
    assert sorted(entry.element for entry in mended) == ["/glue", "/k"]
    assert all("0.5 1 0 0.5 1 is taken" in entry.message for entry in mended)


def test_initial_velocities_of_axes():
    """The state of an axis gives its velocity, and bodies above move with it."""
    builder, result = read(
        scene(j="float state:angular:physics:velocity = 90\nfloat state:angular:physics:position = 20\n")
    )
    assert builder.joint_qd[result["report"].joint_dofs["/j"]] == pytest.approx(np.pi / 2)
    assert "are at 0, not at 0.349" in remarks(result, "approximated", "/j")[0]


def test_bodies_without_gravity_are_carried():
    """`report.gravcomp` lets a body float that PhysX would not pull down."""
    from newtonsim.solvers import GravityCompensation

    text = prim("PhysicsScene", "scene") + prim(
        "Sphere", "a", BODY, SOLID, inside="bool physxRigidBody:disableGravity = 1"
    )
    text += prim("Sphere", "b", BODY, SOLID, inside=ops(translate=(9, 0, 0)))
    builder, result = read(text)
    assert list(result["report"].gravcomp) == [result["path_body_map"]["/a"]]
    model = builder.finalize("cpu")
    solver, state = FeatherstoneSolver(model), model.state()
    solver.before_step = (GravityCompensation(model, result["report"].gravcomp),)
    for _ in range(100):
        solver.step(model, state, state, model.control(), None, 0.01)
    heights = state.body_q.numpy()[:, 2]
    assert heights[0] == pytest.approx(0.0, abs=1e-4)
    assert heights[1] == pytest.approx(-4.9, abs=0.1)


def test_words_of_the_vocabulary_are_told_apart():
    """No attribute stands in it twice with another meaning."""
    seen: dict[str, str] = {}
    for entry in VOCABULARY:
        for name in entry.names:
            assert seen.setdefault(name, entry.made) == entry.made or entry.schema == "MjcTendon", name


def test_the_page_has_the_table_of_the_vocabulary():
    """docs/usd.md as docs/make_usd_table.py writes it."""
    import make_usd_table

    assert make_usd_table.PAGE.read_text() == make_usd_table.page(), "run python docs/make_usd_table.py"
