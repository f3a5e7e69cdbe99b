//! Messages between a worker and a guard, over a pair of connected sockets.
//!
//! Both ends are the same binary, so the format has no version. A request is a length and a body,
//! with descriptors beside its first byte. A reply has a fixed size.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// Most descriptors of a program.
const DESCRIPTORS: usize = 8;
const LENGTH_BYTES: usize = 4;
const REPLY_BYTES: usize = 5;
const CHUNK_BYTES: usize = 64 * 1_024;
/// The body of a request to terminate. A launch begins with the number of its descriptors.
const TERMINATE: &[u8] = &[u8::MAX];

/// A program to start.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Variables that are set beside those of the worker.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Descriptors by their numbers in the program. Without a 0, stdin is empty.
    pub(crate) descriptors: Vec<(u8, OwnedFd)>,
}

/// A message of a worker.
#[derive(Debug)]
pub(super) enum Request {
    Start(Received),
    /// Kill everything that is left of earlier programs.
    Clear,
    /// Send SIGTERM to everything, and reply when it has ended.
    Terminate,
}

/// A program to start, as a guard reads it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) descriptors: Vec<(u8, OwnedFd)>,
}

/// A message of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Started,
    /// With the error number of the system.
    NotStarted(i32),
    /// With the wait status.
    Exited(i32),
    Cleared,
    /// All processes have ended after SIGTERM.
    Gone,
}

impl Launch {
    /// The body of the request. Strings end with NUL, which an argument cannot contain.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let counts = (u8::try_from(self.descriptors.len()), u8::try_from(self.variables.len()));
        let (Ok(descriptors), Ok(variables)) = counts else { return Err(invalid()) };
        let mut body = vec![descriptors];
        body.extend(self.descriptors.iter().map(|(number, _)| *number));
        body.push(variables);
        let mut push = |parts: &[&[u8]]| {
            if parts.iter().any(|part| part.contains(&0)) {
                return Err(invalid());
            }
            parts.iter().for_each(|part| body.extend_from_slice(part));
            body.push(0);
            Ok(())
        };
        for (name, value) in &self.variables {
            push(&[name.as_bytes(), b"=", value.as_bytes()])?;
        }
        push(&[self.program.as_bytes()])?;
        self.arguments.iter().try_for_each(|argument| push(&[argument.as_bytes()]))?;
        Ok(body)
    }
}

/// An argument that no program can get.
fn invalid() -> io::Error {
    rustix::io::Errno::INVAL.into()
}

/// Sends a program to start.
pub(super) async fn send_launch(link: &mut UnixStream, launch: Launch) -> io::Result<()> {
    let body = launch.encode()?;
    let length = u32::try_from(body.len()).map_err(|_| invalid())?;
    let frame = [&length.to_le_bytes()[..], &body].concat();
    let descriptors: Vec<BorrowedFd<'_>> =
        launch.descriptors.iter().map(|(_, descriptor)| descriptor.as_fd()).collect();
    let sent = link.async_io(Interest::WRITABLE, || send_with(link, &frame, &descriptors)).await?;
    link.write_all(frame.get(sent..).unwrap_or_default()).await
}

fn send_with(link: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(invalid());
    }
    Ok(sendmsg(link, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Requests the end of everything that earlier programs left.
pub(super) async fn send_clear(link: &mut UnixStream) -> io::Result<()> {
    link.write_all(&0_u32.to_le_bytes()).await
}

/// Requests that everything gets SIGTERM.
pub(super) async fn send_terminate(link: &mut UnixStream) -> io::Result<()> {
    let length = u32::try_from(TERMINATE.len()).map_err(|_| invalid())?;
    link.write_all(&[&length.to_le_bytes(), TERMINATE].concat()).await
}

/// Requests that were received in part.
#[derive(Default)]
pub(super) struct Requests {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    chunk: Vec<u8>,
}

impl Requests {
    /// The next request. None at the end of the worker. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, link: &UnixStream) -> io::Result<Option<Request>> {
        loop {
            if let Some(request) = self.take() {
                return request.map(Some);
            }
            if link.async_io(Interest::READABLE, || self.receive(link)).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn receive(&mut self, link: &UnixStream) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        self.chunk.resize(CHUNK_BYTES, 0);
        let chunk = &mut [IoSliceMut::new(&mut self.chunk)];
        let received = recvmsg(link, chunk, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                self.descriptors.extend(passed);
            }
        }
        self.bytes.extend_from_slice(self.chunk.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes)
    }

    fn take(&mut self) -> Option<io::Result<Request>> {
        let (length, rest) = self.bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let body = rest.get(..length)?;
        let request = match body {
            [] => Some(Request::Clear),
            TERMINATE => Some(Request::Terminate),
            launch => decode(launch, &mut self.descriptors).map(Request::Start),
        };
        self.bytes.drain(..LENGTH_BYTES + length);
        Some(request.ok_or_else(invalid))
    }
}

fn decode(body: &[u8], received: &mut Vec<OwnedFd>) -> Option<Received> {
    let (count, rest) = body.split_first()?;
    let (numbers, rest) = rest.split_at_checked(usize::from(*count))?;
    if received.len() < numbers.len() {
        return None;
    }
    let descriptors = numbers.iter().copied().zip(received.drain(..numbers.len())).collect();
    let (variables, rest) = rest.split_first()?;
    let mut strings = rest.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let variables = strings.by_ref().take(usize::from(*variables)).map(|text| {
        let at = text.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (text.get(..at)?, text.get(at + 1..)?);
        Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
    });
    let variables = variables.collect::<Option<Vec<_>>>()?;
    let mut strings = strings.map(|text| OsString::from_vec(text.to_vec()));
    Some(Received {
        program: strings.next()?,
        arguments: strings.collect(),
        variables,
        descriptors,
    })
}

impl Reply {
    pub(super) async fn send(self, link: &mut UnixStream) -> io::Result<()> {
        let (tag, value) = match self {
            Self::Started => (0, 0),
            Self::NotStarted(errno) => (1, errno),
            Self::Exited(status) => (2, status),
            Self::Cleared => (3, 0_i32),
            Self::Gone => (4, 0),
        };
        let [a, b, c, d] = value.to_le_bytes();
        link.write_all(&[tag, a, b, c, d]).await
    }

    /// Receives a reply. Dropping the future loses nothing: the beginning is kept in `buffer`.
    pub(super) async fn receive(link: &mut UnixStream, buffer: &mut Vec<u8>) -> io::Result<Self> {
        while buffer.len() < REPLY_BYTES {
            if link.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let reply = match buffer.as_slice() {
            [0, ..] => Self::Started,
            [1, a, b, c, d, ..] => Self::NotStarted(i32::from_le_bytes([*a, *b, *c, *d])),
            [2, a, b, c, d, ..] => Self::Exited(i32::from_le_bytes([*a, *b, *c, *d])),
            [3, ..] => Self::Cleared,
            [4, ..] => Self::Gone,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        buffer.drain(..REPLY_BYTES);
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[tokio::test]
    async fn a_launch_arrives_byte_for_byte_with_its_descriptors() {
        let (mut worker, guard) = UnixStream::pair().unwrap();
        let (file, argument) = (File::open("/dev/null").unwrap(), vec![b'x'; 500_000]);
        let launch = Launch {
            program: "tool".into(),
            arguments: vec![
                "".into(),
                OsString::from_vec(b"a\xff=".to_vec()),
                OsString::from_vec(argument),
            ],
            variables: vec![("NAME", "a=b".into()), ("EMPTY", "".into())],
            descriptors: vec![(3, file.try_clone().unwrap().into()), (1, file.into())],
        };
        let arguments = launch.arguments.clone();
        let mut requests = Requests::default();
        let (sent, received) =
            tokio::join!(send_launch(&mut worker, launch), requests.next(&guard));
        sent.unwrap();
        let Some(Request::Start(received)) = received.unwrap() else { panic!("no launch") };
        assert_eq!((received.program, received.arguments), ("tool".into(), arguments));
        let expected =
            [("NAME", "a=b"), ("EMPTY", "")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(received.variables, expected);
        let numbers: Vec<u8> = received.descriptors.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [3, 1]);
        send_terminate(&mut worker).await.unwrap();
        assert!(matches!(requests.next(&guard).await.unwrap(), Some(Request::Terminate)));
        send_clear(&mut worker).await.unwrap();
        drop(worker);
        assert!(matches!(requests.next(&guard).await.unwrap(), Some(Request::Clear)));
        assert!(requests.next(&guard).await.unwrap().is_none());
    }

    #[test]
    fn a_string_with_nul_is_an_invalid_argument() {
        let launch = Launch { arguments: vec!["a\0b".into()], ..Launch::default() };
        assert_eq!(launch.encode().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn no_body_makes_the_decoder_panic() {
        for body in [&[][..], &[1], &[0], &[0, 1], &[0, 1, b'x', 0], &[0, 0], &[0, 9, b'=', 0]] {
            let _refused = decode(body, &mut Vec::new());
        }
        assert!(decode(&[1, 3, 0, b'x', 0], &mut Vec::new()).is_none(), "a descriptor is missing");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_requests_or_an_error(bytes: Vec<u8>) {
            let mut requests = Requests { bytes, ..Requests::default() };
            while let Some(Ok(_)) = requests.take() {}
        }
    }
}
