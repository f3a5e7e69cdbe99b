use clap::CommandFactory as _;

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::say::write_bytes;

pub(crate) fn run(shell: clap_complete::Shell) -> Exit {
    // Not to the output itself: whoever closes that early would cause a panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "shardwright", &mut script);
    write_bytes(&script);
    Exit::Done
}
