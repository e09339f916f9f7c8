//! Stands in for StarkWare's crate of this name, which is the back end of the Cairo 1 compiler: 60 crates.
//!
//! The hints of Cairo 1 are a feature of `cairo-vm` that brings that crate in for one conversion, of Starknet's
//! contract classes to programs. Nothing here has contract classes, and here is only what the conversion reads.

/// Contract classes.
pub mod casm_contract_class {
    use num_bigint::BigUint;

    /// A contract class, as far as the conversion reads it.
    pub struct CasmContractClass {
        /// The code.
        pub bytecode: Vec<Word>,
        /// The instructions that have hints.
        pub hints: Vec<(usize, ())>,
    }

    /// A word of code.
    pub struct Word {
        /// The word's value.
        pub value: BigUint,
    }
}
