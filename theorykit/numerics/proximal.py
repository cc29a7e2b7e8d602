"""Template of a compiled proximal solver: global minimization of a token-symmetric objective, node by node.

The objective of a node is ``energy(S, y) + sum_l penalty(chi_l)`` with S_j = sum_l s_j(chi_l, omega_v[l]). The
generated module supplies scalar functions: ``token_*`` (s and its derivatives), ``energy_*``, ``penalty_*``, and what
:mod:`theorykit.derivations.single_location.erm_newton` derives from them. The Hessian is diag(d) + U GG U^T with a
row U[l] for each token; it is factorized by elimination of one token after the other, which leaves a matrix of the
same form: O(L) operations, as for the solution of linear equations. The template knows no formula of the theory.

Minimization: Newton with a Levenberg shift until all pivots are positive, backtracking, from the previous minimizer,
from omega_k and, where asked for, from 2 L points at which one field is moved by 3 from the largest of the others. A
descent that meets the lowest minimum so far is broken off.
The derivatives of the responses take O(L^2) operations, once for each node. Sums over nodes are made in fixed
chunks, so that results do not depend on the number of threads.
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
APART = 1e-3  # minima that are nearer to each other are one


@njit(nogil=True, error_model="numpy")
def objective_at(x, wk, wv, y, P, S):
    # leaves the sums over tokens in S
    for j in range(J):
        S[j] = 0.0
    distance = 0.0
    for l in range(x.shape[0]):
        token_values(x[l], wv[l], P, S)
        distance += penalty_value(x[l], wk[l], P)
    return energy_value(S, y, P) + distance


@njit(nogil=True, error_model="numpy")
def expand_at(x, wk, wv, y, P, S, G, GG, U, C, g, d):
    # slopes g and the Hessian diag(d) + U GG U^T at x, whose sums over tokens are S
    energy_slopes(S, y, P, G, GG)
    for l in range(x.shape[0]):
        token_slopes(x[l], wv[l], P, U[l], C)
        g[l] = penalty_slope(x[l], wk[l], P) - response_key(G, U[l], P)
        d[l] = diagonal(G, C, P)


@njit(nogil=True, error_model="numpy")
def factorize(d, U, GG, shift, M, W, p, P):
    # eliminates the tokens in turn; False where a pivot is not positive
    for i in range(J):
        for j in range(J):
            M[i, j] = GG[i, j]
    for l in range(d.shape[0]):
        project(M, U[l], W[l], P)
        p[l] = pivot(d[l] + shift, U[l], W[l], P)
        if not p[l] > 1e-12:
            return False
        eliminate(W[l], p[l], M, P)
    return True


@njit(nogil=True, error_model="numpy")
def solve_factorized(U, W, p, b, out, kept, P):
    # the multipliers of a token are linear in W and in U, so that sums over tokens are kept instead of tokens
    n = p.shape[0]
    for j in range(J):
        kept[j] = 0.0
    for l in range(n):
        out[l] = b[l] - multiplier(U[l], kept, 1.0, P)
        for j in range(J):
            kept[j] += W[l, j] * out[l] / p[l]
    for j in range(J):
        kept[j] = 0.0
    for l in range(n - 1, -1, -1):
        out[l] = out[l] / p[l] - multiplier(kept, W[l], p[l], P)
        for j in range(J):
            kept[j] += U[l, j] * out[l]


@njit(nogil=True, error_model="numpy")
def descend(x, wk, wv, y, P, S, G, GG, U, C, g, d, M, W, p, step, kept, trial, known):
    # x moves to a local minimum, whose value is returned; infinity where x meets the known minimum
    n = x.shape[0]
    least = 0.1 * (penalty_slope(1.0, 0.0, P) - penalty_slope(0.0, 0.0, P))
    value = objective_at(x, wk, wv, y, P, S)
    for iteration in range(100):
        if not math.isfinite(value):
            return np.inf
        expand_at(x, wk, wv, y, P, S, G, GG, U, C, g, d)
        shift = 0.0
        for attempt in range(60):
            if factorize(d, U, GG, shift, M, W, p, P):
                break
            shift = max(2.0 * shift, least)
        solve_factorized(U, W, p, g, step, kept, P)
        slope, size = 0.0, 0.0
        for l in range(n):
            slope -= g[l] * step[l]
            size = max(size, abs(step[l]) / (1.0 + abs(x[l])))
        length = 1.0
        moved = False
        for attempt in range(50):
            for l in range(n):
                trial[l] = x[l] - length * step[l]
            new = objective_at(trial, wk, wv, y, P, S)
            if new <= value + 1e-4 * length * slope + 1e-14 * (1.0 + abs(value)):
                moved = True
                break
            length *= 0.5
        if not moved:
            break
        for l in range(n):
            x[l] = trial[l]
        value = new
        apart = 0.0
        for l in range(n):
            apart = max(apart, abs(x[l] - known[l]))
        if apart < APART and shift == 0.0:
            return np.inf
        if size * length < 1e-7 and shift == 0.0:
            break
    return value


@njit(nogil=True, error_model="numpy")
def responses_at(x, wk, wv, y, P, S, G, GG, U, C, g, d, fk, fv):
    objective_at(x, wk, wv, y, P, S)
    expand_at(x, wk, wv, y, P, S, G, GG, U, C, g, d)
    for l in range(x.shape[0]):
        fk[l] = response_key(G, U[l], P)
        fv[l] = response_v(S, x[l], wv[l], y, P)


@njit(nogil=True, error_model="numpy")
def response_slopes(x, wv, P, G, GG, U, W, p, A, own, B, column, step, kept, coupled, sums):
    # divergences and mean squares of the derivatives of the responses, from the factorized Hessian
    n = x.shape[0]
    for l in range(n):
        token_mixed(x[l], wv[l], P, A[l], B)
        own[l] = mixed_own(G, B, P)
    for m in range(n):
        for l in range(n):
            column[l] = 1.0 if l == m else 0.0
        solve_factorized(U, W, p, column, step, kept, P)
        for l in range(n):
            slope = key_slope(step[l], column[l], P)
            sums[11] += slope * slope
            if l == m:
                sums[7] += slope
        for l in range(n):
            column[l] = mixed_coupling(GG, U[l], A[m], P)
        column[m] += own[m]
        solve_factorized(U, W, p, column, step, kept, P)
        for j in range(J):
            coupled[j] = 0.0
        for l in range(n):
            for j in range(J):
                coupled[j] += U[l, j] * step[l]
        for l in range(n):
            slope = cross_slope(step[l], P)
            sums[12] += slope * slope
            induced = own[l] * step[l] + mixed_coupling(GG, coupled, A[l], P)
            slope = value_slope(induced, value_coupling(GG, A[l], A[m], P), P)
            sums[13] += slope * slope
            if l == m:
                sums[8] += slope


@njit("void(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], "
      "float64[:, ::1], float64[:, ::1], boolean, float64[:, ::1], int64, int64)",
      nogil=True, cache=True, error_model="numpy", boundscheck=False)
def minimize_nodes(P, truth, noise, gauss, slope, label_noise, chi, rivals, thorough, out, lo, hi):
    n = truth.shape[1]
    S, G, C, kept, coupled = np.empty(J), np.empty(J), np.empty(J), np.empty(J), np.empty(J)
    GG, M = np.empty((J, J)), np.empty((J, J))
    U, W, A = np.empty((n, J)), np.empty((n, J)), np.empty((n, J))
    g, d, p, step, trial, own = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    x, best, second, column = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    wk, wv, fk, fv, other_k, other_v = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for chunk in range(lo, hi):
        for o in range(out.shape[1]):
            out[chunk, o] = 0.0
        sums = out[chunk]
        for node in range(chunk * CHUNK, min((chunk + 1) * CHUNK, truth.shape[0])):
            for l in range(n):
                wk[l] = field_k(truth[node, l], noise[node, l], P)
                wv[l] = field_v(gauss[node, l], P)
            mean = label_mean(wv[0], P)
            rest = label_spread(P) * label_noise[node]
            y = mean + rest
            lowest, runner = np.inf, np.inf
            for l in range(n):
                best[l] = np.inf
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
                value = descend(x, wk, wv, y, P, S, G, GG, U, C, g, d, M, W, p, step, kept, trial, best)
                apart = 0.0
                for l in range(n):
                    apart = max(apart, abs(x[l] - best[l]))
                if value < lowest:
                    if apart > APART and lowest < runner:
                        runner = lowest
                        for l in range(n):
                            second[l] = best[l]
                    lowest = value
                    for l in range(n):
                        best[l] = x[l]
                elif apart > APART and value < runner:
                    runner = value
                    for l in range(n):
                        second[l] = x[l]
            if runner < np.inf:
                responses_at(second, wk, wv, y, P, S, G, GG, U, C, g, d, other_k, other_v)
            responses_at(best, wk, wv, y, P, S, G, GG, U, C, g, d, fk, fv)
            if thorough:
                rivals[node, 0] = runner - lowest
                rivals[node, 1] = 0.0
                rivals[node, 2] = 0.0
                if runner < np.inf:
                    for l in range(n):
                        rivals[node, 1] += (other_k[l] - fk[l]) * (other_k[l] - fk[l])
                        rivals[node, 2] += (other_v[l] - fv[l]) * (other_v[l] - fv[l])
            factorize(d, U, GG, 0.0, M, W, p, P)
            response_slopes(best, wv, P, G, GG, U, W, p, A, own, C, column, step, kept, coupled, sums)
            kk = vv = 0.0
            for l in range(n):
                chi[node, l] = best[l]
                kk += fk[l] * fk[l]
                vv += fv[l] * fv[l]
                sums[2] += fk[l] * noise[node, l]
                sums[3] += fk[l] * truth[node, l]
                sums[4] += fk[l] * slope[node, l]
                sums[6] += fv[l] * wv[l]
            sums[0] += kk
            sums[1] += vv
            sums[5] += fv[0] * rest
            sums[9] += sample_loss(S, y, P)
            sums[10] += lowest
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
