//! The demo's table, for people.

/// What became of one example.
pub(crate) struct Row {
    /// `Deployment web`.
    pub(crate) workload: String,
    /// What it needs, in words.
    pub(crate) needs: &'static str,
    /// Where its pods went, an entry each.
    pub(crate) became: Vec<String>,
    /// Whether that is as it should be.
    pub(crate) as_it_should_be: bool,
    /// The denial in full.
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
