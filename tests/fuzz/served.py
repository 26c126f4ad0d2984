"""A physics server of this process that is sent damaged messages over TCP, as a stranger could."""

import contextlib
import random
import re
import threading

import numpy as np
import zmq
from fuzz import mutation

import newtonsim.pybullet_compat as compat
from newtonsim.pybullet_compat.server import protocol
from newtonsim.pybullet_compat.server.physics_server import PhysicsServer
from newtonsim.pybullet_compat.surface.signatures import SIGNATURES

ANSWER_SECONDS = 20.0
FRESH_EVERY = 50
"""Messages after which the world begins anew, since bodies that are added stay."""
BODIES = ("plane.urdf", "cube_small.urdf", "kuka_iiwa/model.urdf")


class Served:
    """A server in a thread, and a connection to it that has given its token.

    Args:
        data_path: Folder of the robots.
    """

    def __init__(self, data_path: str):
        self._world, self._sent, self._path = compat.connect(compat.DIRECT), 0, data_path
        self._server = PhysicsServer(self._world)
        port = self._server.listen_tcp("127.0.0.1", 0)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self._socket: zmq.Socket = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(f"tcp://127.0.0.1:{port}")
        self.ask(protocol.HELLO, {"token": self._server.token})
        self._begin()

    def close(self) -> None:
        """End the server and its world."""
        self._socket.close()
        self._server.stop()
        self._thread.join()
        self._server.close()
        compat.disconnect(self._world)

    def _begin(self) -> None:
        self.ask("resetSimulation", {})
        self.ask("setAdditionalSearchPath", {"path": self._path})
        for name in BODIES:
            self.ask("loadURDF", {"fileName": name})
        self.ask("stepSimulation", {})

    def send(self, data: bytes) -> protocol.Answer:
        """Send what may be no message; AssertionError unless an answer comes in time."""
        self._socket.send(data)
        assert self._socket.poll(1000 * ANSWER_SECONDS), "the server does not answer"
        return protocol.decode_answer(self._socket.recv())

    def ask(self, name: str, arguments: dict[str, object]) -> object:
        """Call a function; AssertionError if that fails."""
        number, value, failure = self.send(protocol.encode(protocol.Call(7, name, arguments)))
        assert number == 7
        assert failure is None, failure
        return value

    def check(self, data: bytes) -> None:
        """Send a message; then the server answers a call that is right, and its bodies are finite."""
        failure = self.send(data).failure
        if failure is not None:
            assert failure[0] in ALLOWED, failure
            assert not RAW.match(failure[1]), failure
        self._sent += 1
        if self._sent % FRESH_EVERY == 0:
            self._begin()
        for place in range(self.ask("getNumBodies", {})):
            body = self.ask("getBodyUniqueId", {"serialIndex": place})
            pose = self.ask("getBasePositionAndOrientation", {"bodyUniqueId": body})
            assert np.isfinite(np.concatenate(pose)).all(), pose


RAW = re.compile(r"[A-Z]\w*(Error|Exception|Warning): ")
"""How the text of an error begins that was raised by accident, see `protocol.describe_failure`."""
ALLOWED = ("error", "TypeError", "ValueError", "OverflowError", "SystemError")
"""What a call may be answered with, as in PyBullet."""


def seeds(calls: list[tuple[str, list]]) -> list[bytes]:
    """Messages of calls: their names, and their arguments by place."""
    messages = [("stepSimulation", []), *calls]
    words = {name: [p.name for p in SIGNATURES[name].parameters] for name, _ in messages}
    return [protocol.encode(protocol.Call(3, n, dict(zip(words[n], given)))) for n, given in messages]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Damage the bytes of a message, or one of the arguments in it."""
    if rng.random() < 0.6:
        with contextlib.suppress(protocol.ProtocolError, TypeError, ValueError, OverflowError):
            number, name, arguments = protocol.decode_call(data)
            if arguments:
                key = rng.choice(sorted(arguments))
                return protocol.encode(
                    protocol.Call(number, name, {**arguments, key: mutation.of_value(arguments[key], rng)})
                )
    return mutation.of_bytes(data, rng)
