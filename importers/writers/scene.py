"""From a Model to the records that writers write."""

from collections.abc import Sequence

import numpy as np

from newtonsim.builder import ModelBuilder
from newtonsim.errors import ModelError
from newtonsim.importers.geometry.massprops import MassProps
from newtonsim.importers.geometry.pose import Pose
from newtonsim.importers.writers.actuators import read_actuators
from newtonsim.importers.writers.records import (
    AxisRecord,
    BodyRecord,
    ConstraintRecord,
    ContactPairRecord,
    JointRecord,
    Scene,
    ShapeRecord,
)
from newtonsim.importers.writers.tendons import read_tendons
from newtonsim.scene.enums import ConstraintType, GeoType, JointMode, JointType, ShapeFlags
from newtonsim.scene.model import MEDIUM, Model

_LOST = ("particle", "spring", "tri", "edge", "tet", "muscle")
_AXIS_FIELDS = (
    *("target_ke", "target_kd", "limit_lower", "limit_upper", "limit_ke", "limit_kd"),
    *("stiffness", "spring_ref", "effort_limit", "effort_lower", "velocity_limit", "limit_margin"),
)
_JOINT_NUMBERS = (
    *("enabled", "linear_compliance", "angular_compliance", "twist_lower", "twist_upper", "swing_limit"),
    *("distance_lower", "distance_upper"),
)
_CONTACT_NUMBERS = ("mu_torsion", "mu_rolling", "solmix", "priority", "condim")
_MATERIAL = ("ke", "kd", "kf", "ka", "mu", "restitution")


def read_scene(source: Model | ModelBuilder, world: int | None) -> Scene:
    """Collect one world of a model, with the global one, or all of it.

    Args:
        source: A model, or a builder to be finalized.
        world: Number of the world; None for all.

    Raises:
        ModelError: There is no such world, or `source` is neither a model nor a builder.
    """
    if not isinstance(source, Model | ModelBuilder):
        raise ModelError(f"expected a Model or a ModelBuilder, got {type(source).__name__}")
    model = source.finalize("cpu") if isinstance(source, ModelBuilder) else source
    if world is not None and not 0 <= world < model.world_count:
        raise ModelError(f"world {world}: the model has {model.world_count}, counted from 0")
    return _Reader(model, world).read()


def _gravity_of(model: Model, world: int | None) -> np.ndarray:
    """Gravity of the chosen world [m/s²], (3,)."""
    if not model.gravity_per_world:
        return model.gravity
    if world is None and model.world_count > 1:
        raise ModelError("gravity: it differs between worlds; choose one of them by `world`")
    return model.gravity[world or 0]


class _Reader:
    """Reads the arrays of a model once and picks what belongs to the chosen world."""

    def __init__(self, model: Model, world: int | None):
        self.model, self.world = model, world
        self.scene = Scene(gravity=_gravity_of(model, world), up=np.asarray(model.up_vector, np.float64))
        self.scene.timestep = model.solver_hint.get("timestep")
        self.scene.medium = {name: model.solver_hint[name] for name in MEDIUM if name in model.solver_hint}
        self.bodies = self._chosen(model.body_world)
        self.joints = self._chosen(model.joint_world)
        self.body_number = {-1: -1, **{index: number for number, index in enumerate(self.bodies)}}
        self.joint_number = {index: number for number, index in enumerate(self.joints)}

    def _array(self, name: str) -> np.ndarray:
        array = getattr(self.model, name)
        return np.zeros(0) if array is None else array.numpy()

    def _chosen(self, worlds) -> list[int]:
        numbers = np.zeros(0, np.int64) if worlds is None else worlds.numpy()
        if self.world is None:
            return list(range(len(numbers)))
        return np.flatnonzero((numbers == self.world) | (numbers < 0)).tolist()

    def read(self) -> Scene:
        scene, model = self.scene, self.model
        self._read_bodies()
        self._read_joints()
        self._read_constraints()
        self._read_shapes()
        starts = [int(start) for start in self._array("articulation_start")[:-1]]
        for start, key in zip(starts, model.articulation_key):
            if start in self.joint_number:
                scene.articulations.append((self.joint_number[start], key))
        scene.sites = [
            (site["name"], self.body_number[site["body"]], Pose.of(site["xform"]))
            for site in model.sites
            if site["body"] in self.body_number
        ]
        read_tendons(model, scene, self.body_number)
        read_actuators(model, scene, self.body_number, self.joint_number)
        self._read_keyframes()
        for kind in _LOST:
            if count := getattr(model, f"{kind}_count"):
                scene.lost[kind] = count
        return scene

    def _read_bodies(self) -> None:
        names = ("body_mass", "body_com", "body_inertia", "body_q", "body_qd")
        mass, com, inertia, pose, velocity = (self._array(name).astype(np.float64) for name in names)
        for index in self.bodies:
            full = inertia[index].reshape(3, 3)
            props = MassProps(float(mass[index]), com[index], 0.5 * (full + full.T))
            key = self.model.body_key[index]
            self.scene.bodies.append(BodyRecord(key, index, props, Pose.of(pose[index]), velocity[index]))

    def _read_joints(self) -> None:
        names = ("type", "parent", "child", "X_p", "X_c", "axis_start", "axis_dim", "q_start", "qd_start")
        table = {name: self._array(f"joint_{name}") for name in names}
        names = ("q", "qd", "armature", "damping", "friction", "friction_solref", "friction_solimp")
        names += _JOINT_NUMBERS
        table |= {name: self._array(f"joint_{name}").astype(np.float64) for name in names}
        names = ("axis", "axis_mode", "act", "limit_solref", "limit_solimp", *_AXIS_FIELDS)
        axes = {name: self._array(f"joint_{name}") for name in names}
        for index in self.joints:
            self._add_joint(index, table, axes)

    def _add_joint(self, index: int, table: dict, axes: dict) -> None:
        ends = [self.body_number.get(int(table[name][index])) for name in ("parent", "child")]
        coords = slice(*table["q_start"][index : index + 2])
        dofs = slice(*table["qd_start"][index : index + 2])
        linear, angular = (int(n) for n in table["axis_dim"][index])
        first = int(table["axis_start"][index])
        records = [
            self._axis(axes, first + i, i < linear, coords.start + i, dofs.start + i, table)
            for i in range(linear + angular)
        ]
        number = {name: float(table[name][index]) for name in _JOINT_NUMBERS}
        joint = JointRecord(
            key=self.model.joint_key[index],
            index=index,
            coord=sum(len(one.q) for one in self.scene.joints),
            dof=sum(len(one.qd) for one in self.scene.joints),
            kind=JointType(int(table["type"][index])),
            parent=ends[0],
            child=ends[1],
            X_p=Pose.of(table["X_p"][index]),
            X_c=Pose.of(table["X_c"][index]),
            axes=records,
            q=table["q"][coords],
            qd=table["qd"][dofs],
            armature=table["armature"][dofs],
            damping=table["damping"][dofs],
            friction=table["friction"][dofs],
            friction_solref=table["friction_solref"][dofs],
            friction_solimp=table["friction_solimp"][dofs],
            enabled=bool(number["enabled"]),
            compliance=(number["linear_compliance"], number["angular_compliance"]),
            twist=(number["twist_lower"], number["twist_upper"]),
            swing=number["swing_limit"],
            distance=(number["distance_lower"], number["distance_upper"]),
        )
        self.scene.bodies[joint.child].joint = len(self.scene.joints)
        self.scene.joints.append(joint)

    @staticmethod
    def _axis(axes: dict, index: int, linear: bool, coord: int, dof: int, table: dict) -> AxisRecord:
        direction = axes["axis"][index].astype(np.float64)
        return AxisRecord(
            axis=direction / np.linalg.norm(direction),
            linear=linear,
            index=index,
            q=float(table["q"][coord]),
            mode=JointMode(int(axes["axis_mode"][index])),
            act=float(axes["act"][index]),
            armature=float(table["armature"][dof]),
            damping=float(table["damping"][dof]),
            friction=float(table["friction"][dof]),
            limit_solref=axes["limit_solref"][index].astype(np.float64),
            limit_solimp=axes["limit_solimp"][index].astype(np.float64),
            friction_solref=table["friction_solref"][dof],
            friction_solimp=table["friction_solimp"][dof],
            **{name: float(axes[name][index]) for name in _AXIS_FIELDS},
        )

    def _read_constraints(self) -> None:
        model = self.model
        if not model.constraint_count:
            return
        names = ("type", "parent", "child", "X_p", "X_c", "axis_start", "axis_dim", "coupled_axes")
        names += ("coefficients", "distance_lower", "distance_upper", "enabled", "max_force", "recovery_time")
        names += ("linear_compliance", "angular_compliance", "solref", "solimp", "torque_scale")
        names += ("axis", "limit_lower", "limit_upper")
        table = {name: self._array(f"constraint_{name}") for name in names}
        place = {
            axis.index: (number, i)
            for number, joint in enumerate(self.scene.joints)
            for i, axis in enumerate(joint.axes)
        }
        first_mimic = model.constraint_count - len(model.joint_mimic)
        for index in range(model.constraint_count):
            coupled = tuple(place.get(int(axis)) for axis in table["coupled_axes"][index])
            ends = [int(table[name][index]) for name in ("parent", "child")]
            kind = ConstraintType(int(table["type"][index]))
            elsewhere = any(end not in self.body_number for end in ends)
            if elsewhere or (kind == ConstraintType.COUPLING and coupled[0] is None):
                continue
            self._add_constraint(index, kind, ends, coupled, table, index >= first_mimic)

    def _add_constraint(
        self, index: int, kind: ConstraintType, ends: list[int], coupled: tuple, table: dict, mimic: bool
    ) -> None:
        linear, angular = (int(n) for n in table["axis_dim"][index])
        first = int(table["axis_start"][index])
        axes = table["axis"][first : first + linear + angular].astype(np.float64).reshape(-1, 3)
        limits = [table[name][first : first + linear + angular] for name in ("limit_lower", "limit_upper")]
        pair = tuple(float(table[f"distance_{end}"][index]) for end in ("lower", "upper"))
        soft = tuple(float(table[f"{kind}_compliance"][index]) for kind in ("linear", "angular"))
        self.scene.constraints.append(
            ConstraintRecord(
                key=self.model.constraint_key[index],
                index=index,
                kind=kind,
                parent=self.body_number[ends[0]],
                child=self.body_number[ends[1]],
                X_p=Pose.of(table["X_p"][index]),
                X_c=Pose.of(table["X_c"][index]),
                linear=axes[:linear],
                angular=axes[linear:],
                limits=np.stack(limits, axis=1).astype(np.float64).reshape(-1, 2),
                coupled=coupled,
                coefficients=table["coefficients"][index].astype(np.float64),
                distance=pair,
                enabled=bool(table["enabled"][index]),
                max_force=float(table["max_force"][index]),
                recovery_time=float(table["recovery_time"][index]),
                compliance=soft,
                solref=table["solref"][index].astype(np.float64),
                solimp=table["solimp"][index].astype(np.float64),
                torque_scale=float(table["torque_scale"][index]),
                is_mimic=mimic,
            )
        )

    def _read_shapes(self) -> None:
        model, scene = self.model, self.scene
        if not model.shape_count:
            return
        rules = model.contact_rules
        kinds, scales = model.shape_geo.type.numpy(), model.shape_geo.scale.numpy().astype(np.float64)
        columns = {name: getattr(model.shape_materials, name).numpy() for name in _MATERIAL}
        columns["thickness"] = model.shape_geo.thickness.numpy()
        columns |= {name: self._array(f"shape_{name}") for name in _CONTACT_NUMBERS}
        names = ("body", "flags", "world", "convex", "transform", "spin_friction", "solref", "solimp")
        table = {name: self._array(f"shape_{name}") for name in names}
        row = np.full(model.shape_count, -1)
        for index in self._chosen(model.shape_world):
            body = int(table["body"][index])
            kind = GeoType(int(kinds[index]))
            if kind == GeoType.NONE or body not in self.body_number:
                continue
            row[index] = len(scene.shapes)
            color, source = model.shape_color[index], model.shape_geo_src[index]
            own = getattr(source, "texture", None) is not None
            scene.shapes.append(
                ShapeRecord(
                    key=model.shape_key[index],
                    index=index,
                    row=len(scene.shapes),
                    body=self.body_number[body],
                    kind=kind,
                    pose=Pose.of(table["transform"][index]),
                    scale=scales[index],
                    source=source,
                    visible=bool(int(table["flags"][index]) & ShapeFlags.VISIBLE),
                    collides=bool(rules.collides[index]) and index != model.ground_shape,
                    meets_ground=bool(rules.meets_ground[index]),
                    is_ground=index == model.ground_shape,
                    group=int(rules.group[index]),
                    world=int(table["world"][index]),
                    convex=int(table["convex"][index]),
                    color=None if color is None else tuple(float(x) for x in color),
                    is_textured=own or model.shape_texture[index] is not None,
                    material={name: float(values[index]) for name, values in columns.items()},
                    spin_friction=table["spin_friction"][index].astype(np.float64),
                    solref=table["solref"][index].astype(np.float64),
                    solimp=table["solimp"][index].astype(np.float64),
                )
            )
        self._read_contact_pairs(row)
        scene.rigid = np.asarray(rules.rigid)[[shape.index for shape in scene.shapes]]
        pairs = np.stack(np.divmod(rules.filter_keys, model.shape_count), axis=1)
        pairs = row[pairs]
        scene.filtered = pairs[(pairs >= 0).all(axis=1)]

    def _read_contact_pairs(self, row: np.ndarray) -> None:
        """Read the pairs of shapes of which both have a row."""
        pairs = self._array("contact_pair_shapes").reshape(-1, 2).astype(np.int64)
        names = ("friction", "solref", "solimp")
        tables = [self._array(f"contact_pair_{name}").astype(np.float64) for name in names]
        for number in np.flatnonzero((row[pairs] >= 0).all(axis=1)).tolist():
            first, second = (int(place) for place in row[pairs[number]])
            self.scene.contact_pairs.append(
                ContactPairRecord((first, second), *(table[number] for table in tables))
            )

    def _read_keyframes(self) -> None:
        coords, dofs = self._places("joint_q_start"), self._places("joint_qd_start")
        axes = [axis.index for joint in self.scene.joints for axis in joint.axes]
        lists = {"joint_q": ("coord_start", coords), "joint_qd": ("dof_start", dofs)}
        lists["joint_act"] = ("axis_start", axes)
        for frame in self.model.keyframes:
            keyframe = {"name": frame["name"]}
            for name, (start, places) in lists.items():
                values = frame.get(name)
                if values is not None:
                    keyframe[name] = self._part(values, int(frame.get(start, 0)), places, name)
            self.scene.keyframes.append(keyframe)

    def _places(self, name: str) -> list[int]:
        bounds = self._array(name)
        return [place for joint in self.joints for place in range(*bounds[joint : joint + 2])]

    def _part(self, values: Sequence[float], start: int, places: list[int], name: str) -> np.ndarray:
        """A keyframe's values where it gives them, the model's initial ones elsewhere."""
        initial = self._array(name).astype(np.float64).copy()
        end = min(start + len(values), len(initial))
        initial[start:end] = np.asarray(values, np.float64)[: end - start]
        return initial[places]
