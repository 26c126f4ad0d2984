"""Names, parameters, types and errors of the module against the real one."""

import inspect
import pickle
import re
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import newtonsim.pybullet_compat as ours
from newtonsim.pybullet_compat.api.functions import FUNCTIONS
from newtonsim.pybullet_compat.surface.implementations import implementation
from newtonsim.pybullet_compat.surface.signatures import ALIASES, MODULES, POSITIONAL, SIGNATURES

real = pytest.importorskip("pybullet")

VALID = {"i": 0, "d": 0.5, "s": "x", "O": [0.0, 0.0, 0.0, 1.0]}
COMPLAINTS = {"i": "interpreted as an integer", "d": "must be real number", "s": "must be str"}
# The real one does not look at the arguments of the first, and has a blank in the name of the second's.
UNASKABLE = {"getDebugVisualizerCamera", "submitProfileTiming"}
NO_CLIENT = 9999


def complaint(function, *args, **keywords):
    """Return the text of the TypeError of a call, "" for any other outcome."""
    try:
        function(*args, **keywords)
    except TypeError as error:
        return str(error)
    except Exception:
        return ""
    return ""


def real_functions():
    """Return the names of the functions of the real module."""
    return {name for name, value in vars(real).items() if inspect.isbuiltin(value)}


def test_functions_of_the_real_module():
    assert set(MODULES) == real_functions()
    assert {name for name in ours.__all__ if inspect.isbuiltin(getattr(ours, name))} == set(MODULES)
    assert all(getattr(ours, name) is function for name, function in FUNCTIONS.items())
    assert issubclass(ours.error, Exception)


@pytest.mark.parametrize(
    "given", [{}, {"key": 5}, {"hostName": "a"}, {"port": 5}, {"options": ""}, {"hostName": "a", "port": 5}]
)
@pytest.mark.parametrize("by_name", [False, True])
def test_parameters_of_connect(given, by_name):
    """A client without a server takes all of them and needs none."""
    for module in (real, ours):
        arguments = ((), {"method": module.DIRECT, **given}) if by_name else ((module.DIRECT,), given)
        client = module.connect(*arguments[0], **arguments[1])
        assert client >= 0
        module.disconnect(client)
        for wrong in ({"nothing": 5}, {"options": 5}):
            with pytest.raises(TypeError):
                module.connect(module.DIRECT, **wrong)
        with pytest.raises(TypeError):
            module.connect()


def test_constants_of_the_real_module():
    constants = {name: value for name, value in vars(real).items() if type(value) is int}
    assert len(constants) == 167
    assert {name: getattr(ours, name, None) for name in constants} == constants


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - UNASKABLE))
def test_parameters_of_the_real_module(name):
    function, parameters = getattr(real, name), SIGNATURES[name].parameters
    required = [p for p in parameters if p.default is None]
    valid = [VALID[p.kind] for p in required]
    for place, parameter in enumerate(required):
        text = complaint(function, *valid[:place])
        found = re.search(r"missing required argument '(\w+)' \(pos (\d+)\)", text)
        assert found, f"{parameter.name} is not required: {text}"
        names = {parameter.name} | ({ALIASES[name]} if name in ALIASES and place == 0 else set())
        assert found[1] in names
        assert int(found[2]) == place + 1
    for parameter in parameters[len(required) :]:
        value = VALID["O"] if parameter.kind == "O" else object()
        text = complaint(function, *valid, **{parameter.name: value}, physicsClientId=NO_CLIENT)
        if name in ALIASES:  # complaints are those of the older of two lists of parameters
            alternative = {
                **dict(zip((p.name for p in required), valid)),
                parameter.name: VALID[parameter.kind],
            }
            assert not complaint(function, **alternative, physicsClientId=NO_CLIENT)
        else:
            assert COMPLAINTS.get(parameter.kind, "") in text, f"{parameter.name}: {text}"
            assert "invalid keyword" not in text
    if name not in ALIASES:
        text = complaint(function, *[VALID["O"]] * (len(parameters) + 2))
        assert f"takes at most {len(parameters) + 1} argument" in text


@pytest.mark.parametrize("name", sorted(set(SIGNATURES) - UNASKABLE))
def test_types_of_required_arguments(name):
    """What the real module takes for an int, a float or a string, and what it does not."""
    parameters = [p for p in SIGNATURES[name].parameters if p.default is None]
    for place, parameter in enumerate(parameters):
        if parameter.kind == "O" or SIGNATURES[name].module == "surface.maths":
            continue
        values = [VALID[p.kind] for p in parameters]
        values[place] = object()
        assert COMPLAINTS[parameter.kind] in complaint(getattr(real, name), *values)
        number = ours.connect(ours.DIRECT)
        assert COMPLAINTS[parameter.kind] in complaint(getattr(ours, name), *values, physicsClientId=number)
        ours.disconnect(number)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_every_function_has_a_module_with_its_parameters(name):
    signature = SIGNATURES[name]
    function = implementation(name)
    found, own = inspect.signature(function), [p.name for p in signature.parameters]
    assert function.__doc__
    if signature.module in ("clients.table", "surface.maths"):
        assert list(found.parameters) == [*own, "physicsClientId"]
    else:
        found.bind(object(), *own)


@pytest.mark.parametrize("name", sorted(POSITIONAL))
def test_obsolete_functions_have_a_module(name):
    assert callable(implementation(name))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_functions_look_like_builtins(name):
    function = getattr(ours, name)
    assert inspect.isbuiltin(function)
    assert isinstance(function, types.BuiltinFunctionType)
    assert function.__name__ == function.__qualname__ == name
    assert pickle.loads(pickle.dumps(function)) is function


def test_signatures_tell_names_and_defaults():
    found = inspect.signature(ours.loadURDF).parameters
    assert list(found)[:3] == ["fileName", "basePosition", "baseOrientation"]
    assert found["fileName"].default is inspect.Parameter.empty
    assert found["baseOrientation"].default == (0.0, 0.0, 0.0, 1.0)
    assert found["physicsClientId"].default == 0


def both(name, *args, **keywords):
    """Return the outcomes of a call in both modules: the value, or type and text of the exception."""
    outcomes = []
    for module in (real, ours):
        try:
            outcomes.append(getattr(module, name)(*args, **keywords))
        except Exception as error:
            outcomes.append((type(error).__name__, str(error)))
    return outcomes


@pytest.fixture
def connected():
    """Connect both modules; yield the two client ids, which are equal."""
    clients = [module.connect(module.DIRECT) for module in (real, ours)]
    assert clients[0] == clients[1]
    yield clients[0]
    for module, client in zip((real, ours), clients):
        if module.isConnected(client):
            module.disconnect(client)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("getJointInfo", (0, 0.5)),
        ("getJointInfo", (0, np.float64(1.0))),
        ("getJointInfo", (0, 2**40)),
        *(("getBodyInfo", (n,)) for n in (2**31, 2**31 - 1, -(2**31), -(2**31) - 1, 2**63, -(2**63) - 1)),
        *(("getNumBodies", (n,)) for n in (2**31, 2**32, 10**30, np.uint64(2**63), np.bool_(True))),
        *(
            (name, (2**40,))
            for name in ("isConnected", "disconnect", "getConnectionInfo", "stopStateLogging")
        ),
        ("setCollisionFilterGroupMask", (0, -1, 2**31, 1)),
        ("setCollisionFilterGroupMask", (0, -1, 1, 2**32 - 1)),
        ("setGravity", ("down", 0, 0)),
        ("setGravity", (None, 0, 0)),
        ("loadURDF", (b"plane.urdf",)),
        ("loadURDF", (Path("plane.urdf"),)),
        ("loadURDF", (None,)),
        ("loadURDF", ("plane.urdf", None)),
        ("loadURDF", ("plane.urdf", [1, 2])),
        ("loadURDF", ("plane.urdf", [1, 2, 3], None)),
        ("getNumBodies", (17,)),
        ("getNumBodies", (-1,)),
        ("isConnected", (17,)),
        ("isConnected", (-1,)),
        ("getConnectionInfo", (17,)),
        ("getConnectionInfo", ()),
        ("disconnect", (17,)),
        ("getNumBodies", (np.int64(0),)),
        ("getAPIVersion", (55,)),
        ("isNumpyEnabled", ()),
        ("connect", (99,)),
        ("connect", (-1,)),
        ("connect", (1.0,)),
        ("connect", ("DIRECT",)),
        ("connect", (real.SHARED_MEMORY, 54321)),
        ("connect", (real.TCP, "localhost", 45678)),
    ],
)
def test_outcomes(connected, name, args):
    expected, found = both(name, *args)
    assert found == expected


def test_clients_take_the_lowest_free_id():
    def script(p):
        log = [p.connect(p.DIRECT), p.connect(p.DIRECT, 7), p.connect(p.DIRECT, "localhost", 3)]
        log += [p.connect(method=p.DIRECT, options="--width=10"), p.connect(p.DIRECT, 1, "--height=10")]
        log += [p.disconnect(3), p.disconnect(1), p.connect(p.DIRECT), p.connect(p.DIRECT, key=5)]
        log += [[p.getConnectionInfo(i) for i in range(6)], [p.isConnected(i) for i in range(6)]]
        for number in range(5):
            p.disconnect(number)
        return [*log, p.isConnected(), p.connect(p.DIRECT), p.disconnect()]

    assert script(ours) == script(real)


def test_clients_are_worlds_of_their_own():
    def script(p):
        first, second = p.connect(p.DIRECT), p.connect(p.DIRECT)
        p.createMultiBody(1.0, physicsClientId=second)
        log = [p.getNumBodies(), p.getNumBodies(physicsClientId=first), p.getNumBodies(second)]
        p.disconnect(first)
        log.append(p.getNumBodies(physicsClientId=second))
        p.disconnect(second)
        return log

    assert script(ours) == script(real)


def test_gui_works_without_viser(monkeypatch):
    monkeypatch.setattr("newtonsim.pybullet_compat.gui.opening.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"newtonsim\[view\]"):
        client = ours.connect(ours.GUI, options="--width=100 --background_color_red=1")
    assert ours.getConnectionInfo(client) == {"isConnected": 1, "connectionMethod": ours.GUI}
    with pytest.raises(ours.error, match="Only one local"):
        ours.connect(ours.GUI)
    ours.disconnect(client)


@pytest.mark.parametrize("options", ["--num_worlds=0", "--num_worlds=many", "--num_worlds=-3"])
def test_wrong_options_are_named(options):
    with pytest.raises(ours.error, match=options.split("=")[1]):
        ours.connect(ours.DIRECT, options=options)
    assert not ours.isConnected()


def test_partials_of_functions_carry_the_client(connected):
    assert partial(ours.getNumBodies, physicsClientId=connected)() == 0
    with pytest.raises(ours.error, match="Not connected"):
        partial(ours.getNumBodies, physicsClientId=connected + 1)()


def test_older_names_and_forms_of_arguments(connected):
    def script(p):
        body = p.createMultiBody(
            1.0,
            linkMasses=[1.0],
            linkCollisionShapeIndices=[-1],
            linkVisualShapeIndices=[-1],
            linkPositions=[[0, 0, 1]],
            linkOrientations=[[0, 0, 0, 1]],
            linkInertialFramePositions=[[0, 0, 0]],
            linkInertialFrameOrientations=[[0, 0, 0, 1]],
            linkParentIndices=[0],
            linkJointTypes=[p.JOINT_REVOLUTE],
            linkJointAxis=[[0, 1, 0]],
        )
        p.setJointMotorControl2(
            bodyIndex=body, jointIndex=0, controlMode=p.VELOCITY_CONTROL, targetVelocity=2
        )
        p.setJointMotorControlArray(bodyIndex=body, jointIndices=[0], controlMode=p.VELOCITY_CONTROL)
        return p.getNumJoints(body)

    assert script(ours) == script(real) == 1
    for name in ("setJointMotorControl2", "setJointMotorControlArray"):
        with pytest.raises(TypeError, match="missing required argument 'controlMode'"):
            getattr(ours, name)(bodyIndex=0, **{"jointIndex" if name[-1] == "2" else "jointIndices": 0})


def test_worlds_take_one_number_each():
    """Beyond PyBullet: where a number is expected, arrays have one for every world."""
    client = ours.connect(ours.DIRECT, options="--num_worlds=3 --device=cpu")
    body = ours.createMultiBody(
        0.0,
        linkMasses=[1.0],
        linkCollisionShapeIndices=[-1],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 1]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[ours.JOINT_PRISMATIC],
        linkJointAxis=[[0, 1, 0]],
        physicsClientId=client,
    )
    ours.resetJointState(body, 0, np.array([0.1, 0.2, 0.3]), physicsClientId=client)
    np.testing.assert_allclose(ours.getJointState(body, 0, physicsClientId=client)[0], [0.1, 0.2, 0.3])
    ours.resetJointState(body, 0, 0.5, physicsClientId=client)
    np.testing.assert_allclose(ours.getJointState(body, 0, physicsClientId=client)[0], [0.5, 0.5, 0.5])
    with pytest.raises(ours.error, match=r"one for each world in shape \(3,\), got shape \(2,\)"):
        ours.resetJointState(body, 0, np.array([0.1, 0.2]), physicsClientId=client)
    ours.disconnect(client)
