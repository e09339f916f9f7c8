//! The pictures in `docs/pictures`, each beside the measurements that it is drawn from.

use std::fs;
use std::path::{Path, PathBuf};

fn file(name: &str, extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(format!("{name}.{extension}"))
}

/// The measurements.
pub fn data(name: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(file(name, "json")).unwrap()).unwrap()
}

/// Asserts that the picture is the one in the folder, or writes it if `RIGEL_DRAW` is set.
pub fn check(name: &str, drawn: &str) {
    let file = file(name, "svg");
    if std::env::var_os("RIGEL_DRAW").is_some() {
        fs::write(&file, drawn).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(drawn == found, "{} is not what is drawn today: set RIGEL_DRAW=1 to draw it again", file.display());
}
