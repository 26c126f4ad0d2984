"""newtonsim under the name pybullet: the very same module, so that functions and errors are the same."""

import sys

import newtonsim.pybullet_compat

sys.modules[__name__] = newtonsim.pybullet_compat
