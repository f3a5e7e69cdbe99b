//! Object stores, or an empty type without the feature `objects`.
//!
//! A program without the feature may find a run that uses an object store. Opening the store fails
//! then. All other code is the same, because the empty type has the same methods.

#[cfg(not(feature = "objects"))]
pub(crate) use self::absent::{ObjectConnector, ObjectSegment, ObjectSink};
#[cfg(feature = "objects")]
pub(crate) use shardwright_connectors::{ObjectConnector, ObjectSegment, ObjectSink};

#[cfg(not(feature = "objects"))]
mod absent {
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::time::SystemTime;

    use shardwright_connectors::ObjectUrl;
    use shardwright_contracts::{FenceEpoch, RunId, ShardKey};
    use shardwright_worker::connector::{
        Connector, ConnectorError, KeyRange, Page, PageLimit, Position,
    };
    use shardwright_worker::extent::Extent;
    use shardwright_worker::sink::{Segment, Sink, SinkError};

    /// The object store of a build without the feature.
    #[derive(Clone, Copy, Debug)]
    pub enum NoObjects {}

    pub(crate) type ObjectConnector = NoObjects;
    pub(crate) type ObjectSegment = NoObjects;
    pub(crate) type ObjectSink = NoObjects;

    impl NoObjects {
        pub async fn open(url: impl Into<ObjectUrl>) -> Result<Self, ConnectorError> {
            let reason = "this program was built without object stores".to_owned();
            Err(ConnectorError::BadUrl { url: url.into().to_string(), reason })
        }

        pub fn with_globs(self, _: &[String], _: &[String]) -> Result<Self, ConnectorError> {
            match self {}
        }

        pub fn url_of(&self, _: &str) -> String {
            match *self {}
        }

        pub async fn get(&self, _: &str) -> Result<Option<Vec<u8>>, SinkError> {
            match *self {}
        }

        pub async fn get_file(&self, _: &str, _: &Path) -> Result<(), SinkError> {
            match *self {}
        }

        pub async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), SinkError> {
            match *self {}
        }

        pub async fn put_file(&self, _: &str, _: &mut File) -> Result<(), SinkError> {
            match *self {}
        }

        pub async fn names(&self, _: &str) -> Result<Vec<String>, SinkError> {
            match *self {}
        }

        pub async fn modified_at(&self, _: &str) -> Result<Option<SystemTime>, SinkError> {
            match *self {}
        }

        pub async fn delete_folder(&self, _: &str, _: fn(&str) -> bool) -> Result<u64, SinkError> {
            match *self {}
        }
    }

    impl Connector for NoObjects {
        async fn page(
            &self,
            _: &KeyRange,
            _: &Position,
            _: PageLimit,
        ) -> Result<Page, ConnectorError> {
            match *self {}
        }

        async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
            match *self {}
        }
    }

    impl Sink for NoObjects {
        type Segment = Self;

        async fn begin(&self, _: ShardKey, _: FenceEpoch) -> Result<Self, SinkError> {
            match *self {}
        }

        async fn read(
            &self,
            _: RunId,
            _: Extent,
            _: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
        ) -> Result<(), SinkError> {
            match *self {}
        }

        async fn discard(&self, _: RunId) -> Result<(), SinkError> {
            match *self {}
        }
    }

    impl Segment for NoObjects {
        fn append(&mut self, _: &[u8]) -> Result<(), SinkError> {
            match *self {}
        }

        fn append_copied(&mut self, _: &[u8], _: u64) -> Result<(), SinkError> {
            match *self {}
        }

        async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
            match *self {}
        }
    }
}
