"""Derivations of signal recovery (the model of arXiv 2606.22406).

The model: L tokens in R^d, R of them shifted by theta along a hidden unit vector xi; a unit query q weighs them by a
softmax of their projections and is trained by gradient ascent on E|f_q(X)|^2. Everything depends on q through the
alignment rho = q.xi alone.

=============  ==========================================================================================
module         result
=============  ==========================================================================================
reduction      the objective and its slope at any finite R, L, d, as averages over scores
limit          the objective and its slope at L -> inf with R/L and d/L fixed; the flow of the alignment
fixed_points   the one zero of the slope through a monotone function of the attention mass
thresholds     where the opposed direction becomes stable, and where it becomes the global maximum
escape         time of passage as an integral with its singular part removed
finite_size    corrections of order 1/L
noise          variances of the stochastic gradient
stochastic     the flow corrected for step noise, the stationary law, the splitting at the separatrix
kernels        any normalized weight, as one-dimensional Gaussian averages
claims         the statements of the paper, judged elsewhere
symbols        the symbol table and the checks they share
averages       averages over one token, from which corrections and noise are made
=============  ==========================================================================================
"""
