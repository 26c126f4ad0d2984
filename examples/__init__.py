"""Examples that run as ``python -m newtonsim.examples NAME``, and the robot models they use."""

from newtonsim.examples.assets import asset_path as asset_path
