//! A proof's device memory equals its plan, and column batches give the same proof if memory is short.

use std::sync::Mutex;

use p3_air::{Air, AirBuilder, BaseAir, WindowAccess};
use p3_field::PrimeCharacteristicRing;
use p3_koala_bear::KoalaBear;
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Device;
use rigel_gpu::testing::on_each_device;
use rigel_plonky3::{Error, Trace, plan, plan_batch, prove, prove_batch, setup_batch};

use crate::configs::{self, Fri};
use crate::support::{Filled, airs, bytes, expected_batch, heights, instances, prover, upstream};
use crate::tables::{Squares, Table, chain, numbers, selected, shuffled};

const WIDTH: usize = 300;

/// Each cell is computed from the cell above and that cell's right neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Pascal;

impl<F> BaseAir<F> for Pascal {
    fn width(&self) -> usize {
        WIDTH
    }
}

impl<AB: AirBuilder> Air<AB> for Pascal {
    fn eval(&self, builder: &mut AB) {
        let main = builder.main();
        for column in 0..WIDTH {
            let [left, right] = [column, (column + 1) % WIDTH].map(|column| main.current(column).unwrap());
            let below: AB::Expr = main.next(column).unwrap().into();
            builder.when_transition().assert_zero(below - left * right - left - AB::Expr::from_usize(column));
        }
    }
}

pub(crate) fn trace(rows: usize) -> RowMajorMatrix<KoalaBear> {
    let mut values: Vec<KoalaBear> = (0..WIDTH).map(KoalaBear::from_usize).collect();
    for row in 1..rows {
        for column in 0..WIDTH {
            let [left, right] = [column, (column + 1) % WIDTH].map(|column| values[(row - 1) * WIDTH + column]);
            values.push(left * right + left + KoalaBear::from_usize(column));
        }
    }
    RowMajorMatrix::new(values, WIDTH)
}

#[test]
fn memory_is_as_planned_and_batches_give_the_same_proof() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri);
        let trace = trace(1 << 10);
        let expected = upstream(|| p3_uni_stark::prove(&config, &Pascal, trace.clone(), &[]).unwrap());
        let prover = prover(device, &config, fri);

        let before = device.memory_stats().in_use;
        let whole = plan(&prover, &Pascal, 10).unwrap();
        let proven = prove(&prover, &Pascal, &trace, &[]).unwrap();
        assert_eq!(bytes(&proven.proof), bytes(&expected));
        assert!(proven.report.fallbacks.is_empty());
        let (taken, planned) = (proven.report.peak_bytes, whole.peak().bytes);
        println!("{whole}\n{taken} taken, {planned} planned");
        assert!(taken <= planned && planned <= taken * 3 / 2, "{taken} taken, {planned} planned\n{whole}");

        // Less than the extended trace alone.
        let extended = WIDTH * (4 << 10) * size_of::<KoalaBear>();
        for limit in [extended, extended * 3 / 4] {
            device.set_memory_limit(Some(before + limit));
            let planned = plan(&prover, &Pascal, 10).unwrap();
            assert!(planned.batch.is_some_and(|batch| batch < WIDTH) && planned.fits(), "{planned}");
            let proven = prove(&prover, &Pascal, &trace, &[]).unwrap();
            assert_eq!(bytes(&proven.proof), bytes(&expected), "in batches of {:?}", planned.batch);
            assert!(proven.report.fallbacks[0].ran_on.contains("batches"), "{:?}", proven.report.fallbacks);
            assert!(proven.report.peak_bytes <= limit);
        }

        // Too little for the trace.
        device.set_memory_limit(Some(before + extended / 8));
        let refused = prove(&prover, &Pascal, &trace, &[]).map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::DoesNotFit { .. }), "{refused}");
        device.set_memory_limit(None);

        let rows = stream.upload(rigel_plonky3::DeviceField::as_device(&trace.values)).unwrap();
        let resident = rigel_kernels::layout::permute::to_columns(stream, &rows, WIDTH).unwrap();
        let proven = prove(&prover, &Pascal, Trace::Device(&resident), &[]).unwrap();
        assert_eq!(bytes(&proven.proof), bytes(&expected));
    });
}

/// A trace that takes half of the memory is uploaded in parts, too: there is no room for a second copy of it.
#[test]
fn twice_the_trace_is_enough() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 1, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri);
        let trace = trace(1 << 10);
        let expected = upstream(|| p3_uni_stark::prove(&config, &Pascal, trace.clone(), &[]).unwrap());
        let prover = prover(device, &config, fri);
        let before = device.memory_stats().in_use;
        let limit = 2 * size_of_val(&trace.values[..]);
        device.set_memory_limit(Some(before + limit));
        let planned = plan(&prover, &Pascal, 10).unwrap();
        assert!(planned.batch.is_some() && planned.fits(), "{planned}");
        let proven = prove(&prover, &Pascal, &trace, &[]).unwrap();
        device.set_memory_limit(None);
        assert_eq!(bytes(&proven.proof), bytes(&expected));
        let (taken, planned) = (proven.report.peak_bytes, planned.peak().bytes);
        assert!(taken <= planned && taken <= limit, "{taken} taken, {planned} planned, {limit} allowed");
        assert!(proven.report.fallbacks[0].ran_on.contains("batches"), "{:?}", proven.report.fallbacks);
    });
}

/// [`Pascal`] beside other work that takes memory: whenever a proof looks its constraints up, which is after the trace
/// was committed to, less memory is left.
struct Beside {
    device: Device,
    /// The limits to come, the next one last, and the launches up to the latest.
    limits: Mutex<(Vec<usize>, u64)>,
}

impl<F> BaseAir<F> for Beside {
    fn width(&self) -> usize {
        WIDTH
    }
}

impl<AB: AirBuilder> Air<AB> for Beside {
    fn eval(&self, builder: &mut AB) {
        let (limits, launches) = &mut *self.limits.lock().unwrap();
        let now = self.device.activity().launches;
        // Constraints are looked up at several points, without a launch in between.
        if std::any::type_name::<AB>().contains("StructureBuilder") && now != *launches {
            if let Some(limit) = limits.pop() {
                self.device.set_memory_limit(Some(limit));
            }
            *launches = now;
        }
        Pascal.eval(builder);
    }
}

/// Memory runs out in the middle of a proof, and again in the middle of the next attempt.
#[test]
fn memory_that_runs_out_in_the_middle() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 2, ..Fri::default() };
        let config = configs::koala_bear_sponge(fri);
        let trace = trace(1 << 9);
        let expected = upstream(|| p3_uni_stark::prove(&config, &Pascal, trace.clone(), &[]).unwrap());
        let prover = prover(device, &config, fri);
        let air = Beside { device: device.clone(), limits: Mutex::default() };
        // A prover that has read the constraints looks them up when the trace is committed to.
        assert!(prove(&prover, &air, &trace, &[]).unwrap().report.fallbacks.is_empty());

        let (before, whole) = (device.memory_stats().in_use, plan(&prover, &air, 9).unwrap());
        assert!(whole.batch.is_none(), "{whole}");
        let limits = [35, 50].map(|percent| before + whole.peak().bytes * percent / 100);
        *air.limits.lock().unwrap() = (limits.into(), device.activity().launches);
        let proven = prove(&prover, &air, &trace, &[]).unwrap();
        device.set_memory_limit(None);
        assert!(bytes(&proven.proof) == bytes(&expected));
        assert!(air.limits.lock().unwrap().0.is_empty(), "the proof was not begun again");
        let [fallback] = &proven.report.fallbacks[..] else { panic!("{:?}", proven.report.fallbacks) };
        assert!(fallback.ran_on.contains("batches"), "{fallback:?}");
        assert!(fallback.reason.contains("out of device memory"), "{fallback:?}");
    });
}

/// The less memory there is, the less of a batch is held: all extended traces, the traces, some columns of them. All
/// ways give the same bytes, and take no more memory than allowed.
#[test]
fn a_batch_in_ever_less_memory() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 1, ..Fri::default() };
        let config = configs::koala_bear_poseidon2(fri);
        let mut squares = Squares::new(1, 16);
        // Two wide tables of one height, so that a hash reads columns of both, and one of another.
        let wide = [(1 << 9, 83), (1 << 9, 70), (1 << 8, 90)].map(|(rows, width)| squares.wide(rows, width));
        let mut tables: Vec<Filled<Table<KoalaBear>, KoalaBear>> = wide.into();
        tables.extend([squares.table(), numbers(8)]);
        let expected = expected_batch(&config, &tables);
        let prover = prover(device, &config, fri);
        let airs = airs(&tables);
        let key = setup_batch(&prover, &airs, &heights(&tables)).unwrap();
        let before = device.memory_stats().in_use;
        let whole = plan_batch(&prover, &airs, &key).unwrap();
        assert!(whole.batch.is_none(), "{whole}");

        let mut ways = Vec::new();
        for percent in (10..=100).rev().step_by(6) {
            let limit = whole.peak().bytes * percent / 100;
            device.set_memory_limit(Some(before + limit));
            let planned = plan_batch(&prover, &airs, &key).unwrap();
            match prove_batch(&prover, &instances(&tables), &key) {
                Ok(proven) => {
                    assert!(bytes(&proven.proof) == expected, "{percent} %\n{planned}");
                    let taken = proven.report.peak_bytes;
                    assert!(taken <= limit, "{taken} of {limit} taken\n{planned}");
                    let way = proven.report.fallbacks.first().map_or("whole", |fallback| fallback.ran_on);
                    if ways.last() != Some(&way) {
                        ways.push(way);
                    }
                }
                Err(Error::DoesNotFit { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        device.set_memory_limit(None);
        let batches = "device in batches of columns";
        assert_eq!(ways, ["whole", batches, "device in batches of columns, from the host"]);
    });
}

/// Many lookups on less than half of the memory that their proof takes otherwise: their fractions are made for some
/// rows at a time, the constraint on the sum of all fractions is evaluated in parts, and lookups that read the next
/// row, preprocessed columns or selectors find them at the ends of the rows.
#[test]
fn many_lookups_in_little_memory() {
    on_each_device(|stream| {
        let device = stream.device();
        let fri = Fri { log_blowup: 1, ..Fri::default() };
        let config = configs::koala_bear_poseidon2(fri);
        let mut squares = Squares::new(2, 16);
        let mut tables: Vec<Filled<Table<KoalaBear>, KoalaBear>> = vec![squares.many(1 << 9, 16)];
        tables.push(squares.wide(1 << 9, 80));
        tables.extend(chain(3, 1 << 7));
        tables.extend([shuffled(4, 1 << 8), selected(1 << 8), squares.table()]);
        let expected = expected_batch(&config, &tables);
        let prover = prover(device, &config, fri);
        let airs = airs(&tables);
        let key = setup_batch(&prover, &airs, &heights(&tables)).unwrap();
        let before = device.memory_stats().in_use;
        let whole = plan_batch(&prover, &airs, &key).unwrap();
        for percent in [60, 48] {
            let limit = whole.peak().bytes * percent / 100;
            device.set_memory_limit(Some(before + limit));
            let planned = plan_batch(&prover, &airs, &key).unwrap();
            let proven = prove_batch(&prover, &instances(&tables), &key);
            device.set_memory_limit(None);
            let proven = proven.unwrap_or_else(|error| panic!("{percent} %: {error}\n{planned}"));
            assert!(bytes(&proven.proof) == expected, "{percent} %\n{planned}");
            let (taken, planned_bytes) = (proven.report.peak_bytes, planned.peak().bytes);
            println!("{percent} %: {taken} taken, {planned_bytes} planned, {limit} allowed\n{planned}");
            assert!(taken <= planned_bytes && taken <= limit, "{taken} of {limit} taken\n{planned}");
            assert!(proven.report.fallbacks[0].ran_on.contains("batches"), "{:?}", proven.report.fallbacks);
        }
    });
}
