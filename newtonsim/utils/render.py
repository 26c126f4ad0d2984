"""The renderers, under the name of the reference interface."""

from newtonsim.render.sim_renderer.base import SimRenderer as SimRenderer
from newtonsim.render.sim_renderer.base import SimRendererUsd as SimRendererUsd
from newtonsim.render.sim_renderer.opengl import SimRendererOpenGL as SimRendererOpenGL
