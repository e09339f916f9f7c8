//! Random values, the same on both backends.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rigel_gpu::testing::{groups, on_each_device};
use rigel_gpu::{Device, Emulation, Options, Stream};
use rigel_stwo::CudaBackend;
use stwo::core::circle::{CirclePoint, SECURE_FIELD_CIRCLE_GEN};
use stwo::core::fields::m31::{BaseField, P};
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CircleDomain;
use stwo::prover::backend::{Column, ColumnOps, CpuBackend};
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::circle::{CircleEvaluation, SecureEvaluation};
use stwo::prover::secure_column::SecureColumnByCoords;

pub(crate) fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

pub(crate) fn base(rng: &mut SmallRng) -> BaseField {
    BaseField::from_u32_unchecked(rng.random_range(0..P))
}

pub(crate) fn secure(rng: &mut SmallRng) -> SecureField {
    SecureField::from_m31_array(std::array::from_fn(|_| base(rng)))
}

pub(crate) fn bases(rng: &mut SmallRng, n: usize) -> Vec<BaseField> {
    // Includes zeros and ones.
    (0..n).map(|i| if i % 7 == 3 { BaseField::from_u32_unchecked(i as u32 % 2) } else { base(rng) }).collect()
}

pub(crate) fn secures(rng: &mut SmallRng, n: usize) -> Vec<SecureField> {
    (0..n).map(|_| secure(rng)).collect()
}

pub(crate) fn point(rng: &mut SmallRng) -> CirclePoint<SecureField> {
    SECURE_FIELD_CIRCLE_GEN.mul(rng.random())
}

pub(crate) fn column<B: ColumnOps<T>, T: Copy>(values: &[T]) -> B::Column {
    values.iter().copied().collect()
}

pub(crate) fn evaluation<B: ColumnOps<BaseField>>(
    domain: CircleDomain,
    values: &[BaseField],
) -> CircleEvaluation<B, BaseField, BitReversedOrder> {
    CircleEvaluation::new(domain, column::<B, _>(values))
}

pub(crate) fn coordinates<B: ColumnOps<BaseField>>(values: &[SecureField]) -> SecureColumnByCoords<B> {
    let coordinate = |c: usize| values.iter().map(|value| value.to_m31_array()[c]).collect();
    SecureColumnByCoords { columns: std::array::from_fn(coordinate) }
}

pub(crate) fn secure_evaluation<B: ColumnOps<BaseField>>(
    domain: CircleDomain,
    values: &[SecureField],
) -> SecureEvaluation<B, BitReversedOrder> {
    SecureEvaluation::new(domain, coordinates::<B>(values))
}

/// The elements of coordinate columns.
pub(crate) fn elements<B: ColumnOps<BaseField>>(columns: &SecureColumnByCoords<B>) -> Vec<SecureField> {
    let coordinates = columns.columns.each_ref().map(Column::to_cpu);
    (0..columns.len()).map(|i| SecureField::from_m31_array(std::array::from_fn(|c| coordinates[c][i]))).collect()
}

/// Runs a test with the backend on each device.
pub(crate) fn on_devices(test: impl Fn(&Stream)) {
    on_each_device(|stream| rigel_stwo::on(stream.device(), || test(stream)));
}

/// Runs a test within [`rigel_stwo::over`] each group of so many devices: emulated ones, and contexts of a GPU if there
/// is one.
pub(crate) fn over_each(count: u32, test: impl Fn(&[Device])) {
    for devices in groups(count).unwrap() {
        rigel_stwo::over(&devices, || test(&devices)).unwrap();
    }
}

/// Emulated devices, for what is the same on all kinds of them.
pub(crate) fn emulated(count: u32) -> Vec<Device> {
    let emulation = Emulation { devices: count, ..Emulation::default() };
    Device::emulated(&emulation, &Options::from_env().unwrap()).unwrap()
}

/// The backend under test.
pub(crate) type Cuda = CudaBackend;
/// The reference where the SIMD backend's order of coefficients or its smallest sizes differ.
pub(crate) type Cpu = CpuBackend;
