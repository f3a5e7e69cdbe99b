# Thin wrappers; whatever a recipe does is written in xtask or in the tool it calls.

# List the recipes.
default:
    @just --list

# Before a commit: formatting, tidy, lints, and the tests of the crates that changed.
check:
    cargo xtask check

# Every kind of check; what continuous integration runs first.
test:
    cargo xtask test

# The same kinds in larger quantity; `just prove 8` shares eight minutes out.
prove MINUTES="":
    cargo xtask prove {{ if MINUTES == "" { "" } else { "--minutes " + MINUTES } }}

# The rules that no compiler checks.
tidy:
    cargo xtask tidy

# Run the benches; `just bench router` runs those whose name contains the word.
bench *FILTER:
    cargo bench --workspace --locked -- {{FILTER}}

# Fuzz one target; needs a nightly compiler and cargo-fuzz. Without a target, list them.
fuzz TARGET="" SECONDS="60":
    {{ if TARGET == "" { "cargo +nightly fuzz list" } else { "cargo +nightly fuzz run " + TARGET + " -- -max_len=20000 -max_total_time=" + SECONDS } }}

# Change the code in small ways and see whether a test notices; needs cargo-mutants.
mutants *ARGUMENTS:
    cargo mutants --workspace {{ARGUMENTS}}

# Licences, sources and banned crates among the dependencies; needs cargo-deny.
deny:
    cargo xtask deny
