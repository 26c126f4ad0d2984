"""Debug items: lines, points, texts, sliders, and the camera of the window.

Clients that were connected as GUI keep them, with or without a window, so that scripts run the same and a
viewer can draw them. Without GUI they do what PyBullet does in DIRECT mode: items have the id -1, parameters
cannot be read, and the camera is all zeros.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from newtonsim.pybullet_compat.surface.errors import error
from newtonsim.pybullet_compat.world.client import Client

NO_ITEM = -1
NEAR_PLANE, FAR_PLANE = 0.01, 1000.0
"""Of the window's projection [m]."""
RAY_LENGTH = 10000.0
"""Distance at which `horizontal` and `vertical` of getDebugVisualizerCamera span the picture [m]."""
WINDOW = (1024, 768)
MOST_POINTS = 131072
"""Points that PyBullet can take in one item."""


@dataclass(slots=True, eq=False)
class DebugItem:
    """Something drawn in the window.

    Attributes:
        kind: "line", "points" or "text".
        points: Positions in the world, or in the frame of `parent` (n, 3); of lines both ends.
        colors: RGB in 0..1 (n, 3) for points, (1, 3) for others.
        size: Width of lines and points in pixels, size of texts.
        text: What a text says.
        orientation: Of texts in the world or in the parent, quaternion xyzw; None faces the camera.
        parent: (body unique id, link index) that it moves with, None for the world.
        expires: Time of `time.monotonic` at which it disappears.
    """

    kind: str
    points: np.ndarray
    colors: np.ndarray
    size: float = 1.0
    text: str = ""
    orientation: tuple[float, float, float, float] | None = None
    parent: tuple[int, int] | None = None
    expires: float = math.inf


@dataclass(slots=True, eq=False)
class DebugParameter:
    """A slider, or a button where the range is empty.

    Attributes:
        name: What stands next to it.
        low: Least value.
        high: Largest value; below `low` for buttons.
        value: Present value; of buttons it grows by one at each press.
    """

    name: str
    low: float
    high: float
    value: float

    @property
    def is_button(self) -> bool:
        """Whether it is a button."""
        return self.low > self.high


@dataclass(slots=True, eq=False)
class DebugCamera:
    """Camera of the window, looking from `distance` at `target`; angles in degrees."""

    distance: float = 5.0
    yaw: float = 50.0
    pitch: float = -35.0
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(slots=True, eq=False)
class VisualizerSettings:
    """What configureDebugVisualizer has set.

    Attributes:
        flags: Whether each COV_* flag is on.
        values: Light position, shadow map and background by the name of their parameter.
    """

    flags: dict[int, bool] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)


class DebugItems:
    """Debug items of one client.

    Attributes:
        items: Lines, points and texts by unique id.
        parameters: Sliders and buttons by unique id.
        colors: Wireframe colours by (body unique id, link index).
        camera: Camera of the window.
        settings: Settings of the window.
        window: Width and height in pixels.
    """

    def __init__(self, client: Client):
        self.items: dict[int, DebugItem] = {}
        self.parameters: dict[int, DebugParameter] = {}
        self.colors: dict[tuple[int, int], tuple[float, float, float]] = {}
        self.camera = DebugCamera()
        self.settings = VisualizerSettings()
        self.window = WINDOW
        self._next = 0

    def add(self, item: DebugItem, replaced: int) -> int:
        """Keep an item, in the place of another unless that is negative; -1 if there is no such other."""
        self.drop_expired()
        if replaced < 0:
            self.items[self._next] = item
            self._next += 1
            return self._next - 1
        if replaced not in self.items:
            return NO_ITEM
        self.items[replaced] = item
        return replaced

    def add_parameter(self, parameter: DebugParameter) -> int:
        """Keep a slider or button."""
        self.parameters[self._next] = parameter
        self._next += 1
        return self._next - 1

    def drop_expired(self) -> None:
        """Remove items whose time is over."""
        now = time.monotonic()
        for uid in [uid for uid, item in self.items.items() if item.expires <= now]:
            del self.items[uid]

    def clear(self) -> None:
        """Remove all items; sliders and buttons stay, and ids go on behind theirs."""
        self.items.clear()
        self._next = max(self.parameters, default=-1) + 1

    def body_removed(self, uid: int) -> None:
        """Remove what moved with a body."""
        for key in [key for key, item in self.items.items() if item.parent and item.parent[0] == uid]:
            del self.items[key]
        for key in [key for key in self.colors if key[0] == uid]:
            del self.colors[key]

    def reset(self) -> None:
        """Remove what belongs to the world; sliders, camera and settings are those of the window."""
        self.clear()
        self.colors.clear()


def addUserDebugLine(
    client: Client,
    lineFromXYZ,
    lineToXYZ,
    lineColorRGB=(1.0, 1.0, 1.0),
    lineWidth: float = 1.0,
    lifeTime: float = 0.0,
    parentObjectUniqueId: int = -1,
    parentLinkIndex: int = -1,
    replaceItemUniqueId: int = -1,
) -> int:
    """Draw a line.

    Args:
        client: The client.
        lineFromXYZ: Start in the world, or in the frame of the parent [m].
        lineToXYZ: End, likewise.
        lineColorRGB: Colour in 0..1.
        lineWidth: Width in pixels.
        lifeTime: Seconds after which it disappears, 0 for never.
        parentObjectUniqueId: Body that it moves with, -1 for none.
        parentLinkIndex: Link of that body.
        replaceItemUniqueId: Item to put it in the place of, -1 for none.

    Returns:
        Its unique id, -1 without GUI and for an unknown replaceItemUniqueId.
    """
    start = _vector(lineFromXYZ, 3, "Error converting lineFrom[3]")
    end = _vector(lineToXYZ, 3, "Error converting lineTo[3]")
    color = lineColorRGB if _is_vector(lineColorRGB, 3) else (1.0, 1.0, 1.0)
    if not client.gui:
        return NO_ITEM
    item = DebugItem("line", np.array([start, end]), np.array([color], dtype=np.float64), float(lineWidth))
    _attach(item, lifeTime, parentObjectUniqueId, parentLinkIndex)
    return client.part(DebugItems).add(item, replaceItemUniqueId)


def addUserDebugPoints(
    client: Client,
    pointPositions,
    pointColorsRGB,
    pointSize: float = 1.0,
    lifeTime: float = 0.0,
    parentObjectUniqueId: int = -1,
    parentLinkIndex: int = -1,
    replaceItemUniqueId: int = -1,
) -> int:
    """Draw points; see addUserDebugLine.

    Args:
        client: The client.
        pointPositions: Positions (n, 3) [m].
        pointColorsRGB: Colours (n, 3) in 0..1.
        pointSize: Size in pixels.
        lifeTime: Seconds, 0 for ever.
        parentObjectUniqueId: Body that they move with, -1 for none.
        parentLinkIndex: Link of that body.
        replaceItemUniqueId: Item to replace, -1 for none.
    """
    positions, colors = _rows(pointPositions, "positions"), _rows(pointColorsRGB, "colors")
    if len(positions) != len(colors):
        raise error("numColors must match numPositions.")
    if not 0 < len(positions) <= MOST_POINTS:
        raise error(f"addUserDebugPoints takes 1 to {MOST_POINTS} points, not {len(positions)}.")
    if not client.gui:
        return NO_ITEM
    item = DebugItem("points", positions, colors, float(pointSize))
    _attach(item, lifeTime, parentObjectUniqueId, parentLinkIndex)
    return client.part(DebugItems).add(item, replaceItemUniqueId)


def addUserDebugText(
    client: Client,
    text: str,
    textPosition,
    textColorRGB=(1.0, 1.0, 1.0),
    textSize: float = 1.0,
    lifeTime: float = 0.0,
    textOrientation=None,
    parentObjectUniqueId: int = -1,
    parentLinkIndex: int = -1,
    replaceItemUniqueId: int = -1,
) -> int:
    """Draw a text; see addUserDebugLine.

    Args:
        client: The client.
        text: What it says.
        textPosition: Position [m].
        textColorRGB: Colour in 0..1.
        textSize: Size.
        lifeTime: Seconds, 0 for ever.
        textOrientation: Quaternion xyzw, None to face the camera.
        parentObjectUniqueId: Body that it moves with, -1 for none.
        parentLinkIndex: Link of that body.
        replaceItemUniqueId: Item to replace, -1 for none.
    """
    position = _vector(textPosition, 3, "Error converting textPositionObj[3]")
    color = _vector(textColorRGB, 3, "Error converting textColorRGBObj[3]")
    orientation = None
    if textOrientation is not None:
        orientation = _vector(textOrientation, 4, "Error converting textOrientation[4]")
    if not client.gui:
        return NO_ITEM
    item = DebugItem("text", np.array([position]), np.array([color]), float(textSize), text, orientation)
    _attach(item, lifeTime, parentObjectUniqueId, parentLinkIndex)
    return client.part(DebugItems).add(item, replaceItemUniqueId)


def addUserDebugParameter(
    client: Client,
    paramName: str,
    rangeMin: float = 0.0,
    rangeMax: float = 1.0,
    startValue: float = 0.0,
) -> int:
    """Add a slider, or with rangeMin above rangeMax a button; -1 without GUI."""
    if not client.gui:
        return NO_ITEM
    low, high, value = (float(np.float32(x)) for x in (rangeMin, rangeMax, startValue))
    if low <= high:
        value = min(max(value, low), high)
    return client.part(DebugItems).add_parameter(DebugParameter(paramName, low, high, value))


def readUserDebugParameter(client: Client, itemUniqueId: int) -> float:
    """Return the value of a slider, or how often a button was pressed plus its start value."""
    parameter = client.part(DebugItems).parameters.get(itemUniqueId)
    if parameter is None:
        raise error("Failed to read parameter.")
    return parameter.value


def removeUserDebugItem(client: Client, itemUniqueId: int) -> None:
    """Remove a line, points or a text; others do nothing."""
    client.part(DebugItems).items.pop(itemUniqueId, None)


def removeAllUserDebugItems(client: Client) -> None:
    """Remove all lines, points and texts."""
    client.part(DebugItems).clear()


def removeAllUserParameters(client: Client) -> None:
    """Remove all sliders and buttons."""
    client.part(DebugItems).parameters.clear()


def setDebugObjectColor(
    client: Client, objectUniqueId: int, linkIndex: int, objectDebugColorRGB=None
) -> None:
    """Set the wireframe colour of a link, or put the default back."""
    colors = client.part(DebugItems).colors
    if _is_vector(objectDebugColorRGB, 3):
        colors[objectUniqueId, linkIndex] = tuple(float(x) for x in objectDebugColorRGB)
    else:
        colors.pop((objectUniqueId, linkIndex), None)


def configureDebugVisualizer(
    client: Client,
    flag: int = -1,
    enable: int = -1,
    lightPosition=None,
    shadowMapResolution: int | None = None,
    shadowMapWorldSize: int | None = None,
    remoteSyncTransformInterval: float | None = None,
    shadowMapIntensity: float | None = None,
    rgbBackground=None,
) -> None:
    """Switch something in the window on or off, or set light, shadow and background.

    Args:
        client: The client.
        flag: COV_ENABLE_..., -1 for none.
        enable: Whether it is on.
        lightPosition: (3,) [m].
        shadowMapResolution: In pixels.
        shadowMapWorldSize: [m].
        remoteSyncTransformInterval: [s].
        shadowMapIntensity: In 0..1.
        rgbBackground: Colour in 0..1.
    """
    settings = client.part(DebugItems).settings
    if flag >= 0:
        settings.flags[flag] = enable > 0
    vectors = {"lightPosition": lightPosition, "rgbBackground": rgbBackground}
    given = {name: tuple(map(float, value)) for name, value in vectors.items() if _is_vector(value, 3)}
    numbers = {
        "shadowMapResolution": shadowMapResolution,
        "shadowMapWorldSize": shadowMapWorldSize,
        "remoteSyncTransformInterval": remoteSyncTransformInterval,
        "shadowMapIntensity": shadowMapIntensity,
    }
    given.update({name: value for name, value in numbers.items() if value is not None and value >= 0})
    settings.values.update(given)


def resetDebugVisualizerCamera(
    client: Client, cameraDistance: float, cameraYaw: float, cameraPitch: float, cameraTargetPosition
) -> None:
    """Move the camera of the window.

    Args:
        client: The client.
        cameraDistance: From the target [m]; negative ones are ignored.
        cameraYaw: Angle about the vertical [degrees].
        cameraPitch: Angle above the horizon [degrees].
        cameraTargetPosition: What it looks at [m]; other than three numbers are ignored.
    """
    if cameraDistance < 0.0 or not _is_vector(cameraTargetPosition, 3):
        return
    x, y, z = (float(v) for v in cameraTargetPosition)
    angles = float(cameraYaw), float(cameraPitch)
    client.part(DebugItems).camera = DebugCamera(float(cameraDistance), *angles, (x, y, z))


def getDebugVisualizerCamera(client: Client) -> tuple:
    """Return the camera of the window, all zeros without GUI.

    Returns:
        Width, height, view matrix (16), projection matrix (16), up, forward, horizontal, vertical (3 each),
        yaw, pitch [degrees], distance, target [m].
    """
    zeros = (0.0, 0.0, 0.0)
    if not client.gui:
        return 0, 0, (0.0,) * 16, (0.0,) * 16, zeros, zeros, zeros, zeros, 0.0, 0.0, 0.0, zeros
    part = client.part(DebugItems)
    camera, (width, height) = part.camera, part.window
    view, right, up, forward = _view(camera)
    aspect = width / height
    # a field of view of 90 degrees over the height
    depth = FAR_PLANE - NEAR_PLANE
    projection = [0.0] * 16
    projection[0], projection[5], projection[11] = 1.0 / aspect, 1.0, -1.0
    projection[10] = -(FAR_PLANE + NEAR_PLANE) / depth
    projection[14] = -2.0 * FAR_PLANE * NEAR_PLANE / depth
    horizontal, vertical = 2.0 * RAY_LENGTH * aspect * right, 2.0 * RAY_LENGTH * up
    return (
        width,
        height,
        _singles(view),
        _singles(projection),
        (0.0, 0.0, 1.0),
        _singles(forward),
        _singles(horizontal),
        _singles(vertical),
        *_singles((camera.yaw, camera.pitch, camera.distance)),
        _singles(camera.target),
    )


def _view(camera: DebugCamera) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the view matrix, column by column (16,), and the axes right, up and forward (3,)."""
    right, up, forward = camera_axes(camera)
    eye = np.array(camera.target) - camera.distance * forward
    matrix = np.eye(4)
    matrix[:3, :3] = right, up, -forward
    matrix[:3, 3] = -matrix[:3, :3] @ eye
    return matrix.T.ravel(), right, up, forward


def camera_axes(camera: DebugCamera) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the axes right, up and forward (3,) of a camera in the world.

    Straight up and straight down, where up and forward are parallel, the right axis follows from the yaw.
    """
    yaw, pitch = math.radians(camera.yaw), math.radians(camera.pitch)
    cos_yaw, sin_yaw, cos_pitch = math.cos(yaw), math.sin(yaw), math.cos(pitch)
    forward = np.array([-sin_yaw * cos_pitch, cos_yaw * cos_pitch, math.sin(pitch)])
    right = math.copysign(1.0, cos_pitch) * np.array([cos_yaw, sin_yaw, 0.0])
    up = np.cross(right, forward)
    return right, up, forward


def _singles(values) -> tuple[float, ...]:
    """Round to single precision, as the window does."""
    return tuple(np.asarray(values, dtype=np.float32).tolist())


def _attach(item: DebugItem, life_time: float, parent: int, link: int) -> None:
    """Set how long an item lives and what it moves with."""
    if life_time > 0.0:
        item.expires = time.monotonic() + life_time
    if parent >= 0:
        item.parent = parent, link


def _is_vector(value: object, size: int) -> bool:
    """Whether something is a sequence of so many numbers."""
    try:
        return len([float(x) for x in value]) == size
    except (TypeError, ValueError):
        return False


def _vector(value: object, size: int, message: str) -> tuple[float, ...]:
    """Return so many floats, or raise an error with a text."""
    if not _is_vector(value, size):
        raise error(message)
    return tuple(float(x) for x in value)


def _rows(value: object, what: str) -> np.ndarray:
    """Return points or colours (n, 3)."""
    if not hasattr(value, "__len__"):
        raise TypeError(f"expected a sequence of vertex {what}")
    try:
        rows = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.zeros(0)
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 3):
        rows = np.zeros(0)
    return rows.reshape(-1, 3)
