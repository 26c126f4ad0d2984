"""Plain indexing: kernels of this package read and write arrays as C++ does.

Where a kernel says `a[i]`, Warp allows for any stride and for indices that count from the end. Each access
then takes half a dozen instructions more, which is a quarter of the time of a step on the CPU. None of our
kernels needs either, so their modules are compiled with accesses that rely on contiguous arrays and indices
from 0 on. Launches and models refuse other arrays (`newtonsim.scene.contiguity`), and Warp's debug mode still
checks indices.

Kernels of users are compiled as Warp does it, with our functions that they call.
"""

from __future__ import annotations

import warp as wp

_PACKAGE = "newtonsim.kernels."
_PREAMBLE = """
namespace wp {
// more special than Warp's own, which take any kind of array
template <typename T> inline CUDA_CALLABLE T* address(const array_t<T>& buf, int i)
{
    assert(i >= 0 && i < buf.shape[0]);
    return buf.data + i;
}
template <typename T> inline CUDA_CALLABLE T* address(const array_t<T>& buf, int i, int j)
{
    assert(i >= 0 && i < buf.shape[0] && j >= 0 && j < buf.shape[1]);
    return buf.data + (size_t)i * buf.shape[1] + j;
}
template <typename T> inline CUDA_CALLABLE T* address(const array_t<T>& buf, int i, int j, int k)
{
    assert(i >= 0 && i < buf.shape[0] && j >= 0 && j < buf.shape[1] && k >= 0 && k < buf.shape[2]);
    return buf.data + ((size_t)i * buf.shape[1] + j) * buf.shape[2] + k;
}
template <typename T> inline CUDA_CALLABLE void array_store(const array_t<T>& buf, int i, T value)
{
    FP_VERIFY_FWD_1(value)
    *address(buf, i) = value;
}
template <typename T> inline CUDA_CALLABLE void array_store(const array_t<T>& buf, int i, int j, T value)
{
    FP_VERIFY_FWD_2(value)
    *address(buf, i, j) = value;
}
template <typename T>
inline CUDA_CALLABLE void array_store(const array_t<T>& buf, int i, int j, int k, T value)
{
    FP_VERIFY_FWD_3(value)
    *address(buf, i, j, k) = value;
}
}
"""

_OPTIONS = wp.ModuleBuildOptions(extra_cpu_preamble=_PREAMBLE, extra_cuda_preamble=_PREAMBLE)
_plain: set[wp.Module] = set()


def index_plainly(module: wp.Module) -> None:
    """Have a kernel module of this package compiled with plain accesses; others are left alone."""
    if module not in _plain:
        _plain.add(module)
        if module.name.startswith(_PACKAGE):
            wp.set_module_options({"extra_build_options": _OPTIONS}, module=module)
