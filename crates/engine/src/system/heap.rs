//! Free memory retained by the allocator.

/// Returns the allocator's free memory to the system, page by page. By default the system's allocator retains all freed
/// blocks below the highest one in use. Takes about 100 ms per GiB of free memory, during which other threads may block
/// on allocations.
pub fn trim_heap() {
    // Other C libraries return memory by themselves.
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only the allocator's own free memory, under the allocator's locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_env = "gnu")]
    #[test]
    fn small_blocks_that_were_freed_go_back_to_the_system() {
        let pages = || -> usize {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse().unwrap()
        };
        let mut blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 4000]).collect();
        let full = pages();
        // A block at the end keeps the heap from shrinking.
        blocks.drain(..blocks.len() - 1);
        trim_heap();
        assert!(pages() + 15_000 < full, "{} pages of {full} are left", pages());
    }
}
