use shardwright_worker::extent::{TokenEnvelope, TokenEnvelopeError};

/// Bytes of an envelope before its extents, and of an extent.
const HEAD: usize = 37;
const EXTENT: usize = 64;

/// Decoding never panics, accepts exactly what encoding writes, and allocates no more than the
/// token has bytes.
pub(crate) fn envelope(data: &[u8]) {
    match TokenEnvelope::decode(Some(data)) {
        Ok(envelope) => {
            assert_eq!(envelope.encode(), data);
            let expected = HEAD + envelope.extents.len() * EXTENT + envelope.connector.len();
            assert_eq!(data.len(), expected);
        }
        Err(TokenEnvelopeError::Version { found }) => assert_eq!(data.first(), Some(&found)),
        Err(TokenEnvelopeError::Damaged) => {}
    }
}
