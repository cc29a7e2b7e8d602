"""Generic numerics: grids, adaptive quadrature of array plans, minimization. Nothing here knows a theory."""
