//! Search paths for NVIDIA's libraries, for machines where they are not on the loader's path.

use std::env;
use std::ffi::{CStr, OsString, c_int, c_void};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// A library to look for.
pub(super) struct Wanted {
    /// The library's file name without a version.
    pub(super) library: &'static str,
    /// A library in the same folder that this one loads by name.
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

/// Identifies the build of the loaded library that contains a function: its build ID, or the size and time of its
/// file if the linker gave it none.
pub(super) fn build_of(function: *const c_void) -> Result<String, String> {
    if let Some(id) = build_id_of(function) {
        return Ok(id);
    }
    build_of_file(&file_of(function).ok_or("no file is known that it was loaded from")?)
}

/// The size of a file and the time of its last change, in nanoseconds: an update changes the time even if not the size.
fn build_of_file(file: &Path) -> Result<String, String> {
    let metadata = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!("of {} bytes at {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

/// The first 64 bits of the build ID of the loaded library that a function is in. The ID is the linker's hash of the
/// library's contents. It is read from memory, because the file may have been replaced since it was loaded.
fn build_id_of(function: *const c_void) -> Option<String> {
    let mut search = BuildId { address: function as usize, found: None };
    // SAFETY: `look` has the type that is wanted, does not unwind, and gets the address of `search`, which outlives the
    // call and which nothing else refers to meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// The search for the build ID of the library that has this address.
struct BuildId {
    address: usize,
    found: Option<String>,
}

/// Looks for it in one library. Returns 0 to go on with the next.
unsafe extern "C" fn look(library: *mut libc::dl_phdr_info, _bytes: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader gives a description that lives during the call, and `build_id_of` its search.
    let (library, search) = unsafe { (&*library, &mut *search.cast::<BuildId>()) };
    if library.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader keeps so many headers of segments there.
    let segments = unsafe { std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
    let place = |segment: &libc::Elf64_Phdr| {
        let begin = (library.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
        begin..begin.saturating_add(segment.p_memsz as usize)
    };
    let loaded = |begin: usize, end: usize| {
        let holds = |segment: &libc::Elf64_Phdr| place(segment).start <= begin && end <= place(segment).end;
        segments.iter().any(|s| s.p_type == libc::PT_LOAD && s.p_flags & libc::PF_R != 0 && holds(s))
    };
    if !loaded(search.address, search.address) {
        return 0;
    }
    for segment in segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE) {
        let place = place(segment);
        if !loaded(place.start, place.end) {
            continue;
        }
        // SAFETY: the range lies in a readable segment, which stays loaded during the call.
        let notes = unsafe { std::slice::from_raw_parts(place.start as *const u8, place.len()) };
        if let Some(id) = build_id(notes, segment.p_align as usize) {
            search.found = Some(id.iter().take(8).map(|byte| format!("{byte:02x}")).collect());
        }
    }
    1
}

/// The build ID among the notes of a segment, whose parts are aligned to four bytes or to eight.
fn build_id(mut notes: &[u8], alignment: usize) -> Option<&[u8]> {
    const GNU_BUILD_ID: usize = 3;
    let padded = |bytes: usize| bytes.checked_next_multiple_of(if alignment == 8 { 8 } else { 4 });
    loop {
        let number = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?) as usize);
        let (name_bytes, bytes, kind) = (number(0)?, number(4)?, number(8)?);
        let begin = padded(12usize.checked_add(name_bytes)?)?;
        let end = begin.checked_add(bytes)?;
        let id = notes.get(begin..end)?;
        if kind == GNU_BUILD_ID && notes.get(12..12 + name_bytes)? == b"GNU\0" && !id.is_empty() {
            return Some(id);
        }
        notes = notes.get(padded(end)?..)?;
    }
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

    /// A note with this name and content, aligned to four bytes.
    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut note: Vec<u8> =
            [name.len() as u32, content.len() as u32, kind].iter().flat_map(|n| n.to_le_bytes()).collect();
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn build_ids_are_found_among_notes() {
        let id = [1, 2, 3, 250, 5];
        let others = [note(3, b"Go\0", b"abcd"), note(1, b"GNU\0", b"abi")].concat();
        let notes = [&others[..], &note(3, b"GNU\0", &id)].concat();
        assert_eq!(build_id(&notes, 4), Some(&id[..]));
        assert_eq!(build_id(&others, 4), None);
        for end in 0..notes.len() - 3 {
            assert_eq!(build_id(&notes[..end], 4), None, "cut at {end}");
        }
        let endless = [u32::MAX; 3].map(u32::to_le_bytes).concat();
        assert_eq!(build_id(&endless, 4), None);
    }

    /// Checks the C library, which distributions build with a build ID.
    #[test]
    fn build_ids_of_loaded_libraries_are_those_of_their_files() {
        let function = libc::getpid as *const c_void;
        let Some(id) = build_id_of(function) else {
            println!("skipped: the C library has no build ID");
            return;
        };
        let bytes: Vec<u8> =
            (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
        let file = fs::read(file_of(function).unwrap()).unwrap();
        assert!(file.windows(bytes.len()).any(|part| part == bytes), "{id}");
        assert_eq!(build_of(function), Ok(id));
        assert_eq!(build_id_of(std::ptr::null()), None);
    }

    #[test]
    fn a_file_that_is_replaced_is_another_build() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libsample.so.1");
        fs::write(&file, b"text").unwrap();
        let before = build_of_file(&file).unwrap();
        assert_eq!(build_of_file(&file), Ok(before.clone()));
        let later = fs::metadata(&file).unwrap().modified().unwrap() + std::time::Duration::from_nanos(100);
        fs::write(&file, b"t3xt").unwrap();
        fs::File::options().append(true).open(&file).unwrap().set_modified(later).unwrap();
        assert_ne!(build_of_file(&file).unwrap(), before);
        assert!(build_of_file(&folder.path().join("none")).is_err());
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
