"""Conversion of states and contacts to MuJoCo's arrays, and back."""
