//! Compiled kernels on disk, shared by all processes of a user.
//!
//! An entry is written under a temporary name and renamed, so a reader sees all of it or nothing. It carries its own
//! hash: a damaged one is compiled again and replaced. A folder that can't be written costs time, never a result.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::driver::Image;
use crate::error::Result;

const MAGIC: &[u8; 8] = b"RIGELIM1";

/// What the cache did so far, and the last thing that went wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Modules read from disk.
    pub hits: u64,
    /// Modules compiled.
    pub compiled: u64,
    /// Entries found damaged and compiled again.
    pub damaged: u64,
    /// Why the last entry could not be stored, if so.
    pub problem: Option<String>,
}

/// The folder of compiled kernels.
pub struct Cache {
    folder: Option<PathBuf>,
    stats: Mutex<CacheStats>,
}

impl Cache {
    /// A cache in `folder`, made when first written to; without a folder nothing is kept.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, stats: Mutex::default() }
    }

    /// `$RIGEL_CACHE`, or `rigel` in the user's cache folder. `RIGEL_CACHE=off` keeps nothing.
    pub fn default_folder() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match set("RIGEL_CACHE") {
            Some(value) if value == "off" => None,
            Some(folder) => Some(folder.into()),
            None => set("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
                .map(|folder| folder.join("rigel")),
        }
    }

    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What it did so far.
    pub fn stats(&self) -> CacheStats {
        self.stats.lock().expect("no panic while the lock is held").clone()
    }

    /// Entries on disk and their bytes.
    pub fn size(&self) -> (usize, u64) {
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "image"))
            .filter_map(|entry| entry.metadata().ok())
            .fold((0, 0), |(count, bytes), metadata| (count + 1, bytes + metadata.len()))
    }

    fn note(&self, change: impl FnOnce(&mut CacheStats)) {
        change(&mut self.stats.lock().expect("no panic while the lock is held"));
    }

    /// The image stored under `key`, or what `compile` makes, stored.
    pub(crate) fn get_or_compile(&self, key: &str, compile: impl FnOnce() -> Result<Image>) -> Result<Image> {
        let Some(folder) = &self.folder else {
            self.note(|stats| stats.compiled += 1);
            return compile();
        };
        let path = folder.join(format!("{key}.image"));
        if let Some(image) = self.read(&path) {
            return Ok(image);
        }
        // One process compiles, the others wait for it. Without the lock all compile, which is only slower.
        let lock = fs::create_dir_all(folder)
            .and_then(|()| File::create(folder.join(format!("{key}.lock"))))
            .and_then(|file| file.lock().map(|()| file));
        if lock.is_ok()
            && let Some(image) = self.read(&path)
        {
            return Ok(image);
        }
        let image = compile();
        if let Ok(image) = &image {
            self.note(|stats| stats.compiled += 1);
            if let Err(error) = store(&path, image) {
                let problem = format!("{}: {error}; kernels are compiled anew in each process", folder.display());
                self.note(|stats| stats.problem = Some(problem));
            }
        }
        if lock.is_ok() {
            let _ = fs::remove_file(folder.join(format!("{key}.lock")));
        }
        image
    }

    fn read(&self, path: &Path) -> Option<Image> {
        let bytes = fs::read(path).ok()?;
        let image = decode(&bytes);
        self.note(|stats| match image {
            Some(_) => stats.hits += 1,
            None => stats.damaged += 1,
        });
        image
    }
}

/// Writes an entry so that it appears whole or not at all.
fn store(path: &Path, image: &Image) -> std::io::Result<()> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{serial}.part", std::process::id()));
    let result = File::create(&temporary)
        .and_then(|mut file| file.write_all(&encode(image)).and_then(|()| file.sync_data()))
        .and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Magic, hash of the rest, number of symbols, each symbol and then the binary with its length before it.
fn encode(image: &Image) -> Vec<u8> {
    let mut body = (image.symbols.len() as u64).to_le_bytes().to_vec();
    for part in image.symbols.iter().map(String::as_bytes).chain([image.binary.as_slice()]) {
        body.extend((part.len() as u64).to_le_bytes());
        body.extend(part);
    }
    [MAGIC.as_slice(), &Sha256::digest(&body), &body].concat()
}

fn decode(bytes: &[u8]) -> Option<Image> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (hash, mut body) = rest.split_at_checked(32)?;
    if hash != Sha256::digest(body).as_slice() {
        return None;
    }
    let number = |body: &mut &[u8]| {
        let (head, tail) = body.split_at_checked(8)?;
        *body = tail;
        usize::try_from(u64::from_le_bytes(head.try_into().ok()?)).ok()
    };
    let count = number(&mut body)?;
    let mut parts = Vec::new();
    for _ in 0..=count {
        let len = number(&mut body)?;
        let (part, tail) = body.split_at_checked(len)?;
        body = tail;
        parts.push(part.to_vec());
    }
    let binary = parts.pop()?;
    let symbols = parts.into_iter().map(String::from_utf8).collect::<Result<_, _>>().ok()?;
    Some(Image { binary, symbols })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn image() -> Image {
        Image { binary: vec![1, 2, 3, 250], symbols: vec!["a".into(), "_Z3fooi".into()] }
    }

    #[test]
    fn entries_come_back_and_damage_is_seen() {
        let bytes = encode(&image());
        assert_eq!(decode(&bytes), Some(image()));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert_eq!(decode(&wrong), None, "changed at {at}");
        }
    }

    #[test]
    fn a_second_use_compiles_nothing_and_a_cut_entry_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().join("deep/er")));
        assert_eq!(cache.get_or_compile("k", || Ok(image())).unwrap(), image());
        let again = cache.get_or_compile("k", || panic!("it is in the cache")).unwrap();
        assert_eq!(again, image());

        let entry = folder.path().join("deep/er/k.image");
        fs::write(&entry, &fs::read(&entry).unwrap()[..20]).unwrap();
        assert_eq!(cache.get_or_compile("k", || Ok(image())).unwrap(), image());
        assert_eq!(decode(&fs::read(&entry).unwrap()), Some(image()));
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.compiled, stats.problem), (1, 2, None));
        assert!(stats.damaged >= 1);
        assert_eq!(cache.size().0, 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "not a folder").unwrap();
        let cache = Cache::new(Some(file.join("below")));
        assert_eq!(cache.get_or_compile("k", || Ok(image())).unwrap(), image());
        assert!(cache.stats().problem.unwrap().contains("compiled anew"));
    }

    #[test]
    fn a_failed_compilation_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().into()));
        let fail = || Err(Error::Compile { unit: "u".into(), target: "t".into(), log: "l".into() });
        assert!(cache.get_or_compile("k", fail).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no lock is left behind");
        assert_eq!(cache.get_or_compile("k", || Ok(image())).unwrap(), image());
    }

    #[test]
    fn many_threads_compile_once() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let cache = Cache::new(Some(folder.path().into()));
                    cache
                        .get_or_compile("k", || {
                            compiled.fetch_add(1, Ordering::Relaxed);
                            Ok(image())
                        })
                        .unwrap();
                });
            }
        });
        assert_eq!(compiled.load(Ordering::Relaxed), 1);
    }
}
