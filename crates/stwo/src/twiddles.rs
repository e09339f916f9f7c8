//! Twiddles on the device.

use std::fmt;
use std::sync::Arc;

use rigel_gpu::{Buffer, Device, Error, Result, View};
use rigel_kernels::domain::circle_domain;
use rigel_kernels::field::Mersenne31;
use stwo::core::circle::Coset;
use stwo::prover::poly::BitReversedOrder;
use stwo::prover::poly::twiddles::{TwiddleBuffer, TwiddleTree};

use crate::CudaBackend;
use crate::device::stream;
use crate::domain::coset_block;
use crate::failure::OrFail;
use crate::field::Twin;

/// The x-coordinates (or their inverses) of a tower of cosets in upstream's layout: those of half a coset, of half
/// its doubling and so on, in bit-reversed order, padded by one value to a power of two.
#[derive(Clone)]
pub struct Twiddles {
    /// The tower, on each device that uses it; none if it was omitted.
    whole: Vec<Arc<Buffer<Mersenne31>>>,
    /// Device k's block of each layer: the tower of its block of the coset. None on one device.
    blocks: Vec<Arc<Buffer<Mersenne31>>>,
}

impl Twiddles {
    fn new(tower: Buffer<Mersenne31>) -> Self {
        Self { whole: vec![Arc::new(tower)], blocks: Vec::new() }
    }

    /// The values on the first device; an error if they were omitted.
    pub(crate) fn tower(&self) -> Result<View<'_, Mersenne31>> {
        match self.whole.first() {
            Some(tower) => Ok(tower.view()),
            None => {
                Err(Error::shape("CudaBackend", "the twiddles that are needed here were omitted from the tree"))
            }
        }
    }

    /// The values on a device. If it has none, those of the first, which a kernel on another device refuses.
    pub(crate) fn tower_on(&self, device: &Device) -> Result<View<'_, Mersenne31>> {
        match self.whole.iter().find(|tower| tower.device().is(device)) {
            Some(tower) => Ok(tower.view()),
            None => self.tower(),
        }
    }

    /// The values of block `index` of the coset, if it is one of `blocks`.
    pub(crate) fn block(&self, index: usize, blocks: usize) -> Result<View<'_, Mersenne31>> {
        match self.blocks.get(index) {
            Some(tower) if self.blocks.len() == blocks => Ok(tower.view()),
            _ => Err(Error::shape(
                "rigel_stwo::over",
                format!(
                    "twiddles for {} devices, a layer on {blocks}; make them within the same scope",
                    self.blocks.len().max(1)
                ),
            )),
        }
    }
}

impl fmt::Debug for Twiddles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Twiddles({})", self.whole.first().map_or(0, |tower| tower.len()))
    }
}

impl TwiddleBuffer<BitReversedOrder> for Twiddles {
    fn empty() -> Self {
        Self { whole: Vec::new(), blocks: Vec::new() }
    }

    /// Copies the first values of each layer from the domain's on: in bit-reversed order the subdomain is a
    /// prefix.
    fn extract_subdomain_twiddles(&self, domain_log_size: u32, subdomain_log_size: u32) -> Self {
        let extract = |tower: View<'_, Mersenne31>| {
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
            let stream = stream(&tower.device());
            let mut extracted = stream.alloc(1 << part)?;
            let mut at = 0;
            for layer in 0..part {
                let start = (1 << whole) - (1usize << domain >> layer);
                let len = 1usize << (part - 1 - layer);
                stream.copy(extracted.range_mut(at..at + len)?, tower.range(start..start + len)?)?;
                at += len;
            }
            stream.copy(extracted.range_mut(at..)?, tower.range(tower.len() - 1..)?)?;
            Ok(Arc::new(extracted))
        };
        let extract_all = || {
            self.tower()?;
            self.whole.iter().map(|tower| extract(tower.view())).collect()
        };
        let whole: Result<Vec<_>> = extract_all();
        Self { whole: whole.or_fail("extract the twiddles of a subdomain"), blocks: Vec::new() }
    }
}

/// The most values of a tower that is kept, 16 MiB; larger ones belong to whoever asked for them.
const MOST_KEPT: usize = 1 << 22;

/// The twiddles of a coset and their inverses, which the device keeps for reuse: upstream asks for some again in every
/// proof.
struct Towers([Twiddles; 2]);

impl Towers {
    fn new(device: &Device, coset: Coset) -> Result<Self> {
        let (twiddles, inverses) = circle_domain::twiddles_and_inverses(&stream(device), coset.twin())?;
        Ok(Self([twiddles, inverses].map(Twiddles::new)))
    }

    fn tree(&self, coset: Coset) -> TwiddleTree<CudaBackend> {
        let [twiddles, itwiddles] = self.0.clone();
        TwiddleTree { root_coset: coset, twiddles, itwiddles }
    }
}

/// A coset: its first point, its step and the logarithm of its size.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key([usize; 2], u32);

/// The twiddles of a coset and their inverses.
pub(crate) fn of_coset(device: &Device, coset: Coset) -> Result<TwiddleTree<CudaBackend>> {
    if coset.size() > MOST_KEPT {
        return Ok(Towers::new(device, coset)?.tree(coset));
    }
    let key = Key([coset.initial_index.0, coset.step_size.0], coset.log_size);
    let towers = device
        .kept(&key, |device| Ok((Towers::new(device, coset)?, 2 * coset.size() * size_of::<Mersenne31>())))?;
    Ok(towers.tree(coset))
}

/// The twiddles of a coset and their inverses on several devices, with the inverses of each device's block.
pub(crate) fn over_devices(devices: &[Device], coset: Coset) -> Result<TwiddleTree<CudaBackend>> {
    let mut all = of_coset(&devices[0], coset)?;
    if devices.len() == 1 {
        return Ok(all);
    }
    for device in &devices[1..] {
        let there = of_coset(device, coset)?;
        all.twiddles.whole.extend(there.twiddles.whole);
        all.itwiddles.whole.extend(there.itwiddles.whole);
    }
    // The values of a coset of fewer points are never in blocks.
    if coset.size() >= 4 * devices.len() {
        for (k, device) in devices.iter().enumerate() {
            all.itwiddles.blocks.extend(of_coset(device, coset_block(coset, k, devices.len()))?.itwiddles.whole);
        }
    }
    Ok(all)
}
