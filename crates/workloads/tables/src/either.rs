//! One AIR out of several, chosen at run time.
//!
//! Upstream's provers and ours are compiled for each configuration and each type of AIR. With this type they are
//! compiled once per configuration, whatever the number of AIRs offered with it. The choice costs one branch per packed
//! row of the quotient.

use std::borrow::Cow;

use p3_air::{Air, AirBuilder, BaseAir, BoundaryPublic};
use p3_matrix::dense::RowMajorMatrix;
use rigel_gpu::Stream;
use rigel_kernels::Matrix;
use rigel_plonky3::{DeviceField, Result};

use super::single::{OneTable, Witness};

/// One of two AIRs; nest it for more.
pub(crate) enum Either<A, B> {
    Left(A),
    Right(B),
}

/// Forwards a call to whichever AIR it is.
macro_rules! on_either {
    ($either:expr, $air:ident => $call:expr) => {
        match $either {
            Either::Left($air) => $call,
            Either::Right($air) => $call,
        }
    };
}

impl<F, A: BaseAir<F>, B: BaseAir<F>> BaseAir<F> for Either<A, B> {
    fn width(&self) -> usize {
        on_either!(self, air => air.width())
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        on_either!(self, air => air.preprocessed_trace())
    }

    fn preprocessed_width(&self) -> usize {
        on_either!(self, air => air.preprocessed_width())
    }

    fn num_periodic_columns(&self) -> usize {
        on_either!(self, air => air.num_periodic_columns())
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]>
    where
        F: Clone,
    {
        on_either!(self, air => air.periodic_columns())
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        on_either!(self, air => air.main_next_row_columns())
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        on_either!(self, air => air.preprocessed_next_row_columns())
    }

    fn num_constraints(&self) -> Option<usize> {
        on_either!(self, air => air.num_constraints())
    }

    fn max_constraint_degree(&self) -> Option<usize> {
        on_either!(self, air => air.max_constraint_degree())
    }

    fn num_public_values(&self) -> usize {
        on_either!(self, air => air.num_public_values())
    }

    fn public_boundary_io(&self) -> &[BoundaryPublic] {
        on_either!(self, air => air.public_boundary_io())
    }

    fn assumes_boolean_trace(&self) -> bool {
        on_either!(self, air => air.assumes_boolean_trace())
    }
}

impl<AB: AirBuilder, A: Air<AB>, B: Air<AB>> Air<AB> for Either<A, B> {
    #[inline]
    fn eval(&self, builder: &mut AB) {
        on_either!(self, air => air.eval(builder))
    }
}

impl<V: DeviceField, A: OneTable<V>, B: OneTable<V>> OneTable<V> for Either<A, B> {
    fn witness(&self, log_rows: u32) -> Witness<V> {
        on_either!(self, air => air.witness(log_rows))
    }

    fn trace_on(&self, stream: &Stream, log_rows: u32) -> Result<Option<Matrix<V::Device>>> {
        on_either!(self, air => air.trace_on(stream, log_rows))
    }
}
