//! The picture of the fleet: a row for each pool, a column for each release that workloads are made for, and in each
//! cell the number of workloads. Misplaced workloads are red.

use std::collections::BTreeMap;

use maud::{Markup, html};
use mullion_engine::model::text::{counted, shorten, thousands};
use mullion_engine::model::windows::{Build, release_name};
use mullion_survey::report::{NodePool, SurveyReport, Workload};

use crate::report::document::svg;
use crate::report::document::svg::{centred, label, line, rect};
use crate::report::inventory_text::pods_text;
use crate::report::survey::groups::{common_builds, pool_runs, pool_system};

/// The maximum number of rows and columns, because more cannot be read.
const POOLS: usize = 40;
const COLUMNS: usize = 8;

/// Sizes in the picture's own units.
const WIDTH: usize = 980;
const LABELS: usize = 250;
const BARS: usize = 250;
const HEAD: usize = 44;
const ROW: usize = 58;
const LARGEST: usize = 44;
const SMALLEST: usize = 16;
const LONGEST_BAR: usize = 120;

/// The target of the images of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Target {
    /// Linux.
    Linux,
    /// A Windows build.
    Windows(Build),
    /// An operating system or a Windows build that is not known.
    Unknown,
}

impl Target {
    fn title(self) -> String {
        match self {
            Self::Linux => "Linux".to_owned(),
            Self::Windows(build) => release_name(build, &[]).into_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// Workloads of one target in one pool.
#[derive(Debug, Clone, Copy)]
struct Group {
    target: Target,
    workloads: usize,
    /// How many of them have misplaced pods in the pool.
    misplaced: usize,
}

/// The workloads in each pool: groups in the order of their targets, for each pool of the report.
#[derive(Debug)]
pub(super) struct Placement {
    pools: Vec<Vec<Group>>,
}

impl Placement {
    pub(super) fn of(report: &SurveyReport) -> Self {
        let mut groups: Vec<BTreeMap<Target, Group>> = vec![BTreeMap::new(); report.pools.len()];
        for workload in &report.workloads {
            let builds = common_builds(workload);
            for placed in &workload.placement {
                let (Some(pool), Some(groups)) = (report.pools.get(placed.pool), groups.get_mut(placed.pool)) else {
                    continue;
                };
                let target = target(workload, &builds, pool);
                let group = groups.entry(target).or_insert(Group { target, workloads: 0, misplaced: 0 });
                group.workloads += 1;
                group.misplaced += usize::from(placed.misplaced_pods > 0);
            }
        }
        Self { pools: groups.into_iter().map(|groups| groups.into_values().collect()).collect() }
    }

    /// `4 workloads for ltsc2019, 3 workloads for Linux (2 misplaced)`.
    pub(super) fn sentence(&self, pool: usize) -> String {
        let groups = self.pools.get(pool).map(Vec::as_slice).unwrap_or_default();
        let group = |group: &Group| {
            let misplaced = match group.misplaced {
                0 => String::new(),
                all if all == group.workloads => " (misplaced)".to_owned(),
                some => format!(" ({} misplaced)", thousands(some)),
            };
            let made_for = match group.target {
                Target::Unknown => "of unknown system or build".to_owned(),
                target => format!("for {}", target.title()),
            };
            format!("{} {made_for}{misplaced}", counted(group.workloads, "workload"))
        };
        groups.iter().map(group).collect::<Vec<_>>().join(", ")
    }
}

/// The column of a workload in a pool: for an image for several releases, the one that runs there.
fn target(workload: &Workload, builds: &[&str], pool: &NodePool) -> Target {
    match workload.os.as_str() {
        "linux" => return Target::Linux,
        "windows" => {}
        _ => return Target::Unknown,
    }
    let own = builds.iter().find(|build| pool.build.as_deref() == Some(**build));
    let fitting = own.or_else(|| builds.iter().rev().find(|build| pool_runs(pool, build)));
    fitting.or(builds.first()).and_then(|build| Build::from_label(build)).map_or(Target::Unknown, Target::Windows)
}

/// The picture, with a title and a description for screen readers.
pub(super) fn picture(report: &SurveyReport, placement: &Placement) -> Markup {
    let mut columns: Vec<Target> = placement.pools.iter().flatten().map(|group| group.target).collect();
    let hosts = report.pools.iter().map(|pool| match pool.build.as_deref().and_then(Build::from_label) {
        Some(build) if pool.os == "windows" => Target::Windows(build),
        _ if pool.os == "windows" => Target::Unknown,
        _ => Target::Linux,
    });
    let hosts: Vec<Target> = hosts.collect();
    columns.extend(&hosts);
    columns.sort_unstable();
    columns.dedup();
    columns.truncate(COLUMNS);
    let rows: Vec<(usize, &NodePool)> = report.pools.iter().enumerate().take(POOLS).collect();
    let text: String = rows.iter().map(|(at, pool)| description(pool, &placement.sentence(*at))).collect();
    let step = (WIDTH - LABELS - BARS) / columns.len().max(1);
    let middle = |column: usize| LABELS + column * step + step / 2;
    let mut parts = vec![
        label(0, 16, "head", "Pool"),
        label(0, 31, "soft", "nodes, system"),
        label(LABELS, 16, "soft", "Workloads by what their images are made for"),
        label(WIDTH - BARS + 16, 16, "head", "Pods"),
    ];
    let titles = columns.iter().enumerate();
    parts.extend(titles.map(|(at, column)| centred(middle(at), 35, "head", &shorten(&column.title(), 14))));
    let most = placement.pools.iter().flatten().map(|group| group.workloads).max().unwrap_or(1).max(1);
    let most_pods = report.pools.iter().filter_map(pods).max().unwrap_or(1).max(1);
    for (row, ((at, pool), host)) in rows.iter().zip(&hosts).enumerate() {
        let top = HEAD + row * ROW;
        parts.push(line(WIDTH, top));
        parts.push(label(0, top + 25, "head", &shorten(&pool.name, 28)));
        parts.push(label(0, top + 42, "soft", &shorten(&node_text(pool), 42)));
        let centre = top + ROW / 2;
        let groups = placement.pools.get(*at).map(Vec::as_slice).unwrap_or_default();
        for (column, target) in columns.iter().enumerate() {
            if target == host {
                parts.push(rect("home", (middle(column).saturating_sub(25), centre - 25), (50, 50), 6));
            }
            if let Some(group) = groups.iter().find(|group| group.target == *target) {
                parts.push(square(middle(column), centre, group, most));
            }
        }
        parts.push(bar(pool, top, most_pods));
    }
    svg::picture("fleet", (WIDTH, HEAD + rows.len() * ROW + 8), "What runs in which pool", &text, &parts)
}

/// `Pool win19, 3 nodes of Windows ltsc2019: 4 workloads for ltsc2019. 2 pods misplaced.`
fn description(pool: &NodePool, workloads: &str) -> String {
    let misplaced = match pool.misplaced_pods {
        None | Some(0) => String::new(),
        Some(misplaced) => format!(" {} misplaced.", counted(misplaced, "pod")),
    };
    let (name, nodes) = (shorten(&pool.name, 60), counted(pool.nodes, "node"));
    format!("Pool {name}, {nodes} of {}: {workloads}.{misplaced} ", pool_system(pool))
}

/// `3 nodes, Windows ltsc2019, 1 not ready`.
fn node_text(pool: &NodePool) -> String {
    let text = format!("{}, {}", counted(pool.nodes, "node"), pool_system(pool));
    match pool.nodes.saturating_sub(pool.ready) {
        0 => text,
        not_ready => format!("{text}, {not_ready} not ready"),
    }
}

fn pods(pool: &NodePool) -> Option<usize> {
    Some(pool.windows_pods?.saturating_add(pool.other_pods?))
}

/// A square whose area stands for the number of workloads.
fn square(x: usize, y: usize, group: &Group, most: usize) -> Markup {
    let area = LARGEST * LARGEST * group.workloads / most;
    let side = area.isqrt().clamp(SMALLEST, LARGEST);
    let class = match group {
        Group { misplaced: 1.., .. } => "wrong",
        Group { target: Target::Linux, .. } => "linux",
        Group { .. } => "right",
    };
    let number = match group.misplaced {
        0 => thousands(group.workloads),
        all if all == group.workloads => thousands(all),
        some => format!("{} of {}", thousands(some), thousands(group.workloads)),
    };
    let number = if number.len() * 8 + 4 <= side {
        centred(x, y + 4, "in", &number)
    } else {
        label(x + side / 2 + 4, y + 4, "", &number)
    };
    let corner = (x.saturating_sub(side / 2), y.saturating_sub(side / 2));
    html! { (rect(class, corner, (side, side), 4)) (number) }
}

/// The pods of a pool, the misplaced ones first and in red.
fn bar(pool: &NodePool, top: usize, most: usize) -> Markup {
    let (all, misplaced) = (pods(pool).unwrap_or_default(), pool.misplaced_pods.unwrap_or_default());
    let (x, y) = (WIDTH - BARS + 16, top + 21);
    let length = |pods: usize| if pods == 0 { 0 } else { (LONGEST_BAR * pods / most).max(3) };
    let wrong = length(misplaced.min(all));
    let all_length = length(all).max(wrong);
    let class = if pool.os == "windows" { "right" } else { "linux" };
    let text = match misplaced {
        0 => pods_text(pods(pool)),
        misplaced => format!("{}, {} misplaced", thousands(all), thousands(misplaced)),
    };
    let part = |class, width| rect(class, (x, y), (width, 16), 3);
    html! {
        (part("nothing", LONGEST_BAR))
        @if all_length > wrong { (part(class, all_length)) }
        @if wrong > 0 { (part("wrong", wrong)) }
        (label(x + LONGEST_BAR + 8, y + 12, "", &text))
    }
}
