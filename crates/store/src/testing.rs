//! Real servers for tests, that can be killed, paused, cut off and filled up.
//!
//! Everything listens on loopback only, in ports that are free, keeps its files in a folder of its
//! own, and is gone when it is dropped.

mod etcd_cluster;
mod etcd_operator;
mod peers;
mod ports;
mod proxy;

pub use etcd_cluster::{EtcdCluster, EtcdSetup};
pub use etcd_operator::{EtcdOperator, EtcdStatus};
pub use proxy::{Link, Proxy};
