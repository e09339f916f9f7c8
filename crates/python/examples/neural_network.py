"""The forward pass of a two-layer network, with the activation fused with the operations around it.

    python neural_network.py --device cuda:0
"""

import argparse

import rigel


@rigel.fuse
def activation(x, bias):
    """The tanh approximation of GELU, with the bias, in one pass over memory."""
    x = x + bias
    return x * 0.5 * (1.0 + rigel.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@rigel.fuse
def exponentials(x, bias, largest):
    return rigel.exp(x + bias - largest)


def forward(x, first, first_bias, second, second_bias):
    """The class probabilities for each row of x."""
    hidden = activation(x @ first, first_bias)
    scores = hidden @ second
    largest = (rigel.lazy(scores) + second_bias).max(axis=1, keepdims=True)
    weights = exponentials(scores, second_bias, largest)
    return weights / weights.sum(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=256)
    arguments = parser.parse_args()
    device = arguments.device

    def weights(shape, seed):
        return (rigel.random(shape, dtype="float32", seed=seed, device=device) - 0.5) * (2 / shape[0] ** 0.5)

    x = weights((arguments.rows, 128), 1)
    parameters = weights((128, 512), 2), weights((512,), 3), weights((512, 10), 4), weights((10,), 5)
    probabilities = forward(x, *parameters)
    sums = probabilities.sum(axis=1)
    assert bool((rigel.abs(sums - 1) < 1e-5).min()), "probabilities must add up to one"
    print(f"{arguments.rows} rows on {device}, products by {rigel.matmul_engine(device)}")
    print(probabilities[0])


if __name__ == "__main__":
    main()
