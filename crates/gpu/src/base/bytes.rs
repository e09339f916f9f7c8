//! Byte counts in human-readable form.

use std::fmt;
use std::str::FromStr;

/// A number of bytes, printed with a binary unit: `9.1 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", units[unit])
    }
}

impl FromStr for Bytes {
    type Err = String;

    /// Parses a positive integer with an optional unit: `512`, `64KiB`, `100 MiB`, `2GiB`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let shift = match text[end..].trim() {
            "" | "B" => Some(0),
            "KiB" => Some(10),
            "MiB" => Some(20),
            "GiB" => Some(30),
            "TiB" => Some(40),
            _ => None,
        };
        let bytes = shift.and_then(|shift| text[..end].parse::<usize>().ok()?.checked_mul(1 << shift));
        bytes
            .filter(|&bytes| bytes > 0)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a number of bytes; examples: 512, 64KiB, 100MiB, 2GiB"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(9_771_050_598).to_string(), "9.1 GiB");
    }

    #[test]
    fn bytes_are_read() {
        for (text, bytes) in
            [("512", 512), ("512B", 512), ("64KiB", 65_536), ("3 MiB", 3 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
        for text in ["", "0", "GiB", "1GB", "-1", "1.5GiB", "99999999999999999999", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
