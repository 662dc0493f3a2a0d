//! The date until which each workload must have moved: the first on which a pool of it, an image or a product loses support.

use std::collections::BTreeMap;

use jiff::civil::Date;
use mullion_engine::model::Os;
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::text::{counted, list_with};
use mullion_engine::model::windows::Build;

use crate::context::PlanContext;
use crate::report::{CalendarEntry, ImageUse, PlannedContainer, PoolPart};
use crate::scope::MoveScope;
use crate::workload_move::WorkloadMove;
use mullion_engine::model::MinorVersion;
use mullion_survey::analysis::{Fleet, FleetPool, is_image, next_first};
use mullion_survey::facts::dates::{Concerns, LifecycleDate};
use mullion_survey::report::{Deadline, FirstObjects};

/// What is added to a date that is earlier than the day of the report.
const PASSED: &str = "; the date has passed";

/// The first date of a workload: of its pools, of the newest release of each image, and of products in them. If it has
/// passed, the next date follows. Container runtimes do not: nodes get newer ones without another Windows release. Kubernetes
/// versions are entries of the calendar, because they belong to pools ([`add_kubernetes_dates`]).
pub(crate) fn deadlines(one: &WorkloadMove, fleet: &Fleet<'_>, context: PlanContext<'_>) -> Vec<Deadline> {
    let rows = context
        .survey
        .facts
        .dates
        .iter()
        .filter(|row| (row.ends || row.deletes) && !row.concerns.is_runtime() && row.concerns.kubelet.is_none());
    let found = rows.filter_map(|row| Some(Deadline::of(row, concerned(row, one, fleet, context)?)));
    let products = one.report.images().filter_map(|(of, image)| product_end(of, image, context));
    let mut all: Vec<Deadline> = found.chain(products).collect();
    // The sort is stable: of equal dates, the rows of dates come first, because they name more than those of images.
    all.sort_by_key(|deadline| deadline.date);
    let mut bound = Vec::new();
    for mut deadline in all {
        let passed = deadline.date < context.survey.today;
        if passed && !bound.is_empty() {
            continue;
        }
        deadline.concerns = format!("{}{}.", deadline.concerns, if passed { PASSED } else { "" });
        bound.push(deadline);
        if !passed {
            break;
        }
    }
    bound
}

/// What of a workload a row is about, without a full stop: `Pool win19`.
fn concerned(row: &LifecycleDate, one: &WorkloadMove, fleet: &Fleet<'_>, context: PlanContext<'_>) -> Option<String> {
    let Concerns { node_build, image_build, provider, image, .. } = &row.concerns;
    let pools = one.homes.iter().filter_map(|pool| fleet.pools.get(*pool));
    let has_provider =
        |own: Option<&str>| provider.as_deref().is_none_or(|wanted| context.provider.or(own) == Some(wanted));
    if node_build.is_some() {
        let is_concerned =
            |pool: &FleetPool| pool.os == Some(Os::Windows) && row.concerns.is_product(pool.product, pool.build);
        let pools = pools.filter(|pool| has_provider(pool.provider) && is_concerned(pool));
        let names: Vec<&str> = pools.map(|pool| pool.name.as_str()).collect();
        let label = if names.len() == 1 { "Pool" } else { "Pools" };
        return (!names.is_empty()).then(|| format!("{label} {}", list_with(names, "and")));
    }
    if !has_provider(pools.clone().find_map(|pool| pool.provider)) {
        return None;
    }
    let is_concerned = |(_, planned): &(ImageUse, &PlannedContainer)| {
        let newest = planned.builds.iter().filter_map(|build| build.parse::<Build>().ok()).max();
        image_build.is_none_or(|build| newest == Some(build))
            && image.as_deref().is_none_or(|start| is_image(&planned.image, start))
            && (image_build.is_some() || image.is_some())
    };
    one.report.images().find(is_concerned).map(|(of, planned)| title(of, planned))
}

/// `Image of container web`.
fn title(of: ImageUse, planned: &PlannedContainer) -> String {
    format!("Image of {} {}", of.name(), planned.name)
}

/// The end of the product in an image, by the table of published images, which knows copies in other registries too.
fn product_end(of: ImageUse, planned: &PlannedContainer, context: PlanContext<'_>) -> Option<Deadline> {
    let row = context.survey.facts.images.row(&ImageRef::parse(&planned.image).ok()?)?;
    let end = row.support_end.as_ref()?;
    let product = row.product.as_deref().unwrap_or("the product");
    Some(Deadline {
        date: end.date,
        what: format!("Support of the version of {product} in the image ends; use {}", end.instead),
        concerns: title(of, planned),
        source: row.source.clone(),
        as_of: row.as_of,
    })
}

/// The dates of all workloads, the next first, then those that passed.
pub(crate) fn calendar(moves: &[WorkloadMove], today: Date) -> Vec<CalendarEntry> {
    let mut groups: BTreeMap<(Date, &str), (&Deadline, FirstObjects)> = BTreeMap::new();
    for one in moves {
        for deadline in one.report.deadline.iter().chain(&one.next_deadline) {
            let key = (deadline.date, deadline.what.as_str());
            groups.entry(key).or_insert_with(|| (deadline, FirstObjects::default())).1.add(&one.report.object);
        }
    }
    let entry = |(deadline, FirstObjects { objects, all }): (&Deadline, FirstObjects)| {
        let passed = if deadline.date < today { PASSED } else { "" };
        let concerns = format!("{}{passed}.", counted(all, "Windows workload"));
        CalendarEntry { deadline: Deadline { concerns, ..deadline.clone() }, all, workloads: objects }
    };
    let mut entries: Vec<CalendarEntry> = groups.into_values().map(entry).collect();
    entries.sort_by(|a, b| next_first(&a.deadline, &b.deadline, today));
    entries
}

/// Adds the dates of the Kubernetes versions of the pools that leave; of all Windows pools if none leaves. They bind no
/// single workload, and a newer version of the pool moves them, unless the Windows release has no newer one.
pub(crate) fn add_kubernetes_dates(
    entries: &mut Vec<CalendarEntry>,
    fleet: &Fleet<'_>,
    scope: &MoveScope,
    context: PlanContext<'_>,
) {
    let is_dated = |at: usize| scope.part(at).is_some_and(|part| part == PoolPart::Leaves || !scope.leaves());
    let dated = || fleet.pools.iter().enumerate().filter(|(at, _)| is_dated(*at)).map(|(_, pool)| pool);
    for row in &context.survey.facts.dates {
        let Concerns { image_build, provider, kubelet: Some(version), image, .. } = &row.concerns else {
            continue;
        };
        let is_of_more = image_build.is_some() || row.concerns.is_runtime() || image.is_some();
        if is_of_more || provider.as_ref().is_some_and(|provider| scope.provider.as_ref() != Some(provider)) {
            continue;
        }
        let has_version = |pool: &&FleetPool| {
            let kubelets = fleet.nodes_of(pool).filter_map(|node| MinorVersion::of(&node.record?.kubelet));
            row.concerns.is_product(pool.product, pool.build) && kubelets.into_iter().any(|own| own == *version)
        };
        let names: Vec<&str> = dated().filter(has_version).map(|pool| pool.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let pools = if names.len() == 1 { "pool" } else { "pools" };
        let passed = if row.date < context.survey.today { PASSED } else { "" };
        let concerns = format!("The Kubernetes version of {pools} {}{passed}.", list_with(names, "and"));
        entries.push(CalendarEntry { deadline: Deadline::of(row, concerns), workloads: Vec::new(), all: 0 });
    }
    entries.sort_by(|a, b| next_first(&a.deadline, &b.deadline, context.survey.today));
}

#[cfg(test)]
mod tests;
