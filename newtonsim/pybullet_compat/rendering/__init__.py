"""Pictures of a client: what its cameras see, and textures."""
