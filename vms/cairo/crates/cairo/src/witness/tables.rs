//! The tables whose size does not depend on the program: range checks and exclusive ors. Their columns are counts.

use std::fmt::Write;

/// A table of lookups.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The bits of each number of a row. Of an exclusive or, two numbers; the table of the widest has columns for what
    /// their high bits can be.
    bits: &'static [u32],
    /// The number of its columns, each the counts of a relation.
    pub(crate) columns: usize,
}

impl Table {
    /// The logarithm of its number of rows.
    pub(crate) fn log_size(&self) -> u32 {
        self.bits.iter().sum()
    }

    /// The component that uses it; none if every proof has it.
    pub(crate) fn of(&self) -> Option<&'static str> {
        Some(match self.name {
            "blake_round_sigma" => "blake_round",
            "verify_bitwise_xor_12" => "blake_g",
            "poseidon_round_keys" => "poseidon_full_round_chain",
            "pedersen_points_table_window_bits_9" => "partial_ec_mul_window_bits_9",
            "pedersen_points_table_window_bits_18" => "partial_ec_mul_window_bits_18",
            _ => return None,
        })
    }

    /// The number of its cells.
    pub(crate) fn cells(&self) -> usize {
        self.columns << self.log_size()
    }
}

macro_rules! tables {
    ($($name:ident $bits:tt)*) => {
        [$(Table {
            name: stringify!($name),
            bits: &$bits,
            columns: cairo_air::components::$name::N_TRACE_COLUMNS,
        }),*]
    };
}

/// The tables: those that every proof has, and those of hashes, the largest of them last.
pub(crate) const TABLES: [Table; 22] = tables! {
    range_check_6 [6]
    range_check_8 [8]
    range_check_11 [11]
    range_check_12 [12]
    range_check_18 [18]
    range_check_20 [20]
    range_check_4_3 [4, 3]
    range_check_4_4 [4, 4]
    range_check_9_9 [9, 9]
    range_check_7_2_5 [7, 2, 5]
    range_check_3_6_6_3 [3, 6, 6, 3]
    range_check_4_4_4_4 [4, 4, 4, 4]
    range_check_3_3_3_3_3 [3, 3, 3, 3, 3]
    verify_bitwise_xor_4 [4, 4]
    verify_bitwise_xor_7 [7, 7]
    verify_bitwise_xor_8 [8, 8]
    verify_bitwise_xor_9 [9, 9]
    poseidon_round_keys [6]
    pedersen_points_table_window_bits_9 [15]
    blake_round_sigma [4]
    verify_bitwise_xor_12 [10, 10]
    pedersen_points_table_window_bits_18 [23]
};

/// The offset of each table's counts in the memory of all.
pub(crate) fn offsets() -> [usize; TABLES.len()] {
    let mut at = 0;
    TABLES.each_ref().map(|table| {
        at += table.cells();
        at - table.cells()
    })
}

/// The number of tables, from the first on, that a run needs which has components of these names.
pub(crate) fn needed(has: impl Fn(&str) -> bool) -> usize {
    TABLES.iter().rposition(|table| table.of().is_none_or(&has)).map_or(0, |last| last + 1)
}

/// The tables as the kernels know them.
pub(crate) fn declarations() -> String {
    let mut text = String::new();
    for (table, at) in TABLES.iter().zip(offsets()) {
        let kind = match table.name.strip_prefix("verify_bitwise_xor_") {
            None => {
                let bits: Vec<String> = table.bits.iter().map(u32::to_string).collect();
                format!("RangeCheck<{}>", bits.join(", "))
            }
            Some(bits) => format!("BitwiseXor<{bits}, {}>", table.bits[0]),
        };
        let name = table.name.to_uppercase();
        writeln!(text, "#define {name} {kind}{{{at}u}}").expect("a string");
    }
    text
}
