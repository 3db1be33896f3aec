//! [`Pieces`]: the body of an answer in pieces, decompressed when the server has compressed it.
//!
//! Only lists are asked for in gzip, and only on the user's wish. Servers compress what is larger than 128 KiB.

use std::io::{self, Read as _, Write as _};

use flate2::write::GzDecoder;

/// Bytes that are decompressed at once: gzip grows at most about a thousandfold.
const STEP: usize = 1 << 10;

/// Hands the pieces of a body on.
pub(crate) enum Pieces {
    /// As they come.
    Identity,
    /// Out of gzip.
    Gzip(Box<GzDecoder<Vec<u8>>>),
}

/// Why a piece was not handed on.
pub(crate) enum Stopped<E> {
    /// The body is not what it says it is.
    Corrupt(io::Error),
    /// The taker's own error.
    Taker(E),
}

impl Pieces {
    pub(crate) fn gzip() -> Self {
        Self::Gzip(Box::new(GzDecoder::new(Vec::new())))
    }

    /// The next piece of the body; what can be told of it goes to `take`, in pieces of bounded size.
    pub(crate) fn push<E>(
        &mut self,
        data: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Stopped<E>> {
        let Self::Gzip(decoder) = self else { return take(data).map_err(Stopped::Taker) };
        for step in data.chunks(STEP) {
            decoder.write_all(step).map_err(Stopped::Corrupt)?;
            hand_on(decoder, &mut take)?;
        }
        Ok(())
    }

    /// The body is over.
    pub(crate) fn finish<E>(self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), Stopped<E>> {
        let Self::Gzip(mut decoder) = self else { return Ok(()) };
        decoder.try_finish().map_err(Stopped::Corrupt)?;
        hand_on(&mut decoder, &mut take)
    }
}

/// The beginning of what was compressed, as far as it can be read.
pub(crate) fn gunzip_part(compressed: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // What came before a fault is of use.
    let _ = flate2::read::MultiGzDecoder::new(compressed).take(limit as u64).read_to_end(&mut out);
    out
}

fn hand_on<E>(
    decoder: &mut GzDecoder<Vec<u8>>,
    take: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Stopped<E>> {
    if !decoder.get_ref().is_empty() {
        take(decoder.get_ref()).map_err(Stopped::Taker)?;
        decoder.get_mut().clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(body: &[u8], piece: usize) -> Result<Vec<u8>, String> {
        let (mut pieces, mut out) = (Pieces::gzip(), Vec::new());
        let told = |stopped: Stopped<Infallible>| match stopped {
            Stopped::Corrupt(error) => error.to_string(),
            Stopped::Taker(never) => match never {},
        };
        let mut take = |data: &[u8]| {
            out.extend_from_slice(data);
            Ok(())
        };
        body.chunks(piece).try_for_each(|data| pieces.push(data, &mut take)).map_err(told)?;
        pieces.finish(&mut take).map_err(told)?;
        Ok(out)
    }

    #[test]
    fn a_body_in_gzip_is_read_however_it_is_cut() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let body = gzip(&text);
        for piece in [1, 7, 1024, 5000, body.len()] {
            assert!(read(&body, piece).unwrap() == text, "pieces of {piece}");
        }
    }

    #[test]
    fn a_body_that_is_cut_off_or_spoilt_is_an_error() {
        let body = gzip(&[b'x'; 100_000]);
        assert!(read(&body[..body.len() - 1], 64).is_err(), "cut off");
        assert!(read(b"{\"kind\":\"List\"}", 64).is_err(), "no gzip");
        let mut spoilt = body;
        let checksum = spoilt.len() - 6;
        spoilt[checksum] ^= 1;
        assert!(read(&spoilt, 64).is_err(), "wrong checksum");
    }

    #[test]
    fn a_bomb_is_handed_on_in_small_pieces() {
        let body = gzip(&vec![0; 64 << 20]);
        let mut largest = 0;
        let mut pieces = Pieces::gzip();
        let take = |data: &[u8]| {
            largest = largest.max(data.len());
            Ok::<(), Infallible>(())
        };
        assert!(pieces.push(&body, take).is_ok());
        assert!(largest <= 2 << 20, "{largest} bytes at once");
    }
}
