//! Compiling everything in advance.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Result};

use crate::commit::{merkle, rows};
use crate::domain::{circle_domain, circle_order, selectors};
use crate::field::{
    BabyBear, BabyBear4, CM31, Element, Field, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4,
    Mersenne31, QM31,
};
use crate::fri::{circle_fold, fold, grind};
use crate::gkr::multilinear;
use crate::hash::{
    BabyBearPoseidon2Width16, BabyBearPoseidon2Width24, Blake2s, Blake2sM31, GoldilocksPoseidon2Width8,
    GoldilocksPoseidon2Width12, Hash, Keccak256, KeccakSponge, KoalaBearPoseidon2Width16,
    KoalaBearPoseidon2Width24, Permutation, RowHash,
};
use crate::layout::{columns, gather, permute};
use crate::open::{circle_opening, circle_quotients, opening};
use crate::transform::ntt::TwoAdic;
use crate::transform::{circle, ntt};
use crate::vector::{elementwise, inverse, powers, reduce, scan};

type Job = Box<dyn Fn(&Device) -> Result<()> + Send + Sync>;

/// Compiles every kernel for every field and hash (or finds it in the cache) on all cores, so that no later call
/// waits for a compiler. Returns the number of modules.
///
/// It is never needed: each operation compiles what it uses when first called.
pub fn warm(device: &Device) -> Result<usize> {
    let modules = || {
        let stats = device.cache().stats();
        stats.compiled + stats.hits
    };
    let before = modules();
    let jobs = jobs();
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = job(device) {
                        failure.lock().expect("no panic while the lock is held").get_or_insert(error);
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match failure.into_inner().expect("no panic while the lock is held") {
        Some(error) => Err(error),
        None => Ok((modules() - before) as usize),
    }
}

/// The longest first: wide transforms.
fn jobs() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for bits in (0..=10).rev() {
        two_adic::<Goldilocks>(&mut jobs, bits);
        two_adic::<KoalaBear>(&mut jobs, bits);
        two_adic::<BabyBear>(&mut jobs, bits);
    }
    for log_rows in (1..=23).rev() {
        jobs.push(Box::new(move |device| circle::warm(device, log_rows)));
    }
    row_hash::<Keccak256, KoalaBear>(&mut jobs);
    row_hash::<Keccak256, BabyBear>(&mut jobs);
    row_hash::<Keccak256, Goldilocks>(&mut jobs);
    row_hash::<KeccakSponge, KoalaBear>(&mut jobs);
    row_hash::<KeccakSponge, BabyBear>(&mut jobs);
    row_hash::<KeccakSponge, Goldilocks>(&mut jobs);
    row_hash::<KoalaBearPoseidon2Width16, KoalaBear>(&mut jobs);
    row_hash::<KoalaBearPoseidon2Width24, KoalaBear>(&mut jobs);
    row_hash::<BabyBearPoseidon2Width16, BabyBear>(&mut jobs);
    row_hash::<BabyBearPoseidon2Width24, BabyBear>(&mut jobs);
    row_hash::<GoldilocksPoseidon2Width8, Goldilocks>(&mut jobs);
    row_hash::<GoldilocksPoseidon2Width12, Goldilocks>(&mut jobs);
    row_hash::<Blake2s, Mersenne31>(&mut jobs);
    row_hash::<Blake2sM31, Mersenne31>(&mut jobs);
    node_hash::<Keccak256>(&mut jobs);
    node_hash::<KeccakSponge>(&mut jobs);
    node_hash::<KoalaBearPoseidon2Width16>(&mut jobs);
    node_hash::<BabyBearPoseidon2Width16>(&mut jobs);
    node_hash::<GoldilocksPoseidon2Width8>(&mut jobs);
    node_hash::<Blake2s>(&mut jobs);
    node_hash::<Blake2sM31>(&mut jobs);
    opened::<Goldilocks3>(&mut jobs);
    opened::<Goldilocks2>(&mut jobs);
    opened::<KoalaBear4>(&mut jobs);
    opened::<BabyBear4>(&mut jobs);
    domain::<Goldilocks>(&mut jobs);
    domain::<KoalaBear>(&mut jobs);
    domain::<BabyBear>(&mut jobs);
    permutation::<KoalaBearPoseidon2Width16>(&mut jobs);
    permutation::<KoalaBearPoseidon2Width24>(&mut jobs);
    permutation::<BabyBearPoseidon2Width16>(&mut jobs);
    permutation::<BabyBearPoseidon2Width24>(&mut jobs);
    permutation::<GoldilocksPoseidon2Width8>(&mut jobs);
    permutation::<GoldilocksPoseidon2Width12>(&mut jobs);
    element::<Goldilocks3>(&mut jobs);
    element::<Goldilocks2>(&mut jobs);
    element::<Goldilocks>(&mut jobs);
    element::<KoalaBear4>(&mut jobs);
    element::<KoalaBear>(&mut jobs);
    element::<BabyBear4>(&mut jobs);
    element::<BabyBear>(&mut jobs);
    element::<QM31>(&mut jobs);
    element::<CM31>(&mut jobs);
    element::<Mersenne31>(&mut jobs);
    field::<Goldilocks>(&mut jobs);
    field::<KoalaBear>(&mut jobs);
    field::<BabyBear>(&mut jobs);
    field::<Mersenne31>(&mut jobs);
    jobs.push(Box::new(permute::warm::<u32>));
    jobs.push(Box::new(permute::warm::<u64>));
    jobs.push(Box::new(multilinear::warm));
    jobs.push(Box::new(grind::warm_blake2s::<Blake2s>));
    jobs.push(Box::new(grind::warm_blake2s::<Blake2sM31>));
    jobs.push(Box::new(columns::warm));
    jobs.push(Box::new(circle_domain::warm));
    jobs.push(Box::new(circle_fold::warm));
    jobs.push(Box::new(circle_opening::warm));
    jobs.push(Box::new(circle_order::warm));
    jobs.push(Box::new(circle_quotients::warm));
    jobs.push(Box::new(gather::warm));
    jobs
}

fn two_adic<F: TwoAdic>(jobs: &mut Vec<Job>, bits: u32) {
    jobs.push(Box::new(move |device| ntt::warm::<F>(device, bits)));
}

fn row_hash<H: RowHash<F>, F: Field>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(rows::warm::<H, F>));
}

fn node_hash<H: Hash>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(merkle::warm::<H>));
}

/// What opens columns at elements of this type, and folds them.
fn opened<E: Element>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(opening::warm::<E>));
    jobs.push(Box::new(fold::warm::<E>));
}

fn domain<F: Field + Element<Base = F>>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(opening::warm_points::<F>));
    jobs.push(Box::new(selectors::warm::<F>));
    jobs.push(Box::new(grind::warm_keccak256::<F>));
}

fn permutation<P: Permutation>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(grind::warm_duplex::<P>));
}

fn field<F: Element>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(reduce::warm_sums::<F>));
    jobs.push(Box::new(scan::warm_sums::<F>));
}

fn element<E: Element>(jobs: &mut Vec<Job>) {
    jobs.push(Box::new(elementwise::warm::<E>));
    jobs.push(Box::new(inverse::warm::<E>));
    jobs.push(Box::new(powers::warm::<E>));
    jobs.push(Box::new(reduce::warm_dots::<E>));
    jobs.push(Box::new(scan::warm_products::<E>));
}
