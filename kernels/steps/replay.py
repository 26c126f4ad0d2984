"""Calls of recorded kernels, one after the other, without going back to the host between them.

For the CPU, where a kernel is a function with an address; see `newtonsim.runtime.capture`.

Stage: all, in place of their launches
Called by: newtonsim/kernel_warmup.py, newtonsim/runtime/capture.py, newtonsim/simulator.py
Reads: table
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.func_native("""
    typedef void (*entry_t)(void*, void*);
    ((entry_t)entry)((void*)bounds, (void*)arguments);
""")
def call_entry(entry: wp.uint64, bounds: wp.uint64, arguments: wp.uint64): ...


@wp.kernel
def repeat_launches(table: wp.array2d(dtype=wp.uint64), count: int, repeats: int):
    """One thread in all: make the launches in the rows of a table (entry point, bounds, arguments)."""
    for _ in range(repeats):
        for i in range(count):
            call_entry(table[i, 0], table[i, 1], table[i, 2])
