"""Terms of events: the start of an episode, and random events in it.

Stage: environment, starts, actions
Called by: newtonsim/envs/terms/library.py
Reads: EnvView, TermView, mask
Writes: EnvView
"""

import newtonsim.kernels.lazy_warp as wp
from newtonsim.kernels.envs.terms.views import TermView, draw_of
from newtonsim.kernels.envs.terrain import turning_to
from newtonsim.kernels.envs.views import EnvView, uniform

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

PI = wp.constant(3.14159265)


@wp.kernel
def start_at_home(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the joints at home with noise, where their drives hold them; any heading.

    Numbers: noise of the joints [rad or m], greatest speed of a free base [m/s and rad/s], 1 for any heading.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = draw_of(env, term, w, 0)
    q = w * env.coords
    turned = term.numbers[2] == 1.0
    if turned:
        half = PI * wp.randf(state)
        env.joint_q[q + 3] = 0.0
        env.joint_q[q + 4] = 0.0
        env.joint_q[q + 5] = wp.sin(half)
        env.joint_q[q + 6] = wp.cos(half)
    if turned or term.numbers[1] > 0.0:
        for i in range(6):
            env.joint_qd[w * env.dofs + i] = uniform(-term.numbers[1], term.numbers[1], wp.randf(state))
    for k in range(term.coords.shape[0]):
        noise = uniform(-term.numbers[0], term.numbers[0], wp.randf(state))
        env.joint_q[q + term.coords[k]] = term.home[k] + noise
        env.joint_act[w * env.axes + term.axes[k]] = term.home[k]


@wp.kernel
def hold_at_home(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the targets of drives that actions do not move are those of home."""
    w = first + wp.tid()
    if mask[w]:
        for k in range(term.axes.shape[0]):
            env.joint_act[w * env.axes + term.axes[k]] = term.home[k]


@wp.kernel
def start_anyhow(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: in any orientation above the ground, the joints about home.

    Numbers: noise of the joints [rad or m], height of the base [m].
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = draw_of(env, term, w, 0)
    q = w * env.coords
    env.joint_q[q + 2] = term.numbers[1]
    # uniform over all orientations: Shoemake, "Uniform random rotations", 1992
    u = wp.randf(state)
    a = 2.0 * PI * wp.randf(state)
    b = 2.0 * PI * wp.randf(state)
    env.joint_q[q + 3] = wp.sqrt(1.0 - u) * wp.sin(a)
    env.joint_q[q + 4] = wp.sqrt(1.0 - u) * wp.cos(a)
    env.joint_q[q + 5] = wp.sqrt(u) * wp.sin(b)
    env.joint_q[q + 6] = wp.sqrt(u) * wp.cos(b)
    for k in range(term.coords.shape[0]):
        noise = uniform(-term.numbers[0], term.numbers[0], wp.randf(state))
        env.joint_q[q + term.coords[k]] = term.home[k] + noise
        env.joint_act[w * env.axes + term.axes[k]] = term.home[k]


@wp.kernel
def start_in_air(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the base about the target, tilted and moving.

    Numbers: greatest offset in each axis [m], tilt [rad], speed [m/s] and angular velocity [rad/s].
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = draw_of(env, term, w, 0)
    q = w * env.coords
    qd = w * env.dofs
    most = term.numbers[0]
    for i in range(3):
        off = uniform(-most, most, wp.randf(state))
        env.joint_q[q + i] = env.memory[w, term.command + i] + off
        env.joint_qd[qd + i] = uniform(-term.numbers[3], term.numbers[3], wp.randf(state))
        env.joint_qd[qd + 3 + i] = uniform(-term.numbers[2], term.numbers[2], wp.randf(state))
    angle = 2.0 * PI * wp.randf(state)
    tilt = term.numbers[1] * wp.randf(state)
    turn = wp.quat_from_axis_angle(wp.vec3(wp.cos(angle), wp.sin(angle), 0.0), tilt)
    for i in range(4):
        env.joint_q[q + 3 + i] = turn[i]


@wp.kernel
def place_body(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: a free body in a rectangle, turned about the vertical.

    Numbers: least x and y, greatest x and y, height [m], its first coordinate within the world, greatest turn
    to either side [rad].
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = draw_of(env, term, w, 0)
    q = w * env.coords + int(term.numbers[5])
    env.joint_q[q] = uniform(term.numbers[0], term.numbers[2], wp.randf(state))
    env.joint_q[q + 1] = uniform(term.numbers[1], term.numbers[3], wp.randf(state))
    env.joint_q[q + 2] = term.numbers[4]
    half = 0.5 * uniform(-term.numbers[6], term.numbers[6], wp.randf(state))
    env.joint_q[q + 3] = 0.0
    env.joint_q[q + 4] = 0.0
    env.joint_q[q + 5] = wp.sin(half)
    env.joint_q[q + 6] = wp.cos(half)


@wp.kernel
def draw_command(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: three numbers within a box, at the start and from time to time.

    During an episode, the mask contains all worlds, and worlds whose time has not come are skipped. Numbers:
    least (3), greatest (3), steps from draw to draw, or 0 for once, share of commands that are zero, size of
    the first two below which they are.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    step = env.length[w]
    every = int(term.numbers[6])
    if step > 0:
        if every == 0 or step % every != 0:
            return
    state = draw_of(env, term, w, step)
    still = wp.randf(state) < term.numbers[7]
    c = term.command
    for i in range(3):
        value = uniform(term.numbers[i], term.numbers[3 + i], wp.randf(state))
        if still:
            value = 0.0
        env.memory[w, c + i] = value
    x = env.memory[w, c]
    y = env.memory[w, c + 1]
    if x * x + y * y < term.numbers[8] * term.numbers[8]:
        env.memory[w, c] = 0.0
        env.memory[w, c + 1] = 0.0


@wp.kernel
def turn_to_heading(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the commanded turning brings the base to a heading, drawn at the start.

    Runs after `draw_command`. The heading is remembered [rad]. Numbers: greatest turning [rad/s].
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    if env.length[w] == 0:
        state = draw_of(env, term, w, 0)
        env.memory[w, term.note] = uniform(-PI, PI, wp.randf(state))
    # at the start of an episode, only the coordinates have their values
    q = w * env.coords
    turn = wp.quat(env.joint_q[q + 3], env.joint_q[q + 4], env.joint_q[q + 5], env.joint_q[q + 6])
    env.memory[w, term.command + 2] = turning_to(env.memory[w, term.note], turn, term.numbers[0])


@wp.kernel
def start_on_patch(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: the middle of a patch of the terrain, harder or easier than the last one.

    Runs after `start_at_home` and `draw_command`. A world keeps its kind of patch; it moves up a level if the
    base came farther than half a patch, and down if it came less than half as far as its command asks for in
    a whole episode. After the hardest level, a random one follows. Kept: level, kind, x and y of the start,
    distance so far, required distance. Numbers: levels, kinds, side of a patch [m], first levels, 1 for a
    curriculum, time of an episode [s], height of the base above the ground [m], then the height of each
    patch, by level and kind.
    """
    w = first + wp.tid()
    if not mask[w]:
        return
    state = draw_of(env, term, w, 0)
    levels = int(term.numbers[0])
    kinds = int(term.numbers[1])
    size = term.numbers[2]
    level = int(env.kept[w, 0])
    anywhere = wp.randf(state)
    some_kind = wp.min(int(wp.randf(state) * float(kinds)), kinds - 1)
    if env.episode[w] == 0:
        level = wp.min(int(anywhere * term.numbers[3]), levels - 1)
        env.kept[w, 1] = float(some_kind)
    elif term.numbers[4] == 1.0:
        if env.kept[w, 4] > 0.5 * size:
            level += 1
        elif env.kept[w, 4] < 0.5 * env.kept[w, 5]:
            level = wp.max(level - 1, 0)
        if level >= levels:
            level = wp.min(int(anywhere * float(levels)), levels - 1)
    if env.terrain[w] >= 0.0:
        level = wp.min(int(env.terrain[w] * float(levels)), levels - 1)
    kind = int(env.kept[w, 1])
    env.kept[w, 0] = float(level)
    q = w * env.coords
    env.joint_q[q] = (float(level) + 0.5 - 0.5 * float(levels)) * size + uniform(-0.5, 0.5, wp.randf(state))
    env.joint_q[q + 1] = (float(kind) + 0.5 - 0.5 * float(kinds)) * size + uniform(-0.5, 0.5, wp.randf(state))
    env.joint_q[q + 2] = term.numbers[7 + level * kinds + kind] + term.numbers[6]
    env.kept[w, 2] = env.joint_q[q]
    env.kept[w, 3] = env.joint_q[q + 1]
    env.kept[w, 4] = 0.0
    x = env.memory[w, term.command]
    y = env.memory[w, term.command + 1]
    env.kept[w, 5] = wp.sqrt(x * x + y * y) * term.numbers[5]


@wp.kernel
def note_way(first: int, env: EnvView, term: TermView, mask: wp.array(dtype=bool)):
    """One thread per world: distance of the base from the start of the episode, for `start_on_patch`."""
    w = first + wp.tid()
    p = wp.transform_get_translation(env.body_q[w * env.bodies + term.base])
    x = p[0] - env.kept[w, 2]
    y = p[1] - env.kept[w, 3]
    env.kept[w, 4] = wp.sqrt(x * x + y * y)
