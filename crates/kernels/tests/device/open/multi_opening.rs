//! Openings of many matrices at once, against those of one matrix and against their formulas.

use rand::RngExt;
use rand::rngs::SmallRng;
use rigel_gpu::Stream;
use rigel_kernels::domain::block::Block;
use rigel_kernels::domain::points::{block_points, coset_points};
use rigel_kernels::field::*;
use rigel_kernels::layout::slab::{from_slab, to_slab};
use rigel_kernels::open::multi_opening::{self, Claims, Evaluation};
use rigel_kernels::open::opening::{self, Claim};
use rigel_kernels::transform::ntt::TwoAdic;
use rigel_kernels::{Columns, Matrix};

use crate::oracle::{Oracle, assert_says, download, random_columns, random_elements, upload};
use crate::support::{on_each_device, rng};

/// Matrices by rows, columns and points: one row and one column; several of one height; several heights, one of them
/// not a power of two; columns that fill no block or piece; more rows than a block reads at a time.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (64, 3, 2),
    (1, 2, 2),
    (2_048, 5, 2),
    (64, 1, 1),
    (64, 37, 2),
    (512, 9, 1),
    (64, 8, 2),
    (2, 4, 1),
    (4_096, 2, 2),
    (100, 7, 3),
    (64, 6, 5),
];

/// A random matrix of each shape.
fn matrices<E: Element>(rng: &mut SmallRng) -> Vec<Vec<Vec<E>>> {
    SHAPES.iter().map(|&(rows, columns, _)| random_columns(rng, rows, columns)).collect()
}

/// The value at z of the polynomial of degree below h whose values on the coset are given, by Lagrange's formula.
fn interpolate<E: Oracle>(xs: &[E::Base], values: &[E::Base], z: E) -> E {
    let lift = |x: E::Base| constant::<E>(x);
    let term = |i: usize| {
        let others = || (0..xs.len()).filter(move |&j| j != i);
        let above = others().fold(E::ONE, |product, j| product * (z - lift(xs[j])));
        let below = others().fold(E::Base::ONE, |product, j| product * (xs[i] - xs[j]));
        above * lift(values[i] * below.inverse().unwrap())
    };
    (0..xs.len()).fold(E::ZERO, |sum, i| sum + term(i))
}

fn constant<E: Element>(x: E::Base) -> E {
    let mut parts = vec![E::Base::ZERO; E::DEGREE];
    parts[0] = x;
    E::from_parts(&parts).unwrap()
}

/// Evaluates the columns of all matrices on cosets that begin with the same point: that of block `index` of 2^12 rows.
fn check_evaluations<E: Oracle>(stream: &Stream, index: usize)
where
    E::Base: TwoAdic,
{
    let mut rng = rng(index as u64);
    let zs = random_elements::<E>(&mut rng, 5);
    let matrices = matrices::<E::Base>(&mut rng);
    let uploaded: Vec<_> = matrices.iter().map(|matrix| upload::<E::Base>(stream, matrix)).collect();
    let xs = block_points::<E::Base>(stream, Block { index, log_rows: 12 }).unwrap();
    let slabs: Vec<_> = zs.iter().zip([4_096, 4_096, 128, 64, 70]).map(|(&z, n)| (z, n)).collect();
    let inverses = opening::all_inverse_denominators::<E>(stream, xs.view(), &slabs).unwrap();
    let evaluation = |(matrix, &(rows, _, points)): (_, &(usize, usize, usize))| Evaluation {
        matrix: Columns::from(matrix),
        // Where rows are no power of two, the first of them.
        coset: Block { index: index << 12 >> rows.ilog2(), log_rows: rows.ilog2() },
        points: zs.iter().copied().zip(&inverses).take(points).collect(),
    };
    let evaluations: Vec<Evaluation<'_, E>> = uploaded.iter().zip(&SHAPES).map(evaluation).collect();
    let counts: Vec<usize> = SHAPES.iter().map(|(_, columns, points)| columns * points * E::DEGREE).collect();
    let mut out = stream.alloc(counts.iter().sum()).unwrap();
    multi_opening::evaluate(stream, out.view_mut(), xs.view(), &evaluations).unwrap();
    let found = out.to_vec(stream).unwrap();

    let points = xs.to_vec(stream).unwrap();
    let mut rest = &found[..];
    for ((evaluation, count), matrix) in evaluations.iter().zip(counts).zip(&matrices) {
        let found = rest.split_off(..count).unwrap();
        let Evaluation { coset, matrix: columns, points: at } = evaluation;
        let weights: Vec<_> = at
            .iter()
            .map(|(z, inverses)| {
                opening::block_weights::<E>(stream, xs.view(), inverses, *z, *coset, coset.rows()).unwrap()
            })
            .collect();
        let weights: Vec<&Matrix<_>> = weights.iter().collect();
        let expected = opening::evaluate::<E>(stream, *columns, &weights).unwrap().to_vec(stream).unwrap();
        let what = format!("{} {} x {}, {} points", E::NAME, columns.rows(), matrix.len(), at.len());
        assert_eq!(found, expected, "{what}");
        if coset.rows() <= 64 {
            let xs = &points[..coset.rows()];
            let values = |z: E| matrix.iter().map(move |column| interpolate(xs, &column[..xs.len()], z));
            let expected: Vec<E::Base> =
                at.iter().flat_map(|&(z, _)| values(z)).flat_map(|value| value.parts().to_vec()).collect();
            assert_eq!(found, expected, "{what}, by interpolation");
        }
    }
}

#[test]
fn many_matrices_are_evaluated() {
    fn check<E: Oracle>(stream: &Stream)
    where
        E::Base: TwoAdic,
    {
        for index in [0, 3] {
            check_evaluations::<E>(stream, index);
        }
    }
    on_each_device(|stream| {
        check::<KoalaBear4>(stream);
        check::<BabyBear4>(stream);
        check::<Goldilocks2>(stream);
        check::<Goldilocks3>(stream);
    });
}

/// The parts of a polynomial's value that blocks of its rows have add up to it.
#[test]
fn parts_of_a_coset_add_up() {
    on_each_device(|stream| {
        let mut rng = rng(1);
        let z = random_elements::<KoalaBear4>(&mut rng, 1)[0];
        let matrix = random_columns::<KoalaBear>(&mut rng, 64, 3);
        let parts = [0, 1].map(|index| {
            let xs = block_points::<KoalaBear>(stream, Block { index, log_rows: 5 }).unwrap();
            let inverses = opening::inverse_denominators(stream, xs.view(), z).unwrap();
            let rows: Vec<_> = matrix.iter().map(|column| column[32 * index..32 * (index + 1)].to_vec()).collect();
            let rows = upload::<KoalaBear>(stream, &rows);
            let matrix = Columns::from(&rows);
            let evaluation = Evaluation { matrix, coset: Block::whole(6), points: vec![(z, &inverses)] };
            let mut out = stream.alloc(12).unwrap();
            multi_opening::evaluate(stream, out.view_mut(), xs.view(), &[evaluation]).unwrap();
            elements(&out.to_vec(stream).unwrap())
        });
        let xs = coset_points::<KoalaBear>(stream, 6).unwrap().to_vec(stream).unwrap();
        for (column, values) in matrix.iter().enumerate() {
            assert_eq!(parts[0][column] + parts[1][column], interpolate(&xs, values, z));
        }
    });
}

/// Elements that are stored one after the other.
fn elements(values: &[KoalaBear]) -> Vec<KoalaBear4> {
    values.chunks(4).map(|parts| KoalaBear4::from_parts(parts).unwrap()).collect()
}

fn check_quotients<E: Oracle>(stream: &Stream) {
    let mut rng = rng(2);
    let matrices = matrices::<E::Base>(&mut rng);
    let powers = random_elements::<E>(&mut rng, 40);
    // Of the claims on one matrix, some share their slab with those on others.
    let slabs = random_columns::<E>(&mut rng, 4_099, 5);
    let claim = |rng: &mut SmallRng| (random_elements::<E>(rng, 2), rng.random_range(0..slabs.len()));
    let claims: Vec<Vec<_>> =
        SHAPES.iter().map(|&(_, _, claims)| (0..claims).map(|_| claim(&mut rng)).collect()).collect();
    // One height has no claims.
    let (none, mut heights) = (random_columns::<E::Base>(&mut rng, 33, 2), vec![33]);
    heights.extend(SHAPES.map(|(rows, ..)| rows));
    heights.sort_unstable_by(|a, b| b.cmp(a));
    heights.dedup();

    let lift = |x: E::Base| constant::<E>(x).theirs();
    let quotient = |r: usize, matrix: &[Vec<E::Base>], (claim, slab): &(Vec<E>, usize)| {
        let terms = matrix.iter().zip(&powers).map(|(column, power)| power.theirs() * lift(column[r]));
        let m = terms.fold(E::ZERO.theirs(), |sum, term| sum + term);
        claim[0].theirs() * (claim[1].theirs() - m) * slabs[*slab][r].theirs()
    };
    let sum = |rows: usize, r: usize| {
        let of_height = || matrices.iter().zip(&claims).filter(|(matrix, _)| matrix[0].len() == rows);
        let all =
            of_height().flat_map(|(matrix, claims)| claims.iter().map(move |claim| quotient(r, matrix, claim)));
        E::ours(all.fold(E::ZERO.theirs(), |sum, quotient| sum + quotient))
    };

    let uploaded: Vec<_> = matrices.iter().map(|matrix| upload::<E::Base>(stream, matrix)).collect();
    let none = upload::<E::Base>(stream, &none);
    let powers = stream.upload(&to_slab(&powers)).unwrap();
    let inverses: Vec<_> = slabs.iter().map(|slab| upload(stream, std::slice::from_ref(slab))).collect();
    let on_device =
        |(claim, slab): &(Vec<E>, usize)| Claim { scale: claim[0], value: claim[1], inverses: &inverses[*slab] };
    let all = uploaded
        .iter()
        .zip(&claims)
        .map(|(matrix, claims)| Claims { matrix: matrix.into(), claims: claims.iter().map(on_device).collect() });
    let all: Vec<_> = all.chain([Claims { matrix: Columns::from(&none), claims: vec![] }]).collect();
    let found = multi_opening::quotients(stream, powers.view(), &all).unwrap();
    assert_eq!(found.iter().map(Matrix::rows).collect::<Vec<_>>(), heights);
    for (found, &rows) in found.iter().zip(&heights) {
        let what = format!("{} {rows} rows", E::NAME);
        let mut each = Matrix::zeros(stream, rows, E::DEGREE).unwrap();
        for Claims { matrix, claims } in all.iter().filter(|claims| claims.matrix.rows() == rows) {
            opening::accumulate_quotients(stream, &mut each, *matrix, powers.view(), claims).unwrap();
        }
        let found = download::<E>(stream, found);
        assert_eq!(found, download::<E>(stream, &each), "{what}");
        assert_eq!(found, [(0..rows).map(|r| sum(rows, r)).collect::<Vec<_>>()], "{what}");
    }
}

#[test]
fn quotients_of_all_heights() {
    on_each_device(|stream| {
        check_quotients::<KoalaBear4>(stream);
        check_quotients::<BabyBear4>(stream);
        check_quotients::<Goldilocks2>(stream);
        check_quotients::<Goldilocks3>(stream);
    });
}

/// Quotients of more heights, and of more slabs of denominators, than one launch has room for.
#[test]
fn there_may_be_many_heights() {
    on_each_device(|stream| {
        let mut rng = rng(3);
        let [scale, value, one] = random_elements::<Goldilocks2>(&mut rng, 3)[..] else { unreachable!() };
        let xs = coset_points::<Goldilocks>(stream, 5).unwrap();
        let zs = random_elements::<Goldilocks2>(&mut rng, 20);
        let slabs: Vec<_> = zs.iter().zip(1..).map(|(&z, n)| (z, n)).collect();
        let inverses = opening::all_inverse_denominators(stream, xs.view(), &slabs).unwrap();
        let powers = stream.upload(&to_slab(&[one])).unwrap();
        let matrices: Vec<_> = (1..=20).map(|rows| random_columns::<Goldilocks>(&mut rng, rows, 1)).collect();
        let uploaded: Vec<_> = matrices.iter().map(|matrix| upload::<Goldilocks>(stream, matrix)).collect();
        let claims = uploaded.iter().zip(&inverses).map(|(matrix, inverses)| Claims {
            matrix: matrix.into(),
            claims: vec![Claim { scale, value, inverses }],
        });
        let found = multi_opening::quotients(stream, powers.view(), &claims.collect::<Vec<_>>()).unwrap();
        let xs = xs.to_vec(stream).unwrap();
        for ((found, matrix), z) in found.iter().rev().zip(&matrices).zip(zs) {
            let quotient = |(&x, &y): (&Goldilocks, &Goldilocks)| {
                scale * (value - one * y) * (z - constant::<Goldilocks2>(x)).inverse().unwrap()
            };
            let expected: Vec<_> = xs.iter().zip(&matrix[0]).map(quotient).collect();
            assert_eq!(from_slab::<Goldilocks2>(&found.to_vec(stream).unwrap()).unwrap(), expected);
        }
    });
}

/// However many matrices there are.
#[test]
fn one_launch_each() {
    on_each_device(|stream| {
        let mut rng = rng(4);
        let zs = random_elements::<KoalaBear4>(&mut rng, 10);
        let xs = coset_points::<KoalaBear>(stream, 5).unwrap();
        let powers = upload(stream, std::slice::from_ref(&zs));
        let matrices: Vec<_> =
            (0..30).map(|k| Matrix::<KoalaBear>::zeros(stream, 32 >> (k % 3), 9).unwrap()).collect();
        let mut before = stream.device().activity().launches;
        let mut launches = || {
            let now = stream.device().activity().launches;
            now - std::mem::replace(&mut before, now)
        };

        let slabs: Vec<_> = zs.iter().map(|&z| (z, 32)).collect();
        let inverses = opening::all_inverse_denominators(stream, xs.view(), &slabs).unwrap();
        assert_eq!(launches(), 1);
        let evaluations: Vec<_> = matrices
            .iter()
            .map(|matrix| Evaluation {
                matrix: matrix.into(),
                coset: Block::whole(matrix.rows().ilog2()),
                points: zs.iter().copied().zip(&inverses).take(2).collect(),
            })
            .collect();
        let mut out = stream.alloc(30 * 9 * 2 * 4).unwrap();
        multi_opening::evaluate(stream, out.view_mut(), xs.view(), &evaluations).unwrap();
        assert_eq!(launches(), 1);
        let claims = zs.iter().zip(&inverses).map(|(&z, inverses)| Claim { scale: z, value: z, inverses });
        let claims: Vec<_> = claims.take(2).collect();
        let all: Vec<_> =
            matrices.iter().map(|matrix| Claims { matrix: matrix.into(), claims: claims.clone() }).collect();
        multi_opening::quotients(stream, powers.values().view(), &all).unwrap();
        assert_eq!(launches(), 1);
    });
}

#[test]
fn nothing_to_open() {
    on_each_device(|stream| {
        let xs = coset_points::<KoalaBear>(stream, 2).unwrap();
        let mut none = stream.alloc(0).unwrap();
        multi_opening::evaluate::<KoalaBear4>(stream, none.view_mut(), xs.view(), &[]).unwrap();
        assert!(multi_opening::quotients::<KoalaBear4>(stream, xs.view(), &[]).unwrap().is_empty());
        assert!(opening::all_inverse_denominators::<KoalaBear4>(stream, xs.view(), &[]).unwrap().is_empty());
    });
}

#[test]
fn wrong_shapes_are_refused() {
    on_each_device(|stream| {
        let matrix = |rows, columns| Matrix::<KoalaBear>::zeros(stream, rows, columns).unwrap();
        let (z, xs) = (KoalaBear4::ONE, coset_points::<KoalaBear>(stream, 3).unwrap());
        let (eight, sixteen, slab, short) = (matrix(8, 3), matrix(16, 3), matrix(16, 4), matrix(4, 4));
        let empty = stream.alloc(0).unwrap();
        let evaluate = |matrix: Columns<'_, KoalaBear>, log_rows, inverses, room| {
            let evaluation = Evaluation { matrix, coset: Block::whole(log_rows), points: vec![(z, inverses)] };
            let mut out = stream.alloc(room).unwrap();
            multi_opening::evaluate(stream, out.view_mut(), xs.view(), &[evaluation])
        };
        let short_room = evaluate(Columns::from(&eight), 3, &slab, 11);
        assert_says(short_room, &["multi_opening::evaluate", "room for 11 coefficients of 3 results"]);
        assert_says(evaluate(Columns::from(&sixteen), 4, &slab, 12), &["8 points for 16 rows"]);
        assert_says(evaluate(Columns::from(&eight), 3, &short, 12), &["inverses of 4 x 4", "8 x 4"]);
        assert_says(evaluate(Columns::from(&eight), 25, &slab, 12), &["2^25"]);
        let no_columns = Columns::new(empty.view(), 8).unwrap();
        assert_says(evaluate(no_columns, 3, &slab, 0), &["a matrix of 0 columns"]);
        assert!(evaluate(Columns::from(&eight), 3, &slab, 12).is_ok());

        let quotients = |powers: usize, inverses| {
            let powers = matrix(powers, 4);
            let claims = vec![Claim { scale: z, value: z, inverses }];
            let claims = [Claims { matrix: Columns::from(&eight), claims }];
            multi_opening::quotients(stream, powers.values().view(), &claims)
        };
        assert_says(quotients(2, &slab), &["multi_opening::quotients", "2 powers for 3 columns"]);
        assert_says(quotients(3, &short), &["inverses of 4 x 4", "8 x 4"]);
        assert!(quotients(3, &slab).is_ok());

        let denominators = |n| opening::all_inverse_denominators(stream, xs.view(), &[(z, 8), (z, n)]);
        assert_says(denominators(9), &["opening::inverse_denominators", "9 of 8 points"]);
        assert_says(denominators(0), &["0 of 8 points"]);
    });
}
