# Thin wrappers around xtask and other tools.

# List the recipes.
default:
    @just --list

# Check a change before a commit: formatting, tidy, lints, and the tests of changed crates.
check:
    cargo xtask check

# Run every kind of check, as CI does first.
test:
    cargo xtask test

# Run the same checks in larger quantity. `just prove 8` shares eight minutes among them.
prove MINUTES="":
    cargo xtask prove {{ if MINUTES == "" { "" } else { "--minutes " + MINUTES } }}

# Check what no compiler does.
tidy:
    cargo xtask tidy

# Run the benches. `just bench router` runs those whose name contains the word.
bench *FILTER:
    cargo bench --workspace --locked -- {{FILTER}}

# Fuzz one target, or list all.
fuzz TARGET="" SECONDS="60":
    {{ if TARGET == "" { "ls fuzz/fuzz_targets" } else { "cargo run --config fuzz/coverage.toml --manifest-path fuzz/Cargo.toml --release --bin " + TARGET + " -- -max_len=20000 -max_total_time=" + SECONDS } }}

# Check that tests catch small changes of the code. Needs cargo-mutants.
mutants *ARGUMENTS:
    cargo mutants --workspace {{ARGUMENTS}}

# Check licences, sources and banned crates of the dependencies. Needs cargo-deny.
deny:
    cargo xtask deny
