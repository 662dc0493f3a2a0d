//! Commands of a document.

/// A command, which people copy: it is shown as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandBlock {
    /// When to run it: `To go back, run`.
    pub(crate) label: &'static str,
    pub(crate) run: String,
    pub(crate) note: String,
    /// Where it is published, if Mullion's tests do not run it.
    pub(crate) source: Option<String>,
}

impl CommandBlock {
    /// The first commands, at least `most` of each label, as blocks: those that follow each other with the same label,
    /// note and source are one, a line after the other. A block is whole. Also the number of commands that are left.
    pub(super) fn first_blocks(commands: &[Self], most: usize) -> (Vec<Self>, usize) {
        let (mut blocks, mut left): (Vec<Self>, usize) = (Vec::new(), 0);
        for of_label in commands.chunk_by(|one, next| one.label == next.label) {
            let is_alike = |one: &Self, next: &Self| (&one.note, &one.source) == (&next.note, &next.source);
            let mut shown = 0;
            for alike in of_label.chunk_by(is_alike) {
                let Some(first) = alike.first().filter(|_| shown < most) else {
                    left += alike.len();
                    continue;
                };
                let lines: Vec<&str> = alike.iter().map(|command| command.run.as_str()).collect();
                blocks.push(Self { run: lines.join("\n"), ..first.clone() });
                shown += alike.len();
            }
        }
        (blocks, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole() {
        let command = |run: &str, note: &str| CommandBlock {
            label: "Run",
            run: run.to_owned(),
            note: note.to_owned(),
            source: None,
        };
        let all = [command("a", "x"), command("b", "x"), command("c", "x"), command("d", "y")];
        let texts = |most: usize| {
            let (blocks, left) = CommandBlock::first_blocks(&all, most);
            (blocks.into_iter().map(|block| block.run).collect::<Vec<_>>(), left)
        };
        assert_eq!(texts(0), (vec![], 4));
        assert_eq!(texts(2), (vec!["a\nb\nc".to_owned()], 1));
        assert_eq!(texts(4), (vec!["a\nb\nc".to_owned(), "d".to_owned()], 0));
    }
}
