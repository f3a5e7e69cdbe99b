//! Messages under way.

use shardwright_contracts::TenantId;

use crate::keyspace::Point;
use crate::request::Request;
use crate::rng::Rng;
use crate::system::Outcome;

/// Who sends requests and gets replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A worker of a tenant, in one of its lives.
    Worker {
        /// The tenant's index.
        tenant: usize,
        /// The worker's index in the tenant.
        worker: usize,
        /// Which of its lives; a crash begins the next.
        life: u32,
    },
    /// A tenant's operator.
    Operator {
        /// The tenant's index.
        tenant: usize,
    },
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Tells messages apart; a retry is a new message.
    pub id: u64,
    /// Who sent it.
    pub from: Actor,
    /// In whose name.
    pub tenant: TenantId,
    /// What it asks.
    pub request: Request,
    /// The points that the sender has really processed under its lease.
    pub processed: Option<(Point, Point)>,
}

/// What is under way.
#[derive(Clone, Debug)]
pub enum Message {
    /// To the system.
    Request(Envelope),
    /// From the system.
    Reply(Envelope, Box<Outcome>),
}

struct Flight {
    due: u64,
    message: Message,
}

/// Messages that were delayed, in the order in which they were sent.
#[derive(Default)]
pub struct Network {
    flights: Vec<Flight>,
}

impl Network {
    /// Lets a message arrive no earlier than `due`.
    pub fn delay(&mut self, due: u64, message: Message) {
        self.flights.push(Flight { due, message });
    }

    /// A message that is due, and whether it overtakes an earlier one.
    pub fn take_due(&mut self, now: u64, rng: &mut Rng) -> Option<(Message, bool)> {
        let due: Vec<usize> = (0..self.flights.len())
            .filter(|index| self.flights.get(*index).is_some_and(|flight| flight.due <= now))
            .collect();
        let index = *rng.pick(&due)?;
        Some((self.flights.remove(index).message, index > 0))
    }

    /// The message that was sent first, due or not.
    pub fn take_first(&mut self) -> Option<Message> {
        (!self.flights.is_empty()).then(|| self.flights.remove(0).message)
    }
}
