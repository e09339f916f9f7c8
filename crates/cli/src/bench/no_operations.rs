//! The commands `rigel bench primitives` and `array` in a build that does not have them.

use crate::Failure;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<String>,
}

/// The subject of a report.
#[derive(Clone, Copy)]
pub enum Family {
    Primitives,
    Array,
}

/// Says how to build the command.
pub fn run(_: &Arguments, family: Family, _: bool) -> Result<bool, Failure> {
    let command = match family {
        Family::Primitives => "rigel bench primitives",
        Family::Array => "rigel bench array",
    };
    Err(format!("this build of the command line does not have `{command}`; build it with `--features full`")
        .into())
}
