//! `lands`: where pods must be, one entry for each pod.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};

/// The place of a pod that the scheduler could not place.
pub const NOWHERE: &str = "nowhere";

/// The nodes that one pod may be on.
pub type Places = BTreeSet<String>;

/// `linux-1`, `nowhere`, `any of [a, b]`, each with ` x3` for three pods.
pub fn parse(entry: &str) -> Result<Vec<Places>> {
    let (what, times) = match entry.rsplit_once(" x") {
        Some((what, times)) => (what, times.parse().with_context(|| format!("{entry:?}: how many pods?"))?),
        None => (entry, 1),
    };
    let list = what.strip_prefix("any of [").and_then(|rest| rest.strip_suffix(']'));
    let places: Places = match list {
        Some(list) => list.split(',').map(|node| node.trim().to_owned()).collect(),
        None => Places::from([what.trim().to_owned()]),
    };
    let name = |text: &String| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    ensure!(
        times > 0 && places.iter().all(name),
        "{entry:?} is neither a node, `nowhere`, nor `any of [a, b]`, with ` x3` for more than one pod"
    );
    Ok(vec![places; times])
}

/// Whether each pod can be assigned an entry of its own that allows its node, and no entry is left.
pub fn fits(wanted: &[Places], nodes: &[String]) -> bool {
    // Augmenting paths (Kuhn): entries overlap, so the first that allows a node may not be the right one.
    fn place(pod: usize, wanted: &[Places], nodes: &[String], taken: &mut [Option<usize>], tried: &mut [bool]) -> bool {
        for entry in 0..wanted.len() {
            if tried[entry] || !wanted[entry].contains(&nodes[pod]) {
                continue;
            }
            tried[entry] = true;
            if taken[entry].is_none_or(|other| place(other, wanted, nodes, taken, tried)) {
                taken[entry] = Some(pod);
                return true;
            }
        }
        false
    }
    let mut taken = vec![None; wanted.len()];
    wanted.len() == nodes.len()
        && (0..nodes.len()).all(|pod| place(pod, wanted, nodes, &mut taken, &mut vec![false; wanted.len()]))
}
