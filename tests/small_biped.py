"""A body on two legs, each with one hip, as URDF."""

_LEG = """<link name="{0}_leg"><inertial><mass value="1"/>
    <inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 -.3"/><geometry><box size=".3 .1 .05"/></geometry></collision></link>
  <joint name="{0}_hip" type="revolute"><parent link="body"/><child link="{0}_leg"/>
    <origin xyz="0 {1} -.1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="50" velocity="20"/></joint>"""
BIPED = f"""<robot name="biped">
  <link name="body"><inertial><mass value="4"/>
    <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size=".2 .3 .2"/></geometry></collision></link>
  {_LEG.format("l", 0.1)}{_LEG.format("r", -0.1)}
</robot>"""
