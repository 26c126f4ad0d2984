"""Structs of arrays that kernels take instead of long argument lists."""
