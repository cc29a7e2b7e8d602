"""The passes behind :mod:`theorykit.formula`, one file each.

=============  ===============================================================
``tree``       nodes of a formula and the table of allowed functions
``syntax``     text -> tree (the only reader of text) and tree -> canonical text
``symbolic``   SymPy expression -> text, tree -> SymPy expression
``numeric``    tree -> NumPy values; switching points and fronts
=============  ===============================================================
"""
