"""What `newtonsim.kernels.algebra.teams` is in emulated kernels: each lane is a thread of the host.

A `sync` calls the host, which lets the lanes go on one after the other; `site` says which one it is, see
`emulated_teams`.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class Teams:
    first: int  # index that the first team works on
    shift: int  # each has 2**shift lanes
    lane: int  # which lane of every team the threads of this launch are
    meet: wp.uint64  # address of what waits for the other lanes


@wp.struct
class Team:
    index: int
    lane: int
    shift: int
    meet: wp.uint64


@wp.func
def own_team(teams: Teams, thread: int) -> Team:
    team = Team()
    team.index = teams.first + thread
    team.lane = teams.lane
    team.shift = teams.shift
    team.meet = teams.meet
    return team


@wp.func
def alone(index: int) -> Team:
    team = Team()
    team.index = index
    return team


@wp.func
def lanes(team: Team) -> int:
    return 1 << team.shift


# as on a GPU, where one lane, too, takes the way of many
@wp.func
def has_one_lane(team: Team) -> bool:
    return False


# Warp makes macros of `float` and `int` before parentheses
@wp.func_native(
    """
    typedef wp::float32 (*Meet)(wp::int32, wp::float32);
    if (team.meet) ((Meet)team.meet)(site, 0.0f);
    """
)
def sync(team: Team, site: int): ...


@wp.func_native(
    """
    typedef wp::float32 (*Meet)(wp::int32, wp::float32);
    return team.meet ? ((Meet)team.meet)(site, value) : value;
    """
)
def sum_lanes(team: Team, site: int, value: float) -> float: ...


@wp.func_native(
    """
    typedef wp::float32 (*Meet)(wp::int32, wp::float32);
    return team.meet ? ((Meet)team.meet)(site, value) : value;
    """
)
def max_lanes(team: Team, site: int, value: float) -> float: ...


@wp.func
def sum_triples(team: Team, site: int, value: wp.vec3) -> wp.vec3:
    x = sum_lanes(team, site, value[0])
    y = sum_lanes(team, site, value[1])
    return wp.vec3(x, y, sum_lanes(team, site, value[2]))


# before and total are below 4096 here, and come as one number
@wp.func_native(
    """
    typedef wp::float32 (*Meet)(wp::int32, wp::float32);
    const wp::int32 both = team.meet ? (wp::int32)((Meet)team.meet)(site, (wp::float32)count) : count;
    return wp::vec_t<2, wp::int32>(both >> 12, both & 4095);
    """
)
def scan_lanes(team: Team, site: int, count: int) -> wp.vec2i: ...


# the largest, where all others bring less than anything
@wp.func_native(
    """
    typedef wp::float32 (*Meet)(wp::int32, wp::float32);
    if (!team.meet) return value;
    return ((Meet)team.meet)(site, team.lane == source ? value : -3.0e38f);
    """
)
def from_lane(team: Team, site: int, value: float, source: int) -> float: ...
