"""Teams of threads: a tree or a world is worked on by lanes that share its loops.

A kernel over teams takes `teams: Teams` where others take `first: int`, and begins with

    team = own_team(teams, wp.tid())
    for i in range(team.lane, n, lanes(team)):

with a `sync(team)` between what one lane writes and another reads or overwrites. On a GPU the lanes of a team
are neighbours in a warp: 1, 2, 4, ... 32 of them. On the CPU a team has one lane, known when the kernel is
compiled, so that such a loop is the plain one and a `sync` is nothing. All lanes come to the same syncs the
same number of times: what decides on a loop or a branch around one has to be the same in all of them.

Stage: any that works on trees or worlds
Called by: kernels/algebra/, kernels/collision/, kernels/collision/pairs/sweep.py,
    kernels/constraints/adjoint/system.py, kernels/constraints/, kernels/constraints/linear/,
    kernels/maximal/articulated_bodies.py, kernels/trees/
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Teams:
    """The teams of a launch, one for each index from the first on."""

    first: int  # index that the first team works on
    shift: int  # each has 2**shift lanes


@wp.struct
class Team:
    """A team as one of its lanes sees it."""

    index: int  # what it works on
    lane: int  # which of its lanes this is
    shift: int  # it has 2**shift lanes


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return teams.shift;
#else
    return 0;
#endif
    """
)
def shift_of(teams: Teams) -> int:
    """`teams.shift`; on the CPU 0, which the compiler knows."""
    ...


@wp.func
def own_team(teams: Teams, thread: int) -> Team:
    """The team of a thread of the launch."""
    team = Team()
    team.shift = shift_of(teams)
    team.index = teams.first + (thread >> team.shift)
    team.lane = thread & ((1 << team.shift) - 1)
    return team


@wp.func
def alone(index: int) -> Team:
    """A team of this thread alone, for what is written for teams."""
    team = Team()
    team.index = index
    return team


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return 1 << team.shift;
#else
    return 1;
#endif
    """
)
def lanes(team: Team) -> int:
    """How many lanes a team has."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    __syncwarp((0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane));
#endif
    """
)
def sync(team: Team):
    """Wait for the other lanes; what they wrote before is seen after it."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const unsigned mask = (0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane);
    __syncwarp(mask);  // a shuffle orders no memory
    for (int other = 1 << team.shift >> 1; other > 0; other >>= 1)
        value += __shfl_xor_sync(mask, value, other);
#endif
    return value;
    """
)
def sum_lanes(team: Team, value: float) -> float:
    """Sum of what each lane brings, the same bits in all of them; a `sync`, too."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const unsigned mask = (0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane);
    __syncwarp(mask);  // a shuffle orders no memory
    for (int other = 1 << team.shift >> 1; other > 0; other >>= 1)
        value = fmaxf(value, __shfl_xor_sync(mask, value, other));
#endif
    return value;
    """
)
def max_lanes(team: Team, value: float) -> float:
    """Largest of what each lane brings, in all of them; a `sync`, too."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const unsigned mask = (0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane);
    __syncwarp(mask);  // a shuffle orders no memory
    for (int other = 1 << team.shift >> 1; other > 0; other >>= 1)
        for (int i = 0; i < 3; ++i) value[i] += __shfl_xor_sync(mask, value[i], other);
#endif
    return value;
    """
)
def sum_triples(team: Team, value: wp.vec3) -> wp.vec3:
    """`sum_lanes` of three numbers."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const wp::int32 width = 1 << team.shift;
    const unsigned mask = (0xffffffffu >> (32 - width)) << ((threadIdx.x & 31) - team.lane);
    __syncwarp(mask);  // a shuffle orders no memory
    wp::int32 sum = count;
    for (wp::int32 other = 1; other < width; other <<= 1) {
        const wp::int32 lower = __shfl_up_sync(mask, sum, other, width);
        if (team.lane >= other) sum += lower;
    }
    const wp::int32 total = __shfl_sync(mask, sum, width - 1, width);
    return wp::vec_t<2, wp::int32>(sum - count, total);
#else
    return wp::vec_t<2, wp::int32>(0, count);
#endif
    """
)
def scan_lanes(team: Team, count: int) -> wp.vec2i:
    """How much the lanes before this one bring, and all lanes together; a `sync`, too."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const unsigned mask = (0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane);
    return __shfl_sync(mask, value, source, 1 << team.shift);
#else
    return value;
#endif
    """
)
def from_lane(team: Team, value: float, source: int) -> float:
    """The value of lane `source`, in all lanes, which have to agree on the source; it orders no memory."""
    ...
