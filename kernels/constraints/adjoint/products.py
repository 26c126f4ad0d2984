"""Products of rows and of vectors in double precision, island by island.

Rows are those of `chains`, in single precision, and vectors have an entry for each degree of freedom from
`at` on, so that one array holds several of them. The loops are written in C++ for the same reasons as in
`sparse_blas`.

Stage: backward pass of constraints, linear algebra
Called by: kernels/constraints/adjoint/impacts.py, kernels/constraints/adjoint/solution_error.py,
    kernels/constraints/adjoint/solve.py, kernels/constraints/adjoint/system.py
Reads: B, BlockSystemView, IslandView, TreeView, x, y
Writes: BlockSystemView, y
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.algebra.block_system import BlockSystemView
from newtonsim.kernels.constraints.islands import IslandView
from newtonsim.kernels.views.model import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

_SIDES = """
    for (int side = 0; side < 2; ++side) {
        if (leaf[side] < 0) continue;
        const int* dof = tree.row_dof.data + tree.dof_row.data[leaf[side]];
        const auto* b = B.data + (size_t)c * B.shape[1] + side * depth;
        const int n = tree.dof_depth.data[leaf[side]] + 1;
"""
"""Entries `b` of the row, or triple of rows, on each side, for its `n` dofs."""

_DOFS = """
    for (int e = islands.trees.data[k][0]; e < islands.trees.data[k][1]; ++e) {
        const int t = islands.tree.data[e];
        for (int i = islands.dof_start.data[t]; i < islands.dof_start.data[t + 1]; ++i) {
            const int d = islands.dof.data[i];
"""
"""Every dof `d` of an island, and its place `i` in the vectors of a `BlockSystemView`."""


@wp.func_native(
    "double total = 0.0;"
    + _SIDES
    + """
        for (int m = 0; m < n; ++m) total += (double)b[m] * x.data[at + dof[m]];
    }
    return total;
    """
)
def row_product(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    depth: int,
    c: int,
    B: wp.array2d(dtype=float),
    x: wp.array(dtype=wp.float64),
    at: int,
) -> wp.float64:
    """bᵀ x of one row."""
    ...


@wp.func_native(
    "wp::vec3d total(0.0, 0.0, 0.0);"
    + _SIDES
    + """
        for (int m = 0; m < n; ++m) {
            const double value = x.data[at + dof[m]];
            for (int q = 0; q < 3; ++q) total[q] += (double)b[m][q] * value;
        }
    }
    return total;
    """
)
def triple_product(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    depth: int,
    c: int,
    B: wp.array2d(dtype=wp.vec3),
    x: wp.array(dtype=wp.float64),
    at: int,
) -> wp.vec3d:
    """bᵀ x of three rows."""
    ...


@wp.func_native(
    _SIDES
    + """
        for (int m = 0; m < n; ++m) y.data[at + dof[m]] += p * (double)b[m];
    }
    """
)
def push_row(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    depth: int,
    c: int,
    p: wp.float64,
    B: wp.array2d(dtype=float),
    y: wp.array(dtype=wp.float64),
    at: int,
):
    """y += b p of one row."""
    ...


@wp.func_native(
    _SIDES
    + """
        for (int m = 0; m < n; ++m)
            y.data[at + dof[m]] += (double)b[m][0] * p[0] + (double)b[m][1] * p[1] + (double)b[m][2] * p[2];
    }
    """
)
def push_triple(
    tree: wp.ref[TreeView],
    leaf: wp.vec2i,
    depth: int,
    c: int,
    p: wp.vec3d,
    B: wp.array2d(dtype=wp.vec3),
    y: wp.array(dtype=wp.float64),
    at: int,
):
    """y += b p of three rows."""
    ...


@wp.func_native(
    "double total = 0.0;"
    + _DOFS
    + """
            total += x.data[at + d] * y.data[to + d];
        }
    }
    return total;
    """
)
def dot(
    islands: wp.ref[IslandView],
    k: int,
    x: wp.array(dtype=wp.float64),
    at: int,
    y: wp.array(dtype=wp.float64),
    to: int,
) -> wp.float64:
    """Sum of x y over the dofs of an island."""
    ...


@wp.func_native(
    _DOFS
    + """
            y.data[to + d] = a * x.data[at + d];
        }
    }
    """
)
def assign(
    islands: wp.ref[IslandView],
    k: int,
    a: wp.float64,
    x: wp.array(dtype=wp.float64),
    at: int,
    y: wp.array(dtype=wp.float64),
    to: int,
):
    """y = a x over the dofs of an island."""
    ...


@wp.func_native(
    _DOFS
    + """
            y.data[to + d] += a * x.data[at + d];
        }
    }
    """
)
def axpy(
    islands: wp.ref[IslandView],
    k: int,
    a: wp.float64,
    x: wp.array(dtype=wp.float64),
    at: int,
    y: wp.array(dtype=wp.float64),
    to: int,
):
    """y += a x over the dofs of an island."""
    ...


@wp.func_native(
    _DOFS
    + """
            sys.x.data[i] = (float)(a * x.data[d]);
        }
    }
    """
)
def narrow_island(
    islands: wp.ref[IslandView],
    k: int,
    a: wp.float64,
    x: wp.array(dtype=wp.float64),
    sys: wp.ref[BlockSystemView],
):
    """Set the right-hand side of the factorization to a x."""
    ...


@wp.func_native(
    _DOFS
    + """
            y.data[to + d] = a * (double)sys.x.data[i];
        }
    }
    """
)
def widen_island(
    islands: wp.ref[IslandView],
    k: int,
    a: wp.float64,
    sys: wp.ref[BlockSystemView],
    y: wp.array(dtype=wp.float64),
    to: int,
):
    """Set y to `a` times the solution of the factorization."""
    ...


@wp.func_native(
    _DOFS
    + """
            y.data[d] = (float)x.data[d];
        }
    }
    """
)
def write_solution(
    islands: wp.ref[IslandView], k: int, x: wp.array(dtype=wp.float64), y: wp.array(dtype=float)
):
    """y = x over the dofs of an island, in single precision."""
    ...
