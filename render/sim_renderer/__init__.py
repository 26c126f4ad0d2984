"""`SimRendererUsd` and `SimRendererOpenGL` of the interface document."""
