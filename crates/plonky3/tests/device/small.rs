//! The small AIRs under one type: every pair of a configuration and an AIR type compiles another prover.

use std::borrow::Cow;

use p3_air::{Air, AirBuilder, BaseAir, BoundaryPublic};
use p3_field::Field;
use p3_matrix::dense::RowMajorMatrix;

use crate::airs::{Bound, Fibonacci, Free, Periods, Power, Steps};
use crate::random::Random;

/// Any AIR of the tests.
#[derive(Clone, Debug)]
pub(crate) enum Small<F> {
    Fibonacci(Fibonacci),
    Power(Power),
    Free(Free),
    Steps(Steps),
    Periods(Periods<F>),
    Bound(Bound),
    Random(Random<F>),
}

macro_rules! delegate {
    ($self:ident, $air:ident => $result:expr) => {
        match $self {
            Self::Fibonacci($air) => $result,
            Self::Power($air) => $result,
            Self::Free($air) => $result,
            Self::Steps($air) => $result,
            Self::Periods($air) => $result,
            Self::Bound($air) => $result,
            Self::Random($air) => $result,
        }
    };
}

impl<F: Field> BaseAir<F> for Small<F> {
    fn width(&self) -> usize {
        delegate!(self, air => BaseAir::<F>::width(air))
    }

    fn preprocessed_trace(&self) -> Option<RowMajorMatrix<F>> {
        delegate!(self, air => BaseAir::<F>::preprocessed_trace(air))
    }

    fn preprocessed_width(&self) -> usize {
        delegate!(self, air => BaseAir::<F>::preprocessed_width(air))
    }

    fn num_periodic_columns(&self) -> usize {
        delegate!(self, air => BaseAir::<F>::num_periodic_columns(air))
    }

    fn periodic_columns(&self) -> Cow<'_, [Vec<F>]> {
        delegate!(self, air => BaseAir::<F>::periodic_columns(air))
    }

    fn main_next_row_columns(&self) -> Vec<usize> {
        delegate!(self, air => BaseAir::<F>::main_next_row_columns(air))
    }

    fn preprocessed_next_row_columns(&self) -> Vec<usize> {
        delegate!(self, air => BaseAir::<F>::preprocessed_next_row_columns(air))
    }

    fn max_constraint_degree(&self) -> Option<usize> {
        delegate!(self, air => BaseAir::<F>::max_constraint_degree(air))
    }

    fn num_public_values(&self) -> usize {
        delegate!(self, air => BaseAir::<F>::num_public_values(air))
    }

    fn public_boundary_io(&self) -> &[BoundaryPublic] {
        delegate!(self, air => BaseAir::<F>::public_boundary_io(air))
    }
}

impl<AB: AirBuilder> Air<AB> for Small<AB::F>
where
    AB::F: Field,
{
    fn eval(&self, builder: &mut AB) {
        delegate!(self, air => air.eval(builder));
    }
}

macro_rules! into_small {
    ($($name:ident)*) => { $(
        impl<F> From<$name> for Small<F> {
            fn from(air: $name) -> Self {
                Self::$name(air)
            }
        }
    )* };
}
into_small!(Fibonacci Power Free Steps Bound);

/// The AIR of Fibonacci numbers.
pub(crate) fn numbers<F>() -> Small<F> {
    Fibonacci.into()
}
