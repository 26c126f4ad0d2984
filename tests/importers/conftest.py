"""The same MJCF in MuJoCo and in newtonsim, side by side."""

import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
import warp as wp

import newtonsim
from newtonsim.geometry.transforms import quat_multiply, quat_rotate, transform_multiply
from newtonsim.importers import ImportReport, parse_mjcf
from newtonsim.scene.enums import GeoType

Y_TO_Z = np.array([-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
UPRIGHT = (GeoType.CAPSULE, GeoType.CYLINDER, GeoType.PLANE)


def to_xyzw(q: np.ndarray) -> np.ndarray:
    """Reorder a quaternion wxyz."""
    return np.asarray(q)[..., [1, 2, 3, 0]]


def assert_same_rotation(ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1.0e-5) -> None:
    """Compare quaternions xyzw up to sign."""
    assert abs(abs(float(np.dot(ours, theirs))) - 1.0) < tolerance


class Twin:
    """A file or text in MuJoCo and in our importer.

    Attributes:
        mj: MuJoCo's model.
        data: MuJoCo's state at qpos0, kinematics evaluated.
        builder: What we imported, Z up, floating as the file says.
        model: The same, finalized.
        report: Our report.
    """

    def __init__(self, source: str | Path, builder: newtonsim.ModelBuilder | None = None, **options):
        text = str(source)
        load = (
            mujoco.MjModel.from_xml_string if text.lstrip().startswith("<") else mujoco.MjModel.from_xml_path
        )
        self.mj = load(text)
        self.data = mujoco.MjData(self.mj)
        mujoco.mj_forward(self.mj, self.data)
        self.builder = builder or newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
        options = {"floating": None, "ignore_inertial_definitions": False, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", newtonsim.UnsupportedElementWarning)
            self.report: ImportReport = parse_mjcf(source, self.builder, **options)
        self.builder.keep_overlaps = True  # as MuJoCo does
        self.model = self.builder.finalize("cpu")

    def bodies(self) -> list[tuple[int, int]]:
        """Pairs (ours, theirs) of body indices; ours are in file order, with links of chains between them."""
        ours = [i for i, key in enumerate(self.builder.body_key) if "__" not in key]
        assert len(ours) == self.mj.nbody - 1
        return list(zip(ours, range(1, self.mj.nbody)))

    def check_masses(self, tolerance: float = 1.0e-5) -> None:
        """Mass, centre of mass and inertia of every body."""
        for ours, theirs in self.bodies():
            mass, com = self.mj.body_mass[theirs], self.mj.body_ipos[theirs]
            rotation = np.zeros(9)
            mujoco.mju_quat2Mat(rotation, self.mj.body_iquat[theirs])
            rotation = rotation.reshape(3, 3)
            inertia = rotation @ np.diag(self.mj.body_inertia[theirs]) @ rotation.T
            key = self.builder.body_key[ours]
            assert self.builder.body_mass[ours] == pytest.approx(mass, rel=tolerance), key
            size = max(1.0e-3, np.abs(com).max())
            np.testing.assert_allclose(self.builder.body_com[ours], com, atol=tolerance * size, err_msg=key)
            np.testing.assert_allclose(
                np.array(self.builder.body_inertia[ours]).reshape(3, 3),
                inertia,
                atol=tolerance * max(np.abs(inertia).max(), 1.0e-12),
                err_msg=key,
            )

    def check_start(self) -> None:
        """`body_q` of the builder at MuJoCo's qpos0."""
        self._compare(np.array([list(q) for q in self.builder.body_q]))

    def check_poses(self, seed: int = 0, tolerance: float = 2.0e-5) -> None:
        """Body poses at random coordinates; every joint of the file must have a name."""
        rng = np.random.default_rng(seed)
        q = self.model.joint_q.numpy()
        for joint in range(self.mj.njnt):
            self._randomize(joint, rng, q)
        mujoco.mj_kinematics(self.mj, self.data)
        state = self.model.state()
        state.joint_q.assign(q)
        newtonsim.eval_fk(self.model, state.joint_q, wp.zeros_like(state.joint_qd), None, state)
        self._compare(state.body_q.numpy(), tolerance)

    def _randomize(self, joint: int, rng: np.random.Generator, q: np.ndarray) -> None:
        name, kind = self.mj.joint(joint).name, self.mj.jnt_type[joint]
        at, start = self.mj.jnt_qposadr[joint], self.report.joint_coords[name]
        turn = rng.normal(size=4)
        turn /= np.linalg.norm(turn)
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            pos = rng.normal(size=3)
            self.data.qpos[at : at + 7] = [*pos, *turn]
            q[start : start + 7] = [*pos, *to_xyzw(turn)]
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            self.data.qpos[at : at + 4] = turn
            q[start : start + 4] = to_xyzw(turn)
        else:
            value = rng.uniform(-1.5, 1.5)
            self.data.qpos[at] = value
            q[start] = value - self.mj.qpos0[at]

    def _compare(self, body_q: np.ndarray, tolerance: float = 1.0e-5) -> None:
        for ours, theirs in self.bodies():
            key = self.builder.body_key[ours]
            np.testing.assert_allclose(body_q[ours, :3], self.data.xpos[theirs], atol=tolerance, err_msg=key)
            assert_same_rotation(body_q[ours, 3:], to_xyzw(self.data.xquat[theirs]), tolerance)

    def check_geoms(self, tolerance: float = 1.0e-5) -> None:
        """World pose and size of every geom that has a name, at qpos0."""
        for geom in range(self.mj.ngeom):
            name = self.mj.geom(geom).name
            if not name:
                continue
            shape = self.builder.shape_key.index(name)
            kind = self.builder.shape_geo_type[shape]
            pose = np.array(list(self.builder.shape_transform[shape]))
            if kind in UPRIGHT:
                pose[3:] = quat_multiply(pose[3:], Y_TO_Z)
            body = self.builder.shape_body[shape]
            if body >= 0:
                pose = transform_multiply(list(self.builder.body_q[body]), pose)
            rotation = np.zeros(4)
            mujoco.mju_mat2Quat(rotation, self.data.geom_xmat[geom])
            np.testing.assert_allclose(pose[:3], self.data.geom_xpos[geom], atol=tolerance, err_msg=name)
            if kind != GeoType.SPHERE:
                # the long axis decides; a turn about it is invisible for round shapes
                ends = [quat_rotate(q, (0.0, 0.0, 1.0)) for q in (pose[3:], to_xyzw(rotation))]
                np.testing.assert_allclose(ends[0], ends[1], atol=tolerance, err_msg=name)
            if kind in (GeoType.BOX, GeoType.ELLIPSOID):
                assert_same_rotation(pose[3:], to_xyzw(rotation))
            if kind not in (GeoType.PLANE, GeoType.MESH, GeoType.HFIELD):
                count = {GeoType.SPHERE: 1, GeoType.CAPSULE: 2, GeoType.CYLINDER: 2}.get(GeoType(kind), 3)
                size = list(self.builder.shape_geo_scale[shape])[:count]
                np.testing.assert_allclose(
                    size, self.mj.geom_size[geom][:count], rtol=tolerance, err_msg=name
                )

    def check(self, seeds: int = 3) -> "Twin":
        """Everything above."""
        self.check_masses()
        self.check_start()
        self.check_geoms()
        for seed in range(seeds):
            self.check_poses(seed)
        return self


@pytest.fixture(scope="session")
def twin() -> type[Twin]:
    """The class `Twin`."""
    return Twin


@pytest.fixture
def z_up() -> newtonsim.ModelBuilder:
    """An empty builder with z up."""
    return newtonsim.ModelBuilder(up_vector=(0.0, 0.0, 1.0))
