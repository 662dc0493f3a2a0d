//! The fence has a rule for each write that the chart's roles allow, and no others.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use mullion_cluster::Chart;
use serde_json::Value;

use crate::rendered::{Rendered, list, text};

/// Programs with permission to write.
const PROGRAMS: [&str; 2] = ["controller", "withdraw"];

fn words<'a>(value: &'a Value, pointer: &'a str) -> impl Iterator<Item = &'a str> {
    list(value, pointer).iter().filter_map(Value::as_str)
}

/// `UPDATE nodes` for each write that a program is permitted; Events are not fenced.
fn writes(chart: &Chart, program: &str) -> Result<BTreeSet<String>> {
    let mut writes = BTreeSet::new();
    for (_, rule) in chart.rules_of(&format!("mullion-{program}"))? {
        for resource in words(&rule, "/resources").filter(|resource| *resource != "events") {
            let operation = |verb| match verb {
                "create" => Some("CREATE"),
                "patch" | "update" => Some("UPDATE"),
                "delete" => Some("DELETE"),
                _ => None,
            };
            writes.extend(words(&rule, "/verbs").filter_map(operation).map(|one| format!("{one} {resource}")));
        }
    }
    Ok(writes)
}

/// `helm template`, which has no list of kinds, renders the fence; for a cluster without this kind in its list it is
/// not rendered.
pub fn servers_without_the_kind_get_no_fence() -> Result<()> {
    let version = "admissionregistration.k8s.io/v1";
    let policies = |kinds: &[&str]| -> Result<usize> {
        let chart = kinds.iter().fold(Chart::default(), |chart, kind| {
            chart.argument("--api-versions").argument(format!("{version}/{kind}"))
        });
        let objects = chart.objects()?;
        Ok(objects.iter().filter(|object| text(object, "/kind").starts_with("ValidatingAdmissionPolicy")).count())
    };
    let without = policies(&["ValidatingWebhookConfiguration"])?;
    let with = policies(&["ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy"])?;
    let offline = policies(&[])?;
    ensure!((without, with, offline) == (0, 12, 12), "{without} {with} {offline}");
    Ok(())
}

pub fn every_write_is_fenced(file: &Rendered) -> Result<()> {
    let policies: Vec<_> = file.of_kind("ValidatingAdmissionPolicy")?.collect();
    if !file.is_on("/fence/enabled") {
        ensure!(policies.is_empty(), "{} policies", policies.len());
        return Ok(());
    }
    // The expressions match the controller even if someone else created its roles, and with or without the Job.
    let chart = file.chart().value("rbac.create=true").value("withdraw.enabled=true");
    let mut fenced: BTreeSet<(&str, String)> = BTreeSet::new();
    for policy in policies {
        let name = text(policy, "/metadata/name");
        let binding = file.named("ValidatingAdmissionPolicyBinding", name)?;
        ensure!(
            binding["spec"]["policyName"] == name && binding["spec"]["validationActions"][0] == "Deny",
            "{binding}"
        );
        ensure!(policy["spec"]["failurePolicy"] == "Fail", "{name}");
        let condition = text(policy, "/spec/matchConditions/0/expression");
        for program in PROGRAMS {
            let user = format!("\"system:serviceaccount:mullion-system:mullion-{program}\"");
            for rule in
                list(policy, "/spec/matchConstraints/resourceRules").iter().filter(|_| condition.contains(&user))
            {
                for resource in words(rule, "/resources") {
                    let operations = words(rule, "/operations");
                    fenced.extend(operations.map(|operation| (program, format!("{operation} {resource}"))));
                }
            }
        }
        for validation in list(policy, "/spec/validations") {
            let message = text(validation, "/message");
            ensure!(validation["reason"] == "Forbidden" && message.contains("chart value fence."), "{name}: {message}");
            ensure!(message.len() < 512, "{name}: an Event has no room for {message}");
        }
    }
    // Pods of other namespaces are not fenced, unless others grant the permissions.
    let probe = file.named("ValidatingAdmissionPolicy", "mullion-fence-probe")?;
    let selected =
        &probe["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
    let expected = if file.is_on("/rbac/create") { file.value("/controller/probeNamespace") } else { &Value::Null };
    ensure!(selected == expected, "{selected}");
    let mut needed = BTreeSet::new();
    for program in PROGRAMS {
        let writes = writes(&chart, program)?;
        ensure!(!writes.is_empty(), "{program} writes nothing");
        let missing: Vec<_> = writes.iter().filter(|write| !fenced.contains(&(program, (*write).clone()))).collect();
        ensure!(missing.is_empty(), "{program} may, and the fence has no rule: {missing:?}");
        needed.extend(writes);
    }
    let more: Vec<_> = fenced.iter().filter(|(_, write)| !needed.contains(write)).collect();
    ensure!(more.is_empty(), "fenced, and nobody may: {more:?}");
    Ok(())
}
