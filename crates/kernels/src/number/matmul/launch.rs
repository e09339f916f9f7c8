//! The split of a product into blocks, and its kernels.

use rigel_gpu::{Error, Result, Shape, Stream, View, ViewMut};

use super::{KNOWN, NAME, Sizes, Type};
use crate::code::{Instances, KernelFile, Operation, parameters};

/// Threads per block.
const THREADS: u32 = 256;

/// The rows taken at once in matrix-vector products: by one group of threads, and by a warp.
const ROWS_AT_ONCE: usize = 4;
const COLUMNS_AT_ONCE: usize = 128;

/// The minimum number of terms in a part of the sum: for a tile, for a group's row, and for a warp's rows.
const LEAST_OF_TILE: usize = 128;
const LEAST_OF_ROW: usize = 2048;
const LEAST_OF_COLUMNS: usize = 64;
const MOST_PARTS: usize = 1024;

/// Parts of the sum are multiples of this, which every tile's depth divides.
const DEPTH: usize = 16;

parameters! {
    /// The products; strides, of batch, row and column, count elements.
    #[derive(Debug)]
    struct Problem = "Problem" => {
        a: [i64; 3],
        b: [i64; 3],
        m: u32,
        n: u32,
        k: u32,
        parts: u32,
        part: u32,
        tile_rows: u32,
        tile_columns: u32,
        batch: u32,
    }
}

parameters! {
    /// The products of a matrix and vectors.
    #[derive(Debug)]
    pub(super) struct Vectors = "Vectors" => {
        pub(super) matrix_batch: i64,
        pub(super) matrix_row: i64,
        pub(super) matrix_term: i64,
        pub(super) vector_batch: i64,
        pub(super) vector_step: i64,
        pub(super) vector_term: i64,
        pub(super) out_batch: u64,
        pub(super) out_vector: u64,
        pub(super) out_row: u64,
        pub(super) out_part: u64,
        pub(super) rows: u32,
        pub(super) k: u32,
        pub(super) vectors: u32,
        pub(super) batch: u32,
        pub(super) parts: u32,
        pub(super) part: u32,
        pub(super) lanes: u32,
        pub(super) row_blocks: u32,
    }
}

/// Splits the sum over k. Returns the number of parts, and the terms of each but the last.
fn cut(k: usize, wanted: usize, least: usize) -> (u32, u32) {
    let parts = wanted.min(k / least).clamp(1, MOST_PARTS);
    let part = k.div_ceil(parts).next_multiple_of(DEPTH);
    (k.div_ceil(part) as u32, part as u32)
}

pub(super) struct Product<'a> {
    pub(super) stream: &'a Stream,
    pub(super) of: &'static Type,
    pub(super) sizes: Sizes,
    /// The number of elements of all C.
    pub(super) results: usize,
}

impl Product<'_> {
    fn multiprocessors(&self) -> usize {
        self.stream.device().properties().multiprocessors.max(1) as usize
    }

    /// The fields common to both orders of a matrix and vectors.
    pub(super) fn vectors(&self) -> Vectors {
        let Sizes { m, n, k, batch } = self.sizes;
        Vectors {
            matrix_batch: 0,
            matrix_row: 0,
            matrix_term: 0,
            vector_batch: 0,
            vector_step: 0,
            vector_term: 0,
            out_batch: (m * n) as u64,
            out_vector: 0,
            out_row: 0,
            out_part: self.results as u64,
            rows: 0,
            k: k as u32,
            vectors: 0,
            batch: batch as u32,
            parts: 1,
            part: 0,
            lanes: THREADS,
            row_blocks: 0,
        }
    }

    /// The product in one part.
    fn problem(&self, [a, b]: [[i64; 3]; 2]) -> Problem {
        let Sizes { m, n, k, batch } = self.sizes;
        let [m, n, k, batch] = [m, n, k, batch].map(|size| size as u32);
        Problem { a, b, m, n, k, parts: 1, part: k, tile_rows: 1, tile_columns: 1, batch }
    }

    pub(super) fn one_by_one(
        &self,
        out: ViewMut<'_, u8>,
        a: View<'_, u8>,
        b: View<'_, u8>,
        strides: [[i64; 3]; 2],
    ) -> Result<()> {
        let kernels = Matmul::kernels(self.stream.device(), (self.of.name, Family::Small))?;
        let shape = shape(self.results.div_ceil(THREADS as usize))?;
        kernels[0].launch(self.stream, shape, (out, a, b, self.problem(strides)))
    }

    pub(super) fn by_tiles(
        &self,
        out: ViewMut<'_, u8>,
        a: View<'_, u8>,
        b: View<'_, u8>,
        strides: [[i64; 3]; 2],
    ) -> Result<()> {
        let Sizes { m, n, k, batch } = self.sizes;
        let [rows, columns] = self.of.tile;
        let (tile_rows, tile_columns) = (m.div_ceil(rows), n.div_ceil(columns));
        let blocks = tile_rows * tile_columns * batch;
        let (parts, part) = cut(k, 2 * self.multiprocessors() / blocks, LEAST_OF_TILE);
        let (tile_rows, tile_columns) = (tile_rows as u32, tile_columns as u32);
        let problem = Problem { parts, part, tile_rows, tile_columns, ..self.problem(strides) };
        let kernels = Matmul::kernels(self.stream.device(), (self.of.name, Family::Tiles))?;
        let shape = shape(blocks * parts as usize)?;
        self.in_parts(out, parts, |out| kernels[0].launch(self.stream, shape, (out, a, b, problem)))
    }

    pub(super) fn by_vectors(
        &self,
        out: ViewMut<'_, u8>,
        matrix: View<'_, u8>,
        vector: View<'_, u8>,
        mut vectors: Vectors,
    ) -> Result<()> {
        let (rows, k) = (vectors.rows as usize, vectors.k as usize);
        let products = vectors.vectors as usize * vectors.batch as usize;
        // The number of blocks that fill the device.
        let full = 8 * self.multiprocessors();
        let along_terms = rows == 1 || vectors.matrix_term.unsigned_abs() <= vectors.matrix_row.unsigned_abs();
        let kernel = if along_terms {
            let at_once = if rows < ROWS_AT_ONCE { 1 } else { ROWS_AT_ONCE };
            let groups = rows.div_ceil(at_once);
            (vectors.parts, vectors.part) = cut(k, full / (groups * products), LEAST_OF_ROW);
            // At least eight terms per thread.
            let terms = k.min(vectors.part as usize);
            vectors.lanes = (terms / 8).next_power_of_two().min(THREADS as usize) as u32;
            vectors.row_blocks = groups.div_ceil((THREADS / vectors.lanes) as usize) as u32;
            usize::from(at_once > 1)
        } else {
            vectors.row_blocks = rows.div_ceil(COLUMNS_AT_ONCE) as u32;
            let blocks = vectors.row_blocks as usize * products;
            (vectors.parts, vectors.part) = cut(k, full / blocks, LEAST_OF_COLUMNS);
            2
        };
        let kernels = Matmul::kernels(self.stream.device(), (self.of.name, Family::Vectors))?;
        let shape = shape(vectors.row_blocks as usize * vectors.parts as usize * products)?;
        self.in_parts(out, vectors.parts, |out| {
            kernels[kernel].launch(self.stream, shape, (out, matrix, vector, vectors))
        })
    }

    /// Allocates `parts` parts of all results for `work`, and adds the parts to the results.
    fn in_parts(
        &self,
        out: ViewMut<'_, u8>,
        parts: u32,
        work: impl FnOnce(ViewMut<'_, u8>) -> Result<()>,
    ) -> Result<()> {
        if parts == 1 {
            return work(out);
        }
        let mut room = self.stream.alloc::<u8>(out.len() * parts as usize)?;
        work(room.view_mut())?;
        // A few results are shared by many threads each; for many results, adjacent threads read adjacent values.
        let most = if self.results < 8 { THREADS } else { 32 };
        let lanes = parts.next_power_of_two().min(most);
        let shape = shape(self.results.div_ceil((THREADS / lanes) as usize))?;
        let kernels = Matmul::kernels(self.stream.device(), (self.of.name, Family::Parts))?;
        kernels[0].launch(self.stream, shape, (out, &room, self.results as u64, parts, lanes))
    }
}

fn shape(blocks: usize) -> Result<Shape> {
    match u32::try_from(blocks) {
        Ok(blocks) if blocks <= i32::MAX as u32 => Ok(Shape::new(blocks, THREADS)),
        _ => Err(Error::shape(NAME, format!("{blocks} blocks exceed the limit of a launch; split the batch"))),
    }
}

/// Kernels that are compiled together, when first needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Small,
    Tiles,
    Vectors,
    Parts,
}

/// A module for each type, by its C++ name, and family.
pub(crate) struct Matmul;

impl Operation for Matmul {
    type Variant = (&'static str, Family);

    const FILE: KernelFile = KernelFile {
        path: "number/matmul.cu",
        text: include_str!("../matmul.cu"),
        constants: &[("BLOCK_THREADS", THREADS as u64)],
    };

    fn instances((name, family): Self::Variant) -> Instances {
        let of = KNOWN.iter().find(|known| known.name == name).expect("a variant is made from a known type");
        let [rows, columns] = of.tile;
        let instances = match family {
            Family::Small => Instances::one(format!("matmul_small<{name}>")).takes::<Problem>(),
            Family::Tiles => Instances::one(format!("matmul_tiles<{name}>"))
                .takes::<Problem>()
                .assert(format!("Tile<{name}>::M == {rows} && Tile<{name}>::N == {columns}"))
                .assert(format!("{DEPTH} % Tile<{name}>::DEPTH == 0")),
            Family::Vectors => Instances::new([
                format!("matvec_rows<{name}, 1>"),
                format!("matvec_rows<{name}, {ROWS_AT_ONCE}>"),
                format!("matvec_columns<{name}, {}>", COLUMNS_AT_ONCE / 32),
            ])
            .takes::<Vectors>(),
            Family::Parts => Instances::one(format!("matmul_sum_parts<{name}>")),
        };
        let instances = instances.assert(format!("sizeof({name}) == {}", of.bytes));
        if of.is_field { instances.define("DOT_FIELD", "1") } else { instances }
    }

    /// Nothing to compile in advance: provers do not multiply matrices.
    fn warmed() -> Vec<Self::Variant> {
        Vec::new()
    }

    fn on_demand() -> Vec<Self::Variant> {
        let families = [Family::Tiles, Family::Vectors, Family::Small, Family::Parts];
        KNOWN.iter().flat_map(|of| families.map(|family| (of.name, family))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_sum() {
        for k in [1, 15, 16, 17, 127, 128, 129, 255, 256, 5_000, 1 << 24, i32::MAX as usize] {
            for wanted in [0, 1, 2, 7, 264, 1 << 20] {
                let (parts, part) = cut(k, wanted, 64);
                let (parts, part) = (parts as usize, part as usize);
                assert!(parts * part >= k && (parts - 1) * part < k && part % DEPTH == 0, "{k} {wanted}");
                assert!(parts <= wanted.max(1) && parts <= MOST_PARTS, "{k} {wanted}");
            }
        }
    }
}
