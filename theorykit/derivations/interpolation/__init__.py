"""Derivations of the interpolation error of nonlinear attention (arXiv 2506.18656), one result per module.

=================  ==============================================================================================
module             result
=================  ==============================================================================================
normalization      the training error of a ridge probe is a derivative of a quadratic form
linearization      an entrywise function of a Gram matrix as a linear part, a Wigner part and a spike
attention          noise equations from the engine, the spiked system, the error by implicit differentiation
linear_regression  the same for the tokens themselves, in closed form
=================  ==============================================================================================
"""
