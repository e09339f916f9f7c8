//! Twiddles on the device.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rigel_gpu::{Buffer, Device, Error, Result, View};
use rigel_kernels::circle_domain;
use rigel_kernels::field::Mersenne31;
use stwo::core::circle::Coset;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::twiddles::{TwiddleBuffer, TwiddleTree};

use crate::CudaBackend;
use crate::device::stream;
use crate::failure::OrFail;
use crate::field::Twin;

/// The x-coordinates (or their inverses) of a tower of cosets in upstream's layout: those of half a coset, of half
/// its doubling and so on, in bit-reversed order, padded by one value to a power of two.
#[derive(Clone)]
pub struct Twiddles(Option<Arc<Buffer<Mersenne31>>>);

impl Twiddles {
    /// The values; an error if they were omitted.
    pub(crate) fn tower(&self) -> Result<View<'_, Mersenne31>> {
        match &self.0 {
            Some(tower) => Ok(tower.view()),
            None => {
                Err(Error::shape("CudaBackend", "the twiddles that are needed here were omitted from the tree"))
            }
        }
    }
}

impl fmt::Debug for Twiddles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Twiddles({})", self.0.as_ref().map_or(0, |tower| tower.len()))
    }
}

impl TwiddleBuffer<BitReversedOrder> for Twiddles {
    fn empty() -> Self {
        Self(None)
    }

    /// In bit-reversed order the subdomain is a prefix, so these are the first values of each layer from the
    /// domain's on.
    fn extract_subdomain_twiddles(&self, domain_log_size: u32, subdomain_log_size: u32) -> Self {
        let extract = || {
            let tower = self.tower()?;
            let (whole, domain, part) = (tower.len().ilog2(), domain_log_size - 1, subdomain_log_size - 1);
            if !(part <= domain && domain <= whole) {
                return Err(Error::shape(
                    "extract_subdomain_twiddles",
                    format!(
                        "twiddles of 2^{part} points of 2^{domain} from a tower of 2^{whole}; each must be at most the \
                         next"
                    ),
                ));
            }
            let stream = stream(tower.device());
            let mut extracted = stream.alloc(1 << part)?;
            let mut at = 0;
            for layer in 0..part {
                let start = (1 << whole) - (1usize << domain >> layer);
                let len = 1usize << (part - 1 - layer);
                stream.copy(extracted.range_mut(at..at + len)?, tower.range(start..start + len)?)?;
                at += len;
            }
            stream.copy(extracted.range_mut(at..)?, tower.range(tower.len() - 1..)?)?;
            Ok(extracted)
        };
        Self(Some(Arc::new(extract().or_fail("extract the twiddles of a subdomain"))))
    }
}

/// A cache of recent towers, by coset: upstream requests some of them in every proof.
#[derive(Default)]
struct Known(Mutex<Vec<(Coset, Twiddles, Twiddles)>>);

/// The size of the cache: enough for the domains of a proof besides those of its commitments.
const MOST_KNOWN: usize = 8;

/// Only towers of at most this many values (16 MiB) are cached.
const MOST_KEPT: usize = 1 << 22;

/// The twiddles of a coset and their inverses.
pub(crate) fn of_coset(device: &Device, coset: Coset) -> Result<TwiddleTree<CudaBackend>> {
    let known = device.program(|_| Ok(Known::default()))?;
    let tree = |twiddles: &Twiddles, inverses: &Twiddles| TwiddleTree {
        root_coset: coset,
        twiddles: twiddles.clone(),
        itwiddles: inverses.clone(),
    };
    let lock = || known.0.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut known = lock();
        if let Some(at) = known.iter().position(|(of, ..)| *of == coset) {
            // Least recently used entries are evicted first.
            let entry = known.remove(at);
            let found = tree(&entry.1, &entry.2);
            known.push(entry);
            return Ok(found);
        }
    }
    let (twiddles, inverses) = circle_domain::twiddles_and_inverses(&stream(device), coset.twin())?;
    let [twiddles, inverses] = [twiddles, inverses].map(|tower| Twiddles(Some(Arc::new(tower))));
    if coset.size() <= MOST_KEPT {
        let mut known = lock();
        if known.len() == MOST_KNOWN {
            known.remove(0);
        }
        known.push((coset, twiddles.clone(), inverses.clone()));
    }
    Ok(tree(&twiddles, &inverses))
}
