"""Cameras of the engines: colour and depth of our quadruped on a ground, one camera in each world.

Each function returns what takes all pictures, and what tells the share of pixels that show the robot, by its
depth, so that it is seen that all take the same picture.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np

from newtonsim.examples import asset_path

ROBOT = os.fspath(asset_path("quadruped.xml"))
EYE, TARGET, FOV = np.array((0.9, -0.9, 0.7)), np.array((0.0, 0.0, 0.2)), 50.0

# read when mujoco is first imported
os.environ.setdefault("MUJOCO_GL", "egl")

Engine = tuple[Callable[[], object], Callable[[], float]]


def robot_share(depth: np.ndarray) -> float:
    """Share of the pixels of a picture (rows, columns) that are nearer than the ground."""
    rows = len(depth)
    back = (EYE - TARGET) / np.linalg.norm(EYE - TARGET)
    right = np.cross((0.0, 0.0, 1.0), back)
    up = np.cross(back, right / np.linalg.norm(right))
    y = (0.5 - (np.arange(rows) + 0.5) / rows) * 2.0 * math.tan(0.5 * math.radians(FOV))
    ground = EYE[2] / np.maximum(back[2] - y * up[2], 1.0e-9)
    return float(np.mean((depth > 0.0) & (depth < np.minimum(0.98 * ground, 3.0)[:, None])))


def camera_turn() -> np.ndarray:
    """Axes of the camera in the columns (3, 3): right, up, back."""
    back = (EYE - TARGET) / np.linalg.norm(EYE - TARGET)
    right = np.cross((0.0, 0.0, 1.0), back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)


def newtonsim_cameras(worlds: int, size: int, device: str) -> Engine:
    """newtonsim.render.Camera."""
    import newtonsim
    from newtonsim.importers import parse_mjcf
    from newtonsim.render import Camera, Pinhole, look_at

    robot = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    parse_mjcf(ROBOT, robot)
    builder = newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
    builder.set_ground_plane()
    builder.replicate(robot, worlds, spacing=(0.0, 0.0, 0.0))
    model = builder.finalize(device=device)
    state = model.state()
    newtonsim.eval_fk(model, model.joint_q, model.joint_qd, None, state)
    camera = Camera(model, size, size, pose=look_at(EYE, TARGET), lens=Pinhole(FOV), outputs=("rgb", "depth"))

    def render() -> None:
        camera.render(state)
        if not model.device.is_cpu:
            import warp as wp

            wp.synchronize_device(model.device)

    return render, lambda: robot_share(camera.images["depth"].numpy()[0, 0])


def newton_cameras(worlds: int, size: int, device: str) -> Engine:
    """newton.sensors.SensorTiledCamera."""
    import newton
    import warp as wp
    from newton.sensors import SensorTiledCamera
    from scipy.spatial.transform import Rotation

    robot = newton.ModelBuilder()
    robot.add_mjcf(ROBOT, parse_mujoco_options=False, force_show_colliders=True)
    scene = newton.ModelBuilder()
    scene.replicate(robot, worlds)
    scene.add_ground_plane()
    model = scene.finalize(device)
    state = model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    sensor = SensorTiledCamera(model)
    sensor.default_render_config.enable_shadows = True
    sensor.utils.create_default_light(enable_shadows=True)
    rays = sensor.utils.compute_camera_rays_pinhole(size, size, camera_fovs=math.radians(FOV))
    color = sensor.utils.create_color_image_output(size, size)
    depth = sensor.utils.create_forward_depth_image_output(size, size)
    pose = [*EYE, *Rotation.from_matrix(camera_turn()).as_quat()]
    places = wp.array(np.tile(np.array(pose, np.float32), (1, worlds, 1)), dtype=wp.transformf, device=device)

    def render() -> None:
        model.bvh_refit_shapes(state)
        sensor.update(state, places, rays, color_image=color, forward_depth_image=depth)
        wp.synchronize_device(device)

    return render, lambda: robot_share(depth.numpy()[0, 0])


def mujoco_model():
    """The robot on a ground, lit from above, with a camera."""
    import mujoco
    from scipy.spatial.transform import Rotation

    spec = mujoco.MjSpec.from_file(ROBOT)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], rgba=[0.6, 0.6, 0.6, 1.0])
    spec.worldbody.add_light(
        pos=[0.0, 0.0, 3.0],
        dir=[-0.3, 0.2, -1.0],
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        castshadow=True,
    )
    x, y, z, w = Rotation.from_matrix(camera_turn()).as_quat()
    spec.worldbody.add_camera(name="eye", pos=EYE, quat=[w, x, y, z], fovy=FOV)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def mujoco_warp_cameras(worlds: int, size: int, device: str) -> Engine:
    """mujoco_warp.render."""
    import mujoco_warp
    import warp as wp

    host, host_data = mujoco_model()
    with wp.ScopedDevice(device):
        model, data = mujoco_warp.put_model(host), mujoco_warp.put_data(host, host_data, nworld=worlds)
        context = mujoco_warp.create_render_context(
            host, worlds, (size, size), render_rgb=True, render_depth=True, use_shadows=True
        )
        depth = wp.zeros((worlds, size, size), dtype=float)

    def render() -> None:
        with wp.ScopedDevice(device):
            mujoco_warp.refit_bvh(model, data, context)
            mujoco_warp.render(model, data, context)
            wp.synchronize_device(device)

    def share() -> float:
        with wp.ScopedDevice(device):
            mujoco_warp.get_depth(context, 0, 100.0, depth)
        return robot_share(100.0 * depth.numpy()[0])

    return render, share


def mujoco_cameras(worlds: int, size: int, device: str) -> Engine:
    """mujoco.Renderer, one world after the other."""
    import mujoco

    model, data = mujoco_model()
    colors, depths = mujoco.Renderer(model, size, size), mujoco.Renderer(model, size, size)
    depths.enable_depth_rendering()
    out = {}

    def render() -> None:
        for _ in range(worlds):
            colors.update_scene(data, camera="eye")
            colors.render()
            depths.update_scene(data, camera="eye")
            out["depth"] = depths.render()

    return render, lambda: robot_share(out["depth"])


ENGINES: dict[str, tuple[str, Callable[[int, int, str], Engine]]] = {
    "newtonsim": ("newtonsim", newtonsim_cameras),
    "Newton": ("newton", newton_cameras),
    "mujoco_warp": ("mujoco_warp", mujoco_warp_cameras),
    "MuJoCo": ("mujoco", mujoco_cameras),
}
"""Module and function of each engine."""
