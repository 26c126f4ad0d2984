"""Calls of recorded kernels, one after the other, without returning to the host between them.

For the CPU, where a kernel is a function with an address; see `newtonsim.runtime.capture`.

Stage: all, in place of their launches
Called by: newtonsim/cli/start.py, newtonsim/kernel_warmup.py, newtonsim/runtime/capture.py,
    newtonsim/runtime/copies.py, newtonsim/simulator.py, solvers/launched.py
Reads: source, table
Writes: target
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func_native("""
    typedef void (*entry_t)(void*, void*);
    typedef void (*reverse_t)(void*, void*, void*);
    if (adjoints) ((reverse_t)entry)((void*)bounds, (void*)arguments, (void*)adjoints);
    else ((entry_t)entry)((void*)bounds, (void*)arguments);
""")
def call_entry(entry: wp.uint64, bounds: wp.uint64, arguments: wp.uint64, adjoints: wp.uint64): ...


@wp.func_native("""
    const int* values = (const int*)mask;
    for (wp::uint64 i = 0; i < length; ++i)
        if (values[i]) return 1;
    return 0;
""")
def is_any_set(mask: wp.uint64, length: wp.uint64) -> int: ...


@wp.kernel
def repeat_launches(table: wp.array2d(dtype=wp.uint64), count: int, repeats: int):
    """One thread in all: make the launches in the rows of a table (entry point, bounds, arguments, adjoints).

    Adjoints are the arguments that receive gradients, 0 for a kernel that runs forward. A row without an
    entry point is a condition (0, mask, its length, number of rows): this number of rows after it is skipped
    if the integer mask is zero everywhere.
    """
    for _ in range(repeats):
        i = int(0)
        while i < count:
            if table[i, 0] != wp.uint64(0):
                call_entry(table[i, 0], table[i, 1], table[i, 2], table[i, 3])
            elif is_any_set(table[i, 1], table[i, 2]) == 0:
                i += int(table[i, 3])
            i += 1


@wp.func_native("""
    const char* from = (const char*)source;
    char* to = (char*)target;
    for (wp::uint64 i = 0; i < length; ++i)
        to[i] = from[i];
""")
def copy_bytes(target: wp.uint64, source: wp.uint64, length: wp.uint64): ...


@wp.kernel
def copy_blocks(table: wp.array2d(dtype=wp.uint64)):
    """One thread in all: copy blocks of memory that do not overlap, one a row (target, source, bytes)."""
    for i in range(table.shape[0]):
        copy_bytes(table[i, 0], table[i, 1], table[i, 2])


@wp.func_native("""
    float* to = target.data;
    const float* from = source.data;
    for (int i = 0; i < n; ++i)
        to[i] = from[i];
""")
def copy_floats(n: int, source: wp.array(dtype=float), target: wp.array(dtype=float)): ...


@wp.kernel
def copy_words(source: wp.array(dtype=float), target: wp.array(dtype=float)):
    """One thread in all: copy an array to another."""
    copy_floats(target.shape[0], source, target)


@wp.func_native("""
    float* to = target.data;
    for (int i = 0; i < n; ++i)
        to[i] = value;
""")
def fill_floats(n: int, value: float, target: wp.array(dtype=float)): ...


@wp.kernel
def fill_words(value: float, target: wp.array(dtype=float)):
    """One thread in all: fill an array."""
    fill_floats(target.shape[0], value, target)
