"""Bounding boxes of the triangles of each world: a binary tree with a fixed order whose boxes are refitted.

The triangles of a world are sorted once, so that neighbours are adjacent; each of the m leaves holds an equal
share of them. Node n has the children 2 n and 2 n + 1, node 1 is the root, and leaf k is node m + k: no links
are needed, and the boxes are computed from the leaves up. A box contains all points that its triangles can
reach until the next detection (`Reach`), and half of the contact radius around them.

Stage: self-contact, broad phase
Called by: solvers/particles/self_contact.py, kernels/particles/self_contact/pairs.py
Reads: Reach, SurfaceTree
Writes: SurfaceTree
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})


@wp.struct
class SurfaceTree:
    """The triangles of all worlds in the order of the leaves; T triangles, L leaves, W worlds."""

    corners: wp.array(dtype=wp.vec3i)  # (T) particles
    across: wp.array(dtype=wp.vec3i)  # (T) particle opposite each side in the next triangle, -1 on a border
    owned: wp.array(dtype=int)  # (T) bits 0..2: corners, 3..5: sides that no earlier triangle has
    leaf_start: wp.array(dtype=int)  # (L + 1) first triangle
    leaf_world: wp.array(dtype=int)  # (L)
    world_leaf: wp.array(dtype=int)  # (W) first leaf
    world_leaves: wp.array(dtype=int)  # (W) number of leaves, a power of two, or 0
    world_subtrees: wp.array(dtype=int)  # (W) number, a power of two, or 0
    world_subtree: wp.array(dtype=int)  # (W) first subtree
    subtree_world: wp.array(dtype=int)
    # boxes [m]
    lower: wp.array(dtype=wp.vec3)  # (2 L) of the nodes; those of world w begin at 2 world_leaf[w]
    upper: wp.array(dtype=wp.vec3)
    triangle_lower: wp.array(dtype=wp.vec3)  # (T)
    triangle_upper: wp.array(dtype=wp.vec3)


@wp.struct
class Reach:
    """Reach of each particle until the next detection: along `path`, and up to `spread` off it."""

    anchor: wp.array(dtype=wp.vec3)  # (P) position at the detection [m]
    path: wp.array(dtype=wp.vec3)  # (P) [m]
    limit: wp.array(dtype=float)  # (P) [m] distance from the anchor that may not be exceeded
    lower: wp.array(dtype=wp.vec3)  # (P) box of these points and half of the contact radius [m]
    upper: wp.array(dtype=wp.vec3)
    spread: float  # [m]
    longest: wp.array(dtype=float)  # (W) [m] of a path, in each world
    half_radius: float  # [m]


@wp.func
def boxes_overlap(la: wp.vec3, ua: wp.vec3, lb: wp.vec3, ub: wp.vec3) -> bool:
    """True if two boxes have a point in common."""
    if la[0] > ub[0] or lb[0] > ua[0]:
        return False
    if la[1] > ub[1] or lb[1] > ua[1]:
        return False
    return la[2] <= ub[2] and lb[2] <= ua[2]


@wp.kernel
def enclose_leaves(first: int, tree: SurfaceTree, reach: Reach):
    """One thread per leaf: boxes of its triangles, and its own."""
    leaf = first + wp.tid()
    w = tree.leaf_world[leaf]
    low = wp.vec3(1.0e30, 1.0e30, 1.0e30)
    high = -low
    for t in range(tree.leaf_start[leaf], tree.leaf_start[leaf + 1]):
        c = tree.corners[t]
        l = wp.min(reach.lower[c[0]], wp.min(reach.lower[c[1]], reach.lower[c[2]]))
        u = wp.max(reach.upper[c[0]], wp.max(reach.upper[c[1]], reach.upper[c[2]]))
        tree.triangle_lower[t] = l
        tree.triangle_upper[t] = u
        low = wp.min(low, l)
        high = wp.max(high, u)
    node = leaf + tree.world_leaf[w] + tree.world_leaves[w]
    tree.lower[node] = low
    tree.upper[node] = high


@wp.func
def enclose_children(tree: SurfaceTree, nodes: int, k: int):
    """Box of node k of the world whose nodes begin at `nodes`, from those of its children."""
    a = nodes + 2 * k
    tree.lower[nodes + k] = wp.min(tree.lower[a], tree.lower[a + 1])
    tree.upper[nodes + k] = wp.max(tree.upper[a], tree.upper[a + 1])


@wp.kernel
def enclose_subtrees(first: int, tree: SurfaceTree):
    """One thread per subtree: boxes of its nodes above the leaves."""
    s = first + wp.tid()
    w = tree.subtree_world[s]
    nodes = 2 * tree.world_leaf[w]
    root = tree.world_subtrees[w] + s - tree.world_subtree[w]
    width = tree.world_leaves[w] // tree.world_subtrees[w] // 2
    while width >= 1:
        for k in range(root * width, (root + 1) * width):
            enclose_children(tree, nodes, k)
        width = width // 2


@wp.kernel
def enclose_worlds(first: int, tree: SurfaceTree):
    """One thread per world: boxes of the nodes above its subtrees."""
    w = first + wp.tid()
    k = tree.world_subtrees[w] - 1
    while k >= 1:
        enclose_children(tree, 2 * tree.world_leaf[w], k)
        k -= 1
