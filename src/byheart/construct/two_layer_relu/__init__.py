"""One hidden layer of N - 1 ReLU units: piecewise linear interpolation along a line."""
