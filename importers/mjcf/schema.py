"""Attributes of MJCF elements: what stands in a file besides these is a misspelling.

Each of them is read somewhere, or without effect on the motion (`WITHOUT_EFFECT`), or named where it stands
with a value that has one (`NOT_MODELLED`).

An element has those of all places in which it stands: a <joint> in a body, in a fixed tendon, in <equality>.
Elements that describe pictures, sensors or flexible bodies are not listed.

Reference: https://mujoco.readthedocs.io/en/stable/XMLreference.html
"""

from newtonsim.importers.files.attributes import meet_unknown_attributes
from newtonsim.importers.files.faults import Faults
from newtonsim.importers.files.report import ImportReport
from newtonsim.importers.files.xml import Node

ATTRIBUTES: dict[str, frozenset[str]] = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "adhesion": (
            "body class ctrlrange delay forcelimited forcerange gain group interp name nsample user"
        ),
        "attach": "body frame model prefix",
        "body": "axisangle childclass euler gravcomp mocap name pos quat sleep user xyaxes zaxis",
        "compiler": (
            "alignfree angle assetdir autolimits balanceinertia boundinertia boundmass conflict "
            "coordinate discardvisual eulerseq fitaabb fusestatic inertiafromgeom inertiagrouprange "
            "meshdir passthrough savecanonical savecompiled saveinertial settotalmass strippath "
            "texturedir usethread"
        ),
        "connect": "active anchor body1 body2 class name site1 site2 solimp solref",
        "cylinder": (
            "area armature bias class cranklength cranksite ctrllimited ctrlrange damping delay "
            "diameter forcelimited forcerange gear group interp joint jointinparent lengthrange name "
            "nsample refsite site slidersite tendon timeconst user"
        ),
        "damper": (
            "armature class cranklength cranksite ctrlrange damping delay forcelimited forcerange "
            "gear group interp joint jointinparent kv lengthrange name nsample refsite site "
            "slidersite tendon user"
        ),
        "dcmotor": (
            "armature class cogging controller cranklength cranksite ctrllimited ctrlrange damping "
            "delay gear group inductance input interp joint jointinparent lengthrange lugre "
            "motorconst name nominal nsample refsite resistance saturation site slidersite tendon "
            "thermal user"
        ),
        "exclude": "body1 body2 name",
        "fixed": (
            "actuatorfrclimited actuatorfrcrange armature class damping frictionloss group limited "
            "margin name range solimpfriction solimplimit solreffriction solreflimit springlength "
            "springyield stiffness user"
        ),
        "flag": (
            "actuation autoreset clampctrl constraint contact damper diagexact energy equality "
            "eulerdamp filterparent frictionloss fwdinv gravity invdiscrete ipc island limit midphase "
            "multiccd nativeccd override refsafe sensor sleep speculative spring warmstart"
        ),
        "frame": "axisangle childclass euler name pos quat xyaxes zaxis",
        "freejoint": "align group name",
        "general": (
            "actdim actearly actlimited actrange armature biasprm biastype body class cranklength "
            "cranksite ctrllimited ctrlrange damping delay dynprm dyntype ffrange forcelimited "
            "forcerange gainprm gaintype gear group inheritrange input interp joint jointinparent "
            "lengthrange name nsample refsite site slidersite tendon user velrange"
        ),
        "geom": (
            "adhesion axisangle castshadow class conaffinity condim contype density euler fitscale "
            "fluidcoef fluidshape friction fromto gap geom group hfield margin mass material mesh "
            "name pos priority quat rgba shellinertia sidesite size solimp solmix solref surfacevel "
            "type user xyaxes zaxis"
        ),
        "hfield": "content_type elevation file name ncol nrow size",
        "inertial": "axisangle diaginertia euler fullinertia mass pos quat xyaxes zaxis",
        "intvelocity": (
            "actlimited actrange armature class cranklength cranksite ctrllimited ctrlrange damping "
            "dampratio delay forcelimited forcerange gear group inheritrange interp joint "
            "jointinparent kp kv lengthrange name nsample refsite site slidersite tendon user"
        ),
        "joint": (
            "active actuatorfrclimited actuatorfrcrange actuatorgravcomp armature axis class coef "
            "damping frictionloss group joint joint1 joint2 limited margin name polycoef pos range "
            "ref solimp solimpfriction solimplimit solref solreffriction solreflimit springdamper "
            "springref springyield stiffness type user"
        ),
        "key": "act ctrl mpos mquat name plastic qpos qvel time",
        "lengthrange": (
            "accel interval inttotal maxforce mode timeconst timestep tolrange useexisting uselimit"
        ),
        "material": (
            "class emission metallic name reflectance rgba roughness shininess specular texrepeat "
            "texture texuniform"
        ),
        "mesh": (
            "builtin class content_type face file inertia material maxhullvert name normal params "
            "refpos refquat scale smoothnormal texcoord vertex"
        ),
        "motor": (
            "armature class cranklength cranksite ctrllimited ctrlrange damping delay forcelimited "
            "forcerange gear group interp joint jointinparent lengthrange name nsample refsite site "
            "slidersite tendon user"
        ),
        "muscle": (
            "armature class cranklength cranksite ctrllimited ctrlrange damping delay force "
            "forcelimited forcerange fpmax fvmax gear group interp joint jointinparent lengthrange "
            "lmax lmin name nsample range scale slidersite tausmooth tendon timeconst user vmax"
        ),
        "option": (
            "actuatorgroupdisable ccd_iterations ccd_tolerance cone density gravity impratio "
            "integrator iterations jacobian ls_iterations ls_tolerance magnetic noslip_iterations "
            "noslip_tolerance o_friction o_margin o_solimp o_solref sdf_initpoints sdf_iterations "
            "sleep_tolerance solver timestep tolerance viscosity wind"
        ),
        "pair": "adhesion class condim friction gap geom1 geom2 margin name solimp solref solreffriction",
        "position": (
            "armature class cranklength cranksite ctrllimited ctrlrange damping dampratio delay "
            "forcelimited forcerange gear group inheritrange interp joint jointinparent kp kv "
            "lengthrange name nsample refsite site slidersite tendon timeconst user"
        ),
        "pulley": "divisor",
        "replicate": "count euler offset sep",
        "site": (
            "axisangle class euler fromto group material mesh name pos quat rgba site size type user "
            "xyaxes zaxis"
        ),
        "size": (
            "memory nconmax njmax nkey nstack nuser_actuator nuser_body nuser_cam nuser_geom "
            "nuser_jnt nuser_sensor nuser_site nuser_tendon nuserdata"
        ),
        "spatial": (
            "actuatorfrclimited actuatorfrcrange armature class damping frictionloss group limited "
            "margin material name range rgba solimpfriction solimplimit solreffriction solreflimit "
            "springlength springyield stiffness user width"
        ),
        "tendon": (
            "active actuatorfrclimited actuatorfrcrange armature class damping frictionloss group "
            "limited margin material name polycoef range rgba solimp solimpfriction solimplimit "
            "solref solreffriction solreflimit springlength springyield stiffness tendon1 tendon2 "
            "user width"
        ),
        "velocity": (
            "armature class cranklength cranksite ctrllimited ctrlrange damping delay forcelimited "
            "forcerange gear group interp joint jointinparent kv lengthrange name nsample refsite "
            "site slidersite tendon user"
        ),
        "weld": "active anchor body1 body2 class name relpose site1 site2 solimp solref torquescale",
    }.items()
}


_DRIVEN = frozenset(("class", "cranklength", "group", "interp", "lengthrange", "name", "nsample", "user"))
"""Of actuators that are no muscles; cranks and delays are named by other attributes."""

WITHOUT_EFFECT: dict[str, frozenset[str]] = {
    **dict.fromkeys(("cylinder", "damper", "intvelocity", "motor", "position", "velocity"), _DRIVEN),
    **{name: ATTRIBUTES[name] for name in ("dcmotor", "lengthrange", "size")},
    **{
        name: frozenset(attributes.split())
        for name, attributes in {
            "adhesion": "class group interp name nsample user",
            "body": "user",
            "compiler": ("conflict fusestatic passthrough savecanonical savecompiled saveinertial usethread"),
            "connect": "class",
            "exclude": "name",
            "fixed": "class group user",
            "flag": (
                "autoreset diagexact energy eulerdamp fwdinv invdiscrete island midphase multiccd "
                "nativeccd sensor sleep warmstart"
            ),
            "freejoint": "group",
            "general": "actdim class cranklength group interp lengthrange name nsample user",
            "geom": "castshadow fluidcoef user",
            "hfield": "content_type",
            "joint": "group user",
            "key": "time",
            "material": "emission metallic reflectance roughness shininess specular texrepeat texuniform",
            "mesh": "content_type material maxhullvert normal params smoothnormal texcoord",
            "muscle": "class cranklength group interp name nsample user",
            "option": (
                "ccd_iterations ccd_tolerance cone impratio integrator iterations jacobian ls_iterations "
                "ls_tolerance magnetic noslip_iterations noslip_tolerance o_friction o_margin o_solimp "
                "o_solref sdf_initpoints sdf_iterations sleep_tolerance solver tolerance"
            ),
            "pair": "gap name",
            "site": "group material mesh rgba size type user",
            "spatial": "class group material rgba user width",
            "tendon": "group material rgba user width",
            "weld": "class",
        }.items()
    },
}
"""Pictures, names, sizes of memory, settings of MuJoCo's solver, and what only acts with another attribute;
a <dcmotor> is named as a whole."""

_ACTUATOR = {"armature": "", "damping": "", "delay": ""}

NOT_MODELLED: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        ("cylinder", "damper", "intvelocity", "motor", "muscle", "position", "velocity"), _ACTUATOR
    ),
    "adhesion": {"delay": ""},
    "attach": {"frame": ""},
    "body": {"sleep": "auto never allowed"},
    "flag": {
        "clampctrl": "enable",
        "filterparent": "enable",
        "ipc": "disable",
        "override": "disable",
        "refsafe": "enable",
        "speculative": "disable",
    },
    "general": _ACTUATOR | {"ffrange": "", "input": "", "velrange": ""},
    "key": {"mpos": "", "mquat": "", "plastic": ""},
    "option": {"actuatorgroupdisable": ""},
    "pair": {"adhesion": ""},
}
"""By element and attribute the words that change nothing. Zeros change nothing either, except as a group."""


def name_what_is_not_modelled(root: Node, report: ImportReport) -> None:
    """Report attributes that nothing reads, in elements and in default classes."""
    for node in root.walk():
        for name, neutral in NOT_MODELLED.get(node.tag, {}).items():
            value = node.attrib.get(name, "")
            words = set(value.split()) - set(neutral.split())
            if not words or (name != "actuatorgroupdisable" and all(map(_is_zero, words))):
                continue
            if node.tag == "key":  # which nobody has to start in
                used = "" if name == "plastic" else ", except where parse_mjcf(keyframe=) starts in it"
                report.approximated(node, f"{name} of a keyframe is not kept{used}")
            else:
                report.unsupported(node, f"{name}={value[:80]!r}", partly=True)


def _is_zero(word: str) -> bool:
    try:
        return float(word) == 0.0
    except ValueError:
        return False


def meet_misspellings(root: Node, faults: Faults) -> None:
    """Meet attributes that MJCF does not know, also of elements of sections that are not read."""
    meet_unknown_attributes(root.walk(), ATTRIBUTES, faults)
