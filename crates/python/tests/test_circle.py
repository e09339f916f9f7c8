"""Circle transforms against the evaluation of the basis at each point, in Python's integers."""

import pytest

import rigel

P = 2**31 - 1


def basis(j, x, y):
    product = y if j & 1 else 1
    j >>= 1
    while j:
        product = product * x % P if j & 1 else product
        x = (2 * x * x - 1) % P
        j >>= 1
    return product


def evaluated(coefficients, points):
    return [sum(c * basis(j, x, y) for j, c in enumerate(coefficients)) % P for x, y in points]


@pytest.mark.parametrize("n", [2, 4, 8, 32])
def test_transforms_evaluate_the_basis(n, device):
    c = rigel.field("mersenne31").random((3, n), seed=n, device=device)
    points = list(zip(*rigel.circle_points(n, device=device).tolist()))
    assert all((x * x + y * y) % P == 1 for x, y in points) and len(set(points)) == n
    values = c.circle_ntt()
    assert values.tolist() == [evaluated(row, points) for row in c.tolist()]
    assert values.circle_intt().tolist() == c.tolist()
    larger = list(zip(*rigel.circle_points(4 * n).tolist()))
    assert values.circle_lde(blowup=4).tolist() == [evaluated(row, larger) for row in c.tolist()]


def test_any_axis_and_extensions(device):
    x = rigel.field("qm31").random((8, 3), seed=1, device=device)
    assert x.circle_ntt(axis=0).tolist() == x.T.circle_ntt().T.tolist()
    assert x.circle_ntt(0).circle_intt(axis=0).tolist() == x.tolist()
    part = x.coefficients()[:, :, 2]
    assert x.circle_ntt(0).coefficients()[:, :, 2].tolist() == part.circle_ntt(0).tolist()


def test_invalid_circle_transforms_raise(device):
    GF = rigel.field("mersenne31")
    with pytest.raises(TypeError, match="mersenne31, cm31 and qm31"):
        rigel.field("koalabear").zeros(4, device=device).circle_ntt()
    with pytest.raises(ValueError, match="it is 6"):
        GF.zeros(6, device=device).circle_intt()
    with pytest.raises(ValueError, match="blowup 3"):
        GF.zeros(4, device=device).circle_lde(3)
    with pytest.raises(ValueError, match="2\\^30"):
        GF.zeros(4, device=device).circle_lde(1 << 28)
    with pytest.raises(IndexError):
        GF.zeros(4, device=device).circle_ntt(1)
    with pytest.raises(ValueError, match="power of two"):
        rigel.circle_points(1, device=device)
