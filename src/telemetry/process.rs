//! CPU time, memory, start time and version of the process, under the names that every Prometheus client library uses.

use std::fmt;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::telemetry::{unreadable_objects, watch_health};

/// The unit of `utime` and `stime` in `/proc/self/stat`: `USER_HZ`, which is 100 on every architecture that Linux and this
/// program run on (include/asm-generic/param.h).
const TICKS_PER_SECOND: f64 = 100.0;
/// The prefix of Mullion's own metrics.
const PREFIX: &str = "mullion";

/// Names and values of a series.
pub(crate) type MetricLabels<const N: usize> = [(&'static str, &'static str); N];

/// A registry with the metrics of every process and, under the prefix, those that `fill` registers.
pub(crate) fn registry(fill: impl FnOnce(&mut Registry)) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process { started: Timestamp::now().as_second() }));
    let own = registry.sub_registry_with_prefix(PREFIX);
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    own.register("build", "The running version", version);
    fill(own);
    watch_health::register(own);
    unreadable_objects::register(own);
    registry
}

/// The text of `/metrics`.
pub(crate) fn metrics_text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Process {
    started: i64,
}

/// Values from `/proc`; `None` on systems without it.
#[derive(Debug, Default, PartialEq)]
struct ProcessUsage {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<i64>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let read = |file| std::fs::read_to_string(file).unwrap_or_default();
        let taken = taken(&read("/proc/self/stat"), &read("/proc/self/status"));
        if let Some(seconds) = taken.cpu_seconds {
            let help = "User and system CPU time, in seconds";
            let unit = Some(&Unit::Seconds);
            ConstCounter::new(seconds).encode(encoder.encode_descriptor(
                "process_cpu",
                help,
                unit,
                MetricType::Counter,
            )?)?;
        }
        let mut gauge = |name, help, unit, value: i64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, Some(unit), MetricType::Gauge)?)
        };
        if let Some(bytes) = taken.resident_bytes {
            gauge("process_resident_memory", "Resident memory, in bytes", &Unit::Bytes, bytes)?;
        }
        gauge("process_start_time", "When the process started, in seconds since 1970", &Unit::Seconds, self.started)
    }
}

/// From `/proc/self/stat` and `/proc/self/status`, proc(5).
fn taken(stat: &str, status: &str) -> ProcessUsage {
    // The second field is the program's name in brackets, and can contain any text, including brackets.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut times = after_name.split(' ').skip(11).map_while(|ticks| ticks.parse::<u32>().ok());
    let ticks = times.next().zip(times.next()).map(|(user, system)| f64::from(user) + f64::from(system));
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    ProcessUsage {
        cpu_seconds: ticks.map(|ticks| ticks / TICKS_PER_SECOND),
        resident_bytes: resident.and_then(|kibibytes| kibibytes.parse::<i64>().ok()?.checked_mul(1024)),
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn values_of_proc_are_read_and_missing_ones_left_out() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 9 0 12345 1 2 3";
        let status = "Name:\tmullion\nVmRSS:\t   20480 kB\nThreads:\t9\n";
        let all = ProcessUsage { cpu_seconds: Some(2.0), resident_bytes: Some(20_971_520) };
        assert_eq!(taken(stat, status), all);
        for (stat, status) in [("", ""), ("7 (a) S 1", "VmRSS:\t-"), ("7 (a) S 1 7 7 0 -1 0 0 0 0 0 x 1 ", "VmRSS: kB")]
        {
            assert_eq!(taken(stat, status), ProcessUsage::default(), "{stat}");
        }
    }

    #[test]
    fn metric_names_are_the_standard_ones() {
        let text = metrics_text(&registry(|own| own.register("x", "X", Gauge::<i64>::default()))).unwrap();
        let version = concat!("mullion_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
        for start in ["process_start_time_seconds 1", "mullion_x 0", version] {
            assert!(text.lines().any(|line| line.starts_with(start)), "no {start} in\n{text}");
        }
        if cfg!(target_os = "linux") {
            for start in ["process_cpu_seconds_total ", "process_resident_memory_bytes "] {
                assert!(text.lines().any(|line| line.starts_with(start)), "no {start} in\n{text}");
            }
        }
    }
}
