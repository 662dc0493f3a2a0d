//! The report as metrics, computed for each scrape, so that the metrics of a file disappear with the file.

use std::fmt;

use mullion_policy::{PodPolicy, PolicyFileState, PolicyFileStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::policy_files::report::PolicyReporter;

/// The maximum number of files with metrics of their own: bad ones first, then in order of name. `policy_files` counts
/// all.
const MOST_FILES: usize = 64;

/// The maximum number of exemptions with a metric.
const MOST_EXEMPTIONS: usize = 64;

impl Collector for PolicyReporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let report = self.report();
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let mut gauge = |name: &str, help: &str, value: i64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let problems = report.problems().count() + usize::from(report.panicked);
        gauge("policy_load_errors", "Problems in the current policy files", count(problems))?;
        let help = "When the policies in force were loaded, in seconds since 1970";
        gauge("policy_last_good_timestamp", help, report.last_good.unwrap_or_default())?;
        let help = "When the policy files were last read, changed or not, in seconds since 1970; 0: there are none";
        gauge("policy_last_read_timestamp", help, self.last_read())?;
        let help =
            "Whether the policies in force are those stored in ConfigMap mullion-state, because the files are invalid";
        gauge("policies_from_state", help, i64::from(report.kept))?;
        let help = "Warnings about the policies in force: see /policies";
        gauge("policy_warnings", help, count(report.warnings.len()))?;

        let help = "Changes of the policy files";
        let mut reloads = encoder.encode_descriptor("policy_reload", help, None, MetricType::Counter)?;
        for (outcome, number) in self.reloads() {
            ConstCounter::new(number).encode(reloads.encode_family(&[("outcome", outcome)])?)?;
        }
        let help =
            "Policy files by status: in force, bad, valid but waiting for a bad one, or removed beside a bad one";
        let mut files = encoder.encode_descriptor("policy_files", help, None, MetricType::Gauge)?;
        for standing in PolicyFileState::ALL {
            let number = count(report.standing(standing).count());
            ConstGauge::new(number).encode(files.encode_family(&[("status", standing.name())])?)?;
        }

        let end = |policy: &PodPolicy| Some((policy.until.as_ref()?.end, policy.name.clone()));
        // Exemptions that end next come first, then those that ended last.
        let mut exemptions: Vec<_> = report.set.own().filter_map(end).collect();
        exemptions.sort_unstable();
        let mut ended: Vec<_> = report.set.ended.iter().filter_map(end).collect();
        ended.sort_unstable_by(|a, b| b.cmp(a));
        exemptions.append(&mut ended);
        exemptions.truncate(MOST_EXEMPTIONS);
        let help = "When an exemption ends or has ended (`until` of its PodPolicy), in seconds since 1970";
        let mut ends = encoder.encode_descriptor("policy_exemption_end_timestamp", help, None, MetricType::Gauge)?;
        for (end, policy) in exemptions {
            ConstGauge::new(end).encode(ends.encode_family(&[("policy", policy.as_str())])?)?;
        }

        let mut present: Vec<&PolicyFileStatus> =
            report.files.iter().filter(|file| file.standing != PolicyFileState::Gone).collect();
        present.sort_by_key(|file| file.standing != PolicyFileState::Bad);
        present.truncate(MOST_FILES);
        let mut of_files = |name: &str, help: &str, value: &dyn Fn(&PolicyFileStatus) -> i64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for file in &present {
                ConstGauge::new(value(file)).encode(family.encode_family(&[("file", file.short_name.as_str())])?)?;
            }
            Ok(())
        };
        let help = "Whether the current policy file is valid: 1 or 0";
        of_files("policy_file_valid", help, &|file| i64::from(file.standing != PolicyFileState::Bad))?;
        let help = "Problems in the current policy file";
        of_files("policy_file_problems", help, &|file| count(file.problems.len()))?;
        let help = "When a change of a policy file was last seen by this process, in seconds since 1970";
        of_files("policy_file_last_change_timestamp", help, &|file| file.changed)
    }
}
