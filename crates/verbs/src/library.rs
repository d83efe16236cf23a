//! The libraries, loaded on first use: a program with this crate runs without them, too.

use crate::ffi::*;
use libc::{c_char, c_int, c_void, sockaddr};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::sync::OnceLock;

/// Names of the libraries, with the versions of their binary interfaces.
const LIBIBVERBS: &CStr = c"libibverbs.so.1";
const LIBRDMACM: &CStr = c"librdmacm.so.1";

/// Declares the functions used, under their C names.
macro_rules! functions {
    ($($library:ident { $(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)* })*) => {
        pub(crate) struct Library {
            $($(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*)*
        }

        impl Library {
            fn load() -> Result<Self, String> {
                // In the order of their dependencies.
                $(let handle = open($library)?;
                $(let $name = symbol(handle, $library, concat!(stringify!($name), "\0"))?;)*)*
                Ok(Self {
                    $($($name: {
                        // SAFETY: the library declares the function with this signature in every version with this
                        // binary interface.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >($name)
                        }
                    },)*)*
                })
            }
        }
    };
}

functions! {
    LIBIBVERBS {
    fn ibv_query_device(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    fn ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd;
    fn ibv_dealloc_pd(*mut ibv_pd) -> c_int;
    fn ibv_reg_mr(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    fn ibv_dereg_mr(*mut ibv_mr) -> c_int;
    fn ibv_create_comp_channel(*mut ibv_context) -> *mut ibv_comp_channel;
    fn ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int;
    fn ibv_create_cq(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    fn ibv_destroy_cq(*mut ibv_cq) -> c_int;
    fn ibv_get_cq_event(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    fn ibv_ack_cq_events(*mut ibv_cq, u32);
    fn ibv_get_async_event(*mut ibv_context, *mut ibv_async_event) -> c_int;
    fn ibv_ack_async_event(*mut ibv_async_event);
    fn ibv_wc_status_str(c_int) -> *const c_char;
    fn ibv_event_type_str(c_int) -> *const c_char;
    }
    LIBRDMACM {
    fn rdma_create_event_channel() -> *mut rdma_event_channel;
    fn rdma_destroy_event_channel(*mut rdma_event_channel);
    fn rdma_create_id(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_int) -> c_int;
    fn rdma_destroy_id(*mut rdma_cm_id) -> c_int;
    fn rdma_migrate_id(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int;
    fn rdma_bind_addr(*mut rdma_cm_id, *mut sockaddr) -> c_int;
    fn rdma_listen(*mut rdma_cm_id, c_int) -> c_int;
    fn rdma_resolve_addr(*mut rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    fn rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int;
    fn rdma_create_qp(*mut rdma_cm_id, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int;
    fn rdma_destroy_qp(*mut rdma_cm_id);
    fn rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    fn rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
    fn rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int;
    fn rdma_disconnect(*mut rdma_cm_id) -> c_int;
    fn rdma_get_cm_event(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
    fn rdma_ack_cm_event(*mut rdma_cm_event) -> c_int;
    fn rdma_event_str(c_int) -> *const c_char;
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    pub(crate) fn get() -> io::Result<&'static Self> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(|why| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "{why} (it comes with rdma-core: Debian's packages librdmacm1 and ibverbs-providers)"
                ),
            )
        })
    }

    pub(crate) fn status(&self, status: c_int) -> String {
        // SAFETY: the function takes any number.
        let said = unsafe { (self.ibv_wc_status_str)(status) };
        // SAFETY: it returns a static string.
        unsafe { text(said) }
    }

    pub(crate) fn device_event(&self, event: c_int) -> String {
        // SAFETY: the function takes any number.
        let said = unsafe { (self.ibv_event_type_str)(event) };
        // SAFETY: it returns a static string.
        unsafe { text(said) }
    }

    pub(crate) fn connection_event(&self, event: c_int) -> String {
        // SAFETY: the function takes any number.
        let said = unsafe { (self.rdma_event_str)(event) };
        // SAFETY: it returns a static string.
        unsafe { text(said) }
    }
}

/// Opens a library for the lifetime of the process.
fn open(name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: loading a library runs its initialisers, which these two, as any other, provide for every program.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() { Err(last_error()) } else { Ok(handle) }
}

fn symbol(handle: *mut c_void, library: &CStr, name: &'static str) -> Result<*mut c_void, String> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the handle is that of an open library.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("{} has no function {}", library.to_string_lossy(), name.to_string_lossy()));
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: the function takes no arguments.
    let said = unsafe { libc::dlerror() };
    // SAFETY: it returns null or a string that is valid until the thread's next such call.
    unsafe { text(said) }
}

/// Converts a string of a library.
///
/// # Safety
/// It is null or valid until this returns.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Converts the result of a function that returns a number other than 0, and sets `errno`, if it fails.
pub(crate) fn done(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Converts the result of a function that returns an error number if it fails.
pub(crate) fn errno(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}
