//! Numbers from the kernel's header: commands, sizes, and the layout of mappings.
//!
//! Source: linux `include/uapi/linux/ublk_cmd.h`; the encoding of commands follows `include/uapi/asm-generic/ioctl.h`.

/// Directions of a command's data, from the kernel's point of view.
const WRITES: u32 = 2 << 30;
const READS_AND_WRITES: u32 = 3 << 30;

/// Size of `struct ublksrv_ctrl_cmd` in bytes.
pub(crate) const CONTROL_COMMAND: usize = 32;

/// Size of `struct ublksrv_io_cmd` in bytes.
pub(crate) const IO_COMMAND: usize = 16;

/// Maximum requests per queue, which determines the distance of queues in the mapping of descriptors.
pub(crate) const DEPTH_MAX: u16 = 4096;

/// Maximum size of a request in bytes.
pub(crate) const REQUEST_MAX: u32 = 32 << 20;

const fn command(direction: u32, number: u32, size: usize) -> u32 {
    direction | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

const fn control(number: u32) -> u32 {
    command(READS_AND_WRITES, number, CONTROL_COMMAND)
}

pub(crate) const ADD_DEVICE: u32 = control(0x04);
pub(crate) const DELETE_DEVICE: u32 = control(0x05);
pub(crate) const START_DEVICE: u32 = control(0x06);
pub(crate) const STOP_DEVICE: u32 = control(0x07);
pub(crate) const SET_PARAMS: u32 = control(0x08);
pub(crate) const START_RECOVERY: u32 = control(0x10);
pub(crate) const END_RECOVERY: u32 = control(0x11);
pub(crate) const UPDATE_SIZE: u32 = control(0x15);
pub(crate) const GET_INFO: u32 = command(WRITES, 0x02, CONTROL_COMMAND);
pub(crate) const DELETE_DEVICE_LATER: u32 = command(WRITES, 0x14, CONTROL_COMMAND);
pub(crate) const GET_FEATURES: u32 = command(WRITES, 0x13, CONTROL_COMMAND);

pub(crate) const FETCH: u32 = command(READS_AND_WRITES, 0x20, IO_COMMAND);
pub(crate) const COMMIT_AND_FETCH: u32 = command(READS_AND_WRITES, 0x21, IO_COMMAND);

/// `struct ublksrv_ctrl_cmd`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    pub(crate) buffer: (u64, u16),
    pub(crate) value: u64,
}

impl ControlCommand {
    /// Encodes the command area of a 128-byte submission queue entry, which starts with the command.
    pub(crate) fn encode(self) -> [u8; 80] {
        const NO_QUEUE: u16 = u16::MAX;
        let (address, length) = self.buffer;
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        bytes[6..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_cmd`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoCommand {
    pub(crate) queue: u16,
    pub(crate) tag: u16,
    pub(crate) result: i32,
    pub(crate) address: u64,
}

impl IoCommand {
    pub(crate) fn encode(self) -> [u8; IO_COMMAND] {
        let mut bytes = [0; IO_COMMAND];
        bytes[..2].copy_from_slice(&self.queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.address.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_numbers_match_the_kernels_header() {
        assert_eq!(ADD_DEVICE, 0xc020_7504);
        assert_eq!(GET_FEATURES, 0x8020_7513);
        assert_eq!(FETCH, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH, 0xc010_7521);
    }

    #[test]
    fn a_control_command_names_no_queue() {
        let command = ControlCommand { device: 7, buffer: (0x1122, 64), value: 9 }.encode();
        assert_eq!(command[..8], [7, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!((command[8], command[9], command[16]), (0x22, 0x11, 9));
        assert!(command[CONTROL_COMMAND..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_io_command_has_its_queue_tag_result_and_address() {
        let command = IoCommand { queue: 1, tag: 2, result: -5, address: 0x3000 }.encode();
        assert_eq!(command, [1, 0, 2, 0, 0xfb, 0xff, 0xff, 0xff, 0, 0x30, 0, 0, 0, 0, 0, 0]);
    }
}
