//! Queries: rows with their paths.
//!
//! Upstream asks for one after another and waits for each. Nothing that it does meanwhile depends on the answers: they
//! are the end of the seal, one after another. So queries are noted, and answered together once upstream is done: one
//! launch for each tree, and one copy back.

use rigel_gpu::Result;
use rigel_kernels::Columns;
use rigel_kernels::commit::queries::{open_into, query_words};
use rigel_kernels::field::{BabyBear, Field};
use rigel_kernels::transform::ntt::Order;

use super::{base, base_mut, wrong};
use crate::hal::Hal;
use crate::shim::{MatrixPart, Part};

/// A row to open.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    matrix: MatrixPart,
    tree: Part,
    levels: u32,
    index: u32,
}

impl Query {
    fn words(&self) -> usize {
        query_words(self.matrix.columns, self.levels)
    }

    /// Whether both open rows of the same matrix.
    fn is_with(&self, other: &Self) -> bool {
        self.matrix.buffer == other.matrix.buffer && self.tree.buffer == other.tree.buffer
    }
}

impl Hal {
    /// A row and its path up to the layer of `top` digests.
    pub(crate) fn query(&self, out: Part, matrix: MatrixPart, tree: Part, top: usize, index: usize) -> Result<()> {
        let log_rows = matrix.log_rows()?;
        let levels = log_rows.checked_sub(top.trailing_zeros()).filter(|_| top.is_power_of_two());
        let (Some(levels), true) = (levels, index < matrix.rows) else {
            return Err(wrong(format!("row {index} of {} with a path to {top} digests", matrix.rows)));
        };
        let query = Query { matrix, tree, levels, index: index as u32 };
        if out.size != 4 * query.words() {
            return Err(wrong(format!("a query of {} words into {} bytes", query.words(), out.size)));
        }
        let mut target = out.contents()?;
        if !self.compares {
            target.awaits_query = true;
            self.queries.borrow_mut().push(query);
            return Ok(());
        }
        let to = base_mut(target.overwrite(&self.stream, None)?)?;
        self.open(&[query], to)
    }

    /// Opens rows of one matrix.
    fn open(&self, queries: &[Query], to: rigel_gpu::ViewMut<'_, BabyBear>) -> Result<()> {
        let Query { matrix, tree, levels, .. } = queries[0];
        let mut values = matrix.contents()?;
        let order = match values.settle(&self.stream, matrix.log_rows()?)? {
            Some(_) => Order::BitReversed,
            None => Order::Natural,
        };
        let columns = Columns::new(base(values.stored()?)?, matrix.rows)?;
        let mut digests = tree.contents()?;
        let digests = digests.view(&self.stream)?.cast::<[BabyBear; 8]>()?;
        let indices: Vec<u32> = queries.iter().map(|query| query.index).collect();
        open_into(&self.stream, to, columns, order, digests, levels, &indices)
    }

    /// The answers to all queries, in the order in which upstream asked.
    pub(crate) fn answer_queries(&self) -> Result<Vec<u32>> {
        let queries = std::mem::take(&mut *self.queries.borrow_mut());
        self.phase("queries", || self.answer(&queries))
    }

    fn answer(&self, queries: &[Query]) -> Result<Vec<u32>> {
        let words: usize = queries.iter().map(Query::words).sum();
        let mut answers = self.stream.alloc::<BabyBear>(words)?;
        // Where the answer to each query lies.
        let mut places = vec![0; queries.len()];
        let mut end = 0;
        for (first, query) in queries.iter().enumerate() {
            if queries[..first].iter().any(|earlier| earlier.is_with(query)) {
                continue;
            }
            let begin = end;
            let mut group = Vec::new();
            for (at, other) in queries.iter().enumerate().filter(|(_, other)| other.is_with(query)) {
                places[at] = end;
                end += other.words();
                group.push(*other);
            }
            self.open(&group, answers.range_mut(begin..end)?)?;
        }
        let answers: Vec<u32> = answers.to_vec(&self.stream)?.into_iter().map(Field::word).collect();
        let answer = |(query, place): (&Query, &usize)| answers[*place..place + query.words()].to_vec();
        Ok(queries.iter().zip(&places).flat_map(answer).collect())
    }
}
