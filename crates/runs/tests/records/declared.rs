//! Other crates can declare records, also with fields of foreign types.

use std::time::Duration;

use shardwright_engine::codec::{CanonicalSink, DecodeError, DecodeProblem, Field, Reader, Record};
use shardwright_engine::{fields, record};

/// A protocol of this crate.
enum Protocol {}

impl Field<Protocol> for Duration {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u64(self.as_millis() as u64);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        reader.u64().map(Self::from_millis)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    opens: Duration,
    closes: Option<Duration>,
}

fields! { Protocol:
    Window { closes: Option<Duration>, opens: Duration }
}

record! { Protocol:
    /// A record of this crate, under an existing kind.
    #[derive(Copy)]
    Schedule: RecordKind::Format {
        /// A composite field.
        window: Window,
        /// A field that `Debug` omits.
        secret: u32,
    } shows(window)
}

#[test]
fn another_crate_can_declare_a_record() {
    let window = Window { opens: Duration::from_millis(258), closes: None };
    let schedule = Schedule { window, secret: 7 };
    let value = schedule.encode();
    assert_eq!(value[..], [15, 1, 0, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(Schedule::decode(&value), Ok(schedule));
    assert_eq!(format!("{schedule:?}"), format!("Schedule {{ window: {window:?}, .. }}"));

    let error = Schedule::decode(&[15, 1, 2]).unwrap_err();
    let problem = DecodeProblem::UnknownByte { what: "closes", byte: 2 };
    assert_eq!((error.problem.to_string().as_str(), error.offset), ("field closes cannot be 2", 2));
    assert_eq!(error.problem, problem);
}
