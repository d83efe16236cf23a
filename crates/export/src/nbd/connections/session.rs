//! The transmission phase of one connection: what its client may ask for.

use crate::nbd::exports::Served;
use crate::nbd::limits::PAYLOAD_MAX;
use crate::nbd::refusal::{Refusal, writes};
use onego_block::Plug;
use onego_nbd::codec::{
    CommandFlags, ErrorCode, ExportInfo, HeaderStyle, RequestHeader, RequestType, StatusPayload,
};
use std::rc::Rc;

/// What `base:allocation` is called on each connection.
pub(super) const ALLOCATION: u32 = 1;

/// A client's use of one export.
pub(super) struct Session {
    pub(super) export: Rc<Served>,
    pub(super) style: HeaderStyle,
    /// The client may ask what is known of bytes.
    contexts: bool,
    /// Requests of the delivery that is being worked on.
    pub(super) plug: Plug,
}

impl Session {
    pub(super) fn new(export: Rc<Served>, style: HeaderStyle, contexts: bool) -> Self {
        Self { export, style, contexts, plug: Plug::default() }
    }

    /// Size and flags of the export, for this client.
    pub(super) fn info(&self) -> ExportInfo {
        self.export.info(self.style, self.contexts)
    }

    /// Refuses a request that is not to be carried out, before there is memory for its payload.
    pub(super) fn check(&self, request: &RequestHeader) -> Result<(), Refusal> {
        if self.export.is_removed() {
            return Err(Refusal::new(ErrorCode::Shutdown, "the export is no longer served"));
        }
        if request.flags.exceeds(self.allowed(request.command)) {
            return Err(Refusal::invalid("a flag that this request does not have"));
        }
        let has_payload = request.payload(self.style) > 0;
        match request.command {
            RequestType::Unknown(_) => Err(Refusal::invalid("an unknown request")),
            RequestType::Flush if request.offset != 0 || request.length != 0 => {
                Err(Refusal::invalid("a flush has neither offset nor length"))
            }
            RequestType::Flush => Ok(()),
            RequestType::BlockStatus if !self.contexts => {
                Err(Refusal::invalid("no metadata context was chosen for this export"))
            }
            RequestType::BlockStatus if has_payload && request.length > StatusPayload::MAX as u64 => {
                Err(Refusal::invalid("more metadata contexts than there are"))
            }
            // The payload has the length in the export.
            RequestType::BlockStatus if has_payload => Ok(()),
            _ => self.check_range(request),
        }
    }

    /// The flags of a command (nbd proto.md, 'Command flags'). `FUA` goes with all of them.
    fn allowed(&self, command: RequestType) -> CommandFlags {
        let extended = self.style == HeaderStyle::Extended;
        let flags = CommandFlags::FUA;
        match command {
            RequestType::Read => flags.with(CommandFlags::DF, self.style != HeaderStyle::Simple),
            RequestType::Write => flags.with(CommandFlags::PAYLOAD_LEN, extended),
            RequestType::WriteZeroes => flags | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
            RequestType::BlockStatus => {
                (flags | CommandFlags::REQ_ONE).with(CommandFlags::PAYLOAD_LEN, extended && self.contexts)
            }
            _ => flags,
        }
    }

    /// Refuses a request for bytes that the device does not have, or may not change (nbd proto.md, 'Error values', 'Size
    /// constraints').
    pub(super) fn check_range(&self, request: &RequestHeader) -> Result<(), Refusal> {
        let RequestHeader { command, offset, length, .. } = *request;
        let geometry = self.export.geometry();
        if geometry.read_only && (writes(command) || command == RequestType::Trim) {
            return Err(Refusal::new(ErrorCode::Permission, "the export is read-only"));
        }
        if offset.checked_add(length).is_none_or(|end| end > geometry.size) {
            let code = if writes(command) { ErrorCode::NoSpace } else { ErrorCode::Invalid };
            return Err(Refusal::new(code, "the export ends before"));
        }
        if !geometry.is_aligned(offset) || !geometry.is_aligned(length) {
            return Err(Refusal::invalid("offset or length are not multiples of the minimum block size"));
        }
        let too_long = length > PAYLOAD_MAX as u64;
        match command {
            RequestType::Read if too_long && self.style != HeaderStyle::Simple => {
                Err(Refusal::new(ErrorCode::Overflow, "a read of more than the maximum payload"))
            }
            RequestType::Read | RequestType::Write if too_long => {
                Err(Refusal::invalid("more bytes than the maximum payload"))
            }
            RequestType::Trim if geometry.trim_granularity.is_none() => {
                Err(Refusal::invalid("the export does not offer to trim"))
            }
            RequestType::BlockStatus if length == 0 => Err(Refusal::invalid("the status of no bytes")),
            _ => Ok(()),
        }
    }

    /// The request that a status request with a payload stands for.
    pub(super) fn narrowed(&self, request: RequestHeader, payload: &[u8]) -> Result<RequestHeader, Refusal> {
        let status = StatusPayload::decode(payload).map_err(|_| Refusal::invalid("a payload that is cut"))?;
        if status.contexts != [ALLOCATION] {
            return Err(Refusal::invalid("metadata contexts that were not chosen, or one of them twice"));
        }
        let request = RequestHeader { length: status.length, ..request };
        self.check_range(&request).map(|()| request)
    }
}
