//! Connectors, which read sources, and sinks, which store results.
//!
//! | connector | key | item |
//! |---|---|---|
//! | [`TreeConnector`] | path below the root, as raw bytes | a regular file |
//! | [`LineConnector`] | the row's number, as a [manifest row key] | a line or other row |
//! | `ObjectConnector` (feature `objects`) | path below the prefix | an object |
//!
//! | sink | segments are |
//! |---|---|
//! | [`FolderSink`] | files of a folder |
//! | `ObjectSink` (feature `objects`) | objects below a prefix |
//!
//! [manifest row key]: shardwright_frontier::ManifestRowKey
//!
//! Connectors and sinks read files and call servers. Blocking calls run on the runtime's blocking
//! pool.
#![forbid(unsafe_code)]

mod files;
mod filter;
mod io;
mod lines;
#[cfg(feature = "objects")]
mod objects;
mod remainder;
mod sink;
mod split;
mod tree;
mod url;
mod walk_cache;

pub use files::{
    PlainName, RESULT_MODE, SECRET_MODE, open_folder, open_regular, open_regular_with,
    remove_files, sync_folder,
};
pub use io::io_error;
pub use lines::{LineConnector, LineOptions, Separator, spool};
#[cfg(feature = "objects")]
pub use objects::{ListingOrder, ObjectConnector};
pub use sink::{FileSegment, FolderSink, is_segment_name};
#[cfg(feature = "objects")]
pub use sink::{ObjectSegment, ObjectSink};
pub use tree::{GivenPath, TreeConnector, TreeOptions};
pub use url::{ObjectUrl, percent_decoded, without_credentials};
