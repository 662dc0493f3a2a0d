//! Results as lines of text: one for each check, and below a failed one what was seen, what it means, and its page.

use mullion_engine::model::text::list;

use crate::report::verify::model::{VerifyReport, VerifyResult, VerifyStatus};

/// The number of items of a result that text shows; JSON contains all.
const SHOWN: usize = 20;
/// The width of the longest word of a status.
const WIDTH: usize = 9;

/// The lines of a result. Text of others in them is not yet visible text.
pub(crate) fn result_lines(result: &VerifyResult) -> Vec<String> {
    let VerifyResult { status, proves, seen, items, means, page, .. } = result;
    let head = format!("{:WIDTH$}  {}: {proves}", status.word(), result.title());
    if *status != VerifyStatus::Failed {
        let mut lines = vec![format!("{head}: {seen}")];
        lines.extend(shown(items));
        return lines;
    }
    let mut lines = vec![head, format!("{:WIDTH$}  seen:  {seen}", "")];
    lines.extend(shown(items));
    lines.extend(means.map(|means| format!("{:WIDTH$}  means: {means}", "")));
    lines.push(format!("{:WIDTH$}  page:  {page}", ""));
    lines
}

fn shown(items: &[String]) -> impl Iterator<Item = String> {
    let more = items.len().saturating_sub(SHOWN);
    let rest = (more > 0).then(|| format!("{:WIDTH$}    and {more} more, shown by -o json", ""));
    items.iter().take(SHOWN).map(|item| format!("{:WIDTH$}    {item}", "")).chain(rest)
}

/// `12 ok, 1 failed, 2 skipped, 1 not tried`.
pub(crate) fn summary(report: &VerifyReport) -> String {
    list(VerifyStatus::ALL.map(|status| format!("{} {}", report.count(status), status.word())))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::report::verify::model::tests::result;

    #[test]
    fn a_failed_check_has_its_reason_meaning_and_page() {
        let ok = result_lines(&result(VerifyStatus::Ok, "on node w1"));
        assert_eq!(ok, ["ok         windows-pod ltsc2022: a pod runs on a fitting node: on node w1"]);
        let mut failed = result(VerifyStatus::Failed, "no node fits");
        failed.items = (0..22).map(|number| format!("node w{number}")).collect();
        let lines = result_lines(&failed);
        assert_eq!(
            (&*lines[0], &*lines[1], &*lines[2]),
            (
                "failed     windows-pod ltsc2022: a pod runs on a fitting node",
                "           seen:  no node fits",
                "             node w0"
            )
        );
        let end = [
            "             and 2 more, shown by -o json",
            "           means: the pod hangs",
            "           page:  docs/how-to/verify.md#windows-pod",
        ];
        assert_eq!(lines[22..], end);
        let longest = VerifyStatus::ALL.iter().map(|status| status.word().len()).max();
        assert_eq!(longest, Some(WIDTH));
    }

    #[test]
    fn the_summary_counts_each_status() {
        let mut report = VerifyReport::new("prod".to_owned(), String::new());
        report.checks = vec![result(VerifyStatus::Ok, ""), result(VerifyStatus::NotTried, "no room")];
        assert_eq!(summary(&report), "1 ok, 0 failed, 0 skipped, 1 not tried");
    }
}
