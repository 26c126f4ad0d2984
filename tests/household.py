"""Things of a household, written for tests of `newtonsim.bullet_world`."""

import numpy as np
import trimesh


def milk_carton() -> trimesh.Trimesh:
    """A carton of 7 by 7 by 20 cm with a gable, that stands on its origin."""
    corners = [(x, y, z) for x in (-0.035, 0.035) for y in (-0.035, 0.035) for z in (0.0, 0.17)]
    ridge = [(x, 0.0, 0.2) for x in (-0.035, 0.035)]
    return trimesh.convex.convex_hull(np.array(corners + ridge))


ARM = """<robot name="arm">
  <link name="base">
    <inertial><mass value="5"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
  <link name="upper"><inertial><origin xyz="0.25 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="gripper"><inertial><origin xyz="0.1 0 0"/><mass value="0.5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" effort="100" velocity="10"/></joint>
  <joint name="slide" type="prismatic"><parent link="upper"/><child link="gripper"/><axis xyz="1 0 0"/>
    <origin xyz="0.5 0 0"/><limit lower="0" upper="0.5" effort="100" velocity="10"/></joint>
</robot>"""
"""Turns in the plane and gets longer; the gripper is at 0.5 m."""

OFFSET = """<robot name="offset"><link name="body">
  <inertial><origin xyz="0.1 0.2 0.3" rpy="0.3 0.2 0.1"/><mass value="1"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0.1 0.2 0.3"/><geometry><box size="0.1 0.1 0.1"/></geometry></collision>
</link></robot>"""
"""A body whose centre of mass is not its origin."""
