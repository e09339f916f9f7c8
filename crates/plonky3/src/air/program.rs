//! Runs compiled expression graphs on a table's inputs.

use p3_field::BasedVectorSpace;
use rigel_codegen::{Bindings, Folded, GraphProgram, Input, Rows, Target};
use rigel_gpu::{Buffer, Result, Stream, View};
use rigel_kernels::Columns;
use rigel_kernels::field::Element;

use crate::air::constraints::input;
use crate::upstream::config::{Base, DeviceConfig, Ext};
use crate::upstream::field::DeviceField;

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
        weights: View<'_, E>,
        folded: Folded<'_, E::Base>,
    ) -> Result<()> {
        let mut bindings = self.bindings().weights(weights).folded(folded);
        program.run(stream, Rows::BitReversed { log_rows, log_step }, &mut bindings)
    }
}

/// Lists of parameters that programs read, in one buffer: an upload takes as long as a launch.
pub(crate) struct Parameters<SC: DeviceConfig> {
    words: Buffer<Base<SC>>,
    /// The end of each list.
    ends: Vec<usize>,
    /// The number of lists of elements of the extension, which come first.
    element_lists: usize,
}

impl<SC: DeviceConfig> Parameters<SC> {
    /// Uploads lists of elements of the extension, and lists of elements of the base field.
    pub(crate) fn upload(stream: &Stream, elements: &[Vec<SC::Challenge>], words: &[&[Base<SC>]]) -> Result<Self> {
        let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(elements.len() + words.len()));
        // Elements of the extension come first, so that they are aligned.
        for list in elements {
            all.extend(list.iter().flat_map(|x| SC::Value::as_device(x.as_basis_coefficients_slice())));
            ends.push(all.len());
        }
        for list in words {
            all.extend_from_slice(list);
            ends.push(all.len());
        }
        Ok(Self { words: stream.upload(&all)?, ends, element_lists: elements.len() })
    }

    /// A list of elements of the base field; those of the extension count, too. `None` if it is empty.
    pub(crate) fn words(&self, list: usize) -> Result<Option<View<'_, Base<SC>>>> {
        let start = list.checked_sub(1).map_or(0, |before| self.ends[before]);
        let words = self.words.range(start..self.ends[list])?;
        Ok(if words.is_empty() { None } else { Some(words) })
    }

    /// A list of elements of the extension. `None` if it is empty.
    pub(crate) fn elements(&self, list: usize) -> Result<Option<View<'_, Ext<SC>>>> {
        assert!(list < self.element_lists, "list {list} is of the base field: its elements may not be aligned");
        self.words(list)?.map(View::cast).transpose()
    }
}
