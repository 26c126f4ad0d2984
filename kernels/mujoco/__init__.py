"""States and contacts in MuJoCo's arrays, and back."""
