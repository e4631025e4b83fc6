//! Frames over a Unix socket, asynchronously. The format is `protocol::worker_link`'s.

use protocol::worker_link::{Decoder, LinkError, encode};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Why nothing more comes out of a link.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The other side closed it, usually by dying.
    #[error("the link was closed")]
    Closed,
    /// What came is not a message.
    #[error(transparent)]
    Garbage(#[from] LinkError),
}

/// The end that messages come out of. Cancelling a receive loses nothing.
#[derive(Debug)]
pub struct Receiver {
    stream: OwnedReadHalf,
    decoder: Decoder,
    buffer: Box<[u8]>,
}

/// The end that messages go into.
#[derive(Debug)]
pub struct Sender {
    stream: OwnedWriteHalf,
}

/// Makes both ends of a connected socket.
#[must_use]
pub fn split(stream: UnixStream) -> (Sender, Receiver) {
    let (read, write) = stream.into_split();
    let buffer = vec![0; 64 * 1024].into_boxed_slice();
    (Sender { stream: write }, Receiver { stream: read, decoder: Decoder::default(), buffer })
}

impl Receiver {
    /// Waits for the next message.
    pub async fn receive<M: for<'de> Deserialize<'de>>(&mut self) -> Result<M, ReceiveError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            match self.stream.read(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(ReceiveError::Closed),
                Ok(length) => self.decoder.feed(&self.buffer[..length]),
            }
        }
    }
}

impl Sender {
    /// Sends one message; an error means that the other side is gone.
    pub async fn send<M: Serialize>(&mut self, message: &M) -> Result<(), std::io::Error> {
        let frame = encode(message).map_err(std::io::Error::other)?;
        self.stream.write_all(&frame).await
    }
}
