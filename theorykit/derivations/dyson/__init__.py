"""From a noncommutative rational expression in random matrices to its limit laws, one module per stage.

===========  =======================================================  ==========================================
module       input -> output                                          what it holds
===========  =======================================================  ==========================================
expression   operators -> ``Expression``                              Wigner and rectangular Gaussian matrices,
                                                                      identities, outer products; no SymPy
arguments    names, scalars                                           what atoms and scalars may be
pencil       ``Expression`` -> ``Pencil``                             symmetric, linear in every random matrix
equations    ``Pencil`` -> ``DysonSystem``                            the equations of its blocks, few unknowns
spikes       ``DysonSystem`` -> ``SpikedSystem``                      quadratic forms and outliers of the whole
check        ``Expression``, ``Pencil`` -> numbers                    the corner of the pencil on random matrices
===========  =======================================================  ==========================================
"""
