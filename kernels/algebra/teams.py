"""Teams of threads: lanes share the loops over a tree or a world.

A kernel over teams takes `teams: Teams` where others take `first: int`, and begins with

    team = own_team(teams, wp.tid())
    for i in range(team.lane, n, lanes(team)):

with a `sync(team)` between what one lane writes and another reads or overwrites. On a GPU, a team has 1, 2,
4, ... 32 lanes, which are neighbours in a warp. On the CPU, it has one lane, which is known at compile time,
so that such a loop is an ordinary one and a `sync` does nothing. All lanes have to reach the same syncs the
same number of times: the condition of a loop or branch around one has to be the same in all of them.

Stage: any that works on trees or worlds
Called by: kernels/algebra/, kernels/collision/, kernels/collision/pairs/sweep.py,
    kernels/constraints/adjoint/, kernels/constraints/, kernels/constraints/linear/,
    kernels/constraints/solve/, kernels/envs/free.py, kernels/maximal/articulated_bodies.py,
    kernels/steps/reset.py, kernels/trees/
Reads: its arguments
Writes: nothing, its functions return what they find
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Teams:
    """The teams of a launch, one for each index from the first on."""

    first: int  # index of the first team
    shift: int  # each has 2**shift lanes


@wp.struct
class Team:
    """A team, as seen from one of its lanes."""

    index: int  # its index
    lane: int  # number of this lane
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
    """A team of this thread alone, to call functions for teams."""
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
    """Number of lanes of a team."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return false;
#else
    return true;
#endif
    """
)
def has_one_lane(team: Team) -> bool:
    """True if all teams have one lane, which the compiler knows; false on a GPU."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    __syncwarp((0xffffffffu >> (32 - (1 << team.shift))) << ((threadIdx.x & 31) - team.lane));
#endif
    """
)
def sync(team: Team):
    """Wait for the other lanes; their earlier writes are visible afterwards."""
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
    """Sum over all lanes, with the same bits in each of them; includes a `sync`."""
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
    """Maximum over all lanes, in each of them; includes a `sync`."""
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
    """Sum over the lanes before this one, and over all lanes; includes a `sync`."""
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
