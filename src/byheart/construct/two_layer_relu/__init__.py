"""One hidden layer of N - 1 ReLU units: piecewise linear interpolation along a line."""

from byheart.construct.two_layer_relu.theorem import METHOD

__all__ = ["METHOD"]
