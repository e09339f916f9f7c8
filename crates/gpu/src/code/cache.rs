//! The disk cache of compiled kernels, shared by all processes of a user.
//!
//! An entry is written under a temporary name and renamed, so a reader never sees a partial one. Each entry
//! carries its own hash; a damaged entry is compiled again and replaced. If the folder can't be written, kernels
//! are compiled in each process. The folder has a size limit; the least recently used entries are removed first.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::base::{Bytes, Error, Lock, Result};
use crate::drivers::Image;

const MAGIC: &[u8; 8] = b"RIGELIM2";

/// Statistics of the cache, and the last problem it had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Modules read from disk.
    pub hits: u64,
    /// Modules compiled.
    pub compiled: u64,
    /// Entries found damaged and compiled again.
    pub damaged: u64,
    /// Entries removed to stay within the limit.
    pub pruned: u64,
    /// The reason why the last entry could not be stored, if storing it failed.
    pub problem: Option<String>,
}

/// The folder of compiled kernels.
pub struct Cache {
    folder: Option<PathBuf>,
    /// Maximum size of all entries, in bytes.
    limit: u64,
    stats: Lock<CacheStats>,
}

/// Maximum size of all entries in bytes, unless `RIGEL_CACHE_LIMIT` overrides it.
const DEFAULT_LIMIT: u64 = 4 << 30;
/// An entry's time of last use is only updated when it is older than this, so that most reads cause no write.
const FRESH: Duration = Duration::from_secs(3600);
/// Temporary files of interrupted processes are removed at this age.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

impl Cache {
    /// A cache in `folder`, which is created on the first write. Without a folder nothing is cached.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self::with_limit(folder, DEFAULT_LIMIT)
    }

    /// A cache as by [`new`](Self::new), with at most `limit` bytes of entries.
    pub fn with_limit(folder: Option<PathBuf>, limit: u64) -> Self {
        Self { folder, limit, stats: Lock::default() }
    }

    /// `$RIGEL_CACHE_LIMIT` (`2GiB`), or 4 GiB.
    pub fn default_limit() -> Result<u64> {
        match std::env::var("RIGEL_CACHE_LIMIT").ok().filter(|text| !text.is_empty()) {
            None => Ok(DEFAULT_LIMIT),
            Some(text) => {
                let bytes = text.parse::<Bytes>().map_err(|detail| Error::shape("RIGEL_CACHE_LIMIT", detail))?;
                Ok(bytes.0 as u64)
            }
        }
    }

    /// `$RIGEL_CACHE`, or `rigel` in the user's cache folder. `RIGEL_CACHE=off` disables the cache.
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

    /// The folder, if the cache has one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Statistics since the cache was opened.
    pub fn stats(&self) -> CacheStats {
        self.stats.lock().clone()
    }

    /// Number of entries on disk, and their total size in bytes.
    pub fn size(&self) -> (usize, u64) {
        let images = self.files().filter(|file| file.is_image());
        images.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes))
    }

    fn files(&self) -> impl Iterator<Item = Stored> {
        let entries = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        entries.filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some(Stored { path: entry.path(), bytes: metadata.len(), used: metadata.modified().ok()? })
        })
    }

    /// Removes the least recently used entries until the rest is within the limit, and the temporary files of
    /// interrupted processes.
    fn prune(&self) {
        let now = SystemTime::now();
        let (mut images, others): (Vec<_>, Vec<_>) = self.files().partition(Stored::is_image);
        let abandoned = |file: &&Stored| now.duration_since(file.used).is_ok_and(|age| age > ABANDONED);
        others.iter().filter(|file| file.is_ours()).filter(abandoned).for_each(Stored::remove);
        images.sort_by_key(|file| file.used);
        let mut bytes: u64 = images.iter().map(|file| file.bytes).sum();
        for image in &images {
            if bytes <= self.limit {
                return;
            }
            image.remove();
            bytes -= image.bytes;
            self.note(|stats| stats.pruned += 1);
        }
    }

    fn note(&self, change: impl FnOnce(&mut CacheStats)) {
        change(&mut self.stats.lock());
    }

    /// Whether there is an entry for `key`. It may still turn out to be damaged.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.join(format!("{key}.image")).exists())
    }

    /// The image stored under `key`; if there is none, calls `compile` and stores its result.
    pub(crate) fn get_or_compile(&self, key: &str, compile: impl FnOnce() -> Result<Image>) -> Result<Image> {
        let Some(folder) = &self.folder else {
            self.note(|stats| stats.compiled += 1);
            return compile();
        };
        let path = folder.join(format!("{key}.image"));
        if let Some(image) = self.read(&path) {
            return Ok(image);
        }
        // One process compiles while the others wait. If the lock can't be taken, every process compiles.
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
                let problem = format!("{}: {error}; kernels are compiled again in each process", folder.display());
                self.note(|stats| stats.problem = Some(problem));
            }
            self.prune();
        }
        if lock.is_ok() {
            let _ = fs::remove_file(folder.join(format!("{key}.lock")));
        }
        image
    }

    fn read(&self, path: &Path) -> Option<Image> {
        let bytes = fs::read(path).ok()?;
        let image = decode(&bytes);
        if image.is_some() {
            touch(path);
        }
        self.note(|stats| match image {
            Some(_) => stats.hits += 1,
            None => stats.damaged += 1,
        });
        image
    }
}

/// A file in the cache's folder.
struct Stored {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Stored {
    fn is_image(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "image")
    }

    /// Whether it is a temporary file, left behind when a process ended while it wrote an entry.
    fn is_ours(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "part" || extension == "lock")
    }

    fn remove(&self) {
        // Another process may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Updates an entry's time of last use. In a read-only folder this fails, which only affects what is pruned first.
fn touch(path: &Path) {
    let now = SystemTime::now();
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    if modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > FRESH)) {
        let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(now));
    }
}

/// Writes an entry atomically.
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

/// The format: magic, hash of the rest, number of symbols, number of signatures; then each symbol, each signature
/// and the binary, each preceded by its length.
pub(crate) fn encode(image: &Image) -> Vec<u8> {
    let counts = [image.symbols.len(), image.signatures.len()];
    let mut body: Vec<u8> = counts.iter().flat_map(|&count| (count as u64).to_le_bytes()).collect();
    let texts = image.symbols.iter().chain(&image.signatures).map(String::as_bytes);
    for part in texts.chain([image.binary.as_slice()]) {
        body.extend((part.len() as u64).to_le_bytes());
        body.extend(part);
    }
    [MAGIC.as_slice(), &Sha256::digest(&body), &body].concat()
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Image> {
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
    let (symbols, signatures) = (number(&mut body)?, number(&mut body)?);
    let mut parts = Vec::new();
    for _ in 0..=symbols.checked_add(signatures)? {
        let len = number(&mut body)?;
        let (part, tail) = body.split_at_checked(len)?;
        body = tail;
        parts.push(part.to_vec());
    }
    let binary = parts.pop()?;
    let mut texts = parts.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>().ok()?;
    let signatures = texts.split_off(symbols);
    Some(Image { binary, symbols: texts, signatures })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image {
            binary: vec![1, 2, 3, 250],
            symbols: vec!["a".into(), "_Z3fooi".into()],
            signatures: vec!["".into(), "v".into()],
        }
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
        assert!(cache.stats().problem.unwrap().contains("compiled again"));
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
    fn the_least_recently_used_entries_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let entry = encode(&image()).len() as u64;
        let cache = Cache::with_limit(Some(folder.path().into()), 2 * entry);
        let age = |key: &str, hours: u64| {
            let path = folder.path().join(format!("{key}.image"));
            let at = SystemTime::now() - Duration::from_secs(3600 * hours);
            File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
        };
        cache.get_or_compile("a", || Ok(image())).unwrap();
        cache.get_or_compile("b", || Ok(image())).unwrap();
        age("a", 9);
        age("b", 5);
        // This uses `a`, so `b` is now the least recently used.
        cache.get_or_compile("a", || panic!("it is in the cache")).unwrap();
        cache.get_or_compile("c", || Ok(image())).unwrap();
        assert!(cache.size().1 <= 2 * entry);
        assert!(!folder.path().join("b.image").exists());
        assert!(folder.path().join("a.image").exists() && folder.path().join("c.image").exists());
        assert_eq!(cache.stats().pruned, 1);
    }

    #[test]
    fn files_left_behind_are_removed_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * ABANDONED;
        for name in ["x.1-2.part", "y.lock", "notes.txt"] {
            File::create(folder.path().join(name)).unwrap().set_modified(old).unwrap();
        }
        File::create(folder.path().join("z.lock")).unwrap();
        Cache::new(Some(folder.path().into())).get_or_compile("k", || Ok(image())).unwrap();
        let left = |name: &str| folder.path().join(name).exists();
        assert!(!left("x.1-2.part") && !left("y.lock") && left("notes.txt") && left("z.lock"));
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
