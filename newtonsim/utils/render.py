"""The renderers, under the name of the reference."""

from newtonsim.render.sim_renderer import SimRenderer as SimRenderer
from newtonsim.render.sim_renderer import SimRendererUsd as SimRendererUsd
from newtonsim.render.sim_renderer_opengl import SimRendererOpenGL as SimRendererOpenGL
