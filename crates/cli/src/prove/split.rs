//! The devices of `rigel prove`: one, or with `--split` several that make the proof together.

use rigel_gpu::{Device, Emulation, Options, Selector};

use super::{Arguments, open as open_one};
use crate::Failure;
use crate::terminal::Refusal;

/// The requested devices, and whether the CPU may take their place. None is the CPU.
pub(super) fn open(arguments: &Arguments) -> Result<(Vec<Device>, bool), Failure> {
    match arguments.device.as_slice() {
        [] | [_] => {
            let selector = arguments.device.first().copied();
            let (device, may_fall_back) = open_one(arguments.cpu, selector, arguments.fallback)?;
            Ok((device.into_iter().collect(), may_fall_back))
        }
        several if arguments.split => Ok((open_several(several)?, arguments.fallback)),
        several => {
            let detail = format!("--device names {} devices, which make one proof with --split", several.len());
            Err(Refusal::Usage(detail).into())
        }
    }
}

/// The names of devices, for people.
pub(super) fn names(devices: &[Device]) -> String {
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Opens devices. There are as many emulated ones as the list names.
fn open_several(selectors: &[Selector]) -> Result<Vec<Device>, Failure> {
    let options = Options::from_env()?;
    let mut emulation = Emulation::from_env()?;
    let highest = |selector: &Selector| match selector {
        Selector::Emulated(number) => number.saturating_add(1),
        _ => 0,
    };
    emulation.devices = emulation.devices.max(selectors.iter().map(highest).max().unwrap_or(0));
    let emulated = Device::emulated(&emulation, &options)?;
    let open = |&selector: &Selector| match selector {
        Selector::Emulated(number) => Ok(emulated[number as usize].clone()),
        other => Device::open_with(other, options.clone()),
    };
    Ok(selectors.iter().map(open).collect::<rigel_gpu::Result<_>>()?)
}
