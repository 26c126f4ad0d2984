"""Plain indexing: kernels of this package read and write arrays as C++ does.

Where a kernel says `a[i]`, Warp allows for any stride and for indices that count from the end. Each access
then takes half a dozen instructions more, which is a quarter of the time of a step on the CPU. None of our
kernels needs either, so their modules are compiled with accesses that rely on contiguous arrays and indices
from 0 on. Launches and models refuse other arrays (`newtonsim.scene.contiguity`), and Warp's debug mode still
checks indices. So does `newtonsim.config.checked`, at a fraction of the cost: what would touch memory beyond
an array ends the process with the name of the kernel file, the index and what was allowed.

For the same reason, kernels are compiled once where Warp compiles a copy for other arrays as well, which
takes twice as long.

Kernels of users are compiled as Warp does it, with our functions that they call.
"""

from __future__ import annotations

import re
from typing import Any

import warp as wp

from newtonsim.runtime.checked import config

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

_CONTIGUOUS = """
#define coord_mult coord_mult == 1 ? 1 : (__builtin_trap(), 1)
"""
"""Leaves out the second of the two copies that Warp 1.19 compiles of a kernel for the CPU. At each launch, it
chooses one for contiguous arrays and one thread an index (`dim->coord_mult == 1 && ...`), or one for any.
With the definition, the first is all that compilers find to be used. A launch over more dimensions than a
kernel has ends the process."""

_OPTIONS = wp.ModuleBuildOptions(extra_cpu_preamble=_PREAMBLE + _CONTIGUOUS, extra_cuda_preamble=_PREAMBLE)

_CHECK = """
#if defined(__CUDACC__)
#define HERE wp::Place()
#else
#define HERE wp::Place{__builtin_LINE(), __builtin_FILE(), __builtin_FUNCTION()}
extern "C" int fflush(void*);
extern "C" void* fopen(const char*, const char*);
extern "C" char* fgets(char*, int, void*);
extern "C" int fclose(void*);
#endif
namespace wp {
struct Place
{
    int line;
    const char* file;
    const char* kernel;
};
#if !defined(__CUDACC__)
inline void print_source(const Place& place)
{
    char text[256] = {0};
    void* source = fopen(place.file, "r");
    if (!source)
        return;
    // a line longer than the buffer counts once: it ends where its last part does
    for (int at = 1; at <= place.line && fgets(text, sizeof(text), source);) {
        for (int i = 0; text[i]; ++i)
            at += text[i] == '\\n';
    }
    fclose(source);
    printf("%s\\n", text);
}
#endif
inline CUDA_CALLABLE void check_index(int i, int size, int dimension, const Place& place)
{
    if (i >= 0 && i < size)
        return;
    printf("newtonsim: %s: index %d of dimension %d, expected 0 to %d\\n", "FILE", i, dimension, size - 1);
#if defined(__CUDACC__)
    __trap();
#else
    printf("%s, line %d, in %s:\\n", place.file, place.line, place.kernel);
    print_source(place);
    fflush(nullptr);
    __builtin_trap();
#endif
}
}
"""
_ATOMICS = """
namespace wp {
template <typename T> inline CUDA_CALLABLE T atomic_NAME(const array_t<T>& buf, int i, T value)
{
    return atomic_NAME(address(buf, i), value);
}
template <typename T> inline CUDA_CALLABLE T atomic_NAME(const array_t<T>& buf, int i, int j, T value)
{
    return atomic_NAME(address(buf, i, j), value);
}
}
"""
_ASSERTION = re.compile(r"assert\((.*)\);")
_IN_BOUNDS = re.compile(r"(\w) < buf\.shape\[(\d)\]")
_HEAD = re.compile(r"\)\n\{")
_ADDRESS = re.compile(r"(address\(buf(?:, \w)+)\)")
_plain: set[wp.Module] = set()


def index_plainly(module: wp.Module) -> None:
    """Have a kernel module of this package compiled with plain accesses; others are left alone."""
    if module not in _plain:
        _plain.add(module)
        if module.name.startswith(_PACKAGE):
            options: dict[str, Any] = {"extra_build_options": _OPTIONS}
            if config.checks_indices:  # lines of kernel files are those of what is compiled from them
                options = {"extra_build_options": _checked_options(module.name), "lineinfo": True}
            wp.set_module_options(options, module=module)


def _checked_options(name: str) -> wp.ModuleBuildOptions:
    """Options by which accesses of a kernel file are checked where the plain ones only assert."""

    def checks(assertion: re.Match[str]) -> str:
        return " ".join(
            f"check_index({i}, buf.shape[{d}], {d}, place);" for i, d in _IN_BOUNDS.findall(assertion[1])
        )

    accesses = _ASSERTION.sub(checks, _PREAMBLE)
    accesses += "".join(_ATOMICS.replace("NAME", operation) for operation in ("add", "min", "max"))
    accesses = _ADDRESS.sub(r"\1, place)", accesses)
    code = _CHECK.replace('"FILE"', f'"{name}"') + _HEAD.sub(", Place place = HERE)\n{", accesses)
    return wp.ModuleBuildOptions(extra_cpu_preamble=code + _CONTIGUOUS, extra_cuda_preamble=code)
