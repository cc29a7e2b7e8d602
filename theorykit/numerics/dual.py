"""Template of a compiled solver for sample problems with a dual that is concave in one variable.

The generated module supplies ``dual(r, y, A, B, C, P)``: slope and curvature in r, and first derivatives in the three
sums, with their slopes in r. The sums belong to vectors s (``1 + field_k``) and w (``field_v``) over the tokens, in
which the dual is quadratic. One root per node, bracketed and found by Newton's method: O(L) per node. Outputs and
arguments are those of :mod:`theorykit.numerics.proximal`.
"""

from __future__ import annotations

__all__ = ["TEMPLATE"]

TEMPLATE = """
@njit("void(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], "
      "float64[:, ::1], float64[:, ::1], boolean, float64[:, ::1], int64, int64)",
      nogil=True, cache=True, error_model="numpy", boundscheck=False)
def minimize_nodes(P, truth, noise, gauss, slope, label_noise, chi, rivals, thorough, out, lo, hi):
    n = truth.shape[1]
    bound = 1.0 / math.sqrt(P[I_V_K] * P[I_V_V])
    spread = label_spread(P)
    for chunk in range(lo, hi):
        for o in range(out.shape[1]):
            out[chunk, o] = 0.0
        sums = out[chunk]
        for node in range(chunk * CHUNK, min((chunk + 1) * CHUNK, truth.shape[0])):
            A = B = C = sn = wn = st = wt = sp = wp = s_1 = w_1 = 0.0
            for l in range(n - 1, -1, -1):
                eta, z, p = noise[node, l], truth[node, l], slope[node, l]
                s = 1.0 + field_k(z, eta, P)
                w = field_v(gauss[node, l], P)
                A += s * s
                B += w * w
                C += s * w
                sn += s * eta
                wn += w * eta
                st += s * z
                wt += w * z
                sp += s * p
                wp += w * p
                s_1, w_1 = s, w
            rest = spread * label_noise[node]
            y = label_mean(w_1, P) + rest
            low, high = -bound, bound
            r = chi[node, 0]
            if not abs(r) < 0.99 * bound:
                r = 0.0
            for iteration in range(200):
                g, h, a, b, c, ar, br, cr = dual(r, y, A, B, C, P)
                if g > 0.0:
                    low = r
                else:
                    high = r
                new = r - g / h
                if not (low < new < high):
                    new = 0.5 * (low + high)
                moved = abs(new - r)
                r = new
                if moved <= 4e-16 * bound or moved <= 1e-14 * abs(r):
                    break
            g, h, a, b, c, ar, br, cr = dual(r, y, A, B, C, P)
            chi[node, 0] = r
            # responses f_k = -(2 a s + c w), f_v = -(2 b w + c s); their slopes: u = 2 ar s + cr w, v = 2 br w + cr s
            uu = 4.0 * ar * ar * A + 4.0 * ar * cr * C + cr * cr * B
            vv = 4.0 * br * br * B + 4.0 * br * cr * C + cr * cr * A
            uv = 2.0 * ar * cr * A + (4.0 * ar * br + cr * cr) * C + 2.0 * br * cr * B
            sums[0] += 4.0 * a * a * A + 4.0 * a * c * C + c * c * B
            sums[1] += 4.0 * b * b * B + 4.0 * b * c * C + c * c * A
            sums[2] -= 2.0 * a * sn + c * wn
            sums[3] -= 2.0 * a * st + c * wt
            sums[4] -= 2.0 * a * sp + c * wp
            sums[5] -= (2.0 * b * w_1 + c * s_1) * rest
            sums[6] -= 2.0 * b * B + c * C
            sums[7] -= 2.0 * a * n - uu / h
            sums[8] -= 2.0 * b * n - vv / h
            sums[9] += 0.5 * r * r
            sums[10] += dual_value(r, y, A, B, C, P)
            sums[11] += 4.0 * a * a * n - 4.0 * a * uu / h + uu * uu / (h * h)
            sums[12] += c * c * n - 2.0 * c * uv / h + uu * vv / (h * h)
            sums[13] += 4.0 * b * b * n - 4.0 * b * vv / h + vv * vv / (h * h)


"""
