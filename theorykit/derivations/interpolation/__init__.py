"""Derivations of the interpolation error of nonlinear attention (arXiv 2506.18656), one result per module.

=================  ==============================================================================================
module             result
=================  ==============================================================================================
normalization      the training error of a ridge probe is a derivative of a quadratic form
linearization      an entrywise function of a Gram matrix as a linear part, a Wigner part and a spike
attention          noise equations from the engine, the spiked system, the error by implicit differentiation
spectrum           density of the bulk, determinant of the outliers
linear_regression  the same for the tokens themselves, in closed form
reductions         where few unknowns are left: in closed form in the degrees of freedom
linear_attention   without a nonlinear part: averages over the Marchenko-Pastur law
structure          signal and noise of the labels; least error; no reversal without ridge
softmax            the formula that softmax stands for
centering          what the mean of the attention matrix forbids
=================  ==============================================================================================
"""
