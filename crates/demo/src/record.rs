use std::fmt;
use std::str::FromStr;

use shardwright_contracts::FenceEpoch;

/// A stored counter, as text: `<value> <fence>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The value of the counter.
    pub value: i64,
    /// The fence of the last writer.
    pub fence: FenceEpoch,
}

/// Stored bytes that are not a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored value is not a counter")]
pub struct RecordError;

impl Record {
    /// Decodes stored bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        str::from_utf8(bytes).map_err(|_| RecordError)?.parse()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.fence.as_raw())
    }
}

impl FromStr for Record {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let (value, fence) = text.split_once(' ').ok_or(RecordError)?;
        let fence = fence.parse().map_err(|_| RecordError)?;
        Ok(Self {
            value: value.parse().map_err(|_| RecordError)?,
            fence: FenceEpoch::from_raw(fence).map_err(|_| RecordError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_text() {
        let record = Record { value: -7, fence: FenceEpoch::from_raw(3).unwrap() };
        assert_eq!(record.to_string(), "-7 3");
        assert_eq!(Record::decode(b"-7 3"), Ok(record));
        for bad in ["", "7", "7 ", " 3", "7 0", "x 3", "7 3 1", "9223372036854775808 1"] {
            assert_eq!(Record::decode(bad.as_bytes()), Err(RecordError), "{bad}");
        }
        assert_eq!(Record::decode(&[255]), Err(RecordError));
    }
}
