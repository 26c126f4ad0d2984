"""The viewer: a web page that shows a model and lets users play with it."""

from __future__ import annotations

import threading
import time as clock
import webbrowser
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from newtonsim.collision.collide import collide
from newtonsim.collision.contacts import Contacts, check_contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.errors import NewtonsimError
from newtonsim.kinematics import check_length, eval_fk
from newtonsim.render.viewer.camera import ViewerCamera
from newtonsim.render.viewer.draw import Draw
from newtonsim.render.viewer.frames import ContactPoints, Frame, read_contacts
from newtonsim.render.viewer.gui import UserGui
from newtonsim.render.viewer.joint_sliders import JointSliders
from newtonsim.render.viewer.mouse import Mouse
from newtonsim.render.viewer.panel import Panel
from newtonsim.render.viewer.playback import (
    CallerLoop,
    Playback,
    RecordingPlayback,
    SimulationPlayback,
    Source,
    ThreadedPlayback,
)
from newtonsim.render.viewer.scene import Scene
from newtonsim.render.viewer.server import start_server, stop_server
from newtonsim.scene.state import State
from newtonsim.simulator import Simulator

if TYPE_CHECKING:
    import numpy.typing as npt

    from newtonsim.render.shapes import ShapeTable
    from newtonsim.scene.control import Control
    from newtonsim.scene.model import Model

_REFRESH = 0.2
"""Time between updates of texts and sliders [s]."""


class Viewer:
    """Shows a model in web browsers.

    It serves a page at `url`, to any number of browsers. What is shown comes from a simulation (`run`), a
    recording (`replay`) or the caller's own loop (`update`). Slow browsers skip frames, and hold nothing up.

    Attributes:
        model: The model.
        draw: Lines, points and texts of users.
        gui: Sliders, buttons and keys of users.
        camera: The cameras of the browsers.
        mouse: What is picked and dragged.
        scene: What is in the scene.
        frame: What is shown now, on the host.
        playback: Source of its changes, None at first.

    Args:
        model: The model.
        host: Address to listen on; by default only this machine can connect.
        port: Port to listen on, or the next one that is free; 0 for any.
        rate: Largest number of frames per second [1/s].
        effects: Whether there are shadows and reflections, which cost browsers without a GPU much time.
        title: Title of the page.
        hotkeys: Whether space plays and pauses, and N makes a step.
        state: State to show at first, which the camera frames; None for the initial state of the model.

    Raises:
        NewtonsimError: viser is missing, or no port is free.
    """

    def __init__(
        self,
        model: Model,
        host: str = "127.0.0.1",
        port: int = 8080,
        *,
        rate: float = 60.0,
        effects: bool = True,
        title: str = "newtonsim",
        hotkeys: bool = True,
        state: State | None = None,
    ):
        if not rate > 0.0:
            raise NewtonsimError(f"rate: expected a number above 0, got {rate}")
        self.model, self._rate = model, rate
        self._lock = threading.RLock()
        if state is not None:
            model.check_state(state)
        self.frame = Frame.of(self._first_state() if state is None else state, 0.0)
        self.playback: Playback | None = None
        self.keys_taken = not hotkeys
        self._own_contacts: Contacts | None = None
        self._shown_at = self._refreshed_at = -1.0e9
        self._server = start_server(host, port, title, effects)
        self.mouse = Mouse(model, lambda: self.frame, lambda: self.playback)
        self.mouse.on_pick = self._on_pick
        self.camera = ViewerCamera(self._server, model.up_vector)
        self.draw, self.gui = Draw(self._server), UserGui(self._server)
        self.scene = Scene(self._server, model, self.frame, self.mouse)
        self.camera.frame(*self.scene.bounds(self.frame))
        self._panel = Panel(self, self._server)
        self._sliders = JointSliders(self._server, model, self.mouse, lambda: self.playback)
        self._panel.refresh()

    @property
    def host(self) -> str:
        """Address that it listens on."""
        return self._server.get_host()

    @property
    def port(self) -> int:
        """Port that it listens on."""
        return self._server.get_port()

    @property
    def url(self) -> str:
        """Address of the page on this machine."""
        host = self.host
        if host in ("0.0.0.0", "::", ""):
            host = "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def client_count(self) -> int:
        """Number of browsers that are connected."""
        return len(self._server.get_clients())

    def open_browser(self) -> bool:
        """Open the page in a browser of this machine; returns whether there is one."""
        try:
            return webbrowser.open(self.url)
        except webbrowser.Error:
            return False

    def run(
        self,
        simulator: Simulator,
        *,
        before_step: Callable[[Simulator], None] | None = None,
        paused: bool = False,
    ) -> SimulationPlayback:
        """Step a simulator in real time in a thread, which owns it until the viewer is closed.

        Args:
            simulator: Simulator of this model. "Restart" returns to its current state.
            before_step: Called with it before each step, such as a policy that writes to its `control`.
            paused: Whether to wait until "Play" is pressed.
        """
        if not isinstance(simulator, Simulator):
            raise NewtonsimError(f"run: expected a Simulator, got {simulator!r}")
        self._check_model(simulator.model)
        playback = SimulationPlayback(
            simulator, self.publisher(simulator.solver), self._rate, self.mouse, before_step
        )
        self.follow(playback, paused)
        return playback

    def replay(self, source: Source, *, paused: bool = False) -> RecordingPlayback:
        """Show a recording: anything with `model`, `times` (n,) [s] and `load(index, state)`.

        Args:
            source: The recording, of this model.
            paused: Whether to wait until "Play" is pressed.
        """
        if not all(hasattr(source, name) for name in ("model", "times", "load")):
            raise NewtonsimError(f"replay: expected a recording, got {source!r}")
        self._check_model(source.model)
        playback = RecordingPlayback(source, self.publisher(None), self._rate)
        self.follow(playback, paused)
        return playback

    def update(
        self,
        state: State,
        time: float = 0.0,
        *,
        control: Control | None = None,
        contacts: Contacts | None = None,
        contact_forces: wp.array | None = None,
    ) -> None:
        """Show a state of the caller's own loop, at most `rate` times in a second.

        While a user has paused, this waits, and joint sliders and the mouse change the state.

        Args:
            state: The state.
            time: Its time [s].
            control: Inputs that joint sliders change, or None.
            contacts: Contacts to show; None to find them when they are shown.
            contact_forces: Force on shape 0 at each place of `contacts`, vec3 [N]; None to show normals.

        Raises:
            NewtonsimError: The viewer runs a simulation or a recording itself.
            ModelError: State, control, contacts or forces belong to another model.
        """
        if not isinstance(state, State):
            raise NewtonsimError(f"update: expected a State, got {state!r}")
        self.model.check_state(state)
        if control is not None:
            self.model.check_control(control)
        if contacts is not None:
            check_contacts(self.model, contacts)
        if contact_forces is not None:
            room = collision_plan_of(self.model).contact_count
            check_length("contact_forces", contact_forces, room, wp.vec3)
        if self.playback is None:
            self.follow(CallerLoop(), False)
        if not isinstance(self.playback, CallerLoop):
            raise NewtonsimError("update: the viewer is already showing a simulation or a recording")

        def publish(state: State, time: float, control: Control | None) -> None:
            now = clock.perf_counter()
            if self.playback.playing and now - self._shown_at < 1.0 / self._rate:
                return
            found = self._contacts(state, contacts, contact_forces)
            self.show(Frame.of(state, time, control, found))

        self.playback.pass_by(state, time, control, publish)

    def apply_forces(self, state: State, dt: float) -> None:
        """Add the force of the mouse to `body_f`, in the caller's own loop.

        Args:
            state: The state that the next step starts from.
            dt: Length of that step [s].

        Raises:
            ModelError: It is the state of another model.
        """
        self.model.check_state(state)
        self.mouse.add_forces(state, dt)

    def follow(self, playback: Playback, paused: bool) -> None:
        """Set the source of what is shown, which `run`, `replay` and `update` do themselves.

        Args:
            playback: Owner of the state.
            paused: Whether to wait until "Play" is pressed.
        """
        if self.playback is not None:
            self.playback.close()
        self.playback = playback
        playback.playing = not paused
        playback.on_change = self.refresh
        self._panel.add_time()
        self._sliders.clear()
        if playback.times is None:
            self._sliders.show(int(self.scene.layout.worlds[0]))
        if isinstance(playback, ThreadedPlayback):
            playback.start()

    def publisher(self, solver: object) -> Callable[[State, float, Control | None], None]:
        """Return a function that shows a state, with the contacts of a solver if it has them."""

        def publish(state: State, time: float, control: Control | None) -> None:
            contacts, forces = getattr(solver, "contacts", None), None
            if contacts is not None and self.scene.marks["Contacts"].is_on:
                forces = _forces(solver)
            self.show(Frame.of(state, time, control, self._contacts(state, contacts, forces)))

        return publish

    def show(self, frame: Frame) -> None:
        """Show poses; may be called from any thread."""
        with self._lock:
            self.frame = frame
            self._shown_at = clock.perf_counter()
            with self._server.atomic():
                self.scene.move(frame)
            if self._shown_at - self._refreshed_at >= _REFRESH or not self._is_playing:
                self.refresh()

    def refresh(self) -> None:
        """Update texts and sliders."""
        with self._lock:
            self._refreshed_at = clock.perf_counter()
            self._panel.refresh()
            self._sliders.refresh(self.frame, self._is_playing)

    def change_model(self, model: Model, state: State, appearance: ShapeTable | None = None) -> None:
        """Show another model from now on, and keep the camera and the users' drawings.

        Args:
            model: The model.
            state: Its state.
            appearance: Shapes to show instead of those of the model, on its bodies; None for its own.

        Raises:
            ModelError: It is the state of another model.
        """
        model.check_state(state)
        with self._lock, self._server.atomic():
            self.model, self._own_contacts = model, None
            self.frame = Frame.of(state, self.frame.time)
            self.mouse.change_model(model)
            self.scene = Scene(self._server, model, self.frame, self.mouse, appearance, self.scene)
            self._panel.rebuild()
            self._sliders.change_model(model)
            if self.playback is not None and self.playback.times is None:
                self._sliders.show(int(self.scene.layout.worlds[0]))
            self.refresh()

    def change_appearance(self, appearance: ShapeTable) -> None:
        """Show other shapes instead of those of the model."""
        with self._lock:
            self.scene.change_appearance(appearance, self.frame)

    def color_colliders(self, color: npt.ArrayLike) -> None:
        """Colour the wireframes of colliders, RGB in 0..1 (3,), or one per shape of the model (shapes, 3)."""
        with self._lock:
            self.scene.collider_color = np.asarray(color, float)
            self.scene.show_shapes(self.scene.visuals, self.scene.colliders, self.frame)

    def show_shadows(self, visible: bool) -> None:
        """Switch the shadows on or off."""
        self._server.scene.configure_default_lights(cast_shadow=visible)

    def paint_background(self, color: npt.ArrayLike) -> None:
        """Colour the background, RGB in 0..1 (3,)."""
        pixel = np.round(255.0 * np.clip(np.asarray(color, float), 0.0, 1.0)).astype(np.uint8)
        self._server.scene.set_background_image(np.broadcast_to(pixel, (2, 2, 3)).copy(), format="png")

    def show_controls(self, visible: bool) -> None:
        """Show or hide the controls of the page, except those of users."""
        with self._lock:
            self._panel.show(visible)
            self._sliders.show_all(visible)

    def look_at_all(self) -> None:
        """Move the cameras so that everything shown is in view."""
        with self._lock:
            self.camera.frame(*self.scene.bounds(self.frame))

    def show_worlds(self, worlds: Iterable[int]) -> None:
        """Choose the worlds that are shown.

        Raises:
            NewtonsimError: There is no such world, or none is named.
        """
        with self._lock:
            self.scene.layout.show(worlds)
            self.scene.build(self.frame)
            self._panel.refresh_worlds()
            if self.playback is not None:
                self._sliders.show(int(self.scene.layout.worlds[0]))
            self.look_at_all()

    def spread_worlds(self, distance: float) -> None:
        """Choose the distance between neighbouring worlds [m]; 0 leaves each where it is."""
        with self._lock:
            self.scene.layout.spread(distance)
            self.scene.build(self.frame)

    def show_shapes(self, visuals: str = "solid", colliders: str = "hidden") -> None:
        """Choose how visual and colliding shapes are shown.

        Args:
            visuals: "solid", "see-through" or "hidden".
            colliders: "hidden", "wireframe" or "solid".

        Raises:
            NewtonsimError: There is no such style.
        """
        with self._lock:
            self.scene.show_shapes(visuals, colliders, self.frame)
            self._panel.refresh_shown()

    def show_mark(self, label: str, visible: bool = True) -> None:
        """Switch "Contacts", "Body frames", "Joint axes", "Centres of mass" or "Names" on or off.

        Raises:
            NewtonsimError: There is no such mark.
        """
        if label not in self.scene.marks:
            raise NewtonsimError(f"mark: expected one of {', '.join(self.scene.marks)}, got {label!r}")
        with self._lock:
            self.scene.show_mark(label, visible, self.frame)
            self._panel.refresh_shown()
        if isinstance(self.playback, ThreadedPlayback):
            self.playback.post(lambda state, control: None)

    def show_particles(self, visible: bool) -> None:
        """Show the particles of cloth and soft bodies too, or hide them."""
        with self._lock:
            self.scene.show_particles(visible, self.frame)

    def say(self, title: str, text: str) -> None:
        """Show a message in all browsers for some seconds."""
        for client in self._server.get_clients().values():
            client.add_notification(title, text, auto_close_seconds=6.0)

    def wait(self) -> None:
        """Wait until the viewer is closed or its simulation fails; Ctrl-C ends it.

        Raises:
            Exception: What stopped the simulation.
        """
        if isinstance(self.playback, ThreadedPlayback):
            self.playback.wait()
        else:
            threading.Event().wait()

    def close(self) -> None:
        """Stop, and free the port."""
        if self.playback is not None:
            self.playback.close()
        stop_server(self._server)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    @property
    def _is_playing(self) -> bool:
        return self.playback is not None and self.playback.playing

    def _first_state(self) -> State:
        model = self.model
        state = model.state(requires_grad=False)
        if model.joint_count:
            eval_fk(model, state.joint_q, state.joint_qd, None, state)
        return state

    def _check_model(self, model: Model) -> None:
        counts = ("body_count", "shape_count", "particle_count", "joint_count", "world_count")
        for name in counts:
            if getattr(model, name) != getattr(self.model, name):
                raise NewtonsimError(
                    f"{name}: the viewer's model has {getattr(self.model, name)}, got {getattr(model, name)}"
                )

    def _contacts(
        self, state: State, contacts: Contacts | None, forces: wp.array | None
    ) -> ContactPoints | None:
        """Copy contacts if they are shown, and find them if nobody has."""
        if not self.scene.marks["Contacts"].is_on or state.body_q is None:
            return None
        if contacts is None:
            if self._own_contacts is None:
                self._own_contacts = Contacts(self.model)
            contacts = collide(self.model, state, self._own_contacts)
        return read_contacts(self.model, contacts, state.body_q.numpy().astype(float), forces)

    def _on_pick(self) -> None:
        with self._lock:
            self._panel.refresh_picked()


def _forces(solver: object) -> wp.array | None:
    """Return the contact forces of a solver that has them."""
    try:
        return solver.contact_forces()
    except (AttributeError, RuntimeError):
        return None
