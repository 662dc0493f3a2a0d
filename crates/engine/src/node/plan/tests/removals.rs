//! Taints that others remove, and records that others write.

use super::*;
use crate::model::names::OWNED_ANNOTATION;
use crate::model::settings::NodeSettings;
use crate::node::facts::NodeFacts;
use crate::node::node_patch::NodePlan;

fn at(node: &NodeFacts, now: u64) -> NodePlan {
    plan_node(node, &NodeSettings::default(), &[], now)
}

fn removed(node: &NodeFacts) -> NodeFacts {
    NodeFacts { taints: Vec::new(), ..node.clone() }
}

fn applied(node: &NodeFacts, plan: &NodePlan) -> NodeFacts {
    plan.patch.as_ref().map_or_else(|| node.clone(), |patch| patch.apply(node))
}

/// A node after its taint was removed at these times, planned each time.
fn after_removals(times: &[u64]) -> NodeFacts {
    times.iter().fold(enforced(&node(BARE, "10.0.20348.1", &[])), |facts, now| {
        let bare = removed(&facts);
        applied(&bare, &at(&bare, *now))
    })
}

#[test]
fn a_removed_taint_is_set_again_but_not_for_ever() {
    let hour = 3600;
    let cases: [(&[u64], bool); 7] = [
        (&[0], true),
        (&[0, 10], true),
        (&[0, 10, 20], false),
        (&[0, 10, 20, 30], false),
        (&[0, 10, hour], true),
        (&[0, hour - 2, hour - 1], false),
        (&[0, hour, 2 * hour, 3 * hour, 4 * hour], true),
    ];
    for (times, set) in cases {
        let times: Vec<u64> = times.iter().map(|time| NOW + time).collect();
        let facts = after_removals(&times);
        assert_eq!(!facts.taints.is_empty(), set, "{times:?}");
        let last = *times.last().unwrap();
        let plan = at(&facts, last);
        assert_eq!((plan.patch.clone(), plan.hold == TaintHold::Contested), (None, !set), "{times:?} {plan:?}");
        assert_eq!(wanted_taint(&facts, &NodeSettings::default()), None);
        // A day later the result is the same.
        assert_eq!(at(&facts, last + 24 * hour).patch, None);
        // Everything that Mullion set on the node is removed.
        let bare = withdraw_node(&facts).unwrap().apply(&facts);
        assert_eq!((bare.annotations.len(), bare.taints.len()), (0, 0));
    }
}

#[test]
fn a_contest_ends_three_ways() {
    let contested = after_removals(&[NOW, NOW + 1, NOW + 2]);
    let plan = at(&contested, NOW + 3);
    assert!(
        plan.reasons.iter().any(|reason| reason.contains("3 times") && reason.contains(OWNED_ANNOTATION)),
        "{plan:?}"
    );
    // The policy wants another taint.
    let other = with(|policy| policy.taint.value = "Windows".to_owned());
    let plan = plan_node(&contested, &other, &[], NOW + 3);
    assert_eq!(taints(&applied(&contested, &plan)), ["os=Windows:NoSchedule"]);
    // The record is removed.
    let mut forgotten = contested.clone();
    forgotten.annotations.clear();
    assert_eq!(taints(&applied(&forgotten, &at(&forgotten, NOW + 3))), ["os=windows:NoSchedule"]);
    // Another tool adds it again: then it belongs to that tool, and the removals are forgotten.
    let mut back = contested.clone();
    back.taints.push(raw("os=windows:NoSchedule"));
    let back = applied(&back, &at(&back, NOW + 3));
    assert_eq!(at(&back, NOW + 4).hold, TaintHold::None);
    let bare = removed(&back);
    assert_eq!(taints(&applied(&bare, &at(&bare, NOW + 5))), ["os=windows:NoSchedule"]);
}

#[test]
fn only_removals_of_the_wanted_taint_count() {
    // The taint of another policy was removed between two plans.
    let facts = removed(&enforced(&node(BARE, "", &[])));
    let other = with(|policy| policy.taint.key = "mine".to_owned());
    let plan = plan_node(&facts, &other, &[], NOW);
    assert!(!applied(&facts, &plan).annotations[OWNED_ANNOTATION].contains("removed"), "{plan:?}");
    // A taint that another tool uses as its marker does not count as removed.
    let mut replaced = facts.clone();
    replaced.taints.push(raw("os=Windows:NoSchedule"));
    let replaced = applied(&replaced, &at(&replaced, NOW));
    assert!(replaced.annotations.is_empty(), "{replaced:?}");
    // While the taint waits, a removal is counted once.
    let blocked = [TaintBlocker::DaemonSet("a/b".to_owned())];
    let waiting = applied(&facts, &plan_node(&facts, &NodeSettings::default(), &blocked, NOW));
    assert_eq!(plan_node(&waiting, &NodeSettings::default(), &blocked, NOW + 1).patch, None);
    assert_eq!(waiting.annotations[OWNED_ANNOTATION].matches(&NOW.to_string()).count(), 1, "{waiting:?}");
}

#[test]
fn malformed_records_are_repaired() {
    let record = |at: &str| {
        let taint = r#"{"key":"os","value":"windows","effect":"NoSchedule"}"#;
        format!(r#"{{"taint":{taint},"removed":{{"taint":{taint},"at":{at}}}}}"#)
    };
    let many = format!("[{}]", vec!["1"; 10_000].join(","));
    let cases =
        ["[]", "[0]", "[18446744073709551615, 18446744073709551615]", "[-1]", "[1e99]", "\"x\"", "null", many.as_str()];
    for at_times in cases {
        let mut facts = node(BARE, "10.0.20348.1", &[]);
        facts.annotations.insert(OWNED_ANNOTATION.to_owned(), record(at_times));
        let first = applied(&facts, &at(&facts, NOW));
        assert_eq!(at(&first, NOW).patch, None, "{at_times}");
        assert!(first.annotations.get(OWNED_ANNOTATION).is_none_or(|text| text.len() < 600), "{at_times}: {first:?}");
        assert!(!withdraw_node(&first).unwrap().apply(&first).annotations.contains_key(OWNED_ANNOTATION), "{at_times}");
    }
}

/// What others may do to a node between two plans.
#[derive(Debug, Clone)]
enum Deed {
    RemoveTaints,
    Add(Value),
    Annotate(Option<String>),
    Wait(u64),
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let text = prop_oneof![
        Just(None),
        "[\\[\\]{}:,\"a-z0-9]{0,40}".prop_map(Some),
        prop::collection::vec(any::<u64>(), 0..6).prop_map(|at| {
            let taint = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
            Some(json!({"taint": taint, "removed": {"taint": taint, "at": at}}).to_string())
        }),
    ];
    prop_oneof![
        4 => Just(Deed::RemoveTaints),
        1 => any_taint().prop_map(Deed::Add),
        1 => text.prop_map(Deed::Annotate),
        2 => (0..2_000_u64).prop_map(Deed::Wait),
    ]
}

proptest! {
    #[test]
    fn whatever_others_do_plans_converge(deeds in prop::collection::vec(any_deed(), 0..12), policy in any_policy()) {
        let (mut facts, mut now) = (node(BARE, "10.0.20348.1", &[]), NOW);
        for deed in deeds {
            match deed {
                Deed::RemoveTaints => facts.taints.clear(),
                Deed::Add(taint) => facts.taints = vec![taint],
                Deed::Annotate(Some(text)) => { facts.annotations.insert(OWNED_ANNOTATION.to_owned(), text); }
                Deed::Annotate(None) => facts.annotations.clear(),
                Deed::Wait(seconds) => now += seconds,
            }
            facts = applied(&facts, &plan_node(&facts, &policy, &[], now));
            prop_assert_eq!(plan_node(&facts, &policy, &[], now).patch, None);
        }
    }

    #[test]
    fn controllers_do_not_fight(waits in prop::collection::vec(1..1200_u64, 3..30)) {
        let (mut facts, mut now, mut sets) = (enforced(&node(BARE, "", &[])), NOW, Vec::new());
        for wait in waits {
            now += wait;
            let bare = removed(&facts);
            facts = applied(&bare, &at(&bare, now));
            if !facts.taints.is_empty() {
                sets.push(now);
            }
        }
        for (place, first) in sets.iter().enumerate() {
            let within = sets[place..].iter().take_while(|time| *time - first < 3600).count();
            prop_assert!(within < 3, "{sets:?}");
        }
    }
}
