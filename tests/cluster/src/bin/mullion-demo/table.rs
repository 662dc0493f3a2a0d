//! The demo's table, for people.

/// The result of one example.
pub(crate) struct Row {
    /// `Deployment web`.
    pub(crate) workload: String,
    /// What it needs, as text.
    pub(crate) needs: &'static str,
    /// The places of its pods, an entry each.
    pub(crate) became: Vec<String>,
    /// Whether that is the expected result.
    pub(crate) as_it_should_be: bool,
    /// The complete denial.
    pub(crate) denial: Option<String>,
}

/// The table as text.
pub(crate) fn render(title: &str, rows: &[Row]) -> String {
    let width = |cell: fn(&Row) -> &str, head: &str| {
        rows.iter().map(|row| cell(row).len()).chain([head.len()]).max().unwrap_or_default()
    };
    let (first, second) = (width(|row| &row.workload, "WORKLOAD"), width(|row| row.needs, "NEEDS"));
    let mut lines =
        vec![title.to_owned(), format!("       {:first$}  {:second$}  WHERE ITS PODS WENT", "WORKLOAD", "NEEDS")];
    for row in rows {
        let mark = if row.as_it_should_be { "ok     " } else { "WRONG  " };
        lines.push(format!("{mark}{:first$}  {:second$}  {}", row.workload, row.needs, row.became.join(", ")));
    }
    lines.join("\n") + "\n"
}
