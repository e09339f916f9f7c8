"""A Reed-Solomon code over Goldilocks: any k of n = 4 k symbols determine the message.

    python reed_solomon.py --device cuda:0

The message is the values of a polynomial of degree less than k at the k-th roots of unity; the code word is its
values at 4 k points (`lde`). Decoding interpolates the polynomial from the remaining symbols: with A(x) the
product of (x - x_i) over their points, Lagrange's formula is sum_i y_i / A'(x_i) * A(x) / (x - x_i), so
coefficient j of the polynomial is -[x^j] A(x) * sum_i (y_i / A'(x_i)) * sum_m x^m / x_i^(m+1).
"""

import argparse
import random

import rigel

BLOWUP = 4


def product_of_roots(field, points):
    """The coefficients, lowest first, of the product of (x - x_i), by a product tree in the NTT domain."""
    device = points.device
    polynomials = rigel.stack([-points, field.ones(points.shape, device=device)], axis=1)
    while len(polynomials) > 1:
        count, width = polynomials.shape
        if count % 2:
            one = field.zeros((1, width), device=device)
            one[0, 0] = 1
            polynomials = rigel.concatenate([polynomials, one])
        length = 1 << (2 * width - 2).bit_length()
        padded = field.zeros((len(polynomials), length), device=device)
        padded[:, :width] = polynomials
        values = padded.ntt()
        polynomials = (values[0::2] * values[1::2]).intt()[:, : 2 * width - 1]
    return polynomials[0]


def powers(field, points, count):
    """The matrix of x_i^m for m < count, by doubling."""
    table = field.ones((len(points), 1), device=points.device)
    step = points.reshape(-1, 1)
    while table.shape[1] < count:
        table = rigel.concatenate([table, table * step], axis=1)
        step = step * step
    return table[:, :count]


def encode(message):
    """The code word of a message whose length is a power of two."""
    return message.lde(blowup=BLOWUP, shift=1)


def decode(field, positions, symbols, k):
    """The message from k symbols and their positions in the code word."""
    device = symbols.device
    root = field.root_of_unity(BLOWUP * k)
    points = field([pow(root, position, field.characteristic) for position in positions], device=device)
    whole = product_of_roots(field, points)[: k + 1]
    table = powers(field, points, k)
    derivative = whole[1:] * field.arange(1, k + 1, device=device)
    weights = symbols / (table @ derivative)
    # Power sums of the inverse points, m = 0 .. k - 1.
    inverses = points.inverse()
    sums = (weights * inverses) @ powers(field, inverses, k)
    length = 2 * k
    a, b = field.zeros(length, device=device), field.zeros(length, device=device)
    a[:k] = whole[:k]
    b[:k] = sums
    coefficients = -(a.ntt() * b.ntt()).intt()[:k]
    return coefficients.ntt()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--k", type=int, default=64, help="symbols of the message, a power of two")
    arguments = parser.parse_args()
    k, device = arguments.k, arguments.device

    field = rigel.field("goldilocks")
    message = field.random(k, seed=1, device=device)
    code = encode(message)
    kept = sorted(random.Random(2).sample(range(BLOWUP * k), k))
    symbols = rigel.stack([code[position] for position in kept])
    decoded = decode(field, kept, symbols, k)
    assert bool((decoded == message).min()), "the message was not recovered"
    print(f"{BLOWUP * k} symbols, {BLOWUP * k - k} lost, all {k} of the message recovered on {device}")


if __name__ == "__main__":
    main()
