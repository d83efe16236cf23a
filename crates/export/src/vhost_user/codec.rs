//! The messages of a front end (vhost-user.rst, 'FrontRequest Specification').

use super::limits::REGIONS_A_MESSAGE;
use onego_wire::{DecodeError, Decoded, Reader};

/// Bytes of a header.
pub const HEADER_LEN: usize = 12;

/// The version of the protocol, in the lowest bits of the flags.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;

/// The bits of an eventfd's message that say of which queue it is, and the one that none comes along.
const EVENT_INDEX: u64 = 0xff;
const NO_EVENT: u64 = 0x100;

/// What every message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which message it is.
    pub request: u32,
    /// Version and flags.
    pub flags: u32,
    /// Bytes that follow.
    pub size: u32,
}

impl Header {
    /// Decodes a header.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { request: word(0), flags: word(4), size: word(8) }
    }

    /// Its version, which is to be 1.
    pub fn version(&self) -> u32 {
        self.flags & VERSION_MASK
    }

    /// Does the front end wait for an answer to a message that has none by itself?
    pub fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }

    /// The reply to the message, with that payload.
    pub fn reply(&self, payload: &[u8]) -> Vec<u8> {
        message(self.request, VERSION | REPLY, payload)
    }
}

/// The message by which a back end says that the configuration has changed (vhost-user.rst, 'Back-end message types').
pub fn configuration_changed() -> Vec<u8> {
    message(2, VERSION, &[])
}

fn message(request: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).expect("messages are short");
    let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
    for word in [request, flags, size] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// A range of memory that is shared. Addresses and lengths are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// Where it is for the guest.
    pub guest: u64,
    /// Its length.
    pub length: u64,
    /// Where it is for the front end.
    pub user: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

impl MemoryRange {
    fn encode(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let words = [self.guest, self.length, self.user, self.offset];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }
}

/// Where the parts of a queue are, by addresses of the front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingAddresses {
    /// The table of descriptors.
    pub descriptors: u64,
    /// What the driver makes available.
    pub available: u64,
    /// What the device has used.
    pub used: u64,
}

/// The record of requests in flight (vhost-user.rst, 'Inflight description').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InflightDescription {
    /// Bytes of its file.
    pub length: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Queues that it is for.
    pub queues: u16,
    /// Descriptors of each.
    pub queue_size: u16,
}

impl InflightDescription {
    /// Decodes one, as the reply to [`FrontRequest::GetInflightFd`] has it.
    pub fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            length: reader.u64("length of a record")?,
            offset: reader.u64("offset of a record")?,
            queues: reader.u16("queues of a record")?,
            queue_size: reader.u16("size of a queue")?,
        })
    }

    /// As a payload. (The structure in C ends on a border of 8 bytes.)
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.queues.to_le_bytes());
        bytes.extend_from_slice(&self.queue_size.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }
}

/// An eventfd of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueEvent {
    /// The queue.
    pub index: u32,
    /// Does an eventfd come along?
    pub is_there: bool,
}

/// A message of a front end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of vhost-user.rst, 'Front-end message types'")]
pub enum FrontRequest {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<MemoryRange>),
    SetVringNum {
        index: u32,
        size: u32,
    },
    SetVringAddr {
        index: u32,
        ring: RingAddresses,
    },
    SetVringBase {
        index: u32,
        base: u32,
    },
    GetVringBase {
        index: u32,
    },
    SetVringKick(QueueEvent),
    SetVringCall(QueueEvent),
    SetVringErr(QueueEvent),
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable {
        index: u32,
        enable: bool,
    },
    SetBackendReqFd,
    GetConfig {
        offset: u32,
        size: u32,
        flags: u32,
    },
    SetConfig {
        offset: u32,
        bytes: Vec<u8>,
    },
    GetInflightFd(InflightDescription),
    SetInflightFd(InflightDescription),
    ResetDevice,
    GetMaxMemSlots,
    AddMemReg(MemoryRange),
    RemMemReg(MemoryRange),
    /// One that is not known here.
    Unknown(u32),
}

impl FrontRequest {
    /// Decodes the payload of a message.
    pub fn decode(request: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        let reader = &mut Reader::new(payload);
        let message = match request {
            1 => Self::GetFeatures,
            2 => Self::SetFeatures(reader.u64("features")?),
            3 => Self::SetOwner,
            4 => Self::ResetOwner,
            5 => Self::SetMemTable(memory_table(reader)?),
            8 => Self::SetVringNum { index: index(reader)?, size: reader.u32("size of a queue")? },
            9 => ring_addresses(reader)?,
            10 => Self::SetVringBase { index: index(reader)?, base: reader.u32("base of a queue")? },
            11 => Self::GetVringBase { index: index(reader)? },
            12 => Self::SetVringKick(queue_event(reader)?),
            13 => Self::SetVringCall(queue_event(reader)?),
            14 => Self::SetVringErr(queue_event(reader)?),
            15 => Self::GetProtocolFeatures,
            16 => Self::SetProtocolFeatures(reader.u64("protocol features")?),
            17 => Self::GetQueueNum,
            18 => Self::SetVringEnable { index: index(reader)?, enable: reader.u32("enable")? != 0 },
            21 => Self::SetBackendReqFd,
            24 => get_config(reader)?,
            25 => set_config(reader)?,
            31 => Self::GetInflightFd(InflightDescription::decode(reader)?),
            32 => Self::SetInflightFd(InflightDescription::decode(reader)?),
            34 => Self::ResetDevice,
            36 => Self::GetMaxMemSlots,
            37 => Self::AddMemReg(single_range(reader)?),
            38 => Self::RemMemReg(single_range(reader)?),
            other => Self::Unknown(other),
        };
        Ok(message)
    }

    /// Its number (vhost-user.rst, 'Front-end message types').
    pub fn number(&self) -> u32 {
        match self {
            Self::GetFeatures => 1,
            Self::SetFeatures(_) => 2,
            Self::SetOwner => 3,
            Self::ResetOwner => 4,
            Self::SetMemTable(_) => 5,
            Self::SetVringNum { .. } => 8,
            Self::SetVringAddr { .. } => 9,
            Self::SetVringBase { .. } => 10,
            Self::GetVringBase { .. } => 11,
            Self::SetVringKick(_) => 12,
            Self::SetVringCall(_) => 13,
            Self::SetVringErr(_) => 14,
            Self::GetProtocolFeatures => 15,
            Self::SetProtocolFeatures(_) => 16,
            Self::GetQueueNum => 17,
            Self::SetVringEnable { .. } => 18,
            Self::SetBackendReqFd => 21,
            Self::GetConfig { .. } => 24,
            Self::SetConfig { .. } => 25,
            Self::GetInflightFd(_) => 31,
            Self::SetInflightFd(_) => 32,
            Self::ResetDevice => 34,
            Self::GetMaxMemSlots => 36,
            Self::AddMemReg(_) => 37,
            Self::RemMemReg(_) => 38,
            Self::Unknown(number) => *number,
        }
    }

    /// Its bytes, header and payload, as a front end sends them. `needs_reply`: it waits for an answer also where the message has none
    /// by itself.
    ///
    /// # Panics
    /// If the table of memory or the part of the configuration has more than 2^32 entries.
    pub fn encode(&self, needs_reply: bool) -> Vec<u8> {
        let flags = if needs_reply { VERSION | NEED_REPLY } else { VERSION };
        message(self.number(), flags, &self.payload())
    }

    fn payload(&self) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match self {
            Self::SetFeatures(features) | Self::SetProtocolFeatures(features) => {
                features.to_le_bytes().into()
            }
            Self::SetMemTable(ranges) => {
                let count = u32::try_from(ranges.len()).expect("tables are short");
                [words(&[count, 0]), ranges.iter().flat_map(MemoryRange::encode).collect()].concat()
            }
            Self::AddMemReg(range) | Self::RemMemReg(range) => [&[0; 8][..], &range.encode()].concat(),
            Self::SetVringNum { index, size: word } | Self::SetVringBase { index, base: word } => {
                words(&[*index, *word])
            }
            Self::GetVringBase { index } => words(&[*index, 0]),
            Self::SetVringEnable { index, enable } => words(&[*index, u32::from(*enable)]),
            Self::SetVringAddr { index, ring } => {
                let addresses = [ring.descriptors, ring.used, ring.available, 0].map(u64::to_le_bytes);
                [words(&[*index, 0]), addresses.as_flattened().into()].concat()
            }
            Self::SetVringKick(event) | Self::SetVringCall(event) | Self::SetVringErr(event) => {
                let none = if event.is_there { 0 } else { NO_EVENT };
                (u64::from(event.index) & EVENT_INDEX | none).to_le_bytes().into()
            }
            Self::GetConfig { offset, size, flags } => {
                // Room for what is asked for comes along.
                [words(&[*offset, *size, *flags]), vec![0; *size as usize]].concat()
            }
            Self::SetConfig { offset, bytes } => {
                let size = u32::try_from(bytes.len()).expect("configurations are short");
                [words(&[*offset, size, 0]), bytes.clone()].concat()
            }
            Self::GetInflightFd(description) | Self::SetInflightFd(description) => description.encode(),
            Self::GetFeatures
            | Self::SetOwner
            | Self::ResetOwner
            | Self::GetProtocolFeatures
            | Self::GetQueueNum
            | Self::SetBackendReqFd
            | Self::ResetDevice
            | Self::GetMaxMemSlots
            | Self::Unknown(_) => Vec::new(),
        }
    }

    /// Descriptors of files that come along: as many, or none, as the peer likes (`None`).
    pub fn descriptors(&self) -> Option<usize> {
        match self {
            Self::SetMemTable(ranges) => Some(ranges.len()),
            Self::SetVringKick(event) | Self::SetVringCall(event) | Self::SetVringErr(event) => {
                Some(usize::from(event.is_there))
            }
            Self::SetBackendReqFd | Self::SetInflightFd(_) | Self::AddMemReg(_) => Some(1),
            // Front ends send the descriptor of the region along, though it is not needed (vhost-user.rst, 'REM_MEM_REG').
            Self::RemMemReg(_) | Self::Unknown(_) => None,
            _ => Some(0),
        }
    }
}

fn index(reader: &mut Reader<'_>) -> Decoded<u32> {
    reader.u32("index of a queue")
}

fn queue_event(reader: &mut Reader<'_>) -> Decoded<QueueEvent> {
    let word = reader.u64("index of a queue")?;
    Ok(QueueEvent { index: (word & EVENT_INDEX) as u32, is_there: word & NO_EVENT == 0 })
}

fn memory_range(reader: &mut Reader<'_>) -> Decoded<MemoryRange> {
    Ok(MemoryRange {
        guest: reader.u64("address of a region")?,
        length: reader.u64("length of a region")?,
        user: reader.u64("address of a region")?,
        offset: reader.u64("offset of a region")?,
    })
}

fn single_range(reader: &mut Reader<'_>) -> Decoded<MemoryRange> {
    reader.u64("padding")?;
    memory_range(reader)
}

fn memory_table(reader: &mut Reader<'_>) -> Decoded<Vec<MemoryRange>> {
    let what = "regions of memory";
    let count = reader.u32(what)?;
    if count as usize > REGIONS_A_MESSAGE {
        let bound = REGIONS_A_MESSAGE as u64;
        return Err(DecodeError::OverBound { what, value: count.into(), bound });
    }
    reader.u32("padding")?;
    (0..count).map(|_| memory_range(reader)).collect()
}

fn ring_addresses(reader: &mut Reader<'_>) -> Decoded<FrontRequest> {
    let index = index(reader)?;
    // Flags: only that writes are to be logged, which is not offered.
    reader.u32("flags of a ring")?;
    let descriptors = reader.u64("address of descriptors")?;
    let used = reader.u64("address of the used ring")?;
    let available = reader.u64("address of the available ring")?;
    Ok(FrontRequest::SetVringAddr { index, ring: RingAddresses { descriptors, available, used } })
}

fn get_config(reader: &mut Reader<'_>) -> Decoded<FrontRequest> {
    let offset = reader.u32("offset in the configuration")?;
    let size = reader.u32("size of the configuration")?;
    Ok(FrontRequest::GetConfig { offset, size, flags: reader.u32("flags of the configuration")? })
}

fn set_config(reader: &mut Reader<'_>) -> Decoded<FrontRequest> {
    let offset = reader.u32("offset in the configuration")?;
    let size = reader.u32("size of the configuration")?;
    reader.u32("flags of the configuration")?;
    Ok(FrontRequest::SetConfig { offset, bytes: reader.take(size as usize, "configuration")?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = MemoryRange> {
        any::<[u64; 4]>().prop_map(|[guest, length, user, offset]| MemoryRange {
            guest,
            length,
            user,
            offset,
        })
    }

    fn event() -> impl Strategy<Value = QueueEvent> {
        (0..256_u32, any::<bool>()).prop_map(|(index, is_there)| QueueEvent { index, is_there })
    }

    fn description() -> impl Strategy<Value = InflightDescription> {
        any::<(u64, u64, u16, u16)>().prop_map(|(length, offset, queues, queue_size)| InflightDescription {
            length,
            offset,
            queues,
            queue_size,
        })
    }

    fn request() -> impl Strategy<Value = FrontRequest> {
        let plain = [1_u32, 3, 4, 15, 17, 21, 34, 36, 77];
        let plain = proptest::sample::select(plain.to_vec())
            .prop_map(|number| FrontRequest::decode(number, &[]).expect("it has no payload"));
        let ring = any::<[u64; 3]>().prop_map(|[descriptors, available, used]| RingAddresses {
            descriptors,
            available,
            used,
        });
        prop_oneof![
            plain,
            any::<u64>().prop_map(FrontRequest::SetFeatures),
            any::<u64>().prop_map(FrontRequest::SetProtocolFeatures),
            proptest::collection::vec(range(), 0..=REGIONS_A_MESSAGE).prop_map(FrontRequest::SetMemTable),
            any::<(u32, u32)>().prop_map(|(index, size)| FrontRequest::SetVringNum { index, size }),
            any::<(u32, u32)>().prop_map(|(index, base)| FrontRequest::SetVringBase { index, base }),
            any::<u32>().prop_map(|index| FrontRequest::GetVringBase { index }),
            any::<(u32, bool)>().prop_map(|(index, enable)| FrontRequest::SetVringEnable { index, enable }),
            (any::<u32>(), ring).prop_map(|(index, ring)| FrontRequest::SetVringAddr { index, ring }),
            event().prop_map(FrontRequest::SetVringKick),
            event().prop_map(FrontRequest::SetVringCall),
            event().prop_map(FrontRequest::SetVringErr),
            (any::<u32>(), 0..256_u32, any::<u32>())
                .prop_map(|(offset, size, flags)| FrontRequest::GetConfig { offset, size, flags }),
            (any::<u32>(), proptest::collection::vec(any::<u8>(), 0..256))
                .prop_map(|(offset, bytes)| FrontRequest::SetConfig { offset, bytes }),
            description().prop_map(FrontRequest::GetInflightFd),
            description().prop_map(FrontRequest::SetInflightFd),
            range().prop_map(FrontRequest::AddMemReg),
            range().prop_map(FrontRequest::RemMemReg),
        ]
    }

    proptest! {
        #[test]
        fn a_message_that_is_encoded_is_decoded_to_the_same(request in request(), needs_reply: bool) {
            let bytes = request.encode(needs_reply);
            let (header, payload) = bytes.split_first_chunk().expect("it has a header");
            let header = Header::decode(header);
            prop_assert_eq!((header.version(), header.needs_reply()), (1, needs_reply));
            prop_assert_eq!(header.size as usize, payload.len());
            prop_assert_eq!(FrontRequest::decode(header.request, payload), Ok(request));
        }
    }
}
