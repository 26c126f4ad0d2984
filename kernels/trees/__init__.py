"""Kinematic trees in reduced coordinates: kinematics, inverse dynamics, joint-space inertia, joint forces."""
