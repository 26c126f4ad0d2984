"""What a builder leaves implicit: free joints of loose bodies, and the articulation of each joint."""

from itertools import pairwise

import numpy as np

from newtonsim.builder.joints import JointMethods
from newtonsim.scene.arrays import MODEL_ARRAYS, SPECS
from newtonsim.scene.columns import to_array


class CompletionMethods(JointMethods):
    """The part of ModelBuilder that fills in what a description leaves implicit, in a copy."""

    def _completed(self):
        """Return this builder, or a copy in which bodies with mass have joints and joints articulations."""
        loose = self._loose_bodies()
        if not len(loose) and not self._has_implicit_articulations():
            return self
        twin = self._shallow_copy()
        twin.articulation_end = self._articulation_ends().tolist()
        first_joint = twin._first_joint_of_trees()
        twin._append_free_joints([body for body in loose if body not in first_joint])
        for body in sorted((b for b in loose if b in first_joint), key=lambda b: -first_joint[b]):
            twin._insert_free_joint(first_joint[body], body)
        twin._declare_articulations()
        return twin

    def _loose_bodies(self) -> list[int]:
        """Return the bodies with mass that no joint moves."""
        has_joint = np.zeros(self.body_count + 1, bool)
        child = np.array(self.joint_child, np.int64)
        has_joint[child[(child >= 0) & (child < self.body_count)]] = True
        return np.flatnonzero((to_array(SPECS["body_mass"], self.body_mass) > 0.0) & ~has_joint[:-1]).tolist()

    def _articulation_ends(self) -> np.ndarray:
        """Return the end (exclusive) of each declared articulation."""
        ends = np.array(self.articulation_end, np.int64)
        following = np.append(np.array(self.articulation_start, np.int64), self.joint_count)[1:]
        return np.where(ends < 0, following, np.minimum(ends, following))

    def _declared(self) -> np.ndarray:
        """Return for each joint whether it is in a declared articulation."""
        delta = np.zeros(self.joint_count + 1, np.int64)
        np.add.at(delta, np.array(self.articulation_start, np.int64), 1)
        np.add.at(delta, self._articulation_ends(), -1)
        return np.cumsum(delta)[:-1] > 0

    def _has_implicit_articulations(self) -> bool:
        return self.joint_count > 0 and not self._declared().all()

    def _roots(self) -> np.ndarray:
        """Return the topmost body above each body (itself if no joint moves it)."""
        above = np.arange(self.body_count)
        child, parent = np.array(self.joint_child, np.int64), np.array(self.joint_parent, np.int64)
        known = (child >= 0) & (child < self.body_count) & (parent >= 0) & (parent < self.body_count)
        above[child[known]] = parent[known]
        for _ in range(
            max(1, int(self.body_count).bit_length())
        ):  # doubling; ends even if joints form a cycle
            above = above[above]
        return above

    def _tree_of_joints(self) -> np.ndarray:
        child = np.clip(np.array(self.joint_child, np.int64), 0, max(self.body_count - 1, 0))
        return self._roots()[child] if self.body_count else np.zeros(self.joint_count, np.int64)

    def _first_joint_of_trees(self) -> dict[int, int]:
        roots, first = np.unique(self._tree_of_joints(), return_index=True)
        return dict(zip(roots.tolist(), first.tolist()))

    def _append_free_joints(self, bodies: list[int]) -> None:
        """Append free joints for bodies without joints, as `add_joint_free` would one by one."""
        if not bodies:
            return
        first_joint, coord, dof = self.joint_count, self.joint_coord_count, self.joint_dof_count
        self.add_joint_free(bodies[0], key=self._free_joint_key(bodies[0]))
        places = np.arange(1, len(bodies))
        for spec in MODEL_ARRAYS:
            first = {"joint": first_joint, "coord": coord, "dof": dof}.get(spec.per)
            if first is not None:
                values = getattr(self, spec.name)
                values.extend(values[first:] * len(places))
        worlds, pose, velocity = (self.body_world.items(), self.body_q.items(), self.body_qd.items())
        self.joint_world[first_joint:] = [worlds[body] for body in bodies]
        self.joint_child[first_joint:] = bodies
        self.joint_key[first_joint:] = [self._free_joint_key(body) for body in bodies]
        self.joint_q_start[first_joint + 1 :] = (coord + 7 * places).tolist()
        self.joint_qd_start[first_joint + 1 :] = (dof + 6 * places).tolist()
        self.joint_q[coord:] = np.array([pose[body] for body in bodies], np.float64).reshape(-1).tolist()
        self.joint_qd[dof:] = np.array([velocity[body] for body in bodies], np.float64).reshape(-1).tolist()
        self._widen_keyframes(coord, dof, len(bodies))

    def _free_joint_key(self, body: int) -> str:
        return f"{self.body_key[body]}_free"

    def _insert_free_joint(self, index: int, body: int) -> None:
        """Insert a free joint above a loose body before joint `index`; its tree stays in one piece."""
        coord = self.joint_q_start[index] if index < self.joint_count else self.joint_coord_count
        dof = self.joint_qd_start[index] if index < self.joint_count else self.joint_dof_count
        axis = self.joint_axis_start[index] if index < self.joint_count else self.joint_axis_count
        tail = self._cut_tail(index, coord, dof)
        self.add_joint_free(body, key=self._free_joint_key(body))
        self.joint_world[-1] = self.body_world[body]
        self.joint_axis_start[-1] = axis
        self._append_tail(tail)
        self.articulation_start = [s + (s > index) for s in self.articulation_start]
        self.articulation_end = [e + (e > index) for e in self.articulation_end]
        self.joint_mimic = [(a + (a >= index), b + (b >= index), m, c) for a, b, m, c in self.joint_mimic]
        self._widen_keyframes(coord, dof, 1)

    def _cut_tail(self, index: int, coord: int, dof: int) -> dict[str, list]:
        """Remove and return what belongs to the joints from `index` on; their axes need not move."""
        cuts = {"joint": index, "coord": coord, "dof": dof}
        tail = {}
        for spec in MODEL_ARRAYS:
            if spec.per in cuts:
                values = getattr(self, spec.name)
                tail[spec.name] = values[cuts[spec.per] :]
                del values[cuts[spec.per] :]
        return tail

    def _append_tail(self, tail: dict[str, list]) -> None:
        for name, values in tail.items():
            grown = {"joint_q_start": 7, "joint_qd_start": 6}.get(name, 0)
            getattr(self, name).extend([v + grown for v in values] if grown else values)

    def _widen_keyframes(self, coord: int, dof: int, count: int) -> None:
        """Give the keyframes the coordinates of the free joints just inserted, which start there."""
        for place, frame in enumerate(self.keyframes):
            frame = dict(frame)
            for name, at, size in (("joint_q", coord, 7 * count), ("joint_qd", dof, 6 * count)):
                if frame.get(name) is not None and len(frame[name]) >= at:
                    values = list(frame[name])
                    frame[name] = values[:at] + getattr(self, name)[at : at + size] + values[at:]
            self.keyframes[place] = frame

    def _declare_articulations(self) -> None:
        """Add one articulation per kinematic tree of joints outside declared ones.

        Trees whose joints are interleaved share one, since an articulation is a range of joints. Joints that
        follow an articulation and continue its tree join it (a gripper added to an arm).
        """
        if not self.joint_count:
            return
        declared = self._declared()
        tree = self._tree_of_joints()
        starts = list(zip(self.articulation_start, self._articulation_ends().tolist(), self.articulation_key))
        edges = np.flatnonzero(np.diff(np.concatenate([[True], declared, [True]]).astype(np.int8)))
        ends_at = {end: index for index, (start, end, _) in enumerate(starts) if end > start}
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist()):
            for first, last, key in self._split_range(begin, end, tree):
                before = ends_at.pop(first, None)
                if before is None or not np.isin(tree[first:last], tree[starts[before][0] : first]).all():
                    starts.append((first, last, key))
                else:
                    starts[before] = (starts[before][0], last, starts[before][2])
                    ends_at[last] = before
        starts.sort(key=lambda entry: entry[:2])
        self.articulation_start = [s for s, _, _ in starts]
        self.articulation_end = [e for _, e, _ in starts]
        self.articulation_key = [k for _, _, k in starts]

    def _split_range(self, begin: int, end: int, tree: np.ndarray) -> list[tuple[int, int, str]]:
        """Split a range of joints wherever no tree lies on both sides."""
        part = tree[begin:end]
        _, inverse = np.unique(part, return_inverse=True)
        last = np.zeros(inverse.max() + 1, np.int64)
        last[inverse] = np.arange(len(part))  # the last assignment stays
        reach = np.maximum.accumulate(last[inverse])
        cuts = np.append(0, np.flatnonzero(reach == np.arange(len(part))) + 1)
        return [
            (
                begin + int(a),
                begin + int(b),
                self.body_key[int(part[a])] if self.body_count else "articulation",
            )
            for a, b in pairwise(cuts)
        ]
