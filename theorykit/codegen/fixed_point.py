"""A generated matrix fixed point at run time: arrays in, arrays out; knows no SymPy."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from theorykit.errors import CodegenError, ConvergenceError
from theorykit.results import Estimate

__all__ = ["FixedPointProgram"]


class FixedPointProgram:
    """The functions of one record: parameters, unknowns and directions are arrays with one row each.

    Any number of batch axes may follow; float64 and complex128 are both understood.
    """

    def __init__(self, key: str, module: ModuleType) -> None:
        self.key = key
        self.layout: Mapping[str, Any] = module.LAYOUT
        self._module = module

    def __reduce__(self) -> tuple[Any, ...]:
        from theorykit.codegen import load_source

        return load_source, (self._module.__loader__.get_source(self._module.__name__),)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.layout["parameters"])

    @property
    def unknowns(self) -> tuple[str, ...]:
        return tuple(self.layout["unknowns"])

    @property
    def compiled_functions(self) -> list[Any]:
        return []

    def table(self, values: Mapping[str, Any]) -> np.ndarray:
        """Parameters by name, broadcast against one another, as one array with a row for each."""
        missing = [p for p in self.parameters if p not in values]
        if missing:
            raise CodegenError(f"{self.layout['name']} needs values for {missing}")
        if not self.parameters:
            return np.empty((0, 1))
        arrays = np.broadcast_arrays(*[np.asarray(values[p]) for p in self.parameters])
        return np.stack(arrays).astype(np.result_type(float, *arrays))

    def start(self, P: np.ndarray) -> np.ndarray:
        """Values of the unknowns where the path begins."""
        return self._broadcast(self._module.start(P), P)

    def step(self, P: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Right sides of the equations of the unknowns."""
        return self._broadcast(self._module.step(P, X), P)

    def jacobian(self, P: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Derivative of ``step`` with respect to the unknowns, shape (batch, unknowns, unknowns)."""
        count = len(self.unknowns)
        basis = np.eye(count).reshape(count, count, *([1] * (P.ndim - 1)))
        columns = self._module.tangent(P, X, basis)
        columns = np.broadcast_to(columns, (count, count, *P.shape[1:]))
        return np.moveaxis(columns, (0, 1), (-2, -1))

    def rates(self, P: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Derivatives of the unknowns: the linear system of their equations, solved."""
        count = len(self.layout["rates"])
        if not count:
            return np.empty((0, *P.shape[1:]))
        directions = np.concatenate([np.zeros((1, count)), np.eye(count)]).T
        directions = directions.reshape(count, count + 1, *([1] * (P.ndim - 1)))
        values = np.broadcast_to(self._module.rate(P, X, directions), (count, count + 1, *P.shape[1:]))
        values = np.moveaxis(values, (0, 1), (-2, -1))
        constant, columns = values[..., :1], values[..., 1:] - values[..., :1]
        return np.moveaxis(np.linalg.solve(np.eye(count) - columns, constant)[..., 0], -1, 0)

    def observables(self, P: np.ndarray, X: np.ndarray) -> dict[str, np.ndarray]:
        """Observables by name."""
        found = self._broadcast(self._module.observables(P, X, self.rates(P, X)), P)
        return dict(zip(self.layout["observables"], found, strict=True))

    def values(self, values: Mapping[str, Any]) -> dict[str, Estimate]:
        """Every observable at one real point, solved along the path of the record.

        Raises
        ------
        CodegenError
            The record says no path.
        ConvergenceError
            The equations are not solved.
        """
        from theorykit.numerics.continuation import follow

        P = self.table({name: [float(values[name])] for name in self.parameters if name in values})
        X = np.empty((0, 1))
        if self.unknowns:
            if self.layout["path"] is None:
                raise CodegenError(
                    f"{self.layout['name']} says no path: where its solution begins is not known"
                )
            out = follow(self, P, self.parameters.index(self.layout["path"]))
            if not out.converged[0]:
                raise ConvergenceError.not_reached(
                    f"solution of {self.layout['name']}", residual=float(out.residual[0]), tolerance=1e-12,
                    steps=int(out.steps[0]), start="infinity", advice="choose another point", last=out.X[:, 0],
                )  # fmt: skip
            X = out.X
        found = self.observables(P, X)
        return {name: Estimate(float(v[0]), 1e-12 * abs(float(v[0]))) for name, v in found.items()}

    def positivity(self, P: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Smallest eigenvalue of the imaginary parts of the matrices of unknowns, relative to their size."""
        found = np.full(X.shape[1:], np.inf)
        padded = np.concatenate([X, np.zeros((1, *X.shape[1:]), X.dtype)])
        for table in self.layout["matrices"]:
            matrix = np.moveaxis(padded[np.array(table)], (0, 1), (-2, -1))
            good = np.all(np.isfinite(matrix), axis=(-2, -1))
            matrix = np.where(good[..., None, None], matrix, 0.0)
            size = np.max(np.abs(matrix), axis=(-2, -1))
            lowest = np.linalg.eigvalsh(matrix.imag)[..., 0] / np.where(size > 0, size, 1.0)
            found = np.minimum(found, np.where(good, lowest, -np.inf))
        return found

    @staticmethod
    def _broadcast(values: np.ndarray, P: np.ndarray) -> np.ndarray:
        return np.array(np.broadcast_to(values, (values.shape[0], *P.shape[1:])))
