//! Runs compiled expression graphs on a table's inputs.

use rigel_codegen::{Bindings, Folded, GraphProgram, Input, Rows, Target};
use rigel_gpu::{Buffer, Result, Stream, View};
use rigel_kernels::Columns;
use rigel_kernels::field::Element;

use crate::constraints::input;

/// The matrices and parameters that a table's expressions read.
pub(crate) struct Inputs<'a, E: Element> {
    pub(crate) main: Columns<'a, E::Base>,
    pub(crate) preprocessed: Option<Columns<'a, E::Base>>,
    pub(crate) permutation: Option<Columns<'a, E::Base>>,
    /// The next rows of the trace, of the preprocessed columns and of the lookups' columns, where they are not among
    /// the rows themselves.
    pub(crate) next: [Option<Columns<'a, E::Base>>; 3],
    pub(crate) selectors: Columns<'a, E::Base>,
    /// The columns and the logarithm of the period.
    pub(crate) periodic: Option<(Columns<'a, E::Base>, u32)>,
    pub(crate) publics: Option<View<'a, E::Base>>,
    pub(crate) extension: Option<View<'a, E>>,
}

impl<'a, E: Element> Inputs<'a, E> {
    fn bindings(&self) -> Bindings<'a, E> {
        let mut bindings = Bindings::new();
        // Inputs that no expression reads get the trace as a placeholder.
        let mut inputs = [Input::from(self.main); input::COUNT];
        let mut place = |at: usize, columns: Option<Columns<'a, E::Base>>| {
            if let Some(columns) = columns {
                inputs[at] = columns.into();
            }
        };
        place(input::PREPROCESSED, self.preprocessed);
        place(input::PERMUTATION, self.permutation);
        place(input::SELECTORS, Some(self.selectors));
        place(input::NEXT, self.next[0]);
        place(input::NEXT_PREPROCESSED, self.next[1]);
        place(input::NEXT_PERMUTATION, self.next[2]);
        if let Some((columns, log_period)) = self.periodic {
            inputs[input::PERIODIC] = Input::from(columns).repeating(log_period);
        }
        bindings.inputs = inputs.to_vec();
        bindings.parameters = self.publics;
        bindings.extension_parameters = self.extension;
        bindings
    }

    /// Runs a program that stores columns, over the rows of the trace in natural order.
    pub(crate) fn store(
        &self,
        stream: &Stream,
        program: &GraphProgram<E>,
        outputs: Vec<Target<'_, E::Base>>,
    ) -> Result<()> {
        let mut bindings = self.bindings();
        bindings.outputs = outputs;
        program.run(stream, Rows::Natural { rows: self.main.rows() }, &mut bindings)
    }

    /// Runs a program that folds constraints, over a bit-reversed domain of 2^`log_rows` rows in which consecutive
    /// rows of the trace are 2^`log_step` rows apart in natural order.
    pub(crate) fn fold(
        &self,
        stream: &Stream,
        program: &GraphProgram<E>,
        (log_rows, log_step): (u32, u32),
        weights: &Buffer<E>,
        folded: Folded<'_, E::Base>,
    ) -> Result<()> {
        let mut bindings = self.bindings().weights(weights).folded(folded);
        program.run(stream, Rows::BitReversed { log_rows, log_step }, &mut bindings)
    }
}
