"""Cholesky factorization within the envelope of a symmetric matrix over the dofs of a world.

The matrix is 1 + Σ w b bᵀ over constraint rows b in energy coordinates. A row couples the dofs of two chains,
so bodies that were built in the order in which they touch give a narrow envelope (George, Liu, "Computer
Solution of Large Sparse Positive Definite Systems", 1981, chapter 4). Double precision throughout: weights
are large.
"""

import warp as wp

from newtonsim.kernels.views import TreeView

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class EnvelopeView:
    """Workspace: D degrees of freedom, N entries of envelopes."""

    world_start: wp.array(dtype=int)  # (W + 1) first entry of each world in `dof`
    dof: wp.array(dtype=int)  # (D) dofs in the order of their worlds
    place: wp.array(dtype=int)  # (D) place of each dof within its world
    first: wp.array(dtype=int)  # (D) by entry of `dof`: place of the first non-zero of the row
    row: wp.array(dtype=int)  # (D) by entry of `dof`: where the row begins in `L`
    entry_start: wp.array(dtype=int)  # (W + 1) room of each world in `L`
    pause: wp.array(dtype=int)  # (W) steps without direct solves that are left
    L: wp.array(dtype=wp.float64)  # (N)
    x: wp.array(dtype=wp.float64)  # (D) by entry of `dof`: right-hand side and solution
    z: wp.array(dtype=float)  # (D) by dof: velocities from which the solve starts
    kept_z: wp.array(dtype=float)  # (D) velocities and impulses to return to
    kept_dof: wp.array(dtype=float)  # (R)
    kept_pair: wp.array(dtype=float)  # (P)
    kept_contact: wp.array(dtype=wp.vec3)  # (C)
    kept_spin: wp.array(dtype=wp.vec3)  # (C)


@wp.func
def chain_size(tree: TreeView, leaf: int) -> int:
    """Number of dofs between the world and a leaf."""
    n = int(0)
    if leaf >= 0:
        n = tree.dof_depth[leaf] + 1
    return n


@wp.func
def chain_entry(tree: TreeView, leaf: wp.vec2i, depth: int, m: int) -> wp.vec2i:
    """Dof and column of B of entry m of a row with two chains."""
    n = chain_size(tree, leaf[0])
    entry = wp.vec2i(0, 0)
    if m < n:
        entry = wp.vec2i(tree.row_dof[tree.dof_row[leaf[0]] + m], m)
    else:
        entry = wp.vec2i(tree.row_dof[tree.dof_row[leaf[1]] + m - n], depth + m - n)
    return entry


@wp.func
def widen_envelope(tree: TreeView, env: EnvelopeView, base: int, leaf: wp.vec2i, depth: int):
    """Let the rows of all dofs of two chains begin no later than at the first of these dofs."""
    n = chain_size(tree, leaf[0]) + chain_size(tree, leaf[1])
    low = int(1 << 30)
    for m in range(n):
        entry = chain_entry(tree, leaf, depth, m)
        low = wp.min(low, env.place[entry[0]])
    for m in range(n):
        entry = chain_entry(tree, leaf, depth, m)
        i = base + env.place[entry[0]]
        env.first[i] = wp.min(env.first[i], low)


@wp.func
def lay_out_envelope(env: EnvelopeView, w: int, most: float) -> float:
    """Place the rows one after the other; Σ length², or 0 if that exceeds `most` or there is no room."""
    base = env.world_start[w]
    next = env.entry_start[w]
    cost = float(0.0)
    for i in range(base, env.world_start[w + 1]):
        length = i - base - env.first[i] + 1
        env.row[i] = next
        next += length
        cost += float(length) * float(length)
    if next > env.entry_start[w + 1] or cost > most:
        return 0.0
    for k in range(env.entry_start[w], next):
        env.L[k] = wp.float64(0.0)
    for i in range(base, env.world_start[w + 1]):
        env.L[env.row[i] + i - base - env.first[i]] = wp.float64(1.0)
        env.x[i] = wp.float64(0.0)
    return cost


@wp.func
def add_entry(env: EnvelopeView, base: int, a: int, b: int, value: float):
    """Add to the entry of two dofs."""
    i = wp.max(env.place[a], env.place[b])
    j = wp.min(env.place[a], env.place[b])
    k = env.row[base + i] + j - env.first[base + i]
    env.L[k] = env.L[k] + wp.float64(value)


@wp.func
def factorize_envelope(env: EnvelopeView, w: int):
    """Cholesky factorization in place, row by row."""
    base = env.world_start[w]
    for i in range(env.world_start[w + 1] - base):
        fi = env.first[base + i]
        ri = env.row[base + i] - fi
        for j in range(fi, i + 1):
            fj = env.first[base + j]
            rj = env.row[base + j] - fj
            total = env.L[ri + j]
            for k in range(wp.max(fi, fj), j):
                total -= env.L[ri + k] * env.L[rj + k]
            if i == j:
                env.L[ri + i] = wp.sqrt(wp.max(total, wp.float64(1.0e-12)))
            else:
                env.L[ri + j] = total / env.L[rj + j]


@wp.func
def solve_envelope(env: EnvelopeView, w: int):
    """x = (L Lᵀ)⁻¹ x."""
    base = env.world_start[w]
    n = env.world_start[w + 1] - base
    for i in range(n):
        fi = env.first[base + i]
        ri = env.row[base + i] - fi
        total = env.x[base + i]
        for k in range(fi, i):
            total -= env.L[ri + k] * env.x[base + k]
        env.x[base + i] = total / env.L[ri + i]
    for m in range(n):
        i = n - 1 - m
        fi = env.first[base + i]
        ri = env.row[base + i] - fi
        value = env.x[base + i] / env.L[ri + i]
        env.x[base + i] = value
        for k in range(fi, i):
            env.x[base + k] = env.x[base + k] - env.L[ri + k] * value


@wp.func
def add_row(
    tree: TreeView,
    env: EnvelopeView,
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    residual: float,
    B: wp.array2d(dtype=float),
):
    """Add w b bᵀ to the matrix, and w r b to the right-hand side."""
    for m in range(chain_size(tree, leaf[0]) + chain_size(tree, leaf[1])):
        entry = chain_entry(tree, leaf, depth, m)
        value = weight * B[c, entry[1]]
        i = base + env.place[entry[0]]
        env.x[i] = env.x[i] + wp.float64(value * residual)
        for k in range(m + 1):
            other = chain_entry(tree, leaf, depth, k)
            add_entry(env, base, entry[0], other[0], value * B[c, other[1]])


@wp.func
def add_triple(
    tree: TreeView,
    env: EnvelopeView,
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.vec3,
    residual: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
):
    """Add three rows with their weights."""
    for m in range(chain_size(tree, leaf[0]) + chain_size(tree, leaf[1])):
        entry = chain_entry(tree, leaf, depth, m)
        value = wp.cw_mul(weight, B[c, entry[1]])
        i = base + env.place[entry[0]]
        env.x[i] = env.x[i] + wp.float64(wp.dot(value, residual))
        for k in range(m + 1):
            other = chain_entry(tree, leaf, depth, k)
            add_entry(env, base, entry[0], other[0], wp.dot(value, B[c, other[1]]))


@wp.func
def row_change(
    tree: TreeView,
    env: EnvelopeView,
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: float,
    residual: float,
    B: wp.array2d(dtype=float),
) -> float:
    """Change of a row's impulse, w (r - b x)."""
    v = wp.float64(residual)
    for m in range(chain_size(tree, leaf[0]) + chain_size(tree, leaf[1])):
        entry = chain_entry(tree, leaf, depth, m)
        v -= wp.float64(B[c, entry[1]]) * env.x[base + env.place[entry[0]]]
    return float(wp.float64(weight) * v)


@wp.func
def triple_change(
    tree: TreeView,
    env: EnvelopeView,
    base: int,
    leaf: wp.vec2i,
    depth: int,
    c: int,
    weight: wp.vec3,
    residual: wp.vec3,
    B: wp.array2d(dtype=wp.vec3),
) -> wp.vec3:
    """Changes of the impulses of three rows."""
    v = wp.vec3d(residual)
    for m in range(chain_size(tree, leaf[0]) + chain_size(tree, leaf[1])):
        entry = chain_entry(tree, leaf, depth, m)
        v -= wp.vec3d(B[c, entry[1]]) * env.x[base + env.place[entry[0]]]
    return wp.vec3(wp.cw_mul(wp.vec3d(weight), v))
