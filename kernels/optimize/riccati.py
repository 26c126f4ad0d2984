"""The backward sweep of optimisers with linear models: from the horizon to the start, in double precision.

One thread goes through all controls, since a control needs the result of the next one. At control t, the
state x before it and the control u lead to x⁺ = F (x, u) with F = (A B); costs of (x⁺, u) have the slope g
and the curvature C, and the value function after it has the slope v and the curvature V. Then

    Q = Fᵀ (V + C_xx) F + Eᵀ C_ux F + Fᵀ C_xu E + Eᵀ C_uu E,   q = Fᵀ (v + g_x) + Eᵀ g_u,   E (x, u) = u

are curvature and slope by (x, u). The optimal control is u = k + K x with k = -Q_uu⁻¹ q_u and K = -Q_uu⁻¹
Q_ux. Matrices lie row after row in flat arrays.

Stage: optimisation, between the runs
Called by: newtonsim/optimize/riccati.py
Reads: SweepView
Writes: SweepView
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False, "max_unroll": 0})

DONE, BOUND, INDEFINITE = wp.constant(0), wp.constant(1), wp.constant(2)
"""Result of a sweep: all controls; one that meets a bound; a curvature that is not positive."""


@wp.struct
class SweepView:
    """Of T controls with M numbers each and states of S numbers; N = S + M."""

    states: int
    inputs: int
    F: wp.array(dtype=wp.float64)  # (T, S, N)
    slope: wp.array(dtype=wp.float64)  # (T, N) of the costs, by (x⁺, u)
    curvature: wp.array(dtype=wp.float64)  # (T, N, N)
    changes: bool  # whether there are costs of changes from control to control
    rise: wp.array(dtype=wp.float64)  # (T, M) their slope
    weight: wp.array(dtype=wp.float64)  # (T, M) their curvature
    open: bool  # whether there are gaps
    gaps: wp.array(dtype=wp.float64)  # (T, S) from the state to the result of the previous control
    low: wp.array(dtype=wp.float64)  # (T, M) bounds of changes
    high: wp.array(dtype=wp.float64)  # (T, M)
    damping: wp.float64  # share of the diagonal of Q_uu that is added to it
    change: wp.array(dtype=wp.float64)  # (T, M) k
    gain: wp.array(dtype=wp.float64)  # (T, M, S) K
    decrease: wp.array(dtype=wp.float64)  # (1) of the cost, expected
    # of the current control
    v: wp.array(dtype=wp.float64)  # (S) value function after it
    V: wp.array(dtype=wp.float64)  # (S, S)
    W: wp.array(dtype=wp.float64)  # (N, S)
    Z: wp.array(dtype=wp.float64)  # (N, N)
    q: wp.array(dtype=wp.float64)  # (N)
    Q: wp.array(dtype=wp.float64)  # (N, N)
    damped: wp.array(dtype=wp.float64)  # (M, M) Q_uu with damping
    L: wp.array(dtype=wp.float64)  # (M, M) its Cholesky factor
    status: wp.array(dtype=int)  # (2) DONE, BOUND or INDEFINITE, and the control that it is about


@wp.func_native("""
    for (int r = 0; r < n; ++r) {
        double* __restrict__ to = C.data + c + r * m;
        for (int s = 0; s < inner; ++s) {
            const double factor = A.data[a + r * inner + s];
            const double* __restrict__ from = B.data + b + s * m;
            if (factor != 0.0) for (int k = 0; k < m; ++k) to[k] += factor * from[k];
        }
    }
""")
def add_product(
    n: int,
    inner: int,
    m: int,
    A: wp.array(dtype=wp.float64),
    a: int,
    B: wp.array(dtype=wp.float64),
    b: int,
    C: wp.array(dtype=wp.float64),
    c: int,
):
    """C += A B with A (n, inner) from entry a on, B (inner, m) from b on, and C (n, m) from c on."""
    ...


@wp.func_native("""
    for (int s = 0; s < inner; ++s) {
        const double* __restrict__ from = B.data + b + s * m;
        for (int r = 0; r < n; ++r) {
            const double factor = A.data[a + s * n + r];
            double* __restrict__ to = C.data + c + r * stride;
            if (factor != 0.0) for (int k = 0; k < m; ++k) to[k] += factor * from[k];
        }
    }
""")
def add_transposed_product(
    n: int,
    inner: int,
    m: int,
    A: wp.array(dtype=wp.float64),
    a: int,
    B: wp.array(dtype=wp.float64),
    b: int,
    C: wp.array(dtype=wp.float64),
    c: int,
    stride: int,
):
    """C += Aᵀ B with A (inner, n) from entry a on, B (inner, m) from b on; rows of C are `stride` apart."""
    ...


@wp.func
def expand_control(view: SweepView, t: int):
    """Q and q of a control, without costs of changes."""
    S, N = view.states, view.states + view.inputs
    costs, course = t * N * N, t * S * N
    for i in range(N * N):
        view.Z[i] = wp.float64(0.0)
        view.Q[i] = wp.float64(0.0)
    for i in range(N):
        for j in range(S):
            w = view.curvature[costs + i * N + j]
            if i < S:
                w += view.V[i * S + j]
            view.W[i * S + j] = w
    add_product(N, S, N, view.W, 0, view.F, course, view.Z, 0)
    add_transposed_product(N, S, N, view.F, course, view.Z, 0, view.Q, 0, N)
    for i in range(S, N):
        view.q[i] = wp.float64(0.0)
        for j in range(N):  # mixed derivatives of costs by state and control
            cross = view.Z[i * N + j]
            view.Q[i * N + j] += cross
            view.Q[j * N + i] += cross
        for j in range(S, N):
            view.Q[i * N + j] += view.curvature[costs + i * N + j]
    for j in range(N):
        total = wp.float64(0.0)
        if j >= S:
            total = view.slope[t * N + j]
        view.q[j] = total
    for i in range(S):
        w = view.v[i] + view.slope[t * N + i]
        for j in range(N):
            view.q[j] += view.F[course + i * N + j] * w


@wp.func
def add_changes(view: SweepView, t: int):
    """Add costs of changes of u from the previous control, which is the last part of the state."""
    S, M = view.states, view.inputs
    N = S + M
    for k in range(M):
        weight, rise = view.weight[t * M + k], view.rise[t * M + k]
        own, before = S + k, S - M + k
        view.q[own] += rise
        view.q[before] -= rise
        view.Q[own * N + own] += weight
        view.Q[before * N + before] += weight
        view.Q[own * N + before] -= weight
        view.Q[before * N + own] -= weight


@wp.func
def factorize_control(view: SweepView) -> bool:
    """The damped Q_uu and its Cholesky factor; false if it is not positive definite."""
    S, M = view.states, view.inputs
    N = S + M
    largest = wp.float64(1.0e-12)
    for i in range(M):
        largest = wp.max(largest, view.Q[(S + i) * N + S + i])
    for i in range(M):
        for j in range(M):
            a = view.Q[(S + i) * N + S + j]
            if i == j:
                a += view.damping * (a + wp.float64(1.0e-9) * largest)
            view.damped[i * M + j] = a
    positive = bool(True)
    for i in range(M):
        for j in range(i + 1):
            total = view.damped[i * M + j]
            for k in range(j):
                total -= view.L[i * M + k] * view.L[j * M + k]
            if j < i:
                view.L[i * M + j] = total / view.L[j * M + j]
            else:
                if not total > wp.float64(0.0):
                    positive = False
                view.L[i * M + i] = wp.sqrt(wp.max(total, wp.float64(1.0e-300)))
    return positive


@wp.func
def solve_control(view: SweepView, t: int) -> bool:
    """k and K of a control; false if k leaves the bounds."""
    S, M = view.states, view.inputs
    N = S + M
    k, K = t * M, t * M * S
    for i in range(M):
        view.change[k + i] = -view.q[S + i]
        for j in range(S):
            view.gain[K + i * S + j] = -view.Q[(S + i) * N + j]
    for step in range(2 * M):
        backward = step >= M
        i = wp.where(backward, 2 * M - 1 - step, step)
        begin, end = wp.where(backward, i + 1, 0), wp.where(backward, M, i)
        for other in range(begin, end):
            factor = wp.where(backward, view.L[other * M + i], view.L[i * M + other])
            view.change[k + i] -= factor * view.change[k + other]
            for j in range(S):
                view.gain[K + i * S + j] -= factor * view.gain[K + other * S + j]
        pivot = view.L[i * M + i]
        view.change[k + i] = view.change[k + i] / pivot
        for j in range(S):
            view.gain[K + i * S + j] = view.gain[K + i * S + j] / pivot
    within = bool(True)
    for i in range(M):
        x = view.change[k + i]
        if not (view.low[k + i] <= x and x <= view.high[k + i]):
            within = False
    return within


@wp.func
def step_back(view: SweepView, t: int):
    """The value before a control, from its k and K."""
    S, M = view.states, view.inputs
    N = S + M
    k, K = t * M, t * M * S
    for i in range(S):
        view.v[i] = view.q[i]
        for j in range(S):
            view.V[i * S + j] = view.Q[i * N + j]
    for i in range(M):  # Z_u = Q_uu K + Q_ux, and q + Q_uu k in its place
        q_u = view.q[S + i]
        promised = q_u
        for j in range(M):
            Qk = view.Q[(S + i) * N + S + j] * view.change[k + j]
            q_u += Qk
            promised += wp.float64(0.5) * Qk
        view.decrease[0] -= view.change[k + i] * promised
        for j in range(S):
            cross = view.Q[(S + i) * N + j]
            view.Z[i * S + j] = cross
            view.v[j] += cross * view.change[k + i] + view.gain[K + i * S + j] * q_u
            view.W[i * S + j] = cross
        for other in range(M):
            factor = view.Q[(S + i) * N + S + other]
            for j in range(S):
                view.Z[i * S + j] += factor * view.gain[K + other * S + j]
    add_transposed_product(S, M, S, view.gain, K, view.Z, 0, view.V, 0, S)
    add_transposed_product(S, M, S, view.W, 0, view.gain, K, view.V, 0, S)
    for i in range(S):
        for j in range(i):
            mean = wp.float64(0.5) * (view.V[i * S + j] + view.V[j * S + i])
            view.V[i * S + j] = mean
            view.V[j * S + i] = mean
    if view.open:
        for i in range(S):
            for j in range(S):
                view.v[i] += view.V[i * S + j] * view.gaps[t * S + j]


@wp.kernel
def sweep_back(last: int, given: bool, view: SweepView):
    """One thread in all: go back from control `last`, whose k and K may be given already."""
    t = last
    if given:
        step_back(view, t)
        t -= 1
    view.status[0] = DONE
    while t >= 0:
        expand_control(view, t)
        if view.changes:
            add_changes(view, t)
        view.status[1] = t
        if not factorize_control(view):
            view.status[0] = INDEFINITE
            t = -1
        elif not solve_control(view, t):
            view.status[0] = BOUND
            t = -1
        else:
            step_back(view, t)
        t -= 1
