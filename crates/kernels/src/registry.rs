//! The registry: every operation, and the fields and hashes for which its kernels are instantiated.
//!
//! Adding an operation, field or hash adds a line here. [`warm`] compiles what provers use, [`compile_all`]
//! everything that is registered. Poseidon2 with fixed constants is registered for arrays, with constants given at run
//! time for provers.

use std::sync::atomic::{AtomicUsize, Ordering};

use rigel_gpu::{Device, Lock, Result};

use crate::code::{Operation, RegisteredModule};
use crate::commit::lifted::LiftedRows;
use crate::commit::mask::Mask;
use crate::commit::merkle::Tree;
use crate::commit::queries::Queries;
use crate::commit::rows::{PairedRows, PartKernel, ReversedRows, Row, RowParts, Rows};
use crate::domain::circle_domain::CircleDomain;
use crate::domain::circle_order::CircleOrder;
use crate::domain::points::CosetPoints;
use crate::domain::selectors::Selectors;
use crate::field::{
    BabyBear, BabyBear4, CM31, Element, Goldilocks, Goldilocks2, Goldilocks3, KoalaBear, KoalaBear4, Mersenne31,
    QM31, RiscZero4,
};
use crate::fri::circle_fold::CircleFold;
use crate::fri::fold::Fold;
use crate::fri::fold_coefficients::FoldCoefficients;
use crate::fri::grind::{GrindBlake2s, GrindDuplex, GrindKeccak};
use crate::gkr::multilinear::Multilinear;
use crate::hash::poseidon2::{
    BabyBearWidth16, BabyBearWidth24, BabyBearWidth32, GoldilocksWidth8, GoldilocksWidth12, GoldilocksWidth16,
    KoalaBearWidth16, KoalaBearWidth24, KoalaBearWidth32,
};
use crate::hash::{
    BabyBearPoseidon2Width16, Blake2s, Blake2sM31, Chained, GoldilocksPoseidon2Width8, Keccak256, KeccakSponge,
    KoalaBearPoseidon2Width16, Poseidon2, RiscZeroPoseidon2, RowHash, Sponge,
};
use crate::layout::columns::ListColumns;
use crate::layout::gather::Gather;
use crate::layout::permute::Permute;
use crate::number::accumulate::Accumulate;
use crate::number::matmul::Matmul;
use crate::number::pick::Pick;
use crate::number::sort::Sort;
use crate::open::circle_opening::CircleOpening;
use crate::open::circle_quotients::CircleQuotients;
use crate::open::deep::Deep;
use crate::open::evaluate::Evaluate;
use crate::open::multi_opening::MultiOpening;
use crate::open::opening::Opening;
use crate::transform::circle::CircleTransform;
use crate::transform::ntt::{Ntt, TwoAdic};
use crate::transform::short::Short;
use crate::vector::elementwise::Elementwise;
use crate::vector::fractions::Fractions;
use crate::vector::inverse::Inverse;
use crate::vector::powers::Powers;
use crate::vector::reduce::Reduce;
use crate::vector::scale::Scale;
use crate::vector::scan::{Plus, Scan, Times};
use crate::vector::uniform::Uniform;

macro_rules! registry {
    ($($operation:ty,)*) => {
        /// Every module of every operation.
        fn modules() -> Vec<RegisteredModule> {
            let mut modules = Vec::new();
            $(modules.extend(<$operation>::modules());)*
            modules
        }
    };
}

// The order in which `warm` compiles them: the slowest to compile come first, so that no core is left with a long
// compilation at the end.
registry! {
    Ntt<Goldilocks>, Ntt<KoalaBear>, Ntt<BabyBear>,
    CircleTransform,
    Rows<Keccak256, KoalaBear>, Rows<Keccak256, BabyBear>, Rows<Keccak256, Goldilocks>,
    Rows<KeccakSponge, KoalaBear>, Rows<KeccakSponge, BabyBear>, Rows<KeccakSponge, Goldilocks>,
    PairedRows<Keccak256, KoalaBear>, PairedRows<Keccak256, BabyBear>, PairedRows<Keccak256, Goldilocks>,
    PairedRows<KeccakSponge, KoalaBear>, PairedRows<KeccakSponge, BabyBear>, PairedRows<KeccakSponge, Goldilocks>,
    Rows<KoalaBearPoseidon2Width16, KoalaBear>, Rows<BabyBearPoseidon2Width16, BabyBear>,
    Rows<GoldilocksPoseidon2Width8, Goldilocks>,
    Rows<Poseidon2<KoalaBearWidth16, KoalaBearWidth16>, KoalaBear>,
    Rows<Poseidon2<KoalaBearWidth24, KoalaBearWidth16>, KoalaBear>,
    Rows<Poseidon2<KoalaBearWidth32, KoalaBearWidth16>, KoalaBear>,
    Rows<Poseidon2<BabyBearWidth16, BabyBearWidth16>, BabyBear>,
    Rows<Poseidon2<BabyBearWidth24, BabyBearWidth16>, BabyBear>,
    Rows<Poseidon2<BabyBearWidth32, BabyBearWidth16>, BabyBear>,
    Rows<Poseidon2<GoldilocksWidth8, GoldilocksWidth8>, Goldilocks>,
    Rows<Poseidon2<GoldilocksWidth12, GoldilocksWidth8>, Goldilocks>,
    Rows<Poseidon2<GoldilocksWidth16, GoldilocksWidth8>, Goldilocks>,
    Rows<RiscZeroPoseidon2, BabyBear>, ReversedRows<RiscZeroPoseidon2, BabyBear>,
    Rows<Blake2s, Mersenne31>, Rows<Blake2sM31, Mersenne31>, LiftedRows<Blake2s, Mersenne31>,
    LiftedRows<Blake2sM31, Mersenne31>,
    RowParts<Keccak256, KoalaBear>, RowParts<Keccak256, BabyBear>, RowParts<Keccak256, Goldilocks>,
    RowParts<KeccakSponge, KoalaBear>, RowParts<KeccakSponge, BabyBear>, RowParts<KeccakSponge, Goldilocks>,
    RowParts<Poseidon2<KoalaBearWidth16, KoalaBearWidth16>, KoalaBear>,
    RowParts<Poseidon2<KoalaBearWidth24, KoalaBearWidth16>, KoalaBear>,
    RowParts<Poseidon2<BabyBearWidth16, BabyBearWidth16>, BabyBear>,
    RowParts<Poseidon2<BabyBearWidth24, BabyBearWidth16>, BabyBear>,
    RowParts<Poseidon2<GoldilocksWidth8, GoldilocksWidth8>, Goldilocks>,
    RowParts<Poseidon2<GoldilocksWidth12, GoldilocksWidth8>, Goldilocks>,
    Tree<Keccak256>, Tree<KeccakSponge>, Tree<KoalaBearPoseidon2Width16>, Tree<BabyBearPoseidon2Width16>,
    Tree<GoldilocksPoseidon2Width8>, Tree<Blake2s>, Tree<Blake2sM31>,
    Tree<Poseidon2<KoalaBearWidth16, KoalaBearWidth16>>, Tree<Poseidon2<BabyBearWidth16, BabyBearWidth16>>,
    Tree<Poseidon2<GoldilocksWidth8, GoldilocksWidth8>>,
    Tree<RiscZeroPoseidon2>,
    Evaluate<RiscZero4>, Deep<RiscZero4>, FoldCoefficients<RiscZero4>,
    Opening<Goldilocks3>, Opening<Goldilocks2>, Opening<KoalaBear4>, Opening<BabyBear4>,
    MultiOpening<Goldilocks3>, MultiOpening<Goldilocks2>, MultiOpening<KoalaBear4>, MultiOpening<BabyBear4>,
    Reduce<Goldilocks3, 2>, Reduce<Goldilocks2, 2>, Reduce<KoalaBear4, 2>, Reduce<BabyBear4, 2>,
    Reduce<QM31, 2>,
    Fold<Goldilocks3>, Fold<Goldilocks2>, Fold<KoalaBear4>, Fold<BabyBear4>,
    CosetPoints<Goldilocks>, CosetPoints<KoalaBear>, CosetPoints<BabyBear>,
    Selectors<Goldilocks>, Selectors<KoalaBear>, Selectors<BabyBear>,
    GrindKeccak<Goldilocks>, GrindKeccak<KoalaBear>, GrindKeccak<BabyBear>,
    GrindDuplex<Poseidon2<KoalaBearWidth16, KoalaBearWidth16>>,
    GrindDuplex<Poseidon2<KoalaBearWidth24, KoalaBearWidth24>>,
    GrindDuplex<Poseidon2<BabyBearWidth16, BabyBearWidth16>>,
    GrindDuplex<Poseidon2<BabyBearWidth24, BabyBearWidth24>>,
    GrindDuplex<Poseidon2<GoldilocksWidth8, GoldilocksWidth8>>,
    GrindDuplex<Poseidon2<GoldilocksWidth12, GoldilocksWidth12>>,
    GrindBlake2s<Blake2s>, GrindBlake2s<Blake2sM31>,
    Elementwise<Goldilocks3>, Elementwise<Goldilocks2>, Elementwise<Goldilocks>, Elementwise<KoalaBear4>,
    Elementwise<KoalaBear>, Elementwise<BabyBear4>, Elementwise<BabyBear>, Elementwise<QM31>, Elementwise<CM31>,
    Elementwise<Mersenne31>,
    Fractions<QM31>,
    Inverse<Goldilocks3>, Inverse<Goldilocks2>, Inverse<Goldilocks>, Inverse<KoalaBear4>, Inverse<KoalaBear>,
    Inverse<BabyBear4>, Inverse<RiscZero4>, Inverse<BabyBear>, Inverse<QM31>, Inverse<CM31>, Inverse<Mersenne31>,
    Powers<Goldilocks3>, Powers<Goldilocks2>, Powers<Goldilocks>, Powers<KoalaBear4>, Powers<KoalaBear>,
    Powers<BabyBear4>, Powers<RiscZero4>, Powers<BabyBear>, Powers<QM31>, Powers<CM31>, Powers<Mersenne31>,
    Reduce<Goldilocks3, 1>, Reduce<Goldilocks2, 1>, Reduce<Goldilocks, 1>, Reduce<KoalaBear4, 1>,
    Reduce<KoalaBear, 1>, Reduce<BabyBear4, 1>, Reduce<BabyBear, 1>, Reduce<QM31, 1>, Reduce<CM31, 1>,
    Reduce<Mersenne31, 1>,
    Scan<Goldilocks3, Times>, Scan<Goldilocks2, Times>, Scan<Goldilocks, Times>, Scan<KoalaBear4, Times>,
    Scan<KoalaBear, Times>, Scan<BabyBear4, Times>, Scan<BabyBear, Times>, Scan<QM31, Times>, Scan<CM31, Times>,
    Scan<Mersenne31, Times>,
    Reduce<Goldilocks, 0>, Reduce<KoalaBear, 0>, Reduce<BabyBear, 0>, Reduce<Mersenne31, 0>,
    Scan<Goldilocks, Plus>, Scan<KoalaBear, Plus>, Scan<BabyBear, Plus>, Scan<Mersenne31, Plus>,
    Permute<u32>, Permute<u64>,
    Short<Goldilocks>, Short<KoalaBear>, Short<BabyBear>,
    Scale<BabyBear>,
    Mask<BabyBear>, Mask<KoalaBear>, Mask<Goldilocks>,
    Uniform<BabyBear>, Uniform<KoalaBear>, Uniform<Goldilocks>,
    Queries,
    Multilinear,
    ListColumns,
    CircleDomain, CircleFold, CircleOpening, CircleOrder, CircleQuotients,
    Gather,
    Matmul, Accumulate, Pick, Sort,
}

/// Compiles every kernel of this crate, for each field and hash for which it is instantiated, or loads it from the
/// cache, on all cores. Returns the number of modules.
///
/// On a device that only compiles ([`Device::compile_only`]) it shows whether all kernels compile for an architecture.
/// Kernels that hash packed rows exist for matrices of up to 32 columns; those for up to 4 are compiled.
pub fn compile_all(device: &Device) -> Result<usize> {
    load(device, modules())
}

/// Compiles the prover kernels for every field and hash, or loads them from the cache, on all cores, so that no later
/// proof waits for a compiler. Returns the number of modules.
///
/// Calling it is optional: each operation compiles the kernels it needs on first use.
pub fn warm(device: &Device) -> Result<usize> {
    load(device, modules().into_iter().filter(|module| module.is_warmed).collect())
}

/// [`warm`] for one extension of a two-adic field and one hash: what a prover with a FRI over cosets uses.
pub fn warm_two_adic<E, H>(device: &Device) -> Result<usize>
where
    E: Element<Base: TwoAdic>,
    H: RowHash<E::Base> + Sponge,
{
    let permute = if size_of::<E::Base>() == 4 { Permute::<u32>::modules } else { Permute::<u64>::modules };
    let packed = Row::Packed { columns: E::DEGREE as u32 };
    warm_some(
        device,
        [
            Opening::<E>::modules(),
            MultiOpening::<E>::modules(),
            [PartKernel::Absorb, PartKernel::Finish].map(RowParts::<H, E::Base>::module).into(),
            Ntt::<E::Base>::modules(),
            Rows::<H, E::Base>::modules(),
            vec![Rows::<H, E::Base>::module(packed)],
            PairedRows::<H, E::Base>::modules(),
            H::ROW_PAIRS.map(|_| PairedRows::<H, E::Base>::module(packed)).into_iter().collect(),
            Tree::<H>::modules(),
            Reduce::<E, 2>::modules(),
            Reduce::<E, 1>::modules(),
            Fold::<E>::modules(),
            GrindKeccak::<E::Base>::modules(),
            CosetPoints::<E::Base>::modules(),
            Selectors::<E::Base>::modules(),
            Inverse::<E>::modules(),
            Inverse::<E::Base>::modules(),
            Powers::<E>::modules(),
            Scan::<E::Base, Plus>::modules(),
            permute(),
            Gather::modules(),
            ListColumns::modules(),
        ],
    )
}

/// [`warm`] for RISC Zero's prover.
pub fn warm_risc_zero(device: &Device) -> Result<usize> {
    warm_some(
        device,
        [
            ReversedRows::<RiscZeroPoseidon2, BabyBear>::modules(),
            vec![Rows::<RiscZeroPoseidon2, BabyBear>::module(Row::Matrix)],
            Tree::<RiscZeroPoseidon2>::modules(),
            Ntt::<BabyBear>::modules(),
            Evaluate::<RiscZero4>::modules(),
            Deep::<RiscZero4>::modules(),
            FoldCoefficients::<RiscZero4>::modules(),
            Inverse::<RiscZero4>::modules(),
            Powers::<RiscZero4>::modules(),
            Powers::<BabyBear>::modules(),
            Scan::<BabyBear, Plus>::modules(),
            Scale::<BabyBear>::modules(),
            Queries::modules(),
            Permute::<u32>::modules(),
            Gather::modules(),
        ],
    )
}

/// [`warm`] for the circle domains over Mersenne-31 and one hash: what a circle STARK's prover uses.
pub fn warm_circle<H: RowHash<Mersenne31> + Chained>(device: &Device) -> Result<usize> {
    warm_some(
        device,
        [
            CircleTransform::modules(),
            Rows::<H, Mersenne31>::modules(),
            vec![LiftedRows::<H, Mersenne31>::module(())],
            Tree::<H>::modules(),
            CircleFold::modules(),
            CircleQuotients::modules(),
            Reduce::<QM31, 1>::modules(),
            Reduce::<Mersenne31, 0>::modules(),
            GrindBlake2s::<H>::modules(),
            Fractions::<QM31>::modules(),
            Inverse::<QM31>::modules(),
            Inverse::<Mersenne31>::modules(),
            CircleOpening::modules(),
            CircleDomain::modules(),
            CircleOrder::modules(),
            Scan::<Mersenne31, Plus>::modules(),
            Permute::<u32>::modules(),
            Gather::modules(),
            ListColumns::modules(),
        ],
    )
}

fn warm_some<const N: usize>(device: &Device, modules: [Vec<RegisteredModule>; N]) -> Result<usize> {
    load(device, modules.into_iter().flatten().filter(|module| module.is_warmed).collect())
}

/// Compiles or loads modules on all cores, and returns their number.
fn load(device: &Device, modules: Vec<RegisteredModule>) -> Result<usize> {
    let compiled = || {
        let stats = device.cache().stats();
        stats.compiled + stats.hits
    };
    let before = compiled();
    let next = AtomicUsize::new(0);
    let failure = Lock::new(None);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = (module.load)(device) {
                        failure.lock().get_or_insert(error);
                        next.store(modules.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Some(error) => Err(error),
        None => Ok((compiled() - before) as usize),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    /// The `.cu` files below a folder, by their path relative to `src`.
    fn kernel_files(folder: &Path, found: &mut BTreeMap<String, String>) {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                kernel_files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "cu") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
                found.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }

    /// The names of the kernels in a source text: the identifier before the parameters of each `__global__` function.
    fn kernels_in(text: &str) -> BTreeSet<String> {
        let declarations = text.split("__global__").skip(1);
        declarations
            .map(|declaration| {
                let declaration = match declaration.find("__launch_bounds__") {
                    None => declaration,
                    Some(at) => after_parentheses(&declaration[at..]),
                };
                let name = declaration.split('(').next().unwrap();
                name.split_whitespace().last().unwrap().to_string()
            })
            .collect()
    }

    /// The text after the first pair of parentheses.
    fn after_parentheses(text: &str) -> &str {
        let mut depth = 0;
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => return &text[at + 1..],
                b')' => depth -= 1,
                _ => {}
            }
        }
        text
    }

    /// Every kernel of every `.cu` file has a registered instance, and every instance names a kernel of its file.
    #[test]
    fn all_kernels_are_registered() {
        let mut files = BTreeMap::new();
        kernel_files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut files);
        let mut registered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for module in modules() {
            let kernels = registered.entry(module.path.to_string()).or_default();
            for kernel in (module.source)().kernels() {
                kernels.insert(kernel.split('<').next().unwrap().to_string());
            }
        }
        let written = files.iter().map(|(path, text)| (path.clone(), kernels_in(text))).collect();
        assert_eq!(registered, written);
    }

    #[test]
    fn no_module_is_registered_twice() {
        let mut seen = BTreeSet::new();
        for module in modules() {
            let source = (module.source)();
            assert!(seen.insert((module.path, source.kernels().to_vec())), "{:?}", source.kernels());
        }
    }
}
