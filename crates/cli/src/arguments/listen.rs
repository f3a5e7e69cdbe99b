//! The limits of nodes and gates that listen.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use shardwright_node::limits::{HeldLimits, ListenLimits};

/// Limits of what other processes may send. A peer address is an IPv4 address or an IPv6 network of
/// 64 bits.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network options")]
pub(crate) struct ListenArguments {
    /// Listen on addresses that other machines reach, although there is no TLS.
    #[arg(long)]
    pub(crate) allow_insecure: bool,
    /// Accept at most N connections [default: 16384, or what the limit of open files leaves].
    #[arg(long, value_name = "N", value_parser = count())]
    connections: Option<u64>,
    /// Accept at most N connections per peer address [default: 256].
    #[arg(long, value_name = "N", value_parser = count())]
    connections_per_address: Option<u64>,
    /// Run at most N calls of one gRPC connection at a time [default: 1024; 65536 for a node].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    streams: Option<u32>,
    /// Keep at most BYTES of requests and unsent answers [default: 256 MiB; 1 GiB for a node].
    #[arg(long, value_name = "BYTES", value_parser = count())]
    bytes_in_flight: Option<u64>,
    /// Keep at most BYTES of requests and unsent answers per peer address [default: 64 MiB; for a
    /// node, half of all].
    #[arg(long, value_name = "BYTES", value_parser = count())]
    bytes_per_address: Option<u64>,
    /// Hold at most N calls until their shard has an owner [default: 10000].
    #[arg(long, value_name = "N", value_parser = count())]
    held_calls: Option<u64>,
    /// Hold at most N calls per peer address [default: 2500; for a node, half of all].
    #[arg(long, value_name = "N", value_parser = count())]
    held_calls_per_address: Option<u64>,
    /// Hold at most BYTES of calls [default: 256 MiB].
    #[arg(long, value_name = "BYTES", value_parser = count())]
    held_bytes: Option<u64>,
    /// Hold at most BYTES of calls per peer address [default: 64 MiB; for a node, half of all].
    #[arg(long, value_name = "BYTES", value_parser = count())]
    held_bytes_per_address: Option<u64>,
    /// Close a gRPC connection that sends no HTTP/2 preface within MS milliseconds.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().handshake_timeout))]
    #[arg(value_parser = timeout())]
    handshake_timeout_ms: u64,
    /// Close an HTTP connection with incomplete headers MS milliseconds after their first byte. The
    /// first request counts from the start of the connection.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().header_timeout))]
    #[arg(value_parser = timeout())]
    header_timeout_ms: u64,
    /// Refuse a request whose body is incomplete after MS milliseconds.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().body_timeout))]
    #[arg(value_parser = timeout())]
    body_timeout_ms: u64,
    /// Close a connection whose peer does not accept the next 16 KiB of an answer within MS
    /// milliseconds, or a little later.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().answer_timeout))]
    #[arg(value_parser = timeout())]
    answer_timeout_ms: u64,
    /// Close a connection without calls after MS milliseconds.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().idle_timeout))]
    #[arg(value_parser = timeout())]
    idle_timeout_ms: u64,
    /// Ping a gRPC connection every MS milliseconds, and close it without a reply in that time.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().ping_timeout))]
    #[arg(value_parser = timeout())]
    ping_timeout_ms: u64,
    /// After the signal to exit, wait MS milliseconds for incomplete requests.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().half_open_timeout))]
    #[arg(value_parser = timeout())]
    half_open_timeout_ms: u64,
    /// After the signal to exit, wait MS milliseconds for running calls.
    #[arg(long, value_name = "MS", default_value_t = ms(limits().shutdown_timeout))]
    #[arg(value_parser = timeout())]
    shutdown_timeout_ms: u64,
}

impl ListenArguments {
    /// The limits of listeners.
    pub(crate) fn limits(&self, default: ListenLimits) -> ListenLimits {
        let mut limits = ListenLimits {
            streams_max: self.streams.unwrap_or(default.streams_max),
            handshake_timeout: Duration::from_millis(self.handshake_timeout_ms),
            header_timeout: Duration::from_millis(self.header_timeout_ms),
            body_timeout: Duration::from_millis(self.body_timeout_ms),
            answer_timeout: Duration::from_millis(self.answer_timeout_ms),
            idle_timeout: Duration::from_millis(self.idle_timeout_ms),
            ping_timeout: Duration::from_millis(self.ping_timeout_ms),
            half_open_timeout: Duration::from_millis(self.half_open_timeout_ms),
            shutdown_timeout: Duration::from_millis(self.shutdown_timeout_ms),
            ..default
        };
        for (chosen, limit) in [
            (self.connections, &mut limits.connections.all),
            (self.connections_per_address, &mut limits.connections.peer),
            (self.bytes_in_flight, &mut limits.bytes.all),
            (self.bytes_per_address, &mut limits.bytes.peer),
        ] {
            *limit = chosen.unwrap_or(*limit);
        }
        limits
    }

    /// The limits of held calls.
    pub(crate) fn held(&self, mut limits: HeldLimits) -> HeldLimits {
        for (chosen, limit) in [
            (self.held_calls, &mut limits.calls.all),
            (self.held_calls_per_address, &mut limits.calls.peer),
            (self.held_bytes, &mut limits.bytes.all),
            (self.held_bytes_per_address, &mut limits.bytes.peer),
        ] {
            *limit = chosen.unwrap_or(*limit);
        }
        limits
    }

    /// Whether the limit of open files lowers the number of connections far below what was chosen.
    pub(crate) fn is_short_of_files(&self, connections: u64) -> bool {
        const FEW: u64 = 64;
        connections < self.connections.unwrap_or(FEW)
    }
}

const fn limits() -> ListenLimits {
    ListenLimits::GATE
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn count() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

fn timeout() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=86_400_000)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use shardwright_api::LimitOption;

    use super::*;

    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Parsed {
        #[command(flatten)]
        listen: ListenArguments,
    }

    fn parsed(arguments: &[&str]) -> ListenArguments {
        Parsed::try_parse_from(arguments).unwrap().listen
    }

    #[test]
    fn default_limits_are_those_of_the_library() {
        for default in [ListenLimits::GATE, ListenLimits::NODE] {
            assert_eq!(parsed(&[]).limits(default), default);
        }
        for default in [HeldLimits::GATE, HeldLimits::NODE] {
            assert_eq!(parsed(&[]).held(default), default);
        }
    }

    #[test]
    fn every_limit_can_be_set() {
        let flags = "--connections 1 --connections-per-address 2 --streams 3 --bytes-in-flight 4 \
                     --bytes-per-address 5 --held-calls 6 --held-calls-per-address 7 \
                     --held-bytes 8 --held-bytes-per-address 9 --handshake-timeout-ms 10 \
                     --header-timeout-ms 11 --body-timeout-ms 12 --answer-timeout-ms 13 \
                     --idle-timeout-ms 14 --ping-timeout-ms 15 --half-open-timeout-ms 16 \
                     --shutdown-timeout-ms 17";
        let parsed = parsed(&flags.split_whitespace().collect::<Vec<_>>());
        let limits = parsed.limits(ListenLimits::GATE);
        let held = parsed.held(HeldLimits::GATE);
        let shares = [limits.connections, limits.bytes, held.calls, held.bytes];
        assert_eq!(shares.map(|share| share.all), [1, 4, 6, 8]);
        assert_eq!(shares.map(|share| share.peer), [2, 5, 7, 9]);
        let timeouts = [
            limits.handshake_timeout,
            limits.header_timeout,
            limits.body_timeout,
            limits.answer_timeout,
            limits.idle_timeout,
            limits.ping_timeout,
            limits.half_open_timeout,
            limits.shutdown_timeout,
        ];
        assert_eq!(timeouts.map(ms), [10, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(limits.streams_max, 3);
    }

    #[test]
    fn every_limit_that_an_error_names_has_its_option() {
        use clap::CommandFactory as _;

        let command = Parsed::command();
        let flags: Vec<_> = command.get_arguments().filter_map(|one| one.get_long()).collect();
        for option in LimitOption::ALL {
            let flag = option.name().strip_prefix("--");
            assert!(flag.is_none_or(|flag| flags.contains(&flag)), "{option:?}");
        }
    }

    #[test]
    fn only_a_really_low_limit_of_open_files_is_reported() {
        assert!(!parsed(&[]).is_short_of_files(16_384));
        assert!(!parsed(&[]).is_short_of_files(896));
        assert!(parsed(&[]).is_short_of_files(32));
        assert!(parsed(&["--connections", "900"]).is_short_of_files(896));
    }
}
