//! The values files, and the objects that Helm renders from each.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use mullion_cluster::{Chart, HelmOutput, Tool, Tools};
use serde_json::{Value, json};

/// A values file.
pub struct Rendered {
    /// `eks` for `ci/eks.yaml`.
    pub name: String,
    pub path: PathBuf,
    /// The values of the file merged over those of the chart.
    pub values: Value,
    objects: OnceLock<std::result::Result<Vec<Value>, String>>,
}

/// A pod template of the chart, with its object.
pub struct Template<'a> {
    pub owner: &'a Value,
    pub template: &'a Value,
}

impl Template<'_> {
    pub fn name(&self) -> String {
        format!("{} {}", text(self.owner, "/kind"), text(self.owner, "/metadata/name"))
    }

    pub fn is_deployment(&self) -> bool {
        self.owner["kind"] == "Deployment"
    }

    pub fn spec(&self) -> &Value {
        &self.template["spec"]
    }

    pub fn containers(&self) -> Vec<&Value> {
        ["containers", "initContainers"].iter().flat_map(|key| list(self.spec(), &format!("/{key}"))).collect()
    }
}

/// All values files, in order of name.
pub fn files() -> Result<Vec<Arc<Rendered>>> {
    let mut defaults = read(&Chart::folder().join("values.yaml"))?;
    overlay(&mut defaults, &read(&Chart::required())?);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(Chart::folder().join("ci"))
        .context("charts/mullion/ci")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    ensure!(paths.len() > 8, "{paths:?}");
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_stem().context("a file's name")?.to_string_lossy().into_owned();
            let mut values = defaults.clone();
            overlay(&mut values, &read(&path)?);
            Ok(Arc::new(Rendered { name, path, values, objects: OnceLock::new() }))
        })
        .collect()
}

/// The output of the program `helm`, to compare with that of [`mullion_cluster::helm`].
pub fn program_output(chart: &Chart) -> Result<HelmOutput> {
    let mut helm = Tools::locate()?.command(Tool::Helm);
    let done = helm.args(chart.command()).stdin(Stdio::null()).output().context("run helm")?;
    Ok(HelmOutput {
        succeeded: done.status.success(),
        stdout: String::from_utf8(done.stdout)?,
        stderr: String::from_utf8(done.stderr)?,
    })
}

/// A YAML file; an empty one is an empty object.
pub fn read(path: &std::path::Path) -> Result<Value> {
    let content = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let value: Value = serde_saphyr::from_str(&content).with_context(|| format!("read {}", path.display()))?;
    Ok(if value.is_null() { json!({}) } else { value })
}

/// Merges as Helm does: key by key, and a null removes a key.
fn overlay(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    under.remove(key);
                } else {
                    overlay(under.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (under, over) => under.clone_from(over),
    }
}

impl Rendered {
    pub fn chart(&self) -> Chart {
        Chart::default().values(&self.path)
    }

    /// The objects as installed in `mullion-system`.
    pub fn objects(&self) -> Result<&[Value]> {
        let made = self.objects.get_or_init(|| self.chart().objects().map_err(|error| format!("{error:#}")));
        made.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> Result<impl Iterator<Item = &'a Value>> {
        Ok(self.objects()?.iter().filter(move |object| object["kind"] == kind))
    }

    pub fn named(&self, kind: &str, name: &str) -> Result<&Value> {
        let found = self.objects()?.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.with_context(|| format!("no {kind} {name}"))
    }

    /// A value of the file or the chart, by pointer.
    pub fn value(&self, pointer: &str) -> &Value {
        self.values.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub fn is_on(&self, pointer: &str) -> bool {
        *self.value(pointer) == json!(true)
    }

    /// Deployments and Jobs.
    pub fn templates(&self) -> Result<Vec<Template<'_>>> {
        let owners = self.objects()?.iter().filter(|object| object.pointer("/spec/template/spec").is_some());
        let templates: Vec<_> = owners.map(|owner| Template { owner, template: &owner["spec"]["template"] }).collect();
        ensure!(templates.len() >= 2, "{} pod templates", templates.len());
        Ok(templates)
    }

    pub fn deployments(&self) -> Result<Vec<Template<'_>>> {
        let mut all = self.templates()?;
        all.retain(Template::is_deployment);
        let names: Vec<_> = all.iter().map(Template::name).collect();
        ensure!(names == ["Deployment mullion-controller", "Deployment mullion-webhook"], "{names:?}");
        Ok(all)
    }
}

/// The string at a pointer; "" if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of the list at a pointer; empty if there is no list.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether an equality-based selector selects these labels.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    selector.as_object().is_some_and(|all| !all.is_empty() && all.iter().all(|(key, value)| labels[key] == *value))
}
