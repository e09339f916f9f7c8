//! The devices of `rigel prove`: one, or several that make one proof together or many in turn.

use rigel_gpu::{Device, Error, Selectors};

use super::{Arguments, open as open_one};
use crate::Failure;
use crate::terminal::Refusal;

/// The requested devices, and whether the CPU may take their place. None is the CPU.
pub(super) fn open(arguments: &Arguments) -> Result<(Vec<Device>, bool), Failure> {
    // A list in the environment is for commands that share their work out anyway.
    let selectors = match &arguments.device {
        None if arguments.count.is_some() && !arguments.cpu => Some(Selectors::from_env()?),
        given => given.clone(),
    };
    match selectors.map(|selectors| (selectors.single(), selectors)) {
        Some((None, several)) if arguments.split || arguments.count.is_some() => match several.open() {
            Err(error @ (Error::Unavailable { .. } | Error::NoSuchDevice { .. })) if arguments.fallback => {
                eprintln!("note: {error}\nnote: proving on the CPU instead, with upstream's prover");
                Ok((Vec::new(), true))
            }
            opened => Ok((opened?, arguments.fallback)),
        },
        Some((None, several)) => {
            let detail = format!(
                "--device {several} names several devices: they make one proof together with --split, and many in \
                 turn with --count"
            );
            Err(Refusal::Usage(detail).into())
        }
        single => {
            let selector = single.and_then(|(selector, _)| selector);
            let (device, may_fall_back) = open_one(arguments.cpu, selector, arguments.fallback)?;
            Ok((device.into_iter().collect(), may_fall_back))
        }
    }
}

/// The names of devices, for people.
pub(super) fn names(devices: &[Device]) -> String {
    devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
