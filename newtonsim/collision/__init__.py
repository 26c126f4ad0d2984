"""The collision pass on the host: what may collide, the launches that find contacts, their buffers."""
