//! A low-degree extension over several devices.

use std::ops::Range;

use rigel_gpu::{Device, Recorder, Stream};
use rigel_kernels::field::{Field, KoalaBear};
use rigel_kernels::transform::ntt::{self, Order};
use rigel_kernels::transform::spread;
use rigel_kernels::{Columns, Matrix};

use super::{Bench, Model, Row};
use crate::Failure;
use crate::bench::Size;

/// An upper bound of the number of columns at any size.
const MOST_COLUMNS: usize = 64;

fn shape(size: Size) -> (u32, usize) {
    // KoalaBear's largest domain has 2^24 points.
    size.pick((23, 64), (10, 16))
}

pub fn name(size: Size) -> String {
    let (log_rows, columns) = shape(size);
    format!("LDE, KoalaBear 2^{log_rows} to 2^{} x {columns}", log_rows + 1)
}

pub fn rows(bench: &Bench<'_>, counts: &[u32]) -> Result<Vec<Row>, Failure> {
    let (case, (log_rows, width)) = (name(bench.size), shape(bench.size));
    bench.say(&case, "on one device");
    let values: Vec<KoalaBear> = (0..(1 << log_rows) + MOST_COLUMNS as u64)
        .map(|row| KoalaBear::new((row * row % 2_000_000_000) as u32))
        .collect();
    let (one, one_ms) = on_one(bench, &bench.devices[0], &values, width)?;
    let mut rows = Vec::new();
    for &count in counts {
        bench.say(&case, &format!("on {count} devices"));
        let opened = Spread::new(&bench.opened(count as usize)?, &values, width)?;
        let found = opened.run()?;
        opened.check(&found, &one)?;
        drop(found);
        let ((), opened_ms) = bench.median(|| opened.finished())?;
        let model = bench.model.then(|| bench.rehearse(&opened.devices, || opened.recorded())).transpose()?;
        let measured = bench.gpus(count as usize).map(|gpus| {
            let gpus = Spread::new(gpus, &values, width)?;
            gpus.finished()?;
            Ok::<_, Failure>(bench.median(|| gpus.finished())?.1)
        });
        rows.push(Row {
            case: case.clone(),
            devices: count as usize,
            one_ms,
            opened_ms: Some(opened_ms),
            measured_ms: measured.transpose()?,
            memory_over_one: None,
            model: model.map(|steps| Model::new(&steps, &[("extend", one_ms)])),
        });
    }
    Ok(rows)
}

/// The first and the last column of the extension, and its median time.
fn on_one(
    bench: &Bench<'_>,
    device: &Device,
    values: &[KoalaBear],
    width: usize,
) -> Result<([Vec<KoalaBear>; 2], f64), Failure> {
    let stream = device.compute()?;
    let matrix = columns(&stream, values, 0..width)?;
    let extend = || {
        let shift = KoalaBear::GENERATOR;
        let made = ntt::extend(&stream, &matrix, 1, shift, Order::Natural, Order::BitReversed)?;
        stream.synchronize()?;
        Ok::<_, Failure>(made)
    };
    drop(extend()?);
    let (made, ms) = bench.median(extend)?;
    let ends = [0, width - 1].map(|column| Ok::<_, Failure>(made.column(column)?.to_vec(&stream)?));
    let [first, last] = ends;
    Ok(([first?, last?], ms))
}

/// Some columns on a device: column k is a sequence of values from number k on.
fn columns(stream: &Stream, values: &[KoalaBear], range: Range<usize>) -> Result<Matrix<KoalaBear>, Failure> {
    let rows = values.len() - MOST_COLUMNS;
    let mut matrix = Matrix::alloc(stream, rows, range.len())?;
    for (place, first) in range.enumerate() {
        stream.write(matrix.column_range_mut(place, place + 1)?, &values[first..first + rows])?;
    }
    stream.synchronize()?;
    Ok(matrix)
}

/// An extension over several devices.
struct Spread {
    devices: Vec<Device>,
    streams: Vec<Stream>,
    lanes: Vec<Stream>,
    shares: Vec<Matrix<KoalaBear>>,
}

impl Spread {
    fn new(devices: &[Device], values: &[KoalaBear], width: usize) -> Result<Self, Failure> {
        let streams = devices.iter().map(Device::compute).collect::<rigel_gpu::Result<Vec<_>>>()?;
        let lanes = devices.iter().map(Device::new_stream).collect::<rigel_gpu::Result<Vec<_>>>()?;
        let start = |k: usize| width * k / devices.len();
        let shares = streams.iter().enumerate().map(|(k, stream)| columns(stream, values, start(k)..start(k + 1)));
        Ok(Self { shares: shares.collect::<Result<_, _>>()?, devices: devices.to_vec(), streams, lanes })
    }

    fn run(&self) -> Result<Vec<Matrix<KoalaBear>>, Failure> {
        let shares: Vec<Columns<'_, KoalaBear>> = self.shares.iter().map(Into::into).collect();
        Ok(spread::extend(&self.streams, &self.lanes, &shares, 1, Order::Natural)?)
    }

    /// Runs as a phase with a name, for a rehearsal.
    fn recorded(&self) -> Result<Vec<Matrix<KoalaBear>>, Failure> {
        let first = &self.streams[0];
        Recorder::new(first).phase("extend", first, || self.run())
    }

    fn finished(&self) -> Result<(), Failure> {
        let _blocks = self.run()?;
        Ok(self.streams.iter().try_for_each(Stream::synchronize)?)
    }

    /// Compares the first and the last column with those of one device.
    fn check(&self, blocks: &[Matrix<KoalaBear>], [first, last]: &[Vec<KoalaBear>; 2]) -> Result<(), Failure> {
        let last_column = blocks[0].columns() - 1;
        for (column, expected) in [(0, first), (last_column, last)] {
            let mut found = Vec::with_capacity(expected.len());
            for (block, stream) in blocks.iter().zip(&self.streams) {
                found.extend(block.column(column)?.to_vec(stream)?);
            }
            if found != *expected {
                return Err(format!("column {column} over {} devices differs from one's", blocks.len()).into());
            }
        }
        Ok(())
    }
}
