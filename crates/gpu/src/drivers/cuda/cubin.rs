//! Checks that a cubin is not truncated.
//!
//! A cubin is a 64-bit little-endian ELF file. The driver gets its address without a length and follows the
//! offsets in its headers, so a truncated file in the cache would make it read past the end.

/// Whether the header, the tables it points to and every section and segment lie within `file`.
pub(super) fn is_whole(file: &[u8]) -> bool {
    const SECTION_WITHOUT_BYTES: u64 = 8;
    let whole = || {
        if file.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let segments = table(file, 32, 54)?;
        for segment in segments {
            inside(file, number(segment, 8, 8)?, number(segment, 32, 8)?)?;
        }
        let sections = table(file, 40, 58)?;
        for section in sections {
            if number(section, 4, 4)? != SECTION_WITHOUT_BYTES {
                inside(file, number(section, 24, 8)?, number(section, 32, 8)?)?;
            }
        }
        Some(())
    };
    whole().is_some()
}

/// The rows of a header table. `offset_at` is the position of its offset, `shape_at` that of the size and number
/// of rows.
fn table(file: &[u8], offset_at: usize, shape_at: usize) -> Option<impl Iterator<Item = &[u8]>> {
    let (row, rows) = (number(file, shape_at, 2)?, number(file, shape_at + 2, 2)?);
    let bytes = inside(file, number(file, offset_at, 8)?, row * rows)?;
    // An empty table may have a row size of zero.
    Some(bytes.chunks_exact((row as usize).max(1)))
}

fn inside(file: &[u8], offset: u64, bytes: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(bytes).ok()?)?;
    // An empty part may have any offset.
    if bytes == 0 { Some(&[]) } else { file.get(start..end) }
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut value = [0; 8];
    value[..size].copy_from_slice(bytes.get(at..at + size)?);
    Some(u64::from_le_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with a header, one section of four bytes and its table.
    fn file() -> Vec<u8> {
        let mut file = vec![0; 64 + 4 + 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[40] = 68; // offset of the section table
        file[58] = 64; // size of a row
        file[60] = 1; // number of rows
        file[68 + 4] = 1; // type of the section: it has bytes in the file
        file[68 + 24] = 64; // its offset
        file[68 + 32] = 4; // its size
        file
    }

    #[test]
    fn a_whole_file_is_taken() {
        assert!(is_whole(&file()));
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let file = file();
        for length in 0..file.len() {
            assert!(!is_whole(&file[..length]), "cut at {length}");
        }
    }

    #[test]
    fn a_part_that_ends_outside_is_refused() {
        let mut file = file();
        file[68 + 32] = 255;
        assert!(!is_whole(&file));
        file[68 + 24..68 + 40].fill(255);
        assert!(!is_whole(&file));
    }

    #[test]
    fn another_format_is_refused() {
        assert!(!is_whole(b".version 9.0 // PTX, and long enough to hold a header, or almost so"));
    }
}
