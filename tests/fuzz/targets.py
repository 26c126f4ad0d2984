"""What is fuzzed: a reader, what it begins with, and what has to hold whatever it is given.

`check` of a target raises AssertionError for a finding; crashes and hangs are seen by who runs it.
"""

import contextlib
import hashlib
import pathlib
import random
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import trimesh
from fuzz import mutation, served

import newtonsim
import newtonsim.pybullet_compat as compat
from newtonsim.errors import CheckpointError, NewtonsimError, RecordingError
from newtonsim.examples import asset_path
from newtonsim.importers import load_cloth_mesh, load_tet_mesh, parse_mjcf, parse_sdf, parse_urdf, parse_usd
from newtonsim.pybullet_compat.server import protocol
from newtonsim.pybullet_compat.stand_ins import pybullet_data
from newtonsim.render import Recorder, Recording

LIMIT_SECONDS = 20.0
FINITE = ("body_q", "body_com", "body_mass", "body_inertia", "joint_X_p", "joint_q", "shape_geo_scale")
URDF = """<robot name="r"><material name="m"><color rgba="1 0 0 1"/></material>
<link name="a"><inertial><origin xyz="0 0 1" rpy="0 1 0"/><mass value="2"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry><box size="1 2 3"/></geometry><material name="m"/></visual>
<collision><origin xyz="1 0 0"/><geometry><cylinder radius="1" length="2"/></geometry></collision></link>
<link name="b"><collision><geometry><sphere radius=".5"/></geometry></collision></link>
<link name="c"><collision><geometry><mesh filename="mesh.obj" scale="1 1 2"/></geometry></collision></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="3" velocity="4"/><dynamics damping="1" friction="2"/></joint>
<joint name="k" type="prismatic"><parent link="b"/><child link="c"/><limit lower="0" upper="1"/>
<mimic joint="j" multiplier="2" offset=".1"/></joint></robot>"""
SDF = """<sdf version="1.9"><world name="w"><gravity>0 0 -5</gravity><model name="m"><pose>0 0 1 0 0 0</pose>
<link name="a"><inertial><pose>1 0 0 0 1 0</pose><mass>2</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>1</izz>
</inertia></inertial><collision name="c"><geometry><cylinder><radius>1</radius><length>2</length></cylinder>
</geometry></collision></link><link name="b"><pose relative_to="a">0 0 1 0 0 0</pose><inertial auto="true"/>
<collision name="d"><geometry><sphere><radius>.5</radius></sphere></geometry></collision></link>
<joint name="j" type="revolute"><parent>a</parent><child>b</child><axis><xyz expressed_in="a">0 1 0</xyz>
<limit><lower>-1</lower><upper>inf</upper></limit></axis></joint></model></world></sdf>"""
USD = """#usda 1.0
( defaultPrim = "World" metersPerUnit = 1 upAxis = "Z" )
def Xform "World" {
    def Cube "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {
        double size = 1
        double3 xformOp:translate = (0, 0, 1)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Mesh "b" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI"]) {
        int[] faceVertexCounts = [3, 3, 3, 3]
        int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    }
    def PhysicsRevoluteJoint "j" {
        uniform token physics:axis = "X"
        rel physics:body0 = </World/a>
        rel physics:body1 = </World/b>
        float physics:lowerLimit = -30
    }
}
"""
VTK = """# vtk DataFile Version 2.0
two tetrahedra
ASCII
DATASET UNSTRUCTURED_GRID
POINTS 5 float
0 0 0  1 0 0  0 1 0  0 0 1  1 1 1
CELLS 2 10
4 0 1 2 3
4 1 2 3 4
CELL_TYPES 2
10 10
"""
MSH = """$MeshFormat
2.2 0 8
$EndMeshFormat
$Nodes
5
1 0 0 0
2 1 0 0
3 0 1 0
4 0 0 1
5 1 1 1
$EndNodes
$Elements
3
1 4 2 0 1 1 2 3 4
2 4 2 0 1 2 3 4 5
3 2 2 0 1 1 2 3
$EndElements
"""


@dataclass(frozen=True)
class Target:
    """Something that reads.

    Attributes:
        seeds: What is mutated.
        check: Reads something, and raises AssertionError if that went as it must not.
        mutate: Damages it once.
    """

    seeds: Callable[[], list[bytes]]
    check: Callable[[bytes], None]
    mutate: Callable[[bytes, random.Random], bytes] = mutation.of_bytes

    def case(self, number: int) -> bytes:
        """Return the mutated input of a number, always the same."""
        rng = random.Random(number)
        data = rng.choice(self.seeds())
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = self.mutate(data, rng)
        return data


@contextlib.contextmanager
def bounded(*expected: type[BaseException]) -> Iterator[None]:
    """Pass expected errors, and turn others and what takes too long into findings."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except expected:
            pass
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"a raw {type(error).__name__}: {error}") from error
    seconds = time.process_time() - start
    assert seconds < LIMIT_SECONDS, f"it took {seconds:.0f} s"


@contextlib.contextmanager
def file_of(data: bytes, name: str) -> Iterator[pathlib.Path]:
    """A file with some contents, alone in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.write_bytes(data)
        yield path


def text(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes that are text."""
    return mutation.of_text(data.decode(errors="replace"), rng).encode(errors="replace")


def _robot(parse: Callable, suffix: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        empty = repr(vars(builder))
        with file_of(data, f"robot{suffix}") as path, bounded():
            try:
                parse(str(path), builder)
            except NewtonsimError:
                assert repr(vars(builder)) == empty, "the builder is half filled"
                return
            for name in FINITE:
                values = [np.ravel(value) for value in getattr(builder, name)]
                assert np.isfinite(np.concatenate([[0.0], *values])).all(), name
            with contextlib.suppress(NewtonsimError):
                builder.finalize("cpu")

    return check


def _mesh(name: str) -> Callable[[bytes], None]:
    shape = f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'
    robot = f'<robot name="r"><link name="a">{shape}</link></robot>'

    def check(data: bytes) -> None:
        with file_of(data, name) as path, bounded(NewtonsimError):
            (path.parent / "robot.urdf").write_text(robot)
            builder = newtonsim.ModelBuilder()
            parse_urdf(str(path.parent / "robot.urdf"), builder)
            for mesh in builder.shape_geo_src:
                assert np.isfinite(mesh.vertices).all()
                assert (np.asarray(mesh.indices) < len(mesh.vertices)).all()

    return check


def _cells(name: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        with file_of(data, name) as path:
            for load in (load_tet_mesh, load_cloth_mesh):
                with bounded(NewtonsimError):
                    mesh = load(path)
                    assert np.isfinite(mesh.vertices).all()
                    assert (np.asarray(mesh.indices) < len(mesh.vertices)).all()

    return check


def _binary_vtk() -> bytes:
    """The tetrahedra of `VTK` with numbers in binary, as VTK writes them: with the highest byte first."""
    words = [line.split() for line in VTK.splitlines()]
    points = np.array([word for line in words[5:6] for word in line], ">f4").tobytes()
    cells = np.array([word for line in words[7:9] for word in line], ">i4").tobytes()
    kinds = np.array(words[10], ">i4").tobytes()
    head, points_head, cells_head, kinds_head = (
        "\n".join(VTK.splitlines()[first:last]).replace("ASCII", "BINARY").encode() + b"\n"
        for first, last in ((0, 4), (4, 5), (6, 7), (9, 10))
    )
    return head + points_head + points + b"\n" + cells_head + cells + b"\n" + kinds_head + kinds


def _gltf() -> bytes:
    """A mesh in one file of text, with its numbers in base64."""
    scene = trimesh.Scene(trimesh.creation.box())
    return trimesh.exchange.gltf.export_gltf(scene, embed_buffers=True, merge_buffers=True)["model.gltf"]


def _model() -> newtonsim.Simulator:
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    body = builder.add_body(mass=1.0, I_m=np.eye(3) * 0.1)
    builder.add_joint_free(body)
    builder.add_shape_box(body, hx=0.1, hy=0.1, hz=0.1)
    builder.set_ground_plane()
    model = builder.finalize("cpu")
    return newtonsim.Simulator(model, newtonsim.FeatherstoneSolver(model), 0.01)


class Kept:
    """What takes long to make, once."""

    made: ClassVar[dict[str, object]] = {}

    @classmethod
    def of(cls, name: str, make: Callable[[], object]) -> object:
        if name not in cls.made:
            cls.made[name] = make()
        return cls.made[name]

    @classmethod
    def end(cls) -> None:
        """Close what has an end, and forget all."""
        for kept in cls.made.values():
            if isinstance(kept, served.Served):
                kept.close()
        cls.made.clear()


def _checkpoint_seed() -> bytes:
    sim = _model()
    sim.step(20)
    with tempfile.TemporaryDirectory() as folder:
        sim.save(f"{folder}/a.ckpt")
        return pathlib.Path(f"{folder}/a.ckpt").read_bytes()


def _rehashed(data: bytes, rng: random.Random) -> bytes:
    """Damage a checkpoint, and in half of the cases its hash fits what is in it."""
    changed = mutation.of_bytes(data[:-32], rng)
    if rng.random() < 0.3:  # of the header, which is text
        size = struct.unpack_from("<Q", data, 12)[0]
        header = text(data[20 : 20 + size], rng)
        changed = data[:12] + struct.pack("<Q", len(header)) + header + data[20 + size : -32]
    return changed + (hashlib.sha256(changed).digest() if rng.random() < 0.5 else data[-32:])


def _checkpoint(data: bytes) -> None:
    sim: newtonsim.Simulator = Kept.of("simulator", _model)  # type: ignore[assignment]
    before = sim.state.joint_q.numpy().copy()
    with file_of(data, "a.ckpt") as path, bounded():
        try:
            sim.restore(path)
        except CheckpointError:
            assert np.array_equal(sim.state.joint_q.numpy(), before), "something was changed"
        else:
            Kept.made.pop("simulator")


def _recording_seed() -> bytes:
    sim = _model()
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(f"{folder}/a.nsr", sim.model) as recorder:
            for _ in range(5):
                sim.step()
                recorder.record(sim.state, sim.time)
        return pathlib.Path(f"{folder}/a.nsr").read_bytes()


def _recording(data: bytes) -> None:
    with file_of(data, "a.nsr") as path, bounded(RecordingError), Recording.open(path) as recording:
        for frame in range(min(len(recording), 8)):
            recording.load(frame)


def _message_seeds() -> list[bytes]:
    arguments = {"bodyUniqueId": 1, "posObj": [0.0, 1.0, 2.0], "flags": None, "x": np.arange(6.0), "s": "abc"}
    call = protocol.encode(protocol.Call(7, "resetBasePositionAndOrientation", arguments))
    return [call, protocol.encode(protocol.Answer(7, ((1.0, 2.0), {"a": b"x"}), None))]


def _message(data: bytes) -> None:
    for decode in (protocol.decode_call, protocol.decode_answer):
        with bounded(protocol.ProtocolError):
            decode(data)


def _to_server(data: bytes) -> None:
    kept: served.Served = Kept.of("server", lambda: served.Served(pybullet_data.getDataPath()))  # type: ignore[assignment]
    with bounded():
        kept.check(data)


def _exported(kind: str) -> bytes:
    return trimesh.creation.icosphere(subdivisions=1).export(file_type=kind)  # type: ignore[return-value]


def _obj() -> bytes:
    return _exported("obj").encode()  # type: ignore[union-attr]


def _assets(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [pathlib.Path(asset_path(name)).read_bytes() for name in names]


Q, V = [0.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3]
CALLS: list[tuple[str, list]] = [
    ("setGravity", [0.0, 0.0, -9.0]),
    ("setTimeStep", [0.004]),
    ("resetBasePositionAndOrientation", [1, V, Q]),
    ("resetBaseVelocity", [1, V, V]),
    ("resetJointState", [2, 1, 0.3, 0.1]),
    ("setJointMotorControl2", [2, 1, 2, 0.1, 0.1, 10.0]),
    ("setJointMotorControlArray", [2, [0, 1], 2, [0.1, 0.2], [0.1, 0.2], [1.0, 2.0]]),
    ("changeDynamics", [1, -1, 2.0, 0.3]),
    ("applyExternalForce", [1, -1, V, V, 1]),
    ("createCollisionShape", [3, 0.5, V]),
    ("createMultiBody", [1.0, 0, -1, V, Q]),
    ("createConstraint", [1, -1, -1, -1, 4, V, V, V]),
    ("removeConstraint", [1]),
    ("removeBody", [3]),
    ("calculateInverseKinematics", [2, 5, V]),
    ("calculateJacobian", [2, 1, V, [0.1] * 7, [0.1] * 7, [0.1] * 7]),
    ("getLinkState", [2, 1]),
    ("getContactPoints", [1, 0]),
    ("rayTest", [V, Q[:3]]),
    ("setCollisionFilterPair", [1, 0, -1, -1, 0]),
    ("saveState", []),
    ("restoreState", [0]),
    ("loadURDF", ["cube_small.urdf", V, Q]),
]
REFUSALS = (compat.error, TypeError, ValueError, OverflowError, SystemError)


def _calls(data: bytes) -> None:
    """Thirty calls with wrong arguments, from the number in `data`; the world stays finite and steps."""
    rng, client = random.Random(data), compat.connect(compat.DIRECT)
    call = {"physicsClientId": client}
    compat.setAdditionalSearchPath(pybullet_data.getDataPath(), **call)
    compat.loadURDF("plane.urdf", **call)
    compat.loadURDF("cube_small.urdf", [0.0, 0.0, 0.5], **call)
    compat.loadURDF("kuka_iiwa/model.urdf", [2.0, 0.0, 0.0], useFixedBase=True, **call)
    try:
        for _ in range(30):
            name, arguments = rng.choice(CALLS)
            changed = [mutation.of_value(a, rng) if rng.random() < 0.4 else a for a in arguments]
            with bounded(*REFUSALS):
                getattr(compat, name)(*changed, **call)
            with bounded():
                compat.stepSimulation(**call)
            for body in (compat.getBodyUniqueId(n, **call) for n in range(compat.getNumBodies(**call))):
                pose = compat.getBasePositionAndOrientation(body, **call)
                assert np.isfinite(np.concatenate(pose)).all(), f"{name}{changed}: body {body} is {pose}"
    finally:
        compat.disconnect(client)


def _next_number(data: bytes, rng: random.Random) -> bytes:
    return str(rng.random()).encode()


TARGETS = {
    "urdf": Target(lambda: [URDF.encode()], _robot(parse_urdf, ".urdf"), text),
    "mjcf": Target(_assets("ant.xml", "quadruped.xml", "humanoid.xml"), _robot(parse_mjcf, ".xml"), text),
    "sdf": Target(lambda: [SDF.encode()], _robot(parse_sdf, ".sdf"), text),
    "usd": Target(lambda: [USD.encode()], _robot(parse_usd, ".usda"), text),
    "obj": Target(lambda: [_obj()], _mesh("mesh.obj"), text),
    "stl": Target(lambda: [_exported("stl")], _mesh("mesh.stl")),
    "glb": Target(lambda: [_exported("glb")], _mesh("mesh.glb")),
    "gltf": Target(lambda: [_gltf()], _mesh("mesh.gltf"), text),
    "ply": Target(lambda: [_exported("ply")], _mesh("mesh.ply")),
    "msh": Target(lambda: [MSH.encode()], _cells("soft.msh"), text),
    "vtk": Target(lambda: [VTK.encode()], _cells("soft.vtk"), text),
    "vtk-binary": Target(lambda: [_binary_vtk()], _cells("soft.vtk")),
    "checkpoint": Target(lambda: [Kept.of("checkpoint", _checkpoint_seed)], _checkpoint, _rehashed),  # type: ignore[list-item]
    "recording": Target(lambda: [Kept.of("recording", _recording_seed)], _recording),  # type: ignore[list-item]
    "calls": Target(lambda: [b"0"], _calls, _next_number),
    "message": Target(_message_seeds, _message),
    "server": Target(lambda: served.seeds(CALLS), _to_server, served.damaged),
}
