//! The fuzz targets under libFuzzer: `FUZZ_TARGET` selects one. run.sh builds and runs this.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use targets::{Meter, TARGETS, Target};

mod targets;

/// The limit of processor time for an input of a few kB: a hundred times what any input takes with instrumented code.
const MOST_TIME: Duration = Duration::from_secs(1);

/// Counts the bytes that are allocated now, and at most since [`Meter::peak_of`] began.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(memory, layout) }
    }

    /// The old and the new memory may exist at the same time.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

impl Meter for Counting {
    fn peak_of(&self, work: &mut dyn FnMut()) -> usize {
        let before = NOW.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        work();
        PEAK.load(Ordering::Relaxed).saturating_sub(before)
    }
}

/// The processor time of this thread, so that a busy or paused machine does not make an input slow.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux, and `time` is written only.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    if let Some(target) = found {
        // Data that every run needs is created once, and not measured.
        (target.run)(&[], &Counting);
        return target;
    }
    for target in &TARGETS {
        println!("{}", target.name);
    }
    std::process::exit(i32::from(name != "list"));
});

libfuzzer_sys::fuzz_target!(init: { LazyLock::force(&TARGET); }, |bytes: &[u8]| {
    let began = processor_time();
    (TARGET.run)(bytes, &Counting);
    let took = processor_time().saturating_sub(began);
    assert!(took <= MOST_TIME, "{took:?} of processor time");
});
