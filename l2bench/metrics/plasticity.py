"""Properties of a network that tell whether it can still learn.

Source: "Tuning for the Unknown", arXiv 2404.02113, section 6 and appendix B. Measured on the online
network. Weights are matrices of shape (outputs, inputs); convolution kernels (out, in, ...) are
read as (out, rest). Biases count in gradients only. Undefined is NaN with a reason, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from l2bench.errors import Unsupported, UsageError
from l2bench.metrics.libero_parts import FloatArray

#: A unit is dead in an observation where its output is 0, or only if it is 0 in all of them.
Reading = Literal["per_observation", "all_zero_over_batch"]


@dataclass(frozen=True)
class LayerValues:
    """A property of each layer and of the network; NaN exactly where ``reason`` says why."""

    layers: tuple[float, ...]
    network: float
    reason: str | None = None


@dataclass(frozen=True)
class GradientSize:
    """The size of a full gradient: entries that are not 0, their share in [0, 1], Euclidean norm.

    ``l0`` is None and the others NaN exactly where ``reason`` says why.
    """

    l0: int | None
    l0_fraction: float
    l2: float
    reason: str | None = None


def dead_units(
    activations: Sequence[ArrayLike], reading: Reading = "per_observation"
) -> LayerValues:
    """Return the dead hidden units in percent, 0 to 100, lower is better.

    ``activations`` holds for each hidden layer the outputs after the nonlinearity, shape
    (observations, units). Per observation, concatenated ReLU gives exactly 50.

    Raises:
        Unsupported: if a shape does not fit, or a value is infinite.
        UsageError: if ``reading`` is unknown.
    """
    if reading not in ("per_observation", "all_zero_over_batch"):
        raise UsageError(
            f"reading={reading!r} is unknown; choose per_observation or all_zero_over_batch"
        )
    layers = [_array(a, f"activations of layer {i}", 2) for i, a in enumerate(activations, 1)]
    if len({len(layer) for layer in layers}) > 1:
        found = ", ".join(str(len(layer)) for layer in layers)
        raise Unsupported(f"the layers have different numbers of observations: {found}")
    for i, layer in enumerate(layers, 1):
        if not layer.shape[1]:
            raise Unsupported(f"layer {i} has no units")
    gap = _gap(layers, "activations")
    if gap is not None:
        return LayerValues((math.nan,) * len(layers), math.nan, gap)
    zero = [layer == 0 for layer in layers]
    if reading == "all_zero_over_batch":
        zero = [layer.all(axis=0) for layer in zero]
    dead = [int(np.count_nonzero(layer)) for layer in zero]
    sizes = [layer.size for layer in zero]
    return LayerValues(
        tuple(100 * n / size for n, size in zip(dead, sizes, strict=True)),
        100 * sum(dead) / sum(sizes),
    )


def stable_rank(weights: Sequence[ArrayLike]) -> LayerValues:
    """Return ||W||_F^2 / (n ||W||_2^2) of each weight matrix, n its outputs, and their mean.

    It lies in (0, 1], at most min(n, m) / n, higher is better. A zero matrix has none, and then the
    network has none.

    Raises:
        Unsupported: if an array is no weight matrix, or a value is infinite.
    """
    values, reason = [], None
    for i, matrix in enumerate(_matrices(weights), 1):
        singular = _singular(matrix)
        if math.isnan(singular[0]) or singular[0] == 0:
            what = "is zero" if singular[0] == 0 else "has values that are missing"
            reason = reason or f"the weight matrix of layer {i} {what}"
            values.append(math.nan)
            continue
        scaled = singular / singular[0]  # squares of tiny weights would vanish
        values.append(math.fsum(scaled * scaled) / len(matrix))
    return _layer_mean(values, reason)


def weight_l2(weights: Sequence[ArrayLike]) -> LayerValues:
    """Return the Frobenius norm of each weight matrix and their mean, 0 and above.

    Raises:
        Unsupported: if an array is no weight matrix, or a value is infinite.
    """
    return _norms(weights, _euclidean)


def weight_spectral(weights: Sequence[ArrayLike]) -> LayerValues:
    """Return the largest singular value of each weight matrix and their mean, 0 and above.

    Raises:
        Unsupported: if an array is no weight matrix, or a value is infinite.
    """
    return _norms(weights, lambda matrix: float(_singular(matrix)[0]))


def gradient_size(gradients: Sequence[ArrayLike]) -> GradientSize:
    """Return the size of the full gradient: arrays of any shape for all parameters, biases too.

    Entries are compared with 0 exactly.

    Raises:
        Unsupported: if a value is infinite.
    """
    parts = [_array(g, f"gradient {i}").ravel() for i, g in enumerate(gradients, 1)]
    gap = _gap(parts, "gradient entries")
    if gap is not None:
        return GradientSize(None, math.nan, math.nan, gap)
    whole = np.concatenate(parts)
    nonzero = int(np.count_nonzero(whole))
    return GradientSize(nonzero, nonzero / len(whole), _euclidean(whole))


def _array(values: ArrayLike, what: str, dims: int | None = None) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Unsupported(f"{what}: not a rectangular array of numbers ({error})") from None
    if dims is not None and array.ndim != dims:
        raise Unsupported(f"{what}: expected {dims} dimensions, found shape {array.shape}")
    if np.isinf(array).any():
        place = ", ".join(str(int(i)) for i in np.argwhere(np.isinf(array))[0])
        raise Unsupported(f"{what}: infinite at [{place}]; values must be finite or missing")
    return array


def _matrices(weights: Sequence[ArrayLike]) -> list[FloatArray]:
    """Return the weights as matrices (outputs, inputs), kernels flattened after the first axis."""
    arrays = [_array(w, f"weights of layer {i}") for i, w in enumerate(weights, 1)]
    for i, array in enumerate(arrays, 1):
        if array.ndim < 2 or not array.size:
            raise Unsupported(
                f"weights of layer {i}: {array.shape} is no weight matrix; leave out biases"
            )
    return [array.reshape(len(array), -1) for array in arrays]


def _singular(matrix: FloatArray) -> FloatArray:
    """Return the singular values in descending order, NaN where an entry is missing."""
    if np.isnan(matrix).any():
        return np.full(min(matrix.shape), np.nan)
    return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def _euclidean(values: FloatArray) -> float:
    """Return the root of the sum of squares, for values of any size."""
    largest = float(np.abs(values).max())
    if largest == 0 or math.isnan(largest):
        return largest
    scaled = values.ravel() / largest  # squares of very large or small values leave the range
    return largest * float(np.sqrt(scaled @ scaled))


def _norms(weights: Sequence[ArrayLike], norm: Callable[[FloatArray], float]) -> LayerValues:
    values = [norm(matrix) for matrix in _matrices(weights)]
    lost = [i for i, value in enumerate(values, 1) if math.isnan(value)]
    reason = f"the weight matrix of layer {lost[0]} has values that are missing" if lost else None
    return _layer_mean(values, reason)


def _layer_mean(values: Sequence[float], reason: str | None) -> LayerValues:
    if not values:
        reason = "the network has no weight matrix"
    network = math.nan if reason else math.fsum(values) / len(values)
    return LayerValues(tuple(values), network, reason)


def _gap(arrays: Sequence[FloatArray], what: str) -> str | None:
    """Return why nothing can be counted in these arrays, if so."""
    if not sum(array.size for array in arrays):
        return f"there are no {what}"
    if any(np.isnan(array).any() for array in arrays):
        return f"some {what} are missing"
    return None
