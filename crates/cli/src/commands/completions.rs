use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::console::write_bytes;
use crate::exit::Exit;

pub(crate) fn run(shell: clap_complete::Shell) -> Exit {
    // `generate` panics if its writer fails, so it does not write to stdout directly.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "shardwright", &mut script);
    write_bytes(&script);
    Exit::Done
}
