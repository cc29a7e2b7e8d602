"""Direct Monte Carlo of the models, one module per theory.

A simulator takes plain data, samples the model from its definition and averages. It imports nothing of the
theories, of their derivations or of their numerics; agreement with a theory is therefore evidence.

Stages: check the request -> draw chunks, each from its own random stream -> score every sample -> average in
fixed order.
"""

from __future__ import annotations

__all__: list[str] = []
