"""What `newtonsim.kernels.algebra.teams` is in emulated kernels: each lane is a fiber of the host.

At a `sync`, a lane waits for the others, then all go on one after the other; `site` says which sync it is,
see `emulated_teams`. The fibers are those that Warp runs the threads of a block with on a CPU: they change
without the system, whose threads would take far longer, and some kernels meet thousands of times.
"""

import ctypes
from functools import cache
from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})

MOST_LANES = 32


class Meeting(ctypes.Structure):
    """What lanes share; `MEETING` is the same."""

    _fields_ = (
        ("barrier", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("count", ctypes.c_int32),
        ("skip", ctypes.c_int32),
        ("fault", ctypes.c_int32),
        ("order", ctypes.c_int32 * MOST_LANES),
        ("rank", ctypes.c_int32 * MOST_LANES),
        ("round", ctypes.c_int32 * MOST_LANES),
        ("site", ctypes.c_int32 * MOST_LANES * 2),
        ("value", ctypes.c_float * MOST_LANES * 2),
        ("calls", ctypes.c_void_p),
        ("seen", ctypes.c_void_p),
    )


MEETING = f"""
    struct Meeting {{
        void (*barrier)();  // lets all other lanes come to it
        void (*entry)(void*, void*);  // of the kernel
        char* arguments;  // of all lanes, side by side
        wp::uint64 size;  // of the arguments of a lane [B]
        wp::int32 count;  // lanes
        wp::int32 skip;  // site at which they do not wait, or -1
        wp::int32 fault;  // site at which they did not all meet, or -1
        wp::int32 order[{MOST_LANES}];  // lanes in the order of their turns
        wp::int32 rank[{MOST_LANES}];  // place of each lane in this order
        wp::int32 round[{MOST_LANES}];  // how often each lane has come to a site
        wp::int32 site[2][{MOST_LANES}];  // where to, in this round and the one before
        wp::float32 value[2][{MOST_LANES}];  // and what it brought
        const wp::int32* calls;  // what each site combines, see `CALLS`
        wp::uint8* seen;  // 1 at sites at which they met
    }};
"""


CALLS = {"sync": 0, "max_lanes": 1, "from_lane": 1, "sum_lanes": 2, "sum_triples": 2, "scan_lanes": 3}
"""How lanes get what they get from what they bring."""


# a lane runs between its turn and the next one; meanwhile, others go from barrier to barrier
@wp.func_native(
    MEETING
    + """
    wp::float32 (*meet)(void*, wp::int32, wp::int32, wp::float32) =
        [](void* shared, wp::int32 lane, wp::int32 site, wp::float32 brought) -> wp::float32 {
        Meeting& m = *(Meeting*)shared;
        if (site == m.skip || m.fault >= 0) return brought;
        m.seen[site] = 1;
        const wp::int32 round = ++m.round[lane];
        const wp::int32 half = round & 1;
        m.site[half][lane] = site;
        m.value[half][lane] = brought;
        for (wp::int32 turn = m.rank[lane]; turn < m.count; ++turn) m.barrier();
        if (m.fault >= 0) return brought;
        for (wp::int32 other = 0; other < m.count; ++other)
            if (m.round[other] < round || m.site[half][other] != site) m.fault = site;
        if (m.fault >= 0) return brought;
        const wp::float32* values = m.value[half];
        wp::float32 found = 0.0f;
        if (m.calls[site] == 1) {
            found = values[0];
            for (wp::int32 other = 1; other < m.count; ++other)
                if (values[other] > found) found = values[other];
        }
        if (m.calls[site] == 2) {
            // in the order of shuffles, which is the same for all lanes
            wp::float32 sums[2][32];
            for (wp::int32 other = 0; other < m.count; ++other) sums[0][other] = values[other];
            wp::int32 now = 0;
            for (wp::int32 step = m.count / 2; step > 0; step /= 2, now = 1 - now)
                for (wp::int32 other = 0; other < m.count; ++other)
                    sums[1 - now][other] = sums[now][other] + sums[now][other ^ step];
            found = sums[now][lane];
        }
        if (m.calls[site] == 3) {
            // before and total are below 4096 here, and come as one number
            for (wp::int32 other = 0; other < m.count; ++other)
                found += other < lane ? 4097.0f * values[other] : values[other];
        }
        for (wp::int32 turn = 0; turn < m.rank[lane]; ++turn) m.barrier();
        return found;
    };
    return (wp::uint64)meet;
    """
)
def address_of_meet() -> wp.uint64: ...


@wp.func_native(
    MEETING
    + """
    void (*run)(void*, wp::uint64, wp::int32, void*) =
        [](void* bounds, wp::uint64 block, wp::int32 rank, void* shared) {
        Meeting& m = *(Meeting*)shared;
        for (wp::int32 turn = 0; turn < rank; ++turn) m.barrier();
        m.entry(bounds, m.arguments + m.order[rank] * m.size);
    };
    return (wp::uint64)run;
    """
)
def address_of_run() -> wp.uint64: ...


@wp.kernel
def find_addresses(found: wp.array(dtype=wp.uint64)):
    """The functions above, as machine code."""
    found[0] = address_of_meet()
    found[1] = address_of_run()


@cache
def addresses() -> tuple[int, int]:
    """Where a lane meets the others, and where it begins."""
    found = wp.zeros(2, dtype=wp.uint64, device="cpu")
    wp.launch(find_addresses, 1, [found], device="cpu")
    meet, run = found.numpy().tolist()
    return meet, run


class BlockRuntime(ctypes.Structure):
    """`wp_cpu_block_runtime_api` of `warp/native/cpu_block_runtime.h`."""

    _fields_ = (
        ("get_thread_idx", ctypes.c_void_p),
        ("get_active_count", ctypes.c_void_p),
        ("get_first_active_lane", ctypes.c_void_p),
        ("tile_sync", ctypes.c_void_p),
        (
            "run_block",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_int,
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_size_t,
                ctypes.c_void_p,
            ),
        ),
    )


@cache
def block_runtime() -> BlockRuntime:
    core: Any = wp._src.context.runtime.core
    return BlockRuntime.from_address(core.wp_cpu_block_runtime_get_api())


@wp.struct
class Teams:
    first: int  # index that the first team works on
    shift: int  # each has 2**shift lanes
    lane: int  # which lane of every team the threads of this launch are
    meet: wp.uint64  # address of the function that waits for the other lanes
    meeting: wp.uint64  # and of what it works on


@wp.struct
class Team:
    index: int
    lane: int
    shift: int
    meet: wp.uint64
    meeting: wp.uint64


@wp.func
def own_team(teams: Teams, thread: int) -> Team:
    team = Team()
    team.index = teams.first + thread
    team.lane = teams.lane
    team.shift = teams.shift
    team.meet = teams.meet
    team.meeting = teams.meeting
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
CALL = """
    typedef wp::float32 (*Meet)(void*, wp::int32, wp::int32, wp::float32);
    const auto call = [&](wp::float32 brought) {
        return team.meet ? ((Meet)team.meet)((void*)team.meeting, team.lane, site, brought) : brought;
    };
"""


@wp.func_native(CALL + "call(0.0f);")
def sync(team: Team, site: int): ...


@wp.func_native(CALL + "return call(value);")
def sum_lanes(team: Team, site: int, value: float) -> float: ...


@wp.func_native(CALL + "return call(value);")
def max_lanes(team: Team, site: int, value: float) -> float: ...


@wp.func
def sum_triples(team: Team, site: int, value: wp.vec3) -> wp.vec3:
    x = sum_lanes(team, site, value[0])
    y = sum_lanes(team, site, value[1])
    return wp.vec3(x, y, sum_lanes(team, site, value[2]))


# before and total are below 4096 here, and come as one number
@wp.func_native(
    CALL
    + """
    const wp::int32 both = (wp::int32)call((wp::float32)count);
    return wp::vec_t<2, wp::int32>(both >> 12, both & 4095);
    """
)
def scan_lanes(team: Team, site: int, count: int) -> wp.vec2i: ...


# the largest, where all others bring less than anything
@wp.func_native(CALL + "return team.meet && team.lane != source ? call(-3.0e38f) : call(value);")
def from_lane(team: Team, site: int, value: float, source: int) -> float: ...
