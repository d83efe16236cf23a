//! The data of options and option replies.

use super::be;
use super::handshake::ExportInfo;
use onego_wire::{DecodeError, Decoded, Reader};

/// Types of information about an export (nbd proto.md, '`NBD_REP_INFO`').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InfoType {
    /// Size and flags.
    Export,
    /// Name.
    Name,
    /// Description.
    Description,
    /// Block sizes.
    BlockSize,
    /// An unknown type.
    Unknown(u16),
}

impl InfoType {
    /// Returns the number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::Export => 0,
            Self::Name => 1,
            Self::Description => 2,
            Self::BlockSize => 3,
            Self::Unknown(number) => number,
        }
    }

    /// Converts a number.
    pub fn of(number: u16) -> Self {
        match number {
            0 => Self::Export,
            1 => Self::Name,
            2 => Self::Description,
            3 => Self::BlockSize,
            number => Self::Unknown(number),
        }
    }
}

/// The data of `INFO` and `GO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoQuery<'a> {
    /// Name of the export.
    pub name: &'a [u8],
    /// Requested information.
    pub wanted: Vec<InfoType>,
}

impl<'a> InfoQuery<'a> {
    /// Decodes the data.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let name = be::string(&mut r, "export name")?;
        let count = usize::from(be::u16(&mut r, "number of information requests")?);
        be::bounded(count as u64, r.left() / 2, "number of information requests")?;
        let wanted = (0..count).map(|_| Ok(InfoType::of(be::u16(&mut r, "information request")?)));
        let wanted = wanted.collect::<Decoded<_>>()?;
        r.finish("information requests")?;
        Ok(Self { name, wanted })
    }

    /// Encodes the data.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        be::put_string(&mut out, self.name);
        out.extend((self.wanted.len() as u16).to_be_bytes());
        out.extend(self.wanted.iter().flat_map(|wanted| wanted.number().to_be_bytes()));
        out
    }

    /// Returns whether the client requests this information.
    pub fn wants(&self, what: InfoType) -> bool {
        self.wanted.contains(&what)
    }
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// Name of the export.
    pub name: &'a [u8],
    /// Queries for contexts.
    pub queries: Vec<&'a [u8]>,
}

impl<'a> MetaQuery<'a> {
    /// Decodes the data.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let name = be::string(&mut r, "export name")?;
        let count = be::u32(&mut r, "number of queries")?;
        be::bounded(u64::from(count), r.left() / 4, "number of queries")?;
        let queries = (0..count).map(|_| be::string(&mut r, "query")).collect::<Decoded<_>>()?;
        r.finish("queries")?;
        Ok(Self { name, queries })
    }

    /// Encodes the data.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        be::put_string(&mut out, self.name);
        out.extend((self.queries.len() as u32).to_be_bytes());
        self.queries.iter().for_each(|query| be::put_string(&mut out, query));
        out
    }
}

/// An export, in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerEntry<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Description; may be empty.
    pub description: &'a [u8],
}

impl<'a> ServerEntry<'a> {
    /// Decodes the data.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let name = be::string(&mut r, "export name")?;
        be::bounded(r.left() as u64, be::STRING_MAX, "export description")?;
        Ok(Self { name, description: r.rest() })
    }

    /// Encodes the data.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + self.name.len() + self.description.len());
        be::put_string(&mut out, self.name);
        out.extend(self.description);
        out
    }
}

/// Block size constraints, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths must be multiples of this.
    pub minimum: u32,
    /// Multiples of this are most efficient.
    pub preferred: u32,
    /// Maximum size of a payload.
    pub payload_max: u32,
}

/// An information item about an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoItem<'a> {
    /// Size and flags.
    Export(ExportInfo),
    /// Name.
    Name(&'a [u8]),
    /// Description.
    Description(&'a [u8]),
    /// Block sizes.
    BlockSize(BlockSizes),
}

impl<'a> InfoItem<'a> {
    /// Decodes an item; fails for unknown types.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let item = match InfoType::of(be::u16(&mut r, "information type")?) {
            InfoType::Export => Self::Export(ExportInfo::decode(&mut r)?),
            InfoType::Name => Self::Name(r.take(r.left(), "export name")?),
            InfoType::Description => Self::Description(r.take(r.left(), "export description")?),
            InfoType::BlockSize => {
                let mut size = || be::u32(&mut r, "block size");
                Self::BlockSize(BlockSizes { minimum: size()?, preferred: size()?, payload_max: size()? })
            }
            InfoType::Unknown(number) => {
                return Err(DecodeError::Invalid { what: "information type", value: u64::from(number) });
            }
        };
        r.finish("information")?;
        Ok(item)
    }

    /// Encodes the item.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |kind: InfoType, data: &[u8]| {
            out.extend(kind.number().to_be_bytes());
            out.extend(data);
        };
        match self {
            Self::Export(info) => put(InfoType::Export, &info.encode()),
            Self::Name(name) => put(InfoType::Name, name),
            Self::Description(text) => put(InfoType::Description, text),
            Self::BlockSize(sizes) => {
                let sizes = [sizes.minimum, sizes.preferred, sizes.payload_max].map(u32::to_be_bytes);
                put(InfoType::BlockSize, sizes.as_flattened());
            }
        }
        out
    }
}

/// A metadata context of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaContext<'a> {
    /// ID on this connection.
    pub id: u32,
    /// Name.
    pub name: &'a [u8],
}

impl<'a> MetaContext<'a> {
    /// Decodes the data.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let id = be::u32(&mut r, "metadata context")?;
        be::bounded(r.left() as u64, be::STRING_MAX, "name of a metadata context")?;
        Ok(Self { id, name: r.rest() })
    }

    /// Encodes the data.
    pub fn encode(self) -> Vec<u8> {
        [&self.id.to_be_bytes(), self.name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{STRING_MAX, TransmissionFlags};
    use super::*;

    #[test]
    fn option_data_survives_a_round_trip() {
        let query = InfoQuery {
            name: b"disk",
            wanted: vec![InfoType::BlockSize, InfoType::Unknown(77), InfoType::Name],
        };
        assert_eq!(InfoQuery::decode(&query.encode()).unwrap(), query);
        let query = MetaQuery { name: b"", queries: vec![b"base:allocation", b"", b"x-y:"] };
        assert_eq!(MetaQuery::decode(&query.encode()).unwrap(), query);
        let entry = ServerEntry { name: b"a", description: b"a disk" };
        assert_eq!(ServerEntry::decode(&entry.encode()).unwrap(), entry);
        let context = MetaContext { id: 7, name: b"base:allocation" };
        assert_eq!(MetaContext::decode(&context.encode()).unwrap(), context);
        let info = ExportInfo { size: 1 << 40, flags: TransmissionFlags::HAS_FLAGS };
        let sizes = BlockSizes { minimum: 1, preferred: 4096, payload_max: 1 << 25 };
        let items = [
            InfoItem::Export(info),
            InfoItem::Name(b"n"),
            InfoItem::Description(b""),
            InfoItem::BlockSize(sizes),
        ];
        for item in items {
            assert_eq!(InfoItem::decode(&item.encode()).unwrap(), item);
        }
    }

    #[test]
    fn lengths_beyond_the_data_or_the_bound_are_rejected() {
        let good = InfoQuery { name: b"disk", wanted: vec![InfoType::Name] }.encode();
        for end in 0..good.len() {
            InfoQuery::decode(&good[..end]).unwrap_err();
        }
        InfoQuery::decode(&[&good[..], &[0]].concat()).unwrap_err();
        let longest = vec![b'x'; STRING_MAX];
        let query = |name| InfoQuery { name, wanted: Vec::new() }.encode();
        InfoQuery::decode(&query(&longest)).unwrap();
        InfoQuery::decode(&query(&vec![b'x'; STRING_MAX + 1])).unwrap_err();

        let good = MetaQuery { name: b"disk", queries: vec![b"base:", b"q"] }.encode();
        for end in 0..good.len() {
            MetaQuery::decode(&good[..end]).unwrap_err();
        }
        let mut many = MetaQuery { name: b"", queries: Vec::new() }.encode();
        let at = many.len() - 4;
        many[at..].fill(0xff);
        MetaQuery::decode(&many).unwrap_err();
        let too_long = vec![b'x'; STRING_MAX + 1];
        MetaQuery::decode(&MetaQuery { name: b"", queries: vec![&too_long] }.encode()).unwrap_err();
    }
}
