//! Binary interface of rdma-core: the parts of its structures that are used here, and its constants.
//!
//! Source: rdma-core `libibverbs/verbs.h` and `librdmacm/rdma_cma.h`. The structures are part of the libraries' binary
//! interface, because the calls of the hot path are inline functions of the header. [`LAYOUT`] lists the expected
//! layouts, for a test that asks a C compiler.

#![allow(non_camel_case_types, reason = "C names")]
#![allow(dead_code, reason = "unused fields determine the offsets of others")]

use libc::{c_int, c_void, sockaddr_storage};
use std::marker::{PhantomData, PhantomPinned};

/// Declares opaque structures of the libraries.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            _data: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

/// Declares structures, with their sizes and offsets under their C names. More fields of `(part)` structures follow in
/// the header.
macro_rules! layout {
    ($($(#[$($meta:tt)*])* $kind:tt struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(#[repr(C)] #[derive(Clone, Copy)] $(#[$($meta)*])* pub(crate) struct $name { $(pub(crate) $field: $type,)* })*

        /// Expected layout in C: of each structure its size, if it is declared completely, and the offsets of its
        /// fields.
        pub(crate) const LAYOUT: &[(&str, Option<usize>, &[(&str, usize)])] = &[
            $((stringify!($name), layout!(@size $kind $name), &[
                $((stringify!($field), std::mem::offset_of!($name, $field)),)*
            ]),)*
        ];
    };
    (@size whole $name:ident) => { Some(size_of::<$name>()) };
    (@size part $name:ident) => { None };
}

opaque! { ibv_pd ibv_srq }

type Compat = *mut c_void;

layout! {
    part struct ibv_device {
        _ops: [Compat; 2],
        node_type: c_int,
        transport_type: c_int,
        name: [libc::c_char; 64],
    }

    part struct ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
    }

    whole struct ibv_context_ops {
        _compat_query_device: [Compat; 11],
        poll_cq: unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
        req_notify_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
        _compat_cq_event: [Compat; 12],
        post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
        post_recv: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        _compat_create_ah: [Compat; 5],
    }

    whole struct ibv_device_attr {
        fw_ver: [u8; 64],
        node_guid: u64,
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: u32,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: [c_int; 16],
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }

    part struct ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
    }

    part struct ibv_qp {
        context: *mut ibv_context,
    }

    whole struct ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }

    whole struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }

    whole struct ibv_qp_cap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }

    whole struct ibv_qp_init_attr {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_int,
        sq_sig_all: c_int,
    }

    whole struct ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    whole struct ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_int,
        send_flags: u32,
        invalidate_rkey: u32,
        wr: ibv_send_wr_rdma,
        // For kinds of work that are not used here.
        qp_type: [u64; 7],
    }

    whole struct ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }

    whole struct ibv_wc {
        wr_id: u64,
        status: c_int,
        opcode: c_int,
        vendor_err: u32,
        byte_len: u32,
        invalidated_rkey: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: u32,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }

    whole struct ibv_async_event {
        // One of several pointers, or a number, by the kind of event.
        element: *mut c_void,
        event_type: c_int,
    }

    whole struct rdma_event_channel {
        fd: c_int,
    }

    part struct rdma_cm_id {
        verbs: *mut ibv_context,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        qp: *mut ibv_qp,
        route: rdma_route,
    }

    part struct rdma_route {
        addr: rdma_addr,
    }

    part struct rdma_addr {
        src_storage: sockaddr_storage,
        dst_storage: sockaddr_storage,
    }

    whole struct rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }

    part struct rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: c_int,
        status: c_int,
        // The other member of the union is for datagrams.
        param: rdma_conn_param,
    }
}

/// Fields of an RDMA Write or Read in a work request; in C, a member of an anonymous union.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_send_wr_rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    pub(crate) _other: [u32; 5],
}

/// Declares constants under their C names.
macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(pub(crate) const $name: c_int = $value;)*

        /// Expected values in C.
        pub(crate) const CONSTANTS: &[(&str, c_int)] = &[$((stringify!($name), $name),)*];
    };
}

constants! {
    IBV_TRANSPORT_IWARP = 1;
    IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21;

    IBV_ACCESS_LOCAL_WRITE = 1;
    IBV_ACCESS_REMOTE_WRITE = 1 << 1;
    IBV_ACCESS_REMOTE_READ = 1 << 2;

    IBV_QPT_RC = 2;

    IBV_WR_RDMA_WRITE = 0;
    IBV_WR_SEND = 2;
    IBV_WR_RDMA_READ = 4;
    IBV_WR_SEND_WITH_INV = 9;

    IBV_SEND_SIGNALED = 1 << 1;
    IBV_SEND_SOLICITED = 1 << 2;

    IBV_WC_SUCCESS = 0;
    IBV_WC_WR_FLUSH_ERR = 5;
    IBV_WC_WITH_INV = 1 << 3;

    IBV_EVENT_CQ_ERR = 0;
    IBV_EVENT_QP_FATAL = 1;
    IBV_EVENT_QP_REQ_ERR = 2;
    IBV_EVENT_QP_ACCESS_ERR = 3;

    RDMA_PS_TCP = 0x0106;

    RDMA_CM_EVENT_ADDR_RESOLVED = 0;
    RDMA_CM_EVENT_ADDR_ERROR = 1;
    RDMA_CM_EVENT_ROUTE_RESOLVED = 2;
    RDMA_CM_EVENT_ROUTE_ERROR = 3;
    RDMA_CM_EVENT_CONNECT_REQUEST = 4;
    RDMA_CM_EVENT_CONNECT_ERROR = 6;
    RDMA_CM_EVENT_UNREACHABLE = 7;
    RDMA_CM_EVENT_REJECTED = 8;
    RDMA_CM_EVENT_ESTABLISHED = 9;
    RDMA_CM_EVENT_DISCONNECTED = 10;
    RDMA_CM_EVENT_DEVICE_REMOVAL = 11;
}
