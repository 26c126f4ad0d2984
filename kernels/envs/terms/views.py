"""Arguments of the kernels of terms, besides the environment.

Every kernel of a term has one thread per world and the arguments `first`, `env`, `term` and `mask`. Lengths:
B bodies, J joints, N numbers of the term.

Stage: environment, all stages
Called by: newtonsim/envs/terms/__init__.py, kernels/envs/terms/events.py, kernels/envs/terms/gait.py,
    kernels/envs/terms/rewards.py
Reads: EnvView, TermView
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.views import SPAWN, EnvView, random_of


@wp.struct
class TermView:
    """A term: the elements to which it refers, and the places of its numbers."""

    weight: float  # of a reward, per second
    column: int  # first number of the observation that it writes
    stream: int  # stream of its random numbers, different for each term
    base: int  # body of a world
    command: int  # first column of the command in the memory
    action: int  # first column of the last actions in the memory, those before them follow
    note: int  # first column of its own memory
    sensed: int  # first column of its sensor's readings
    bodies: wp.array(dtype=int)  # (B) bodies of a world
    coords: wp.array(dtype=int)  # (J) coordinates of its joints within a world
    dofs: wp.array(dtype=int)  # (J)
    axes: wp.array(dtype=int)  # (J)
    home: wp.array(dtype=float)  # (J) coordinates in the home pose [rad or m]
    numbers: wp.array(dtype=float)  # (N)
    field: wp.array(dtype=float)  # a field of the model as single numbers, `width` of them in an entry
    width: int
    entries: wp.array2d(dtype=int)  # (W, E) entries of the field that each world observes


@wp.func
def point_of(term: TermView, first: int, k: int) -> wp.vec3:
    """Point of the k-th of a term's bodies in its frame [m]; the last one given is that of all others.

    Points are the last numbers of the term; `first` is where they begin.
    """
    at = first + 3 * wp.min(k, (term.numbers.shape[0] - first) // 3 - 1)
    return wp.vec3(term.numbers[at], term.numbers[at + 1], term.numbers[at + 2])


@wp.func
def draw_of(env: EnvView, term: TermView, w: int, step: int) -> wp.uint32:
    """Start of the random numbers of a term in a step of a world's episode."""
    of_term = wp.rand_init(int(random_of(env, w, SPAWN)), 1 + term.stream)
    return wp.rand_init(int(of_term), step)
