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
#if defined(__CUDA_ARCH__)
    for (int r = 0; r < n; ++r)
        for (int s = 0; s < inner; ++s) {
            const double entry = factor * A.data[a + r * row + s * column];
            for (int k = 0; k < m; ++k) C.data[c + r * stride + k] += entry * B.data[b + s * m + k];
        }
#else
    // four columns at a time, and the sums of a row in registers
    typedef double Four __attribute__((vector_size(32)));
    auto add = [&](double* to, const double* factors, const double* from, auto& sums) {
        constexpr int vectors = sizeof(sums) / sizeof(Four);
        __builtin_memcpy(&sums, to, sizeof(sums));
        for (int s = 0; s < inner; ++s) {
            Four terms[vectors];
            __builtin_memcpy(&terms, from + s * m, sizeof(terms));
            for (int v = 0; v < vectors; ++v) sums[v] += factor * factors[s * column] * terms[v];
        }
        __builtin_memcpy(to, &sums, sizeof(sums));
    };
    for (int r = 0; r < n; ++r) {
        double* to = C.data + c + r * stride;
        const double* factors = A.data + a + r * row;
        int k = 0;
        for (; k + 32 <= m; k += 32) { Four sums[8]; add(to + k, factors, B.data + b + k, sums); }
        for (; k + 16 <= m; k += 16) { Four sums[4]; add(to + k, factors, B.data + b + k, sums); }
        for (; k + 4 <= m; k += 4) { Four sums[1]; add(to + k, factors, B.data + b + k, sums); }
        for (; k < m; ++k)
            for (int s = 0; s < inner; ++s) to[k] += factor * factors[s * column] * B.data[b + s * m + k];
    }
#endif
""")
def add_product(
    n: int,
    inner: int,
    m: int,
    A: wp.array(dtype=wp.float64),
    a: int,
    row: int,
    column: int,
    B: wp.array(dtype=wp.float64),
    b: int,
    C: wp.array(dtype=wp.float64),
    c: int,
    stride: int,
    factor: wp.float64,
):
    """C += factor A B with A (n, inner), B (inner, m) and C (n, m), from the entries a, b and c on.

    Entries of A are `row` and `column` apart, so that A may be a transpose; rows of C are `stride` apart.
    """
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
    one = wp.float64(1.0)
    add_product(N, S, N, view.W, 0, S, 1, view.F, course, view.Z, 0, N, one)
    add_product(N, S, N, view.F, course, 1, N, view.Z, 0, view.Q, 0, N, one)
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
        view.W[i] = view.v[i] + view.slope[t * N + i]
    add_product(1, S, N, view.W, 0, S, 1, view.F, course, view.q, 0, N, one)


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
    minus = wp.float64(-1.0)
    for i in range(M):
        view.change[k + i] = -view.q[S + i]
        for j in range(S):
            view.gain[K + i * S + j] = -view.Q[(S + i) * N + j]
    for step in range(2 * M):
        backward = step >= M
        i = wp.where(backward, 2 * M - 1 - step, step)
        first, count = wp.where(backward, i + 1, 0), wp.where(backward, M - 1 - i, i)
        a, column = wp.where(backward, first * M + i, i * M), wp.where(backward, M, 1)
        change, gain = view.change, view.gain
        add_product(1, count, 1, view.L, a, 0, column, change, k + first, change, k + i, 1, minus)
        add_product(1, count, S, view.L, a, 0, column, gain, K + first * S, gain, K + i * S, S, minus)
        inverse = wp.float64(1.0) / view.L[i * M + i]
        view.change[k + i] = view.change[k + i] * inverse
        for j in range(S):
            view.gain[K + i * S + j] = view.gain[K + i * S + j] * inverse
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
    one = wp.float64(1.0)
    for i in range(M):  # Z = Q_uu K + Q_ux, and q + Q_uu k in its place
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
    add_product(M, M, S, view.Q, S * N + S, N, 1, view.gain, K, view.Z, 0, S, one)
    add_product(S, M, S, view.gain, K, 1, S, view.Z, 0, view.V, 0, S, one)
    add_product(S, M, S, view.Q, S * N, 1, N, view.gain, K, view.V, 0, S, one)
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
