//! Connection setup: the MPA Request, its reply, and the negotiation (RFC 5044, section 7; RFC 6581).

use super::config::Config;
use super::error::Error;
use super::mpa::{
    Depths, ENHANCED_LEN, FRAME_LEN, Frame, Kind, NOT_NEGOTIATED, PRIVATE_DATA_MAX, ReadyToReceive,
};
use crate::error::PostError;

/// MPA revision that negotiates IRD and ORD.
const ENHANCED_REVISION: u8 = 2;
const REVISION: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) crc: bool,
    pub(super) ird: u16,
    pub(super) ord: u16,
    pub(super) ready: ReadyToReceive,
}

#[derive(Debug)]
pub(super) struct Request {
    frame: Frame,
    depths: Option<Depths>,
    pub(super) private_data: Vec<u8>,
}

fn agreed(ours: u16, theirs: u16) -> u16 {
    if theirs == NOT_NEGOTIATED { ours } else { ours.min(theirs) }
}

fn write(kind: Kind, mut frame: Frame, depths: Option<Depths>, private_data: &[u8]) -> Vec<u8> {
    let depths = depths.map(Depths::to_bytes);
    let depths = depths.as_ref().map_or(&[][..], |bytes| bytes);
    frame.private_len = (depths.len() + private_data.len()) as u16;
    [&frame.to_bytes(kind), depths, private_data].concat()
}

fn bounded(private_data: &[u8], enhanced: bool) -> Result<(), PostError> {
    let bound = PRIVATE_DATA_MAX - if enhanced { ENHANCED_LEN } else { 0 };
    PostError::unless_short("private data", private_data.len(), bound)
}

pub(super) fn request(config: &Config, private_data: &[u8]) -> Result<Vec<u8>, PostError> {
    bounded(private_data, config.enhanced)?;
    let revision = if config.enhanced { ENHANCED_REVISION } else { REVISION };
    let frame = Frame { crc: config.crc, enhanced: config.enhanced, revision, ..Frame::default() };
    let depths = config.enhanced.then_some(Depths {
        ird: config.ird,
        ord: config.ord,
        peer_to_peer: config.peer_to_peer,
    });
    Ok(write(Kind::Request, frame, depths, private_data))
}

/// Splits IRD and ORD, at the start of an enhanced frame's private data, from the user's data.
fn split(frame: &Frame, private: &[u8]) -> Result<(Option<Depths>, Vec<u8>), Error> {
    if !frame.enhanced || frame.revision < ENHANCED_REVISION {
        return Ok((None, private.to_vec()));
    }
    let (depths, rest) =
        private.split_first_chunk::<ENHANCED_LEN>().ok_or(Error::NoDepths(frame.private_len))?;
    Ok((Some(Depths::parse(*depths)), rest.to_vec()))
}

/// Parses a client's request. On error, also returns the bytes of the rejecting reply.
pub(super) fn asked(config: &Config, frame: Frame, private: &[u8]) -> Result<Request, (Error, Vec<u8>)> {
    let newest = if config.enhanced { ENHANCED_REVISION } else { REVISION };
    if !(REVISION..=newest).contains(&frame.revision) {
        // The reply states the revision for the next attempt.
        let answer = Frame { rejected: true, revision: newest, ..Frame::default() };
        let error = Error::Revision { ours: newest, theirs: frame.revision };
        return Err((error, write(Kind::Reply, answer, None, &[])));
    }
    let parts = split(&frame, private);
    let (depths, private_data) = parts.map_err(|error| (error, refusal(&frame, None, &[])))?;
    let request = Request { frame, depths, private_data };
    if frame.markers {
        return Err((Error::Markers, request.reject(config, &[]).unwrap_or_default()));
    }
    let asked = depths.and_then(|depths| depths.peer_to_peer);
    if asked.is_some_and(|ready| ready.common(allowed(config)).is_none()) {
        return Err((Error::NoReadyToReceive, request.reject(config, &[]).unwrap_or_default()));
    }
    Ok(request)
}

fn allowed(config: &Config) -> ReadyToReceive {
    config.peer_to_peer.unwrap_or(ReadyToReceive::ANY)
}

fn refusal(frame: &Frame, depths: Option<Depths>, private_data: &[u8]) -> Vec<u8> {
    let Frame { revision, .. } = *frame;
    let answer = Frame { rejected: true, revision, enhanced: depths.is_some(), ..Frame::default() };
    write(Kind::Reply, answer, depths, private_data)
}

impl Request {
    /// Returns the parameters if the request is accepted: the peer's ORD meets this side's IRD, and vice versa.
    fn agreement(&self, config: &Config) -> Agreement {
        let crc = config.crc || self.frame.crc;
        match self.depths {
            None => Agreement { crc, ird: config.ird, ord: config.ord, ready: ReadyToReceive::default() },
            Some(Depths { ird, ord, peer_to_peer }) => Agreement {
                crc,
                ird: agreed(config.ird, ord),
                ord: agreed(config.ord, ird),
                ready: peer_to_peer
                    .map_or_else(Default::default, |ready| ready.common(allowed(config)).one()),
            },
        }
    }

    fn answered(&self, agreement: &Agreement) -> Option<Depths> {
        let Agreement { ird, ord, ready, .. } = *agreement;
        self.depths.map(|asked| Depths { ird, ord, peer_to_peer: asked.peer_to_peer.map(|_| ready) })
    }

    pub(super) fn accept(
        &self,
        config: &Config,
        private_data: &[u8],
    ) -> Result<(Vec<u8>, Agreement), PostError> {
        bounded(private_data, self.depths.is_some())?;
        let agreement = self.agreement(config);
        let depths = self.answered(&agreement);
        let frame = Frame {
            crc: agreement.crc,
            enhanced: depths.is_some(),
            revision: self.frame.revision,
            ..Frame::default()
        };
        Ok((write(Kind::Reply, frame, depths, private_data), agreement))
    }

    pub(super) fn reject(&self, config: &Config, private_data: &[u8]) -> Result<Vec<u8>, PostError> {
        bounded(private_data, self.depths.is_some())?;
        Ok(refusal(&self.frame, self.answered(&self.agreement(config)), private_data))
    }
}

pub(super) fn answered(config: &Config, frame: Frame, private: &[u8]) -> (Result<Agreement, Error>, Vec<u8>) {
    match split(&frame, private) {
        Ok((depths, private_data)) => (agree(config, frame, depths), private_data),
        Err(error) => (Err(error), Vec::new()),
    }
}

fn agree(config: &Config, frame: Frame, depths: Option<Depths>) -> Result<Agreement, Error> {
    let ours = if config.enhanced { ENHANCED_REVISION } else { REVISION };
    if frame.revision != ours {
        return Err(Error::Revision { ours, theirs: frame.revision });
    }
    if frame.rejected {
        return Err(Error::Rejected);
    }
    if config.enhanced && depths.is_none() {
        return Err(Error::NoDepths(frame.private_len));
    }
    if frame.markers {
        return Err(Error::Markers);
    }
    let crc = config.crc || frame.crc;
    let Some(Depths { ird, ord, peer_to_peer }) = depths.filter(|_| config.enhanced) else {
        return Ok(Agreement { crc, ird: config.ird, ord: config.ord, ready: ReadyToReceive::default() });
    };
    if ord != NOT_NEGOTIATED && ord > config.ird {
        return Err(Error::InsufficientIrd { ours: config.ird, theirs: ord });
    }
    let ready = match config.peer_to_peer {
        None => ReadyToReceive::default(),
        Some(ours) => {
            let common = ours.common(peer_to_peer.unwrap_or_default());
            if common.is_none() {
                return Err(Error::NoReadyToReceive);
            }
            common.one()
        }
    };
    Ok(Agreement { crc, ird: agreed(config.ird, ord), ord: agreed(config.ord, ird), ready })
}

/// Parses the header of a frame. Also returns the length of the private data after it.
pub(super) fn parse(kind: Kind, bytes: &[u8]) -> Result<(Frame, usize), Error> {
    let frame = Frame::parse(kind, bytes.first_chunk::<FRAME_LEN>().ok_or(Error::NotMpa)?)?;
    Ok((frame, usize::from(frame.private_len)))
}
