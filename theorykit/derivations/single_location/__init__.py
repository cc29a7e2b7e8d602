"""Derivations of single-location regression (arXiv 2509.21936).

The model: L tokens, each a vector of dimension D; a hidden location; the label is the projection of the token
there on v*, plus noise. At given overlaps of the weights every token carries a few Gaussian fields, so that
``population`` quantities are averages over tokens.
"""
