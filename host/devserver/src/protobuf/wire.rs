//! [`Reader`]: the records of a message in protobuf's wire format, without knowing what they mean.
//!
//! It copies nothing and allocates nothing: a length that the message does not have is an error before anything is made
//! of it. Groups, which no type of Kubernetes has, are read over as a whole.

use thiserror::Error;

/// The highest number that a field may have.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// What is wrong with the records themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum WireError {
    #[error("it ends in the middle of a field")]
    Truncated,
    #[error("a number has more than 64 bits")]
    TooLong,
    #[error("{0} is not the number of a field")]
    Number(u64),
    #[error("{0} is not a wire type")]
    Type(u8),
    #[error("a group ends that did not begin")]
    GroupEnd,
}

/// A value, as far as its wire type tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
    Group,
}

/// A field's number and one value of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Record<'a> {
    pub(super) number: u32,
    pub(super) raw: Raw<'a>,
}

/// Reads the records of a message one after the other; nothing comes behind an error.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A number in groups of seven bits, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::TooLong)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn tag(&mut self) -> Result<(u32, u8), WireError> {
        let tag = self.varint()?;
        let number = tag >> 3;
        match u32::try_from(number) {
            Ok(valid) if (1..=MAX_NUMBER).contains(&number) => Ok((valid, (tag & 7) as u8)),
            _ => Err(WireError::Number(number)),
        }
    }

    fn record(&mut self) -> Result<Record<'a>, WireError> {
        let (number, wire_type) = self.tag()?;
        let raw = match wire_type {
            3 => self.group()?,
            4 => return Err(WireError::GroupEnd),
            simple => self.simple(simple)?,
        };
        Ok(Record { number, raw })
    }

    fn simple(&mut self, wire_type: u8) -> Result<Raw<'a>, WireError> {
        match wire_type {
            0 => self.varint().map(Raw::Varint),
            1 => self.fixed64().map(Raw::Fixed64),
            2 => self.bytes().map(Raw::Bytes),
            5 => self.array::<4>().map(|_| Raw::Fixed32),
            other => Err(WireError::Type(other)),
        }
    }

    /// Reads over a group and all groups inside it.
    fn group(&mut self) -> Result<Raw<'a>, WireError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.tag()? {
                (_, 3) => open += 1,
                (_, 4) => open -= 1,
                (_, simple) => {
                    self.simple(simple)?;
                }
            }
        }
        Ok(Raw::Group)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}
