//! Conversions between Stwo's field elements and their device counterparts.

use rigel_kernels::field::{Element, Field, Mersenne31, QM31};
use stwo::core::circle::{CirclePoint, Coset};
use stwo::core::fields::m31::BaseField;
use stwo::core::fields::qm31::SecureField;
use stwo::core::poly::circle::CircleDomain;

/// A value with a device counterpart.
pub(crate) trait Twin {
    type Device;

    /// The device counterpart of this value.
    fn twin(self) -> Self::Device;
}

impl Twin for BaseField {
    type Device = Mersenne31;

    fn twin(self) -> Mersenne31 {
        Mersenne31::from_word(self.0)
    }
}

impl Twin for SecureField {
    type Device = QM31;

    fn twin(self) -> QM31 {
        QM31::from_parts(&self.to_m31_array().map(Twin::twin)).expect("four coordinates")
    }
}

impl<F: Twin> Twin for CirclePoint<F> {
    type Device = [F::Device; 2];

    fn twin(self) -> [F::Device; 2] {
        [self.x.twin(), self.y.twin()]
    }
}

impl Twin for Coset {
    type Device = rigel_kernels::domain::circle_domain::Coset;

    fn twin(self) -> Self::Device {
        Self::Device { initial: self.initial.twin(), step: self.step.twin(), log_size: self.log_size }
    }
}

impl Twin for CircleDomain {
    type Device = rigel_kernels::domain::circle_domain::Domain;

    fn twin(self) -> Self::Device {
        Self::Device { half: self.half_coset.twin() }
    }
}

/// Converts a word from the device.
pub(crate) fn base(word: Mersenne31) -> BaseField {
    BaseField::from_u32_unchecked(word.word())
}

/// Converts an element from the device.
pub(crate) fn secure(element: QM31) -> SecureField {
    SecureField::from_m31_array(std::array::from_fn(|i| base(element.parts()[i])))
}
