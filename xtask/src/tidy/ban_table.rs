//! What code in which crates may not name.
//!
//! A path here stands for itself and everything beneath it; `core` and `alloc` count as `std`. A
//! trailing `!` means the macro of that name, and a first word that ends in `*` stands for every
//! crate whose name begins so.

/// What one group of crates may not name.
pub(crate) struct Profile {
    crates: &'static [&'static str],
    /// The modules of such a crate, below its root, in which nothing is banned.
    except: &'static [&'static str],
    pub(crate) bans: &'static [Ban],
}

/// Some paths, and why they are banned or what to use instead.
pub(crate) struct Ban {
    pub(crate) paths: &'static [&'static str],
    pub(crate) when: When,
    pub(crate) why: &'static str,
}

/// Which use of a path is banned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Any mention, the import included.
    Named,
    /// A macro call whose body does not begin with `biased;`.
    CalledUnbiased,
}

/// The pure crates: a result there depends on the arguments and nothing else.
const PURE: Profile = Profile {
    crates: &["contracts", "frontier", "coordination", "placement"],
    except: &[],
    bans: &[
        Ban {
            paths: &["std::time::Instant", "std::time::SystemTime", "std::time::UNIX_EPOCH"],
            when: When::Named,
            why: "a pure crate has no clock; take the time as an argument",
        },
        Ban {
            paths: &["std::fs", "std::io", "std::net", "std::os", "std::env", "std::process"],
            when: When::Named,
            why: "a pure crate has no IO; take bytes as arguments and return what to do",
        },
        Ban {
            paths: &["rand", "rand_*", "getrandom", "fastrand"],
            when: When::Named,
            why: "a pure crate has no chance; take a seed or an id as an argument",
        },
        Ban {
            paths: &["std::thread", "std::thread_local!"],
            when: When::Named,
            why: "a pure crate starts no thread and knows of none",
        },
        Ban {
            paths: &[
                "std::print!",
                "std::println!",
                "std::eprint!",
                "std::eprintln!",
                "std::dbg!",
                "log",
                "tracing",
            ],
            when: When::Named,
            why: "a pure crate neither prints nor logs; return an event",
        },
        Ban {
            paths: &[
                "tokio",
                "tokio_*",
                "async_std",
                "smol",
                "pollster",
                "futures::executor",
                "futures_executor",
            ],
            when: When::Named,
            why: "a pure crate has no runtime; what needs one lives in the engine",
        },
        RANDOM_ORDER,
    ],
};

/// The crates that the simulator runs: all they do must be replayable.
const SIMULATED: Profile = Profile {
    crates: &["engine", "worker", "node"],
    // The adapters to the real runtime. The simulator replaces them. Connectors, sinks and program
    // handlers have crates of their own and no profile.
    except: &["world"],
    bans: &[
        Ban {
            paths: &["tokio::time", "std::time::Instant::now", "std::time::SystemTime::now"],
            when: When::Named,
            why: "a simulated run has a virtual clock; read time and sleep through Env",
        },
        Ban {
            paths: &[
                "tokio::spawn",
                "tokio::task",
                "tokio::runtime",
                "tokio::main",
                "std::thread",
                "std::thread_local!",
            ],
            when: When::Named,
            why: "a simulated run has one seeded executor; spawn through Env",
        },
        Ban {
            paths: &[
                "tokio::net",
                "tokio::fs",
                "tokio::process",
                "tokio::signal",
                "std::fs",
                "std::net",
                "std::process",
            ],
            when: When::Named,
            why: "a simulated run has no machine around it; go through Transport or Env",
        },
        Ban {
            paths: &["rand::rng", "rand::thread_rng", "rand::random", "getrandom", "fastrand"],
            when: When::Named,
            why: "a simulated run has one seed; draw chance from Env",
        },
        Ban {
            paths: &["tokio::select!", "futures::select!"],
            when: When::CalledUnbiased,
            why: "which ready branch wins is random; begin the body with `biased;`",
        },
        RANDOM_ORDER,
    ],
};

const RANDOM_ORDER: Ban = Ban {
    paths: &[
        "std::collections::HashMap",
        "std::collections::HashSet",
        "std::collections::hash_map",
        "std::collections::hash_set",
        "std::hash::RandomState",
        "std::hash::DefaultHasher",
    ],
    when: When::Named,
    why: "its order or its hash differs from run to run; use BTreeMap, BTreeSet or BLAKE3",
};

/// The profile of a crate, by its short name, if any calls are banned there.
pub(crate) fn profile(short_name: &str) -> Option<&'static Profile> {
    [&PURE, &SIMULATED].into_iter().find(|profile| profile.crates.contains(&short_name))
}

/// Whether a crate, by its short name, is one of the pure ones.
pub(crate) fn is_pure(short_name: &str) -> bool {
    PURE.crates.contains(&short_name)
}

impl Profile {
    /// Whether nothing is banned in a module, given by its path from `crate` on.
    pub(crate) fn exempts(&self, module: &[String]) -> bool {
        module.get(1).is_some_and(|name| self.except.contains(&name.as_str()))
    }
}

impl Ban {
    /// The banned path that `path` is or lies beneath.
    pub(crate) fn covers(&self, path: &[String]) -> Option<&'static str> {
        self.paths.iter().copied().find(|banned| is_beneath(banned, path))
    }

    /// A banned path that lies beneath `path`, which is itself not banned.
    pub(crate) fn lies_beneath(&self, path: &[String]) -> Option<&'static str> {
        self.paths.iter().copied().find(|banned| {
            let segments: Vec<&str> = banned.split("::").collect();
            path.len() < segments.len()
                && path.iter().zip(&segments).all(|(name, banned)| name == banned)
        })
    }
}

fn is_beneath(banned: &str, path: &[String]) -> bool {
    let mut names = path.iter();
    banned.split("::").all(|segment| {
        names.next().is_some_and(|name| match segment.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == segment,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::").map(str::to_owned).collect()
    }

    fn covered(profile: &Profile, text: &str) -> bool {
        profile.bans.iter().any(|ban| ban.covers(&path(text)).is_some())
    }

    #[test]
    fn a_ban_covers_the_path_and_what_is_beneath_it() {
        assert!(covered(&PURE, "std::fs"));
        assert!(covered(&PURE, "std::fs::File::open"));
        assert!(covered(&PURE, "rand_chacha::ChaCha8Rng"));
        assert!(covered(&SIMULATED, "std::time::Instant::now"));
    }

    #[test]
    fn only_the_modules_that_are_the_world_may_name_everything() {
        assert!(SIMULATED.exempts(&path("crate::world")));
        assert!(SIMULATED.exempts(&path("crate::world::tokio_env")));
        assert!(!SIMULATED.exempts(&path("crate")) && !SIMULATED.exempts(&path("crate::view")));
        assert!(!SIMULATED.exempts(&path("crate::view::world")));
        assert!(!PURE.exempts(&path("crate::world")));
    }

    #[test]
    fn neighbours_of_a_banned_path_are_free() {
        assert!(!covered(&PURE, "std::time::Duration"));
        assert!(!covered(&PURE, "std::fmt"));
        assert!(!covered(&PURE, "std::env!"), "the compile-time macro is not the module");
        assert!(!covered(&PURE, "randomness::x"));
        assert!(!covered(&SIMULATED, "std::time::Instant"));
        assert!(!covered(&SIMULATED, "tokio::sync::Mutex"));
    }

    #[test]
    fn a_parent_of_a_banned_path_is_recognized() {
        let clock = &PURE.bans[0];
        assert!(clock.lies_beneath(&path("std::time")).is_some());
        assert!(clock.lies_beneath(&path("std::time::Instant")).is_none());
        assert!(clock.lies_beneath(&path("std::fmt")).is_none());
    }

    #[test]
    fn every_crate_has_at_most_one_profile() {
        assert!(PURE.crates.iter().all(|name| !SIMULATED.crates.contains(name)));
        assert!(is_pure("frontier") && !is_pure("engine"));
        assert!(profile("engine").is_some() && profile("server").is_none());
    }
}
