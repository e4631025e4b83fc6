//! Frames over a byte stream. Does no I/O.

use serde::{Deserialize, Serialize};

/// Longest body of a frame, in bytes. Tensors never travel here.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// A byte stream that is not a sequence of frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The length prefix is over the cap, usually because something else wrote to the link.
    #[error("a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES} bytes")]
    FrameTooLong {
        /// Length that was announced.
        length: usize,
    },
    /// The body is not the message that was expected.
    #[error("a frame is not a known message: {problem}; it begins `{begin}`")]
    NotAMessage {
        /// The parser's words.
        problem: String,
        /// First characters of the body.
        begin: String,
    },
}

/// Takes frames out of a byte stream.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Adds bytes as they arrive.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole body, if there is one.
    pub fn next_body(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let Some(prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(LinkError::FrameTooLong { length });
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let body = self.buffer[4..4 + length].to_vec();
        self.buffer.drain(..4 + length);
        Ok(Some(body))
    }

    /// Takes the next whole message, if there is one.
    pub fn next_message<M: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<M>, LinkError> {
        self.next_body()?.map(|body| decode(&body)).transpose()
    }
}

/// Reads one body.
pub fn decode<M: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<M, LinkError> {
    serde_json::from_slice(body).map_err(|error| LinkError::NotAMessage {
        problem: error.to_string(),
        begin: String::from_utf8_lossy(body).chars().take(120).collect(),
    })
}

/// Writes one message as a frame.
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, LinkError> {
    let body = serde_json::to_vec(message).map_err(|error| LinkError::NotAMessage {
        problem: error.to_string(),
        begin: String::new(),
    })?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(LinkError::FrameTooLong { length: body.len() });
    }
    let mut frame = u32::try_from(body.len()).expect("checked above").to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    Ok(frame)
}
