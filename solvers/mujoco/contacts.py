"""Steps of MuJoCo and mujoco_warp with the contacts of our collision pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from newtonsim.collision.contacts import Contacts
from newtonsim.collision.plan import collision_plan_of
from newtonsim.kernels.mujoco import contacts as mujoco_contacts
from newtonsim.kernels.mujoco.contacts import MujocoContactView, SurfaceView, vec5
from newtonsim.runtime.launcher import Launcher
from newtonsim.scene.allocation import put, zeros
from newtonsim.scene.state import State
from newtonsim.solvers.mujoco.convert import Conversion

_TYPES = {
    "dist": float,
    "pos": wp.vec3,
    "frame": wp.mat33,
    "includemargin": float,
    "friction": vec5,
    "solref": wp.vec2,
    "solreffriction": wp.vec2,
    "solimp": vec5,
    "dim": int,
    "geom": wp.vec2i,
    "worldid": int,
    "type": int,
    "geomcollisionid": int,
}


class GivenContacts:
    """Contacts that a step is given, in MuJoCo's terms.

    Args:
        conversion: The conversion.
        mjw_data: Data of mujoco_warp that receives them; None for data of MuJoCo on the host.
    """

    def __init__(self, conversion: Conversion, mjw_data: Any = None):
        self.conversion = conversion
        model, mj_model, device = conversion.model, conversion.mj_model, conversion.model.device
        self.surfaces = SurfaceView()
        self.surfaces.body = model.shape_body
        self.surfaces.row = put(conversion.shape_row, dtype=int, device=device)
        self.surfaces.geom = put(conversion.shape_geom, dtype=int, device=device)
        for name, dtype in (("friction", wp.vec3), ("condim", int), ("solref", wp.vec2), ("solimp", vec5)):
            values = getattr(mj_model, f"geom_{name}")
            values = values.astype(np.int32 if dtype is int else np.float32)
            setattr(self.surfaces, name, put(values, dtype=dtype, device=device))
        self.view = MujocoContactView()
        if mjw_data is not None:
            self.view.count, self.view.overflow = mjw_data.nacon, mjw_data.overflow
        else:
            self.view.count = zeros(1, dtype=int, device=device)
            self.view.overflow = zeros(conversion.rows, dtype=int, device=device)
        for name, dtype in _TYPES.items():
            if mjw_data is None:
                array = zeros(collision_plan_of(model).contact_count, dtype=dtype, device=device)
            else:
                array = getattr(mjw_data.contact, name)
            setattr(self.view, name, array)

    def write(self, launch: Launcher, contacts: Contacts, state: State) -> None:
        """Write the contacts whose surfaces overlap.

        Args:
            launch: Knows the kind of index "once".
            contacts: Found at the poses of the state.
            state: `body_q` is read.
        """
        launch(mujoco_contacts.clear_contacts, "once", writes=dict(out=self.view))
        launch(
            mujoco_contacts.write_contacts,
            "contact",
            reads=dict(
                contacts=contacts.view, surfaces=self.surfaces, view=self.conversion.view, body_q=state.body_q
            ),
            writes=dict(out=self.view),
        )
        launch(mujoco_contacts.bound_contacts, "once", writes=dict(out=self.view))

    def step_host(self, mj_datas: list, gravity: np.ndarray) -> None:
        """Step data of MuJoCo with what `write` wrote, in the order of `mj_step` without its collisions.

        Args:
            mj_datas: The data.
            gravity: Gravity of each [m/s^2], shape (rows, 3).
        """
        import mujoco

        mj_model = self.conversion.mj_model
        no_contact = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        by_row: list[list] = [[] for _ in mj_datas]
        for contact, row in self._host_contacts():
            by_row[row].append(contact)
        for data, found, down in zip(mj_datas, by_row, gravity):
            mj_model.opt.gravity = down
            mj_model.opt.disableflags |= no_contact
            try:
                mujoco.mj_fwdPosition(mj_model, data)
            finally:
                mj_model.opt.disableflags &= ~no_contact
            for contact in found:
                mujoco.mj_addContact(mj_model, data, contact)
            for stage in (
                mujoco.mj_makeConstraint,
                mujoco.mj_island,
                mujoco.mj_projectConstraint,
                mujoco.mj_fwdVelocity,
                mujoco.mj_fwdActuation,
                mujoco.mj_fwdAcceleration,
                mujoco.mj_fwdConstraint,
                self._integrate(),
            ):
                stage(mj_model, data)

    def _integrate(self) -> Any:
        import mujoco

        kinds = mujoco.mjtIntegrator
        kind = self.conversion.mj_model.opt.integrator
        return mujoco.mj_Euler if kind == kinds.mjINT_EULER else mujoco.mj_implicit

    def _host_contacts(self) -> list[tuple[Any, int]]:
        """Contacts as MuJoCo's objects, with the row of each."""
        import mujoco

        view, count = self.view, int(self.view.count.numpy()[0])
        values = {name: getattr(view, name).numpy()[:count] for name in _TYPES}
        found = []
        for k in range(count):
            contact = mujoco.MjContact()
            for name in ("dist", "includemargin", "dim"):
                setattr(contact, name, values[name][k].item())
            for name in ("pos", "friction", "solref", "solreffriction", "solimp", "geom"):
                getattr(contact, name)[:] = values[name][k]
            contact.frame[:] = values["frame"][k].reshape(-1)
            contact.flex[:] = contact.elem[:] = contact.vert[:] = -1
            found.append((contact, int(values["worldid"][k])))
        return found


def supported(conversion: Conversion) -> bool:
    """Whether the integrator takes contacts from outside, which are those of the step's start."""
    import mujoco

    kinds = mujoco.mjtIntegrator
    given = (kinds.mjINT_EULER, kinds.mjINT_IMPLICIT, kinds.mjINT_IMPLICITFAST)
    return conversion.mj_model.opt.integrator in [int(kind) for kind in given]
