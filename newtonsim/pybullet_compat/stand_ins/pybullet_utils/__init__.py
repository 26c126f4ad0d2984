"""pybullet_utils with our bullet_client; other modules are those of the real package, if it is installed."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
