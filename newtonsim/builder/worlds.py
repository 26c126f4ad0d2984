"""Copies of one builder inside another: environments.

All copies are made at once, list by list: values that are equal in all copies are kept once, those that
differ become an array over all copies. Nothing loops over bodies, joints or shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from newtonsim.builder.complete import CompletionMethods
from newtonsim.builder.validate import check_structure
from newtonsim.errors import ModelError
from newtonsim.geometry.transforms import (
    IDENTITY,
    as_transform,
    as_vector,
    quat_rotate,
    transform_inverse,
    transform_multiply,
    transform_point,
)
from newtonsim.scene.arrays import ArraySpec
from newtonsim.scene.columns import Column, Tiles, check_count, to_array
from newtonsim.scene.enums import ON_AXIS, PULLEY, JointType
from newtonsim.scene.joint_types import is_floating

_IMMUTABLE_TYPES = (wp.float32, None)


def grid_offsets(count: int, spacing: npt.ArrayLike) -> np.ndarray:
    """Return the offsets (count, 3) of a grid centred at the origin, as square as possible.

    Args:
        count: Number of places.
        spacing: Distance along each axis [m] (3,); the grid extends along axes with a distance other than 0.
    """
    spacing = as_vector(spacing, 3, "spacing")
    axes = np.flatnonzero(spacing)
    offsets = np.zeros((count, 3))
    if len(axes) == 0 or count == 0:
        return offsets
    sides = np.ones(len(axes), np.int64)
    while sides.prod() < count:
        sides[np.argmin(sides)] += 1
    places = np.stack(np.unravel_index(np.arange(count), tuple(sides[::-1]))[::-1], axis=1)
    middle = 0.5 * (places.min(axis=0) + places.max(axis=0))
    offsets[:, axes] = (places - middle) * spacing[axes]
    return offsets


class WorldMethods(CompletionMethods):
    """The part of ModelBuilder that copies other builders."""

    def add_builder(
        self,
        builder,
        xform: Sequence | wp.transform | None = None,
        update_num_env_count: bool = True,
        separate_collision_group: bool = True,
    ) -> None:
        """Add the contents of another builder, which is not changed.

        Bodies with mass that no joint of `builder` connects receive a free joint here.

        Args:
            builder: The builder to add.
            xform: Transform applied to the roots of the kinematic trees, to all body poses, to static shapes
                and to particles.
            update_num_env_count: Whether this is one more world; if not, it joins the global world, which
                collides with all.
            separate_collision_group: Whether all shapes go into one new collision group; if not, only those
                whose group is above -1 go into new groups.
        """
        xforms = as_transform(xform, "add_builder: xform")[None]
        self._add_copies(builder, xforms, update_num_env_count, separate_collision_group)

    def replicate(
        self,
        builder,
        count: int,
        spacing: npt.ArrayLike | None = None,
        xform: Sequence | wp.transform | None = None,
        separate_collision_group: bool = True,
    ) -> None:
        """Add many copies of another builder on a centred grid, each in its own world.

        Args:
            builder: The builder to copy.
            count: Number of copies.
            spacing: Distance between copies along x, y, z [m]; 0 keeps the grid flat in that direction.
                None for 5 m in the directions of the ground.
            xform: Pose of every copy relative to its place on the grid.
            separate_collision_group: As in `add_builder`.
        """
        if count < 0:
            raise ModelError(f"replicate: count {count} is negative")
        check_count("replicate", count * max(1, *(len(column) for _, column in builder._lists())))
        if spacing is None:
            spacing = np.where(np.abs(self.up_vector) > 0.5, 0.0, 5.0)
        xforms = np.tile(as_transform(xform, "replicate: xform"), (count, 1))
        xforms[:, :3] += grid_offsets(count, spacing)
        if count:
            self._add_copies(builder, xforms, True, separate_collision_group)

    def reserve(self, template, count: int = 1, key: str = "spare") -> list[str]:
        """Reserve room for trees that enter the model later: copies of a template, absent at first.

        They belong to the world that this builder describes, and `newtonsim.Spares` fills them. Their shapes
        may become any sphere, box, capsule, cylinder, cone or ellipsoid, or a mesh of the model.

        Args:
            template: A builder with one tree: its joints, and the largest number of shapes that each link may
                have.
            count: Number of copies.
            key: Prefix of their labels.

        Returns:
            Label of each: that of its root, and the prefix of the labels of its other links and joints.

        Raises:
            ModelError: The template is not a single tree of bodies with only shapes and joints, or labels of
                other bodies have the same prefix.
        """
        tree = template._completed()
        kinds = ("particle", "constraint", "muscle", "tendon", "actuator")
        extra = [f"{kind}s" for kind in kinds if tree._count(kind)]
        extra += ["shapes that belong to no body"] * (-1 in list(tree.shape_body))
        roots = np.unique(tree._roots())
        if extra or len(roots) != 1:
            held = extra[0] if extra else f"{len(roots)} trees"
            raise ModelError(f"reserve: expected a template with one tree of bodies, got one with {held}")
        if count < 1:
            raise ModelError(f"reserve: expected a count of at least 1, got {count}")
        labels = [f"{key}_{number:0{len(str(count - 1))}d}" for number in range(count)]
        for other, present in zip(self.body_key, self.body_present):
            for label in labels:
                if other.startswith(label) or (label.startswith(other) and not present):
                    raise ModelError(
                        f"reserve: place '{label}' could not be distinguished from body '{other}'; choose "
                        "another key"
                    )
        for label in labels:
            body, joint, shape = self.body_count, self.joint_count, self.shape_count
            self.add_builder(tree, update_num_env_count=False, separate_collision_group=False)
            self.body_present[body:] = [0] * (self.body_count - body)
            self.shape_spare[shape:] = [True] * (self.shape_count - shape)
            self.body_key[body:] = [f"{label} {name}" for name in tree.body_key]
            self.body_key[body + int(roots[0])] = label
            self.joint_key[joint:] = [f"{label} {name}" for name in tree.joint_key]
        return labels

    def _add_copies(self, builder, xforms: np.ndarray, new_worlds: bool, separate_group: bool) -> None:
        """Append one copy per transform (n, 7)."""
        if builder is self:
            builder = self._shallow_copy()
        check_structure(builder)  # a wrong index would point into the neighbouring copy
        source = builder._completed()
        copies = len(xforms)
        counts = {per: (source._count(per), self._count(per)) for per in _KINDS}
        start_axis = {per: self._count(per) for per in ("axis", "coord", "dof", "body")}
        moved = _Mover(source, xforms) if np.any(xforms != IDENTITY) else None
        known = self._world_blocks(source, copies, new_worlds)
        known["shape_collision_group"] = self._group_block(source, copies, separate_group)
        self._copy_filter_pairs(source, copies)
        for spec, values in source._lists():
            if len(values):
                block = (
                    known[spec.name] if spec.name in known else _block(spec, values, counts, copies, moved)
                )
                getattr(self, spec.name).append_block(block)
        self._copy_named(source, counts, copies, start_axis)
        if new_worlds:
            self.num_envs += copies

    def _world_blocks(self, source, copies: int, new_worlds: bool) -> dict[str, np.ndarray]:
        """Return the world of every element of the copies, by the names of the lists."""
        worlds = self.num_envs + np.arange(copies, dtype=np.int32)
        if not new_worlds:
            worlds[:] = -1
        names = [spec.name for spec, _ in source._lists() if spec.name.endswith("_world")]
        return {name: np.repeat(worlds, len(getattr(source, name))) for name in names}

    def _group_block(self, source, copies: int, separate: bool) -> np.ndarray:
        """Return the collision groups of the shapes of all copies, and count them as used."""
        first = max(self.last_collision_group, 0) + 1
        groups = np.array(source.shape_collision_group, np.int64)
        if not len(groups):
            return groups
        if separate:
            result = np.repeat(first + np.arange(copies), len(groups))
            used = copies
        else:
            distinct, place = np.unique(groups, return_inverse=True)
            rank = np.cumsum(distinct > -1) - 1
            width = int(rank[-1]) + 1
            moved = first + rank[place] + width * np.arange(copies)[:, None]
            result = np.where(groups > -1, moved, groups).reshape(-1)
            used = width * copies
        self.last_collision_group = max(self.last_collision_group, first + used - 1 if used else -1)
        return result

    def _copy_filter_pairs(self, source, copies: int) -> None:
        """Add the filter pairs of all copies, whose shapes have not been appended yet."""
        pairs = source.shape_collision_filter_pairs.array()
        if len(pairs):
            first = self.shape_count + source.shape_count * np.arange(copies)
            self.shape_collision_filter_pairs.append_block(
                (pairs + first[:, None, None]).reshape(-1, 2).astype(np.int32)
            )

    def _copy_named(self, source, counts: dict, copies: int, start: dict) -> None:
        """Copy articulations, mimic joints, sites, keyframes, hints and colours."""
        joints, joint_start = counts["joint"]
        shift = (joint_start + joints * np.arange(copies))[:, None]
        self.articulation_start.extend(
            (np.array(source.articulation_start, np.int64) + shift).reshape(-1).tolist()
        )
        self.articulation_end.extend((source._articulation_ends() + shift).reshape(-1).tolist())
        self.articulation_key.extend(source.articulation_key * copies)
        self.joint_mimic.extend(
            (joint + offset, other + offset, factor, bias)
            for offset in shift[:, 0].tolist()
            for joint, other, factor, bias in source.joint_mimic
        )
        bodies, body_start = counts["body"]
        self.sites.extend(
            {**site, "body": site["body"] + offset if site["body"] >= 0 else site["body"]}
            for offset in (body_start + bodies * np.arange(copies)).tolist()
            for site in source.sites
        )
        known = {frame["name"] for frame in self.keyframes}
        offsets = {f"{per}_start": start[per] for per in ("coord", "dof", "axis")}
        self.keyframes.extend(
            {**offsets, **frame} for frame in source.keyframes if frame["name"] not in known
        )
        self.solver_hint = {**source.solver_hint, **self.solver_hint}
        self._copy_colors(source, counts, copies)

    def _copy_colors(self, source, counts: dict, copies: int) -> None:
        particles, particle_start = counts["particle"]
        shift = (particle_start + particles * np.arange(copies))[:, None]
        for color, group in enumerate(source.particle_color_groups):
            block = (np.asarray(group) + shift).reshape(-1).astype(np.int32)
            if color < len(self.particle_color_groups):
                block = np.concatenate([self.particle_color_groups[color], block])
                self.particle_color_groups[color] = block
            else:
                self.particle_color_groups.append(block)


_KINDS = (
    *("particle", "body", "joint", "axis", "coord", "dof", "constraint_axis", "shape", "muscle_point"),
    *("tendon", "tendon_element"),
)


def _block(
    spec: ArraySpec, values: Column, counts: dict, copies: int, moved: _Mover | None
) -> np.ndarray | Tiles:
    """Return the items of all copies of one list.

    Args:
        spec: Describes the items.
        values: Items of the source.
        counts: Number of elements of the source and of those before the copies, by kind.
        copies: Number of copies.
        moved: Moves what has a position, None if all copies stay where the source is.
    """
    if spec.index_of:
        size, offset = counts[spec.index_of]
        block = to_array(spec, values)
        shift = (offset + size * np.arange(copies, dtype=np.int32)).reshape(-1, *[1] * block.ndim)
        return np.where(block < 0, block, block + shift).reshape(-1, *block.shape[1:])
    if moved is not None and moved.moves(spec.name):
        return moved.apply(spec)
    if spec.dtype in _IMMUTABLE_TYPES or spec.columns or isinstance(values[0], (int, float)):
        return Tiles(values.items().copy(), copies)
    return Tiles(np.array(values, np.float64), copies)


class _Mover:
    """Moves copies of a builder's lists to several places at once."""

    def __init__(self, source, xforms: np.ndarray):
        self.source = source
        self.xforms = xforms
        parent = np.array(source.joint_parent, np.int64)
        kind = np.array(source.joint_type, np.int64)
        self.floating = np.flatnonzero((parent < 0) & (kind == JointType.FREE))
        self.anchored = np.flatnonzero((parent < 0) & (kind != JointType.FREE))
        self.world_velocity = np.flatnonzero((parent < 0) & is_floating(kind))
        turned = bool(np.any(xforms[:, 3:] != IDENTITY[3:]))
        self._moving = {
            "body_q": True,
            "body_qd": turned,
            "joint_X_p": len(self.anchored) > 0,
            "joint_q": len(self.floating) > 0,
            "joint_qd": turned and len(self.world_velocity) > 0,
            "constraint_X_p": len(self._static(source.constraint_parent)) > 0,
            "constraint_X_c": len(self._static(source.constraint_child)) > 0,
            "shape_transform": len(self._static(source.shape_body)) > 0,
            "tendon_element_point": len(self._static_points()) > 0,
            "actuator_frame": len(self._static_frames(0)) > 0,
            "actuator_reference": len(self._static_frames(1)) > 0,
            "particle_q": True,
            "particle_qd": turned,
        }

    def moves(self, name: str) -> bool:
        """Return whether the items of a list depend on the place."""
        return self._moving.get(name, False)

    def apply(self, spec: ArraySpec) -> np.ndarray:
        """Return the items of all copies of a list."""
        block = np.array(getattr(self.source, spec.name), np.float64)
        copies = np.tile(block, (len(self.xforms), *[1] * block.ndim))
        getattr(self, f"_{spec.name}")(copies)
        return copies.reshape(-1, *block.shape[1:])

    @staticmethod
    def _static(bodies: Column) -> np.ndarray:
        """Return which elements are attached to the world, according to their bodies."""
        return np.flatnonzero(np.array(bodies, np.int64) < 0)

    def _rotate(self, vectors: np.ndarray) -> np.ndarray:
        return quat_rotate(self.xforms[:, None, 3:], vectors)

    def _body_q(self, block: np.ndarray) -> None:
        block[:] = transform_multiply(self.xforms[:, None], block)

    def _body_qd(self, block: np.ndarray) -> None:
        block[..., :3], block[..., 3:] = self._rotate(block[..., :3]), self._rotate(block[..., 3:])

    def _joint_X_p(self, block: np.ndarray) -> None:
        block[:, self.anchored] = transform_multiply(self.xforms[:, None], block[:, self.anchored])

    def _joint_q(self, block: np.ndarray) -> None:
        """Keep the frames of free joints in the world, and move their coordinates: X_p⁻¹ T X_p X_j."""
        places = np.array(self.source.joint_q_start)[self.floating][:, None] + np.arange(7)
        anchors = np.array([self.source.joint_X_p[j] for j in self.floating.tolist()], np.float64)
        motion = transform_multiply(
            transform_multiply(transform_inverse(anchors), self.xforms[:, None]), anchors
        )
        block[:, places] = transform_multiply(motion, block[:, places])

    def _joint_qd(self, block: np.ndarray) -> None:
        places = np.array(self.source.joint_qd_start, np.int64)[self.world_velocity][:, None] + np.arange(3)
        for part in (places, places + 3):
            if part.size:
                block[:, part] = self._rotate(block[:, part])

    def _move_static(self, block: np.ndarray, bodies: Column) -> None:
        static = self._static(bodies)
        block[:, static] = transform_multiply(self.xforms[:, None], block[:, static])

    def _constraint_X_p(self, block: np.ndarray) -> None:
        self._move_static(block, self.source.constraint_parent)

    def _constraint_X_c(self, block: np.ndarray) -> None:
        self._move_static(block, self.source.constraint_child)

    def _shape_transform(self, block: np.ndarray) -> None:
        self._move_static(block, self.source.shape_body)

    def _static_points(self) -> np.ndarray:
        """Return which points of tendons are fixed to the world."""
        kind = np.array(self.source.tendon_element_kind, np.int64)
        points = (kind != ON_AXIS) & (kind != PULLEY)
        return np.flatnonzero(points & (np.array(self.source.tendon_element_body, np.int64) < 0))

    def _tendon_element_point(self, block: np.ndarray) -> None:
        points = self._static_points()
        block[:, points] = transform_point(self.xforms[:, None], block[:, points])

    def _static_frames(self, column: int) -> np.ndarray:
        """Return which actuators have a frame, or a frame of reference, that is fixed to the world."""
        bodies = np.array(self.source.actuator_bodies, np.int64).reshape(-1, 2)
        return np.flatnonzero(bodies[:, column] < 0)

    def _actuator_frame(self, block: np.ndarray) -> None:
        self._move_frames(block, 0)

    def _actuator_reference(self, block: np.ndarray) -> None:
        self._move_frames(block, 1)

    def _move_frames(self, block: np.ndarray, column: int) -> None:
        static = self._static_frames(column)
        block[:, static] = transform_multiply(self.xforms[:, None], block[:, static])

    def _particle_q(self, block: np.ndarray) -> None:
        block[:] = transform_point(self.xforms[:, None], block)

    def _particle_qd(self, block: np.ndarray) -> None:
        block[:] = self._rotate(block)
