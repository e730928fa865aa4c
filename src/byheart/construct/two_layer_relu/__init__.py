"""One hidden layer of N - 1 ReLU units that memorises N vectors: piecewise linear interpolation along a line."""
