//! Every column of the device's base trace equals upstream's, and so does the claim.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rigel_gpu::{Device, Selector};
use serde_json::{Value, json};
use stwo::core::fields::m31::BaseField;
use stwo::prover::backend::Column;
use stwo_cairo_adapter::ProverInput;
use stwo_cairo_common::preprocessed_columns::preprocessed_trace::PreProcessedTraceVariant;
use stwo_cairo_prover::witness::preprocessed_trace::gen_trace;

use super::{device, device_witness, host};
use crate::components::spans;
use crate::error::Error;
use crate::parameters::production;
use crate::plan;
use crate::program::{Program, RunOptions};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compiled").join(name).with_extension("json")
}

fn input(name: &str, program_input: Value) -> ProverInput {
    run(&path(name), program_input)
}

fn run(path: &Path, program_input: Value) -> ProverInput {
    let program =
        Program::read(path).unwrap_or_else(|error| panic!("{error}; run scripts/compile-programs first"));
    program.run(&RunOptions { program_input: Some(program_input), ..RunOptions::default() }).unwrap().input
}

fn open() -> Device {
    let selector = std::env::var("RIGEL_DEVICE").map_or(Selector::Emulated(0), |text| text.parse().unwrap());
    Device::open(selector).unwrap()
}

/// Compares all columns, and returns the names of the components that the host has made on the device's side.
fn compare(input: &ProverInput, on_host: &[&str]) -> Vec<&'static str> {
    compare_with(PreProcessedTraceVariant::CanonicalSmall, input, on_host)
}

fn compare_with(variant: PreProcessedTraceVariant, input: &ProverInput, on_host: &[&str]) -> Vec<&'static str> {
    let preprocessed = Arc::new(variant.to_preprocessed_trace());
    let expected = host::generate(input.clone(), &preprocessed).unwrap();
    let on_host: BTreeSet<String> = on_host.iter().map(|name| (*name).to_string()).collect();
    let (found, columns) = rigel_stwo::on(&open(), || {
        // The trace is made from the columns of Pedersen's points.
        let fixed = match variant {
            PreProcessedTraceVariant::CanonicalWithoutPedersen => Vec::new(),
            _ => rigel_stwo::upload(&gen_trace(preprocessed.clone())).unwrap(),
        };
        let found = device::generate(input.clone(), &preprocessed, &fixed, &on_host).unwrap();
        let columns: Vec<Vec<BaseField>> = found.columns.iter().map(|column| column.values.to_cpu()).collect();
        (found, columns)
    });
    plan_bounds(variant, input, &spans(&expected.claim));
    assert_eq!(serde_json::to_value(&found.claim).unwrap(), serde_json::to_value(&expected.claim).unwrap());
    let names: Vec<(&str, usize)> =
        spans(&expected.claim).iter().flat_map(|(name, sizes)| (0..sizes.len()).map(|i| (*name, i))).collect();
    assert_eq!((columns.len(), names.len()), (expected.columns.len(), expected.columns.len()));
    for (((name, number), expected), found) in names.into_iter().zip(&expected.columns).zip(&columns) {
        // Upstream's vectors may hold the modulus for zero.
        let canonical = |value: BaseField| BaseField::reduce(u64::from(value.0));
        let expected: Vec<BaseField> = expected.values.to_cpu().into_iter().map(canonical).collect();
        let wrong = (0..expected.len()).find(|row| expected.get(*row) != found.get(*row));
        if let Some(row) = wrong {
            let (expected, found) = (expected[row], found.get(row));
            panic!("{name}, column {number}, row {row}: {found:?}, upstream has {expected:?}");
        }
    }
    found.on_host.iter().map(|fallback| fallback.part).collect()
}

/// The plan of device memory knows all sizes. What depends on how many hashes are different may be smaller.
fn plan_bounds(variant: PreProcessedTraceVariant, input: &ProverInput, actual: &[(&'static str, Vec<u32>)]) {
    let planned = plan::expected(input, &production(variant));
    assert_eq!(planned.len(), actual.len());
    for ((name, planned), (actual_name, actual)) in planned.iter().zip(actual) {
        let bounded = ["pedersen", "poseidon", "partial_ec_mul", "cube_252", "range_check_252_width_27"];
        let exact = !bounded.iter().any(|part| name.starts_with(part));
        assert_eq!(name, actual_name);
        assert_eq!(planned.len(), actual.len(), "{name}");
        let fits =
            planned.iter().zip(actual).all(|(planned, actual)| planned == actual || !exact && planned > actual);
        assert!(fits, "{name}: planned {planned:?}, is {actual:?}");
    }
}

#[test]
fn fibonacci_is_made_on_the_device_alone() {
    assert_eq!(compare(&input("fibonacci", json!([300])), &[]), Vec::<&str>::new());
}

#[test]
fn builtins_are_made_on_the_device() {
    assert_eq!(compare(&input("factorial", json!([30])), &[]), Vec::<&str>::new());
    assert_eq!(compare(&input("bitwise", json!([20])), &[]), Vec::<&str>::new());
    assert_eq!(compare(&input("poseidon", json!([20])), &[]), Vec::<&str>::new());
    let modular = input("modular", json!([20]));
    let segments = &modular.builtin_segments;
    assert!(segments.add_mod_builtin.is_some() && segments.mul_mod_builtin.is_some());
    assert_eq!(compare(&modular, &[]), Vec::<&str>::new());
}

#[test]
fn every_opcode_equals_upstream() {
    let input = input("opcodes", json!([20]));
    let states = &input.state_transitions.casm_states_by_opcode;
    // Cairo 0 writes neither of the others.
    let absent: Vec<String> =
        states.counts().into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert_eq!(absent, ["blake_compress_opcode", "qm_31_add_mul_opcode"]);
    assert_eq!(compare(&input, &[]), Vec::<&str>::new());
}

/// Cairo 0 has no syntax for arithmetic in the secure field. Its opcode is that of a product with another extension,
/// and for small factors the products are the same.
#[test]
fn products_of_the_secure_field_equal_upstream() {
    const PRODUCT: u128 = 1 << 54;
    const ASSERT_EQ: u128 = 1 << 62;
    const EXTENSION: u128 = 3 << 63;
    let mut program: Value = serde_json::from_slice(&std::fs::read(path("opcodes")).unwrap()).unwrap();
    let number = |word: &Value| u128::from_str_radix(word.as_str()?.trim_start_matches("0x"), 16).ok();
    let words = program["data"].as_array_mut().unwrap();
    let is_product = |word: &u128| *word < 1 << 63 && word & PRODUCT != 0 && word & ASSERT_EQ != 0;
    let product = words.iter_mut().find(|word| number(word).is_some_and(|word| is_product(&word))).unwrap();
    *product = json!(format!("{:#x}", number(product).unwrap() | EXTENSION));
    let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::fs::write(file.path(), program.to_string()).unwrap();
    let input = run(file.path(), json!([20]));
    assert_eq!(input.state_transitions.casm_states_by_opcode.qm_31_add_mul_opcode.len(), 20);
    assert_eq!(compare(&input, &[]), Vec::<&str>::new());
}

/// The opcodes of Blake2s and the builtin ec_op, which the smallest variant does not have.
#[test]
fn blake_and_products_on_the_curve_equal_upstream() {
    let input = input("everything", json!([0, 2, 0, 20]));
    assert_eq!(input.state_transitions.casm_states_by_opcode.blake_compress_opcode.len(), 21);
    assert!(input.builtin_segments.ec_op_builtin.is_some() && input.builtin_segments.pedersen_builtin.is_none());
    let variant = PreProcessedTraceVariant::CanonicalWithoutPedersen;
    assert_eq!(compare_with(variant, &input, &[]), Vec::<&str>::new());
}

/// The host and the device count in the same tables.
#[test]
fn components_of_the_host_and_of_the_device_share_tables() {
    let mixed = input("mixed", json!([7]));
    assert_eq!(compare(&mixed, &[]), Vec::<&str>::new());
    let some = ["ret_opcode", "range_check_builtin", "poseidon_builtin", "pedersen_builtin_narrow_windows"];
    let made = compare(&mixed, &some);
    assert!(some.iter().all(|name| made.contains(name)), "{made:?}");
    let all = device_witness().0;
    assert!(compare(&input("factorial", json!([30])), &all).len() > 8);
}

#[test]
#[ignore = "the points for windows of 18 bits take minutes and 8 GB"]
fn pedersen_with_wide_windows_equals_upstream() {
    let input = input("pedersen", json!([5]));
    assert_eq!(compare_with(PreProcessedTraceVariant::Canonical, &input, &[]), Vec::<&str>::new());
}

/// Checks how many components can be translated from upstream's code, so that a change of upstream's is noticed.
#[test]
fn the_device_makes_these_components() {
    let (device, host) = device_witness();
    println!("{device:?} {host:?}");
    assert_eq!(device.len() + host.len(), 29);
    assert_eq!(host, []);
}

#[test]
fn an_impossible_run_is_an_error() {
    let preprocessed = Arc::new(PreProcessedTraceVariant::CanonicalSmall.to_preprocessed_trace());
    let mut input = input("fibonacci", json!([10]));
    let state = &mut input.state_transitions.casm_states_by_opcode.ret_opcode[0];
    state.fp = BaseField::from_u32_unchecked(1 << 28);
    let generated =
        rigel_stwo::on(&open(), || device::generate(input, &preprocessed, &[], &BTreeSet::new()).map(drop));
    assert!(matches!(generated, Err(Error::Witness(_))), "{generated:?}");
}

/// `RIGEL_CHECK_NVRTC=sm_90` names the GPUs to compile for; a GPU is not needed.
#[test]
fn kernels_compile_for_gpus() {
    for device in rigel_gpu::testing::check_compilers().unwrap() {
        let began = std::time::Instant::now();
        let compiled = super::compile(device).unwrap();
        println!("{compiled} modules in {:.1} s", began.elapsed().as_secs_f64());
    }
}
