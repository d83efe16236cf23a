//! Options: what a client asks for before it uses an export.

use super::error::ProtocolError;
use super::outbound::Outbound;
use super::session::{ALLOCATION, Session};
use crate::nbd::exports::{Exports, Served};
use crate::nbd::tls::Tls;
use onego_nbd::codec::{
    ClientFlags, ExportInfo, HeaderStyle, InfoItem, InfoQuery, InfoType, MetaContext, MetaQuery, OptionCode,
    OptionError, OptionReplyType, STRING_MAX, ServerEntry,
};
use std::rc::Rc;

/// The one metadata context, and the query that means all of its namespace (nbd proto.md, 'The `base:` metadata namespace').
const ALLOCATION_NAME: &[u8] = b"base:allocation";
const BASE_WILDCARD: &[u8] = b"base:";

/// What was agreed on so far.
#[derive(Default)]
pub(super) struct Negotiation {
    security: Security,
    /// The zeros behind the answer to `EXPORT_NAME` are left out.
    no_zeroes: bool,
    style: HeaderStyle,
    /// The export whose allocation the client wants to know of.
    contexts: Option<Rc<Served>>,
}

/// What TLS a connection has or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Security {
    /// The server has none (nbd proto.md, 'NOTLS mode').
    #[default]
    None,
    /// The client may start it.
    Offered,
    /// The client has to start it before anything else (nbd proto.md, 'FORCEDTLS mode').
    Required,
    Established,
}

/// What follows an option.
pub(super) enum Next {
    /// Another option.
    Option,
    /// TLS, and then options as if nothing had been agreed on before.
    Tls(Negotiation),
    /// Transmission.
    Transmission(Box<Session>),
    /// The end.
    End,
}

impl Negotiation {
    pub(super) fn new(flags: ClientFlags, tls: Option<&Tls>) -> Self {
        let security = match tls {
            None => Security::None,
            Some(tls) if tls.required => Security::Required,
            Some(_) => Security::Offered,
        };
        Self { security, no_zeroes: flags.contains(ClientFlags::NO_ZEROES), ..Self::default() }
    }

    /// Answers an option (nbd proto.md, 'Option types').
    pub(super) fn option(
        &mut self,
        code: OptionCode,
        data: &[u8],
        exports: &Exports,
        out: &mut Outbound,
    ) -> Result<Next, ProtocolError> {
        match code {
            OptionCode::ExportName if self.security == Security::Required => {
                return Err(ProtocolError::TlsRequired);
            }
            OptionCode::ExportName => return self.export_name(data, exports, out).map(Next::Transmission),
            OptionCode::Abort => {
                // Data is ignored, and the client may be gone.
                out.option_reply(code, OptionReplyType::Ack, &[]);
                return Ok(Next::End);
            }
            OptionCode::StartTls => return Ok(self.start_tls(code, data, out)),
            _ if self.security == Security::Required => {
                let message = "this server tells nothing without TLS: start it first";
                out.option_error(code, OptionError::TlsRequired, message);
            }
            OptionCode::Info | OptionCode::Go => {
                let session = self.info(code, data, exports, out);
                return Ok(session
                    .filter(|_| code == OptionCode::Go)
                    .map_or(Next::Option, Next::Transmission));
            }
            OptionCode::ListMetaContext | OptionCode::SetMetaContext => {
                self.meta_context(code, data, exports, out);
            }
            OptionCode::List | OptionCode::StructuredReply | OptionCode::ExtendedHeaders
                if !data.is_empty() =>
            {
                out.option_error(code, OptionError::Invalid, "this option has no data");
            }
            OptionCode::List => {
                for served in exports.iter() {
                    let (name, description) = (served.name().as_bytes(), served.description().as_bytes());
                    let entry = ServerEntry { name, description }.encode();
                    out.option_reply(code, OptionReplyType::Server, &entry);
                }
                out.option_reply(code, OptionReplyType::Ack, &[]);
            }
            OptionCode::StructuredReply if self.style == HeaderStyle::Extended => {
                let message = "extended headers are in use already";
                out.option_error(code, OptionError::ExtendedHeadersRequired, message);
            }
            OptionCode::StructuredReply => {
                self.style = HeaderStyle::Structured;
                out.option_reply(code, OptionReplyType::Ack, &[]);
            }
            OptionCode::ExtendedHeaders => {
                self.style = HeaderStyle::Extended;
                out.option_reply(code, OptionReplyType::Ack, &[]);
            }
            OptionCode::Unknown(_) => {
                out.option_error(code, OptionError::Unsupported, "this server does not know the option");
            }
        }
        Ok(Next::Option)
    }

    fn start_tls(&self, code: OptionCode, data: &[u8], out: &mut Outbound) -> Next {
        match self.security {
            Security::None => out.option_error(code, OptionError::Unsupported, "this server has no TLS"),
            Security::Established => {
                out.option_error(code, OptionError::Invalid, "this connection has TLS already");
            }
            _ if !data.is_empty() => {
                out.option_error(code, OptionError::Invalid, "this option has no data");
            }
            Security::Offered | Security::Required => {
                out.option_reply(code, OptionReplyType::Ack, &[]);
                // What was said before may have been changed on the way.
                let security = Security::Established;
                return Next::Tls(Self { security, no_zeroes: self.no_zeroes, ..Self::default() });
            }
        }
        Next::Option
    }

    /// This option cannot fail, so that the session ends where it would.
    fn export_name(
        &mut self,
        name: &[u8],
        exports: &Exports,
        out: &mut Outbound,
    ) -> Result<Box<Session>, ProtocolError> {
        if self.style == HeaderStyle::Extended {
            return Err(ProtocolError::ExportNameWithExtendedHeaders);
        }
        let export = exports.find(name).filter(|_| name.len() <= STRING_MAX);
        let session = self.session(export.ok_or(ProtocolError::UnknownExport)?);
        out.put(&session.info().encode());
        if !self.no_zeroes {
            out.put(&[0; ExportInfo::ZEROES]);
        }
        Ok(session)
    }

    fn info(
        &mut self,
        code: OptionCode,
        data: &[u8],
        exports: &Exports,
        out: &mut Outbound,
    ) -> Option<Box<Session>> {
        let query = match InfoQuery::decode(data) {
            Ok(query) => query,
            Err(error) => {
                out.option_error(code, OptionError::Invalid, &error.to_string());
                return None;
            }
        };
        let Some(export) = exports.find(query.name) else {
            out.option_error(code, OptionError::Unknown, "there is no export of that name");
            return None;
        };
        let session = self.session(export);
        let mut item = |item: InfoItem<'_>| out.option_reply(code, OptionReplyType::Info, &item.encode());
        item(InfoItem::Export(session.info()));
        if query.wants(InfoType::Name) {
            item(InfoItem::Name(export.name().as_bytes()));
        }
        if query.wants(InfoType::Description) {
            item(InfoItem::Description(export.description().as_bytes()));
        }
        if query.wants(InfoType::BlockSize) {
            item(InfoItem::BlockSize(export.block_sizes()));
        }
        out.option_reply(code, OptionReplyType::Ack, &[]);
        Some(session)
    }

    fn meta_context(&mut self, code: OptionCode, data: &[u8], exports: &Exports, out: &mut Outbound) {
        let sets = code == OptionCode::SetMetaContext;
        if sets {
            // What was chosen before is gone, also where this fails.
            self.contexts = None;
        }
        if self.style == HeaderStyle::Simple {
            let message = "metadata contexts take structured replies: ask for these first";
            return out.option_error(code, OptionError::Invalid, message);
        }
        let query = match MetaQuery::decode(data) {
            Ok(query) => query,
            Err(error) => return out.option_error(code, OptionError::Invalid, &error.to_string()),
        };
        let Some(export) = exports.find(query.name) else {
            return out.option_error(code, OptionError::Unknown, "there is no export of that name");
        };
        let names = |query: &&[u8]| *query == ALLOCATION_NAME || (!sets && *query == BASE_WILDCARD);
        if query.queries.iter().any(names) || (!sets && query.queries.is_empty()) {
            if sets {
                self.contexts = Some(Rc::clone(export));
            }
            let id = if sets { ALLOCATION } else { 0 };
            let context = MetaContext { id, name: ALLOCATION_NAME }.encode();
            out.option_reply(code, OptionReplyType::MetaContext, &context);
        }
        out.option_reply(code, OptionReplyType::Ack, &[]);
    }

    /// The session that begins if the client goes on with an export. Contexts of another export are void.
    fn session(&self, export: &Rc<Served>) -> Box<Session> {
        let contexts = self.contexts.as_ref().is_some_and(|of| Rc::ptr_eq(of, export));
        Box::new(Session::new(Rc::clone(export), self.style, contexts))
    }
}
