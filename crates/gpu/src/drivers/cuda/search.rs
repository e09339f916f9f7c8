//! Search paths for NVIDIA's libraries, for machines where they are not on the loader's path.

use std::env;
use std::ffi::{CStr, OsString, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// A library to look for.
pub(super) struct Wanted {
    /// Its file name without a version.
    pub(super) library: &'static str,
    /// Another library in the same folder, which it loads by name.
    pub(super) companion: &'static str,
    /// The folders under `site-packages/nvidia` in which wheels install it.
    pub(super) wheels: &'static [&'static str],
    /// The environment variable that names it or its folder.
    pub(super) variable: &'static str,
}

impl Wanted {
    /// The path named by the user, if any.
    pub(super) fn named(&self) -> Option<PathBuf> {
        env::var_os(self.variable).filter(|place| !place.is_empty()).map(PathBuf::from)
    }

    /// Folders of wheels beside this library, of toolkits, and of wheels in the active, the user's and the system's
    /// Python environment.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        self.places_of(|variable| env::var_os(variable), own_file())
    }

    /// [`Wanted::places`] for these environment variables and the file that holds this code.
    fn places_of(&self, variable: impl Fn(&str) -> Option<OsString>, own_file: Option<PathBuf>) -> Vec<PathBuf> {
        let root = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut places = Vec::new();
        // The Python package is `site-packages/rigel/_rigel.abi3.so`, and its extra `cuda` installs NVIDIA's wheels in
        // the same `site-packages`. This finds them whether or not an environment is active.
        if let Some(packages) = own_file.as_deref().and_then(packages_of) {
            places.extend(self.installed(&packages.join("nvidia")));
        }
        for toolkit in [root("CUDA_HOME"), root("CUDA_PATH"), Some("/usr/local/cuda".into())].into_iter().flatten()
        {
            places.push(toolkit.join("lib64"));
            places.push(toolkit.join("targets/x86_64-linux/lib"));
        }
        let user = root("HOME").map(|home| home.join(".local"));
        let system = Some("/usr/local".into());
        for prefix in [root("VIRTUAL_ENV"), root("CONDA_PREFIX"), user, system].into_iter().flatten() {
            places.push(prefix.join("lib"));
            for python in entries(&prefix.join("lib"), "python3") {
                // Debian's Python calls the folder dist-packages.
                for packages in ["site-packages", "dist-packages"].map(|name| python.join(name).join("nvidia")) {
                    places.extend(self.installed(&packages));
                }
            }
        }
        places
    }

    /// The wheels' folders that exist below a folder `nvidia`.
    fn installed(&self, nvidia: &Path) -> impl Iterator<Item = PathBuf> {
        self.wheels.iter().map(move |wheel| nvidia.join(wheel)).filter(|place| place.is_dir())
    }

    /// Loads the companion and then the library, so that a later search for either by name finds these. `place` is
    /// the library or its folder. Returns the library's file.
    pub(super) fn preload(&self, place: &Path) -> Result<PathBuf, String> {
        let (folder, library) = if place.is_dir() {
            (place, entries(place, self.library).pop())
        } else {
            (place.parent().unwrap_or(Path::new(".")), place.is_file().then(|| place.to_owned()))
        };
        let library = resolved(library.ok_or_else(|| format!("there is no {}", self.library))?);
        let companion = entries(folder, self.companion).pop().map(resolved);
        for file in companion.iter().chain([&library]) {
            // SAFETY: the file has the name of NVIDIA's library, or the user named it. Loading it runs its
            // initialisers.
            let opened = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) };
            // The library stays open for the life of the process.
            std::mem::forget(opened.map_err(|error| error.to_string())?);
        }
        Ok(library)
    }
}

/// The file, with symbolic links resolved.
pub(super) fn resolved(file: PathBuf) -> PathBuf {
    fs::canonicalize(&file).unwrap_or(file)
}

/// The entries of a folder whose names begin with `prefix`, sorted by name.
fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = listing
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// The paths as a comma-separated list.
pub(super) fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The folder of Python packages, if the file is the library of ours. A program may lie anywhere, and what lies beside
/// it may be anybody's.
fn packages_of(file: &Path) -> Option<&Path> {
    let is_ours = file.file_name()?.to_str()?.starts_with("_rigel.") && file.parent()?.file_name()? == "rigel";
    let packages = file.parent()?.parent()?;
    let name = packages.file_name()?;
    (is_ours && (name == "site-packages" || name == "dist-packages")).then_some(packages)
}

/// The library or program that this code is in.
fn own_file() -> Option<PathBuf> {
    file_of(own_file as *const c_void).map(resolved)
}

/// The file that a function was loaded from.
pub(super) fn file_of(function: *const c_void) -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address, and `info` outlives the call.
    let found = unsafe { libc::dladdr(function, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a string that lives while the library is open.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Wanted = Wanted {
        library: "libsample.so",
        companion: "libsampleLt.so",
        wheels: &["cu13/lib", "sample/lib"],
        variable: "RIGEL_SAMPLE",
    };

    #[test]
    fn wheels_are_looked_for_in_the_active_environment() {
        let environment = tempfile::tempdir().unwrap();
        let packages = environment.path().join("lib/python3.11/site-packages/nvidia");
        fs::create_dir_all(packages.join("sample/lib")).unwrap();
        let places = SAMPLE
            .places_of(|name| (name == "VIRTUAL_ENV").then(|| environment.path().as_os_str().to_owned()), None);
        assert_eq!(places[0], Path::new("/usr/local/cuda/lib64"));
        assert!(places.contains(&packages.join("sample/lib")), "{places:?}");
        assert!(!places.contains(&packages.join("cu13/lib")), "{places:?}");
    }

    #[test]
    fn wheels_beside_the_python_package_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("site-packages");
        let wheel = packages.join("nvidia/cu13/lib");
        fs::create_dir_all(&wheel).unwrap();
        let first = |own_file: PathBuf| SAMPLE.places_of(|_| None, Some(own_file)).swap_remove(0);
        assert_eq!(first(packages.join("rigel/_rigel.abi3.so")), wheel);
        for other in ["rigel/rigel", "bundle/_rigel.abi3.so", "_rigel.abi3.so"] {
            assert_ne!(first(packages.join(other)), wheel, "{other}");
        }
        assert!(own_file().unwrap().is_file());
    }

    #[test]
    fn what_is_no_library_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SAMPLE.preload(folder.path()).unwrap_err(), "there is no libsample.so");
        assert!(SAMPLE.preload(&folder.path().join("none")).is_err());
        fs::write(folder.path().join("libsample.so.1"), b"text").unwrap();
        assert!(SAMPLE.preload(folder.path()).unwrap_err().contains("libsample.so.1"));
    }
}
