"""newtonsim: a GPU-batched, differentiable physics simulator for robots."""

from newtonsim._version import __version__ as __version__
