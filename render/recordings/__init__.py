"""Recordings of runs: the file format, its writer and its reader."""
