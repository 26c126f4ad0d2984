"""Physics servers: worlds in other processes, and what reaches them from the network."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pybullet_data
import pytest

import newtonsim.pybullet_compat as compat
from newtonsim.cli.main import main
from newtonsim.pybullet_compat.clients.table import TABLE
from newtonsim.pybullet_compat.server import protocol
from newtonsim.pybullet_compat.server.protocol import Answer, Call
from newtonsim.pybullet_compat.server.tls import Relay

zmq = pytest.importorskip("zmq")
msgpack = pytest.importorskip("msgpack")

KEY = 20000 + os.getpid() % 10000
START = b"\x93\x01\xacgetNumBodies"
"""The beginning of a call."""


def start_server(*arguments):
    """Start a server process on a free port and return it with the port."""
    command = [sys.executable, "-m", "newtonsim", "pybullet-server", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("physics server on port "), line
    return process, int(line.split()[4].rstrip(":"))


def stop_server(process):
    """Terminate a server and return its exit status."""
    process.terminate()
    process.stdout.close()
    return process.wait(30)


@pytest.fixture(scope="module")
def port():
    """Port of a server that all tests of this module share."""
    process, port = start_server("--shared-memory-key", str(KEY))
    yield port
    assert stop_server(process) == 0
    assert not os.path.exists(protocol.socket_path(KEY))


@pytest.fixture
def remote(port):
    """A connection to the server, whose world is empty."""
    client = compat.connect(compat.TCP, "127.0.0.1", port)
    assert client >= 0
    compat.resetSimulation(physicsClientId=client)
    yield client
    if compat.isConnected(client):
        compat.disconnect(client)


@pytest.fixture
def local():
    client = compat.connect(compat.DIRECT)
    yield client
    compat.disconnect(client)


def build(client):
    """Let a chain with a ball joint fall onto a box; return everything that came back on the way."""
    found = []

    def call(name, *args, **keywords):
        found.append(getattr(compat, name)(*args, **keywords, physicsClientId=client))
        return found[-1]

    call("setGravity", 0, 0, -9.81)
    box = call("createCollisionShape", compat.GEOM_BOX, halfExtents=np.full(3, 0.1))
    chain = call(
        "createMultiBody",
        np.float64(1.0),
        box,
        basePosition=[0.02, 0.01, 0.3],
        linkMasses=[1.0],
        linkCollisionShapeIndices=[box],
        linkVisualShapeIndices=[-1],
        linkPositions=[[0, 0, 0.3]],
        linkOrientations=[[0, 0, 0, 1]],
        linkInertialFramePositions=[[0, 0, 0]],
        linkInertialFrameOrientations=[[0, 0, 0, 1]],
        linkParentIndices=[0],
        linkJointTypes=[compat.JOINT_REVOLUTE],
        linkJointAxis=[[1, 0, 0]],
    )
    call("createMultiBody", 0.0, box)
    call("resetJointState", chain, np.int64(0), 0.3)
    for _ in range(20):
        call("stepSimulation")
    call("getBasePositionAndOrientation", chain)
    call("getJointInfo", chain, 0)
    call("getJointStates", chain, (0,))
    call("getLinkState", chain, 0, computeLinkVelocity=1)
    call("getContactPoints")
    call("addUserData", chain, "key", "value")
    call("getUserData", 0)
    call("getBodyInfo", chain)
    return found


def test_a_world_in_another_process_is_the_same(remote, local):
    assert build(remote) == build(local)


def test_pictures_come_back_as_arrays(remote, local):
    for client in (remote, local):
        shape = compat.createCollisionShape(compat.GEOM_SPHERE, physicsClientId=client)
        compat.createMultiBody(0.0, shape, physicsClientId=client)
    view = compat.computeViewMatrix([0, -3, 0], [0, 0, 0], [0, 0, 1])
    projection = compat.computeProjectionMatrixFOV(60, 1, 0.1, 10)
    pictures = [compat.getCameraImage(32, 24, view, projection, physicsClientId=c) for c in (remote, local)]
    assert pictures[0][:2] == pictures[1][:2] == (32, 24)
    for far, near in zip(pictures[0][2:], pictures[1][2:]):
        assert isinstance(far, np.ndarray)
        assert far.dtype == near.dtype
        np.testing.assert_array_equal(far, near)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("loadURDF", ("no such file",)),
        ("getBasePositionAndOrientation", (99,)),
        ("createCollisionShape", (99,)),
        ("removeUserData", (5,)),
        ("addUserDebugLine", ([0, 0], [1, 1, 1])),
        ("getJointState", (0, 0.5)),
        ("resetBasePositionAndOrientation", (0, None, None)),
    ],
)
def test_errors_are_those_of_a_local_world(remote, local, name, arguments):
    texts = []
    for client in (remote, local):
        with pytest.raises((compat.error, TypeError)) as caught:
            getattr(compat, name)(*arguments, physicsClientId=client)
        texts.append((caught.type, str(caught.value)))
    assert texts[0] == texts[1]


def test_all_ways_lead_to_the_same_world(port, remote):
    others = [compat.connect(compat.UDP, "localhost", port), compat.connect(compat.SHARED_MEMORY, KEY)]
    for method, client in zip((compat.UDP, compat.SHARED_MEMORY), others):
        assert compat.getConnectionInfo(client) == {"isConnected": 1, "connectionMethod": method}
        slider = compat.addUserDebugParameter("s", 0, 1, 0.5, physicsClientId=client)
        assert compat.readUserDebugParameter(slider, physicsClientId=remote) == 0.5
    for client in others:
        compat.disconnect(client)
    shape = compat.createCollisionShape(compat.GEOM_SPHERE, physicsClientId=remote)
    compat.createMultiBody(1.0, shape, physicsClientId=remote)
    compat.disconnect(remote)
    again = compat.connect(compat.TCP, "127.0.0.1", port)
    assert compat.getNumBodies(physicsClientId=again) == 1
    compat.disconnect(again)


def test_no_server_is_no_connection():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert compat.connect(compat.TCP, "127.0.0.1", unused.getsockname()[1]) == -1
    assert compat.connect(compat.SHARED_MEMORY, KEY + 1) == -1
    assert compat.connect(compat.UDP, "no.such.host.invalid", 1234) == -1


def test_what_is_not_for_clients_is_refused(remote):
    connection = TABLE[remote]
    for name, arguments, text in (
        ("disconnect", {}, "no function 'disconnect'"),
        ("__import__", {"name": "os"}, "no function"),
        ("getNumBodies", {"physicsClientId": 0}, "invalid keyword argument"),
        ("getNumJoints", {}, "missing"),
        ("getNumJoints", {"bodyUniqueId": "x"}, "integer"),
    ):
        with pytest.raises((compat.error, TypeError), match=text):
            connection.call(name, arguments)
    with pytest.raises(TypeError, match="cannot be sent a object"):
        compat.addUserDebugLine(object(), [0, 0, 0], physicsClientId=remote)
    positions = np.zeros((protocol.MAX_BYTES // 24 + 1, 3))
    with pytest.raises(compat.error, match="larger than"):
        compat.addUserDebugPoints(positions, positions[:1], physicsClientId=remote)
    assert compat.getNumBodies(physicsClientId=remote) == 0


def random_value(source, depth=0):
    """Return random data that MessagePack can hold."""
    kinds = [None, True, -1, 2**63, 1e308, float("nan"), "x", b"\0", "getNumBodies", "stepSimulation"]
    if depth < 3 and source.random() < 0.5:
        items = [random_value(source, depth + 1) for _ in range(source.randrange(4))]
        return items if source.random() < 0.5 else {str(i): item for i, item in enumerate(items)}
    return source.choice([*kinds, msgpack.ExtType(source.randrange(4), source.randbytes(8))])


def test_a_server_survives_garbage(port, remote):
    source = random.Random(5)
    call = bytearray(protocol.encode(Call(1, "getNumBodies", {"x": np.zeros(3)})))
    messages = [source.randbytes(source.randrange(80)) for _ in range(100)]
    messages += [msgpack.packb(random_value(source)) for _ in range(100)]
    messages += [msgpack.packb([1, "getNumJoints", random_value(source)]) for _ in range(50)]
    messages += [b"\x93" * 5000, b"\xdf\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"]
    for _ in range(100):
        changed = call.copy()
        changed[source.randrange(len(changed))] = source.randrange(256)
        messages.append(bytes(changed))
    with zmq.Context() as context, context.socket(zmq.DEALER) as garbler:
        garbler.setsockopt(zmq.LINGER, 0)
        garbler.connect(f"tcp://127.0.0.1:{port}")
        for i, message in enumerate(messages):
            garbler.send_multipart([message, b"more"] if i % 10 == 0 else [message])
            assert garbler.poll(20000), message
            protocol.decode_answer(garbler.recv())
    for length in (1, 10, 1000, 100000):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(source.randbytes(length))
    assert compat.getNumBodies(physicsClientId=remote) == 0


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            b"\x93\x01\xacgetNumBodies\xdd" + (60_000_000).to_bytes(4, "big") + b"\x80" * 60_000_000,
            "elements",
        ),
        (START + b"\x81\xa1x\xdc\x00\x64" + 100 * (b"\xdc\xff\xff" + b"\xc0" * 65535), "elements"),
        (START + b"\x81\xa1x" + b"\x91" * 40 + b"\xc0", "nested"),
        (b"\xdf\xff\xff\xff\xff", "elements"),
    ],
    ids=["60 million maps", "many lists", "deep", "a length without content"],
)
def test_large_structures_are_refused_before_they_are_made(message, text):
    """In less than 1 MB of memory, where the first one took 42 s and 4.9 GB."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(protocol.ProtocolError, match=text):
            protocol.decode_call(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e6
    assert time.process_time() - start < 10.0  # tracing takes most of it


def test_structure_is_measured_as_messagepack_reads_it():
    """Random data passes with exactly as many elements and levels as it has."""

    def measure(value):
        if isinstance(value, (list, dict)):
            items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            found = [measure(item) for item in items]
            return 1 + sum(n for n, _ in found), max((1 + d for _, d in found), default=0)
        return 1, 0

    source = random.Random(3)
    values = [random_value(source) for _ in range(400)]
    values += ["x" * n for n in (31, 32, 255, 256, 65536)] + [b"x" * n for n in (255, 256, 65536)]
    values += [list(range(n)) for n in (15, 16, 65536)] + [{i: i for i in range(n)} for n in (15, 16, 65536)]
    values += [10**n for n in range(19)] + [-(10**n) for n in range(18)] + [0.5, None, True]
    values += [msgpack.ExtType(3, bytes(n)) for n in (0, 1, 2, 4, 8, 16, 17, 256, 65536)]
    for value in values:
        data, (elements, levels) = msgpack.packb(value), measure(value)
        protocol.check_structure(data, elements, levels)
        with pytest.raises(protocol.ProtocolError, match="elements"):
            protocol.check_structure(data, elements - 1, levels)
        with pytest.raises(protocol.ProtocolError, match=r"truncated|elements|nested"):
            protocol.check_structure(data[:0] if len(data) == 1 else data[:-1] + b"", elements - 1, levels)
        if levels:
            with pytest.raises(protocol.ProtocolError, match="nested"):
                protocol.check_structure(data, elements, levels - 1)


def test_a_connection_begins_with_the_token(port, monkeypatch):
    """Nothing is done for those who have none, a wrong one, or the name of somebody who had it."""
    path = protocol.token_path(f"tcp-{port}")
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as file:
        token = file.read()
    assert len(token) == 64
    with zmq.Context() as context:
        for given in (None, "", "x" * 64, 3, b"x", token[:-1], "\ud800"):
            arguments = {} if given is None else {"token": given}
            answers = ask(context, port, [Call(1, protocol.HELLO, arguments), Call(2, "getNumBodies", {})])
            assert all("token" in failure[1] for failure in answers), given
        assert ask(
            context, port, [Call(1, protocol.HELLO, {"token": token}), Call(2, "getNumBodies", {})]
        ) == [
            None,
            None,
        ]
        chosen = [Call(1, protocol.HELLO, {"token": token}), Call(2, "getNumBodies", {})]
        assert all("token" in failure[1] for failure in ask(context, port, chosen, name=b"me"))
    monkeypatch.setattr(protocol, "token_path", lambda name: "/nowhere")
    assert compat.connect(compat.TCP, "127.0.0.1", port) == -1
    monkeypatch.setenv(protocol.TOKEN_VARIABLE, token)
    client = compat.connect(compat.TCP, "127.0.0.1", port)
    assert client >= 0
    compat.disconnect(client)


def ask(context, port, calls, name=None):
    """Failures of the answers to calls of a new connection."""
    with context.socket(zmq.DEALER) as connection:
        connection.setsockopt(zmq.LINGER, 0)
        if name is not None:
            connection.setsockopt(zmq.IDENTITY, name)
        connection.connect(f"tcp://127.0.0.1:{port}")
        failures = []
        for call in calls:
            try:
                connection.send(protocol.encode(call))
            except UnicodeEncodeError:
                return [("error", "token cannot be sent")]
            assert connection.poll(20000)
            failures.append(protocol.decode_answer(connection.recv()).failure)
        return failures


def test_clients_are_kept_in_a_folder(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    urdf, plane = '<robot name="r"><link name="a"/></robot>', f"{pybullet_data.getDataPath()}/plane.urdf"
    for folder in (inside, outside):
        (folder / "robot.urdf").write_text(urdf)
    (inside / "link.urdf").symlink_to(outside / "robot.urdf")
    process, port = start_server("--shared-memory-key", "-1", "--folder", str(inside))
    try:
        client = compat.connect(compat.TCP, "127.0.0.1", port)
        assert compat.loadURDF(str(inside / "robot.urdf"), physicsClientId=client) == 0
        assert compat.loadURDF(plane, physicsClientId=client) == 1
        compat.saveBullet(str(inside / "state.bullet"), physicsClientId=client)
        assert (inside / "state.bullet").exists()
        for path in (outside / "robot.urdf", inside / ".." / "outside" / "robot.urdf", inside / "link.urdf"):
            with pytest.raises(compat.error):
                compat.loadURDF(str(path), physicsClientId=client)
        for path in (outside / "state.bullet", inside / ".." / "state.bullet", "/dev/shm/state.bullet"):
            with pytest.raises(compat.error):
                compat.saveBullet(str(path), physicsClientId=client)
        compat.stepSimulation(physicsClientId=client)  # compiles and loads kernels
        assert compat.getNumBodies(physicsClientId=client) == 2
        assert sorted(path.name for path in outside.iterdir()) == ["robot.urdf"]
        assert not (tmp_path / "state.bullet").exists()
        compat.disconnect(client)
    finally:
        stop_server(process)


def test_a_lost_server_is_noticed():
    process, port = start_server("--shared-memory-key", "-1", "--num-worlds", "3")
    client = compat.connect(compat.TCP, "127.0.0.1", port)
    assert TABLE[client].num_worlds == 3
    process.kill()
    process.stdout.close()
    process.wait()
    with pytest.raises(compat.error, match="closed the connection in getNumBodies"):
        compat.getNumBodies(physicsClientId=client)
    assert not compat.isConnected(client)


def test_a_silent_server_is_given_up():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        from newtonsim.pybullet_compat.server.remote import RemoteClient

        client = RemoteClient(f"tcp://127.0.0.1:{port}")
        client.call("setTimeOut", {"timeOutInSeconds": 0.2})
        with pytest.raises(compat.error, match="did not answer getNumBodies"):
            client.call("getNumBodies", {})
        with pytest.raises(compat.error, match="Not connected to physics server"):
            client.call("getNumBodies", {})


def test_a_world_of_this_process_can_be_shared():
    owner = compat.connect(compat.SHARED_MEMORY_SERVER, KEY + 2)
    guest = compat.connect(compat.SHARED_MEMORY, KEY + 2)
    assert guest != owner
    shape = compat.createCollisionShape(compat.GEOM_SPHERE, physicsClientId=owner)
    assert compat.createMultiBody(1.0, shape, physicsClientId=guest) == 0
    assert compat.getNumBodies(physicsClientId=owner) == 1
    compat.disconnect(owner)
    with pytest.raises(compat.error):
        compat.getNumBodies(physicsClientId=guest)
    assert compat.connect(compat.SHARED_MEMORY, KEY + 2) == -1


@pytest.mark.parametrize(
    "value",
    [
        (1, -(2**63), 2**64 - 1, 0.1, True, None, "ü", b"\xff", (), {1: 2, "a": (3,)}),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array(3.5, dtype=np.float32),
        np.zeros((0, 3), dtype=np.uint8),
        np.array([[True, False]]).T,
    ],
)
def test_data_survives_the_way_there_and_back(value):
    back = protocol.decode_answer(protocol.encode(Answer(7, value, None))).value
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype.newbyteorder("=")
        np.testing.assert_array_equal(back, value)
    else:
        assert back == value
    failed = protocol.decode_answer(protocol.encode(Answer(1, None, ("TypeError", "text"))))
    assert isinstance(protocol.make_failure(failed.failure), TypeError)


def test_arrays_that_lie_about_their_size_are_no_messages():
    for content in (
        ("<f8", (2,), bytes(8)),
        ("|O8", (1,), bytes(8)),
        ("<f8", (2**62, 4), b""),
        ("<f8", 1, b""),
    ):
        data = msgpack.packb([1, "getNumBodies", {"x": msgpack.ExtType(1, msgpack.packb(content))}])
        with pytest.raises(protocol.ProtocolError):
            protocol.decode_call(data)


@pytest.mark.parametrize("arguments", [["--port", "{port}", "--shared-memory-key", "-1"], ["--port", "0"]])
def test_what_is_taken_is_reported(port, arguments):
    words = [word.format(port=port) for word in arguments]
    if "-1" not in words:
        words += ["--shared-memory-key", str(KEY)]
    command = [sys.executable, "-m", "newtonsim", "pybullet-server", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "newtonsim: error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_packages_are_named(port, monkeypatch):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(compat.error, match=r"newtonsim\[server\]"):
        compat.connect(compat.TCP, "127.0.0.1", port)
    with pytest.warns(UserWarning, match=r"not shared: .*newtonsim\[server\]"):
        client = compat.connect(compat.SHARED_MEMORY_SERVER)
    compat.stepSimulation(physicsClientId=client)
    compat.disconnect(client)


def test_a_slow_client_makes_nobody_else_wait(port, remote):
    """One sends half a message, one asks for pictures and never fetches the answers: calls stay quick."""
    with open(protocol.token_path(f"tcp-{port}")) as file:
        hello = Call(0, protocol.HELLO, {"token": file.read()})
    compat.setTimeOut(60.0, physicsClientId=remote)
    question = protocol.encode(Call(1, "getCameraImage", {"width": 640, "height": 480}))
    greeting = b"\xff" + 8 * b"\0" + b"\x7f\x03\x00NULL" + 48 * b"\0"
    with (
        socket.create_connection(("127.0.0.1", port)) as half,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as deaf,
    ):
        # ZeroMQ's greeting, and the begin of a command of a megabyte
        half.sendall(greeting + b"\x06" + (1 << 20).to_bytes(8, "big") + b"\x05READY")
        deaf.setsockopt(zmq.LINGER, 0)
        deaf.setsockopt(zmq.RCVHWM, 1)
        deaf.setsockopt(zmq.RCVBUF, 4096)
        deaf.connect(f"tcp://127.0.0.1:{port}")
        deaf.send(protocol.encode(hello))
        for _ in range(40):  # more than wait for a client
            deaf.send(question)
        # the first call waits for the pictures that were asked for before
        compat.getNumBodies(physicsClientId=remote)
        seconds = []
        for _ in range(20):
            start = time.monotonic()
            compat.stepSimulation(physicsClientId=remote)
            seconds.append(time.monotonic() - start)
    assert sorted(seconds)[10] < 0.5


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Certificate for localhost that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made by openssl, which is not installed")
    folder = tmp_path_factory.mktemp("tls")
    names = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    )
    command += " -addext subjectAltName=DNS:localhost"
    subprocess.run([*command.split(), "-out", names[0], "-keyout", names[1]], check=True, capture_output=True)
    return names


def test_a_world_by_tls_is_the_same(certificate, local):
    """Only those who trust the certificate come in, and what they send cannot be read on the way."""
    process, port = start_server("--shared-memory-key", "-1", "--tls", *certificate)
    try:
        client = compat.connect(compat.TCP, "localhost", port, f"--tls={certificate[0]}")
        assert build(client) == build(local)
        picture = compat.getCameraImage(320, 240, physicsClientId=client)[2]  # more than a chunk
        np.testing.assert_array_equal(picture, compat.getCameraImage(320, 240, physicsClientId=local)[2])
        with pytest.raises(compat.error, match="certificate verify failed"):
            compat.connect(compat.TCP, "localhost", port, "--tls")
        with pytest.raises(compat.error, match="certificate verify failed"):  # it does not name this host
            compat.connect(compat.TCP, "127.0.0.1", port, f"--tls={certificate[0]}")
        with pytest.raises(compat.error, match=r"nowhere\.pem|No such file"):
            compat.connect(compat.TCP, "localhost", port, "--tls=nowhere.pem")
        assert compat.connect(compat.TCP, "localhost", port) == -1  # without TLS
        with socket.create_connection(("localhost", port)) as raw:
            raw.sendall(random.Random(1).randbytes(1000))  # no TLS
        assert compat.getNumBodies(physicsClientId=client) == 2
        process.kill()
        process.wait()
        with pytest.raises(compat.error, match=r"closed the connection|did not answer"):
            compat.getNumBodies(physicsClientId=client)
    finally:
        stop_server(process)


def test_a_relay_passes_all_bytes_on_at_the_pace_of_the_slower_end():
    """A megabyte comes through both ways, bit by bit; a sender stops when nobody takes what it sends."""
    data = random.Random(2).randbytes(2**20)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay("127.0.0.1", 0, listener.getsockname())
        with socket.create_connection(("127.0.0.1", relay.port)) as near:
            far, _ = listener.accept()
            for source, sink in ((near, far), (far, near)):
                sender = threading.Thread(target=source.sendall, args=(data,))
                sender.start()
                found = b""
                while len(found) < len(data):
                    found += sink.recv(5000)
                sender.join()
                assert found == data
            near.settimeout(1.0)
            with pytest.raises(TimeoutError):
                near.sendall(bytes(2**27))
            far.close()
        relay.close()


def test_a_relay_that_closes_with_connections_says_nothing(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relay = Relay("127.0.0.1", 0, listener.getsockname())
        with socket.create_connection(("127.0.0.1", relay.port)) as near:
            far, _ = listener.accept()
            near.sendall(b"1")
            assert far.recv(1) == b"1"
            relay.close()
            near.settimeout(5.0)
            with contextlib.suppress(ConnectionError):
                assert near.recv(1) == b""
            far.close()
    assert not caplog.records


def test_files_that_are_no_certificates_are_named(tmp_path, capsys):
    (tmp_path / "c.pem").write_text("no certificate")
    files = [str(tmp_path / "c.pem"), str(tmp_path / "k.pem")]
    assert main(["pybullet-server", "--port", "0", "--tls", *files]) == 2
    assert "--tls" in capsys.readouterr().err


@pytest.mark.parametrize("method", [compat.TCP, compat.UDP])
@pytest.mark.parametrize(
    "options",
    [
        "--tsl=a.pem",
        "--TLS=a.pem",
        "-tls=a.pem",
        "tls",
        "--tls a.pem",
        "--tls =a.pem",
        "--ssl",
        "--num_worlds=4",
    ],
)
def test_options_that_mean_tls_and_are_not_make_no_connection(method: int, options: str):
    """They were left out, and a server without TLS was talked to in the clear."""
    with pytest.raises(compat.error, match="A connection has no option"):
        compat.connect(method, "localhost", 1, options)
    with pytest.raises(compat.error, match="Option --tls is given 2 times"):
        compat.connect(method, "localhost", 1, "--tls=a.pem --tls")


@pytest.mark.parametrize("method", [compat.DIRECT, compat.SHARED_MEMORY, compat.SHARED_MEMORY_SERVER])
def test_options_of_worlds_that_are_misspelt_are_named(method: int):
    for options, text in (
        ("--num_world=4", "--num_worlds is meant"),
        ("--devise=cpu", "--device is meant"),
        ("--tls=a.pem", "TCP and UDP"),
        ("--tls", "TCP and UDP"),
    ):
        with pytest.raises(compat.error, match=text):
            compat.connect(method, KEY + 7, options)


def test_options_of_pybullet_that_mean_nothing_here_are_left_out():
    options = "--opengl2 --minGraphicsUpdateTimeMs=0 --mp4fps=30 --width=100 --fps=60 --nogui"
    compat.disconnect(compat.connect(compat.DIRECT, options=options))
