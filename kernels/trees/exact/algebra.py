"""Small dense matrices in float64, each in one row of a contiguous array, for one configuration.

Written in C++ like `sparse_blas`, since these are the inner loops of inverse kinematics. Golub and Van Loan,
"Matrix computations", 2013, sections 4.1 (LDLᵀ) and 8.5 (Jacobi).

Stage: inverse kinematics of a PyBullet client
Called by: kernels/trees/exact/reach.py
Reads: J, damping, e
Writes: A, V, x
"""

import newtonsim.kernels.lazy_warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
    const double* j = J.data + (size_t)c * J.shape[1];
    const double* d = damping.data + (size_t)c * damping.shape[1];
    double* a = A.data + (size_t)c * A.shape[1];
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < i; ++k) a[i * n + k] = 0.0;
        a[i * n + i] = d[i];
        for (int r = 0; r < m; ++r) {
            const double* row = j + r * n;
            for (int k = 0; k <= i; ++k) a[i * n + k] += row[i] * row[k];
        }
    }
    """
)
def damped_normal_matrix(
    c: int,
    m: int,
    n: int,
    J: wp.array2d(dtype=wp.float64),
    damping: wp.array2d(dtype=wp.float64),
    A: wp.array2d(dtype=wp.float64),
):
    """Lower triangle of A = JᵀJ + diag(damping), J being (m, n)."""
    ...


@wp.func_native(
    """
    const double* j = J.data + (size_t)c * J.shape[1];
    const double* from = e.data + (size_t)c * e.shape[1];
    double* to = x.data + (size_t)c * x.shape[1];
    for (int k = 0; k < n; ++k) to[k] = 0.0;
    for (int r = 0; r < m; ++r)
        for (int k = 0; k < n; ++k) to[k] += j[r * n + k] * from[r];
    """
)
def transposed_product(
    c: int,
    m: int,
    n: int,
    J: wp.array2d(dtype=wp.float64),
    e: wp.array2d(dtype=wp.float64),
    x: wp.array2d(dtype=wp.float64),
):
    """x = Jᵀ e."""
    ...


@wp.func_native(
    """
    double* a = A.data + (size_t)c * A.shape[1];
    double* b = x.data + (size_t)c * x.shape[1];
    for (int i = 0; i < n; ++i) {
        double* row = a + i * n;
        for (int k = 0; k < i; ++k)
            for (int l = 0; l < k; ++l) row[k] -= row[l] * a[k * n + l];
        double pivot = row[i];
        for (int k = 0; k < i; ++k) {
            const double d = a[k * n + k];
            const double factor = d == 0.0 ? 0.0 : row[k] / d;
            pivot -= factor * row[k];
            row[k] = factor;
            b[i] -= factor * b[k];
        }
        row[i] = fabs(pivot) > 1.0e-14 * fabs(row[i]) ? pivot : 0.0;
    }
    for (int i = n - 1; i >= 0; --i) {
        const double d = a[i * n + i];
        b[i] = d == 0.0 ? 0.0 : b[i] / d;
        for (int k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    }
    """
)
def solve_symmetric(c: int, n: int, A: wp.array2d(dtype=wp.float64), x: wp.array2d(dtype=wp.float64)):
    """Replace x by the solution of A y = x, and the lower triangle of A by its factors.

    Unknowns that A does not determine are zero before substitution of the others.
    """
    ...


@wp.func_native(
    """
    double* a = A.data + (size_t)c * A.shape[1];
    double* v = V.data + (size_t)c * V.shape[1];
    for (int i = 0; i < n * n; ++i) v[i] = i % (n + 1) == 0 ? 1.0 : 0.0;
    for (int sweep = 0; sweep < 30; ++sweep) {
        double off = 0.0, diagonal = 0.0;
        for (int i = 0; i < n; ++i) {
            diagonal += a[i * n + i] * a[i * n + i];
            for (int k = 0; k < i; ++k) off += a[i * n + k] * a[i * n + k];
        }
        if (off <= 1.0e-30 * diagonal) break;
        for (int i = 1; i < n; ++i)
            for (int k = 0; k < i; ++k) {
                const double aik = a[i * n + k];
                if (aik == 0.0) continue;
                const double theta = 0.5 * (a[i * n + i] - a[k * n + k]) / aik;
                const double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
                const double cosine = 1.0 / sqrt(t * t + 1.0), sine = t * cosine;
                for (int l = 0; l < n; ++l) {
                    const double x = a[k * n + l], y = a[i * n + l];
                    a[k * n + l] = cosine * x - sine * y;
                    a[i * n + l] = sine * x + cosine * y;
                }
                for (int l = 0; l < n; ++l) {
                    const double x = a[l * n + k], y = a[l * n + i];
                    a[l * n + k] = cosine * x - sine * y;
                    a[l * n + i] = sine * x + cosine * y;
                    const double p = v[l * n + k], q = v[l * n + i];
                    v[l * n + k] = cosine * p - sine * q;
                    v[l * n + i] = sine * p + cosine * q;
                }
            }
    }
    """
)
def diagonalize(c: int, n: int, A: wp.array2d(dtype=wp.float64), V: wp.array2d(dtype=wp.float64)):
    """Make the full symmetric matrix A diagonal; the columns of V are the eigenvectors."""
    ...


@wp.func_native(
    """
    const double* j = J.data + (size_t)c * J.shape[1];
    double* a = A.data + (size_t)c * A.shape[1];
    for (int r = 0; r < m; ++r)
        for (int s = 0; s <= r; ++s) {
            double total = 0.0;
            for (int k = 0; k < n; ++k) total += j[r * n + k] * j[s * n + k];
            a[r * m + s] = a[s * m + r] = total;
        }
    """
)
def outer_matrix(c: int, m: int, n: int, J: wp.array2d(dtype=wp.float64), A: wp.array2d(dtype=wp.float64)):
    """A = J Jᵀ, J being (m, n)."""
    ...
