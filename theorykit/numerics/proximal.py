"""Template of a compiled proximal solver: global minimization of a token-symmetric objective, node by node.

The objective of a node is ``energy(S, y) + sum_l (chi_l - omega_k[l])^2/(2 V_k)`` with S_j = sum_l s_j(chi_l,
omega_v[l]). The generated module supplies ``token`` (s, first and second derivatives of one token) and
``energy`` (value, first and second derivatives in S) as scalar functions; the Hessian is diagonal plus U G''
U^T. The template knows neither.

Minimization: Newton with a Levenberg shift until the Cholesky factorization succeeds, backtracking, from the previous
minimizer, from omega_k and, where asked for, from 2 L points at which one field is moved by 3 from the largest
of the others. Sums over nodes are made in fixed chunks, so that results do not depend on the number of threads.
"""

from __future__ import annotations

__all__ = ["ATTEND", "CHUNK", "MINIMIZE", "OUTPUTS"]

CHUNK = 128  # nodes whose sums are added before anything else

#: What is summed over the nodes, in this order.
OUTPUTS = (
    "kk", "vv", "k_noise", "k_truth", "k_slope", "v_label", "v_field", "k_div", "v_div", "loss", "energy",
    "dkk", "dkv", "dvv",
)  # fmt: skip

MINIMIZE = """
@njit(nogil=True, error_model="numpy")
def objective_at(x, wk, wv, y, Vk, P, S):
    for j in range(J):
        S[j] = 0.0
    distance = 0.0
    for l in range(x.shape[0]):
        token_values(x[l], wv[l], P, S)
        distance += (x[l] - wk[l]) * (x[l] - wk[l])
    return energy_value(S, y, P) + distance / (2.0 * Vk)


@njit(nogil=True, error_model="numpy")
def expand_at(x, wk, wv, y, Vk, P, S, G, GG, U, D2, g, H):
    # value, gradient and Hessian at x
    n = x.shape[0]
    value = objective_at(x, wk, wv, y, Vk, P, S)
    energy_slopes(S, y, P, G, GG)
    for l in range(n):
        token_slopes(x[l], wv[l], P, U[l], D2[l])
        g[l] = (x[l] - wk[l]) / Vk
        for j in range(J):
            g[l] += G[j] * U[l, j]
    for l in range(n):
        for m in range(l + 1):
            total = 0.0
            for i in range(J):
                for j in range(J):
                    total += GG[i, j] * U[l, i] * U[m, j]
            H[l, m] = total
        H[l, l] += 1.0 / Vk
        for j in range(J):
            H[l, l] += G[j] * D2[l, j]
    return value


@njit(nogil=True, error_model="numpy")
def factorize(H, shift, C):
    # Cholesky factor of H + shift, False where there is none
    n = H.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = H[i, j]
            if i == j:
                total += shift
            for k in range(j):
                total -= C[i, k] * C[j, k]
            if i == j:
                if not total > 1e-12:
                    return False
                C[i, i] = math.sqrt(total)
            else:
                C[i, j] = total / C[j, j]
    return True


@njit(nogil=True, error_model="numpy")
def solve_factorized(C, b, out):
    n = C.shape[0]
    for i in range(n):
        total = b[i]
        for k in range(i):
            total -= C[i, k] * out[k]
        out[i] = total / C[i, i]
    for i in range(n - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, n):
            total -= C[k, i] * out[k]
        out[i] = total / C[i, i]


@njit(nogil=True, error_model="numpy")
def descend(x, wk, wv, y, Vk, P, S, G, GG, U, D2, g, H, C, step, trial):
    # x moves to a local minimum; its value is returned
    n = x.shape[0]
    value = np.inf
    for iteration in range(100):
        value = expand_at(x, wk, wv, y, Vk, P, S, G, GG, U, D2, g, H)
        if not math.isfinite(value):
            return np.inf
        shift = 0.0
        for attempt in range(60):
            if factorize(H, shift, C):
                break
            shift = max(2.0 * shift, 0.1 / Vk)
        solve_factorized(C, g, step)
        slope, size = 0.0, 0.0
        for l in range(n):
            slope -= g[l] * step[l]
            size = max(size, abs(step[l]) / (1.0 + abs(x[l])))
        length = 1.0
        moved = False
        for attempt in range(50):
            for l in range(n):
                trial[l] = x[l] - length * step[l]
            new = objective_at(trial, wk, wv, y, Vk, P, S)
            if new <= value + 1e-4 * length * slope + 1e-14 * (1.0 + abs(value)):
                moved = True
                break
            length *= 0.5
        if not moved:
            break
        for l in range(n):
            x[l] = trial[l]
        value = new
        if size * length < 1e-8 and shift == 0.0:
            break
    return value


@njit("void(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], "
      "float64[:, ::1], float64[:, ::1], boolean, float64[:, ::1], int64, int64)",
      nogil=True, cache=True, error_model="numpy", boundscheck=False)
def minimize_nodes(P, truth, noise, gauss, slope, label_noise, chi, rivals, thorough, out, lo, hi):
    n = truth.shape[1]
    Vk = P[I_V_K]
    S, G, GG = np.empty(J), np.empty(J), np.empty((J, J))
    U, D2, A, B = np.empty((n, J)), np.empty((n, J)), np.empty((n, J)), np.empty((n, J))
    g, step, trial, x, best, second = (np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    H, C, M, Y = np.empty((n, n)), np.zeros((n, n)), np.empty((n, n)), np.empty((n, n))
    wk, wv, fk, fv, column = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for chunk in range(lo, hi):
        for o in range(out.shape[1]):
            out[chunk, o] = 0.0
        for node in range(chunk * CHUNK, min((chunk + 1) * CHUNK, truth.shape[0])):
            for l in range(n):
                wk[l] = field_k(truth[node, l], noise[node, l], P)
                wv[l] = field_v(gauss[node, l], P)
            mean = label_mean(wv[0], P)
            rest = label_spread(P) * label_noise[node]
            y = mean + rest
            lowest, runner = np.inf, np.inf
            starts = 2 + 2 * n if thorough else 2
            for start in range(starts):
                if start == 0:
                    for l in range(n):
                        x[l] = chi[node, l]
                elif start == 1:
                    for l in range(n):
                        x[l] = wk[l]
                else:
                    moving = (start - 2) // 2
                    top = -np.inf
                    for l in range(n):
                        x[l] = wk[l]
                        if l != moving or n == 1:
                            top = max(top, wk[l])
                    x[moving] = top + (3.0 if start % 2 == 0 else -3.0)
                value = descend(x, wk, wv, y, Vk, P, S, G, GG, U, D2, g, H, C, step, trial)
                apart = 0.0
                for l in range(n):
                    apart = max(apart, abs(x[l] - best[l])) if start > 0 else 0.0
                if value < lowest:
                    if start > 0 and apart > 1e-3 and lowest < runner:
                        runner = lowest
                        for l in range(n):
                            second[l] = best[l]
                    lowest = value
                    for l in range(n):
                        best[l] = x[l]
                elif apart > 1e-3 and value < runner:
                    runner = value
                    for l in range(n):
                        second[l] = x[l]
            for l in range(n):
                chi[node, l] = best[l]
            expand_at(best, wk, wv, y, Vk, P, S, G, GG, U, D2, g, H)
            for l in range(n):
                fk[l] = (best[l] - wk[l]) / Vk
                fv[l] = response_v(S, best[l], wv[l], y, P)
                token_mixed(best[l], wv[l], P, A[l], B[l])
            if thorough:
                rivals[node, 0] = runner - lowest
                rivals[node, 1] = 0.0
                rivals[node, 2] = 0.0
                if runner < np.inf:
                    objective_at(second, wk, wv, y, Vk, P, S)
                    for l in range(n):
                        d = (second[l] - wk[l]) / Vk - fk[l]
                        rivals[node, 1] += d * d
                        d = response_v(S, second[l], wv[l], y, P) - fv[l]
                        rivals[node, 2] += d * d
                    objective_at(best, wk, wv, y, Vk, P, S)
            factorize(H, 0.0, C)
            # M = mixed second derivatives (chi, omega_v), Y = H^-1 M
            for m in range(n):
                for l in range(n):
                    total = 0.0
                    for i in range(J):
                        for j in range(J):
                            total += GG[i, j] * U[l, i] * A[m, j]
                        if l == m:
                            total += G[i] * B[l, i]
                    M[l, m] = total
                    column[l] = total
                solve_factorized(C, column, step)
                for l in range(n):
                    Y[l, m] = step[l]
            kk = vv = dk = dv = fkk = fkv = fvv = 0.0
            for m in range(n):
                for l in range(n):
                    column[l] = 1.0 if l == m else 0.0
                solve_factorized(C, column, step)
                for l in range(n):
                    d = (step[l] / Vk - column[l]) / Vk
                    fkk += d * d
                    if l == m:
                        dk += d
                    d = Y[l, m] / Vk
                    fkv += d * d
                    d = 0.0
                    for i in range(J):
                        for j in range(J):
                            d -= GG[i, j] * A[l, i] * A[m, j]
                    for i in range(n):
                        d += M[i, l] * Y[i, m]
                    fvv += d * d
                    if l == m:
                        dv += d
            sums = out[chunk]
            for l in range(n):
                kk += fk[l] * fk[l]
                vv += fv[l] * fv[l]
                sums[2] += fk[l] * noise[node, l]
                sums[3] += fk[l] * truth[node, l]
                sums[4] += fk[l] * slope[node, l]
                sums[6] += fv[l] * wv[l]
            sums[0] += kk
            sums[1] += vv
            sums[5] += fv[0] * rest
            sums[7] += dk
            sums[8] += dv
            sums[9] += sample_loss(S, y, P)
            sums[10] += lowest
            sums[11] += fkk
            sums[12] += fkv
            sums[13] += fvv
"""

ATTEND = """
@njit("void(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, int64)",
      nogil=True, cache=True, error_model="numpy", boundscheck=False)
def attend_nodes(P, truth, noise, out, lo, hi):
    # weight of the hidden token, its square, sum of all squared weights, at the fields without the sample
    n = truth.shape[1]
    S, x = np.empty(J), np.empty(n)
    for chunk in range(lo, hi):
        for o in range(out.shape[1]):
            out[chunk, o] = 0.0
        for node in range(chunk * CHUNK, min((chunk + 1) * CHUNK, truth.shape[0])):
            for j in range(J):
                S[j] = 0.0
            for l in range(n):
                x[l] = field_k(truth[node, l], noise[node, l], P)
                token_values(x[l], 0.0, P, S)
            hidden, squares = attention(S, x[0], P)
            out[chunk, 0] += hidden
            out[chunk, 1] += hidden * hidden
            out[chunk, 2] += squares
"""
