"""Ray cameras: scene, lenses, light, pictures, sensors."""
