"""The window of a GUI client: a page in the web browser that follows the client's world."""

from __future__ import annotations

import atexit
import threading
import time

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import NewtonsimError
from newtonsim.pybullet_compat.api.debug_items import DebugItems
from newtonsim.pybullet_compat.api.events import Events
from newtonsim.pybullet_compat.clients.guard import Guard
from newtonsim.pybullet_compat.gui.appearance import shapes_as_seen, stands, wireframe_colors
from newtonsim.pybullet_compat.gui.controls import ParameterControls
from newtonsim.pybullet_compat.gui.items import ItemDrawer, facing_camera
from newtonsim.pybullet_compat.gui.keys import KeyCodes
from newtonsim.pybullet_compat.gui.playback import ClientPlayback
from newtonsim.pybullet_compat.gui.sight import Sight
from newtonsim.pybullet_compat.rendering.pictures import Pictures
from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client
from newtonsim.pybullet_compat.world.engine import Engine
from newtonsim.pybullet_compat.world.structure import Structure
from newtonsim.render.viewer import Viewer
from newtonsim.render.viewer.page_input import PageKey, PagePointer

RATE = 60.0
"""Pictures in a second at most [1/s]."""
_CALM = 0.3
"""Time without a structural change after which the page shows the structure before any step [s]."""
_IDLE = 0.2
"""Time after which the page is rewritten although nothing moved [s]."""


class Window:
    """Page of one client, kept up to date by a thread while a browser looks at it.

    Every call of the script holds the lock of `Guard`, so that the thread sees the world between two calls.

    Args:
        client: A client connected as GUI, which is in the table.

    Attributes:
        viewer: The page.
    """

    viewer: Viewer

    def __init__(self, client: Client):
        self._client, self._items = client, client.part(DebugItems)
        self._guard, self._pictures = client.part(Guard), client.part(Pictures)
        self._playback, self._codes = ClientPlayback(), KeyCodes()
        self._engine: Engine | None = None
        self._appearance: tuple = ()
        self._wires: dict = {}
        self._structure: tuple[Structure | None, float] = (None, 0.0)
        self._refused: Structure | None = None
        self._shown: tuple[float, np.ndarray | None, float] = (-1.0, None, 0.0)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newtonsim window", daemon=True)

    def open(self, host: str, port: int, effects: bool) -> None:
        """Serve the page.

        Args:
            host: Address to listen on.
            port: First port to try, 0 for any free one.
            effects: Whether there are shadows and reflections.

        Raises:
            NewtonsimError: viser is missing, or no port is free.
        """
        builder = ModelBuilder(up_vector=(0.0, 0.0, 1.0), gravity=0.0)
        model = builder.finalize(device="cpu")
        self.viewer = Viewer(model, host, port, rate=RATE, effects=effects, hotkeys=False)
        self.viewer.follow(self._playback, paused=False)
        self._sight = Sight(self.viewer, self._items)
        self._drawer = ItemDrawer(self.viewer, self._items)
        self._controls = ParameterControls(self.viewer, self._items)
        self.viewer.gui.on_input(self._take_input, keys_fly=False)
        self._guard.wait, self._guard.is_paused = self._playback.wait, lambda: self._playback.is_paused
        self._guard.hold()
        self._thread.start()
        atexit.register(self.close)  # before the server ends by itself and says so

    def close(self) -> None:
        """Stop, and free the port."""
        if not self._thread.is_alive():
            return
        atexit.unregister(self.close)
        self._closing.set()
        self._playback.close()
        self._thread.join()
        self._guard.drop()
        self.viewer.close()

    def before_step(self, engine: Engine) -> None:
        """Pull the body that the mouse holds."""
        if engine is not self._engine:
            return
        held = self.viewer.mouse.wrench(engine.simulator.state, self._client.settings.time_step)
        if held is not None:
            world, row = divmod(held[0], len(engine.rows))
            uid, link = engine.rows[row]
            wrench = np.zeros((engine.worlds, 6))
            wrench[world] = held[1]
            engine.add_force(self._client.bodies[uid], link + 1, wrench[:, :3], wrench[:, 3:])

    def refresh(self) -> None:
        """Bring the page up to date, between two calls of the script."""
        with self._guard.lock:
            engine = self._present_engine()
            if engine is not None:
                self._follow_structure(engine)
                self._make_changes(engine)
                if self._sight.is_rendering:
                    self._publish(engine)
            self._drawer.refresh(self._pose_of, facing_camera(self._items.camera))
            self._controls.refresh()

    def _run(self) -> None:
        while not self._closing.wait(1.0 / RATE):
            with self._guard.lock:
                if self._closing.is_set():
                    return
                self._sight.refresh()
            if self.viewer.client_count:
                self.refresh()

    def _present_engine(self) -> Engine | None:
        """The engine of the client, built when its structure has not changed for a moment."""
        client = self._client
        if client.engine is not None or client.structure is self._refused:
            return client.engine
        if client.structure is not self._structure[0]:
            self._structure = client.structure, time.monotonic()
        if time.monotonic() - self._structure[1] < _CALM:
            return None
        try:
            return client.ensure()
        except (error, NewtonsimError, ValueError) as failure:  # the script gets it too, when it steps
            self._refused = client.structure
            self.viewer.say("The world cannot be built", str(failure))
            return None

    def _follow_structure(self, engine: Engine) -> None:
        """Show the current structure in its current colours."""
        client, pictures = self._client, self._pictures
        pictures.register()
        bodies = tuple(
            (body.uid, body.revision, body.base_pose.tobytes() if stands(body) else b"")
            for body in client.bodies.values()
        )
        appearance = (pictures.revision, pictures.textures.revision, bodies)
        if engine is not self._engine:
            engine.push()
            self.viewer.change_model(engine.model, engine.simulator.state, shapes_as_seen(client, engine))
            self._engine, self._appearance, self._wires = engine, appearance, {}
            self._shown = (-1.0, None, 0.0)
        elif appearance != self._appearance:
            self.viewer.change_appearance(shapes_as_seen(client, engine))
            self._appearance = appearance
        if self._items.colors != self._wires:
            self._wires = dict(self._items.colors)
            self.viewer.color_colliders(wireframe_colors(engine, self._wires))

    def _make_changes(self, engine: Engine) -> None:
        """Apply the page's sliders and mouse to the state while the simulation is paused."""
        if not self._playback.has_changes:
            return
        engine.push()
        self._playback.change(engine.simulator.state, engine.simulator.control)
        engine.unread_coordinates = engine.unread_poses = True

    def _publish(self, engine: Engine) -> None:
        """Show the state if it changed, or at intervals."""
        engine.push()
        simulator, now = engine.simulator, time.monotonic()
        poses = simulator.state.body_q.numpy() if engine.model.body_count else np.zeros((0, 7))
        seconds, before, shown_at = self._shown
        same = seconds == simulator.time and before is not None and np.array_equal(poses, before)
        if same and now - shown_at < _IDLE:
            return
        self._shown = simulator.time, poses.copy(), now
        self._playback.note(simulator.time)
        publish = self.viewer.publisher(engine.solver)
        publish(simulator.state, simulator.time, simulator.control)

    def _pose_of(self, link: tuple[int, int] | None) -> np.ndarray | None:
        """Where a link of the first shown world is shown (7,), or the world itself for None."""
        layout = self.viewer.scene.layout
        world = int(layout.worlds[0])
        pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        if link is not None:
            body = self._client.bodies.get(link[0])
            if body is None or not -1 <= link[1] < len(body.links) - 1:
                return None
            self._client.read_poses(body)
            pose = body.pose[world, link[1] + 1].copy()
        pose[:3] += layout.offset(np.array([world]))[0]
        return pose

    def _take_input(self, event: PageKey | PagePointer) -> None:
        """Record the input from the page."""
        with self._guard.lock:
            events = self._client.part(Events)
            if isinstance(event, PagePointer):
                events.pointer(event.x, event.y, event.button, event.down)
            elif (code := self._codes.code(event)) is not None:
                events.key(code, event.down)
