//! The client side of the handshake.

use super::error::{ClientError, OldHandshake};
use crate::codec::{
    BlockSizes, ClientFlags, ExportInfo, Greeting, HandshakeFlags, HeaderStyle, InfoItem, InfoQuery,
    InfoType, MetaContext, MetaQuery, OptionCode, OptionError, OptionHeader, OptionReply, OptionReplyType,
    TransmissionFlags,
};
use onego_wire::Reader;

/// The only requested metadata context: the allocation status (nbd proto.md, '`base:allocation` metadata context').
const ALLOCATION: &[u8] = b"base:allocation";

/// Maximum replies to one option. Servers send one item of each kind and one context.
const REPLIES_MAX: usize = 64;

/// Maximum size of an export in bytes: that of a file with signed offsets.
const SIZE_MAX: u64 = i64::MAX as u64;

/// Default block sizes (nbd proto.md, 'Size constraints').
const ASSUMED: BlockSizes = BlockSizes { minimum: 1, preferred: 4096, payload_max: 32 << 20 };

/// Maximum block size (nbd proto.md, 'Size constraints').
const BLOCK_MAX: u32 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) info: ExportInfo,
    pub(super) sizes: BlockSizes,
    pub(super) style: HeaderStyle,
    /// ID of the allocation context, if the server supports it.
    pub(super) context: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    Greeting,
    /// The header of an option reply.
    Reply,
    /// The data of that reply.
    Data(OptionReply),
    /// The response to `EXPORT_NAME`, which has no reply header, with the number of zeros that follow it.
    Export {
        zeroes: usize,
    },
    /// The zeros after the response to `EXPORT_NAME`.
    Zeroes,
}

#[derive(Debug)]
pub(super) struct Negotiation {
    name: String,
    tls: bool,
    awaits: Awaits,
    option: OptionCode,
    replies: usize,
    no_zeroes: bool,
    style: HeaderStyle,
    context: Option<u32>,
    info: Option<ExportInfo>,
    sizes: BlockSizes,
}

#[derive(Debug)]
pub(super) enum HandshakeStep {
    Send(Vec<u8>),
    StartTls,
    Agreed(Agreed),
}

impl Negotiation {
    /// Creates the state of a handshake. With `tls`, the handshake fails if the server does not offer TLS.
    pub(super) fn new(name: &str, tls: bool) -> Self {
        Self {
            name: name.to_owned(),
            tls,
            awaits: Awaits::Greeting,
            option: OptionCode::ExtendedHeaders,
            replies: 0,
            no_zeroes: false,
            style: HeaderStyle::Simple,
            context: None,
            info: None,
            sizes: ASSUMED,
        }
    }

    pub(super) fn awaits(&self) -> Awaits {
        self.awaits
    }

    pub(super) fn greeting(&mut self, bytes: &[u8]) -> Result<HandshakeStep, ClientError> {
        if Greeting::is_oldstyle(bytes) {
            return Err(ClientError::TooOld(OldHandshake::Oldstyle));
        }
        let Greeting(flags) = Greeting::decode(&mut Reader::new(bytes))?;
        if !flags.contains(HandshakeFlags::FIXED_NEWSTYLE) {
            return Err(ClientError::TooOld(OldHandshake::UnfixedNewstyle));
        }
        self.no_zeroes = flags.contains(HandshakeFlags::NO_ZEROES);
        let answer = ClientFlags::FIXED_NEWSTYLE.with(ClientFlags::NO_ZEROES, self.no_zeroes);
        let mut out = answer.0.to_be_bytes().to_vec();
        out.extend(self.ask(if self.tls { OptionCode::StartTls } else { OptionCode::ExtendedHeaders }));
        Ok(HandshakeStep::Send(out))
    }

    /// Restarts option negotiation after TLS has started: earlier results do not count (nbd proto.md,
    /// '`NBD_OPT_STARTTLS`').
    pub(super) fn sealed(&mut self) -> Vec<u8> {
        self.ask(OptionCode::ExtendedHeaders)
    }

    fn ask(&mut self, option: OptionCode) -> Vec<u8> {
        (self.option, self.replies, self.awaits) = (option, 0, Awaits::Reply);
        let name = self.name.as_bytes();
        let data = match option {
            OptionCode::SetMetaContext => MetaQuery { name, queries: vec![ALLOCATION] }.encode(),
            OptionCode::Go => InfoQuery { name, wanted: vec![InfoType::BlockSize] }.encode(),
            OptionCode::ExportName => name.to_vec(),
            _ => Vec::new(),
        };
        if option == OptionCode::ExportName {
            self.awaits = Awaits::Export { zeroes: if self.no_zeroes { 0 } else { ExportInfo::ZEROES } };
        }
        let header = OptionHeader { code: option, length: data.len() as u32 };
        [&header.encode()[..], &data].concat()
    }

    pub(super) fn expect(&mut self, reply: OptionReply) {
        self.awaits = Awaits::Data(reply);
    }

    pub(super) fn reply(&mut self, reply: OptionReply, data: &[u8]) -> Result<HandshakeStep, ClientError> {
        self.awaits = Awaits::Reply;
        if reply.code != self.option {
            return Err(ClientError::Protocol("it replies to an option that was not sent"));
        }
        self.replies += 1;
        if self.replies > REPLIES_MAX {
            return Err(ClientError::Protocol("it sends too many replies to an option"));
        }
        match (self.option, reply.kind) {
            (_, OptionReplyType::Error(OptionError::TlsRequired)) => Err(ClientError::TlsRequired),
            (OptionCode::StartTls, kind) => match self.granted(kind)? {
                true => Ok(HandshakeStep::StartTls),
                false => Err(ClientError::NoTls { message: text(data) }),
            },
            (OptionCode::ExtendedHeaders, kind) => match self.granted(kind)? {
                true => {
                    self.style = HeaderStyle::Extended;
                    Ok(HandshakeStep::Send(self.ask(OptionCode::SetMetaContext)))
                }
                false => Ok(HandshakeStep::Send(self.ask(OptionCode::StructuredReply))),
            },
            (OptionCode::StructuredReply, kind) => match self.granted(kind)? {
                true => {
                    self.style = HeaderStyle::Structured;
                    Ok(HandshakeStep::Send(self.ask(OptionCode::SetMetaContext)))
                }
                // Metadata contexts require structured replies.
                false => Ok(HandshakeStep::Send(self.ask(OptionCode::Go))),
            },
            (OptionCode::SetMetaContext, OptionReplyType::MetaContext) => {
                let context = MetaContext::decode(data)?;
                if context.name != ALLOCATION || self.context.is_some() {
                    return Err(ClientError::Protocol(
                        "it selects a metadata context that was not requested",
                    ));
                }
                self.context = Some(context.id);
                Ok(HandshakeStep::Send(Vec::new()))
            }
            (OptionCode::SetMetaContext, OptionReplyType::Ack) => {
                Ok(HandshakeStep::Send(self.ask(OptionCode::Go)))
            }
            // If the export is the cause, `GO` returns a better error.
            (OptionCode::SetMetaContext, OptionReplyType::Error(_)) => {
                self.context = None;
                Ok(HandshakeStep::Send(self.ask(OptionCode::Go)))
            }
            (OptionCode::Go, kind) => self.described(kind, data),
            _ => Err(ClientError::Protocol("it sends an unexpected reply to an option")),
        }
    }

    /// Returns whether the server accepts an option; any error counts as a refusal.
    fn granted(&self, kind: OptionReplyType) -> Result<bool, ClientError> {
        match kind {
            OptionReplyType::Ack => Ok(true),
            OptionReplyType::Error(_) => Ok(false),
            _ => Err(ClientError::Protocol("it sends an unexpected reply to an option")),
        }
    }

    fn described(&mut self, kind: OptionReplyType, data: &[u8]) -> Result<HandshakeStep, ClientError> {
        match kind {
            OptionReplyType::Info => {
                self.item(data)?;
                Ok(HandshakeStep::Send(Vec::new()))
            }
            OptionReplyType::Ack => self.agreed(),
            // An old server, whose block sizes remain unknown.
            OptionReplyType::Error(OptionError::Unsupported) => {
                Ok(HandshakeStep::Send(self.ask(OptionCode::ExportName)))
            }
            OptionReplyType::Error(OptionError::Unknown) => {
                Err(ClientError::NoExport { name: self.name.clone(), message: text(data) })
            }
            OptionReplyType::Error(error) => Err(ClientError::Refused { error, message: text(data) }),
            _ => Err(ClientError::Protocol("it sends an unexpected reply to an option")),
        }
    }

    fn item(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let kind = data.first_chunk().map(|kind| InfoType::of(u16::from_be_bytes(*kind)));
        if matches!(kind, Some(InfoType::Unknown(_))) {
            // Servers may send unrequested items (nbd proto.md, '`NBD_REP_INFO`').
            return Ok(());
        }
        match InfoItem::decode(data)? {
            InfoItem::Export(info) => self.info = Some(info),
            InfoItem::BlockSize(sizes) => self.sizes = checked(sizes)?,
            InfoItem::Name(_) | InfoItem::Description(_) => {}
        }
        Ok(())
    }

    pub(super) fn exported(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.info = Some(ExportInfo::decode(&mut Reader::new(bytes))?);
        self.awaits = Awaits::Zeroes;
        Ok(())
    }

    pub(super) fn agreed(&mut self) -> Result<HandshakeStep, ClientError> {
        let info = self.info.ok_or(ClientError::Protocol("it does not send the size of the export"))?;
        // The other flags are only valid with this one (nbd proto.md, 'Transmission flags').
        let flags = match info.flags.contains(TransmissionFlags::HAS_FLAGS) {
            true => info.flags,
            false => TransmissionFlags::default(),
        };
        let (size, minimum) = (info.size, self.sizes.minimum);
        if size > SIZE_MAX {
            return Err(ClientError::Protocol("its export exceeds 2^63 - 1 bytes"));
        }
        if !size.is_multiple_of(minimum.into()) {
            return Err(ClientError::PartialBlock { size, minimum });
        }
        let info = ExportInfo { size, flags };
        Ok(HandshakeStep::Agreed(Agreed {
            info,
            sizes: self.sizes,
            style: self.style,
            context: self.context,
        }))
    }
}

/// Validates block sizes (nbd proto.md, 'Size constraints').
fn checked(sizes: BlockSizes) -> Result<BlockSizes, ClientError> {
    let BlockSizes { minimum, preferred, payload_max } = sizes;
    let are_some = minimum.is_power_of_two()
        && minimum <= BLOCK_MAX
        && preferred.is_power_of_two()
        && preferred >= minimum
        && payload_max >= minimum;
    are_some.then_some(sizes).ok_or(ClientError::Protocol("its block sizes are invalid"))
}

pub(super) fn text(data: &[u8]) -> String {
    const SHOWN: usize = 300;
    String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}
