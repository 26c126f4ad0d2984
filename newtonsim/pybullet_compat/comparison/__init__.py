"""PyBullet's module and ours in lockstep: every call in both, and where the answers differ."""
