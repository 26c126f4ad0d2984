"""Ray casting of pictures: scene, rays, tiles, shading."""
