//! The syntax tree of a document: the places of all its parts in the text, before scalars are read.

use crate::limits::{MAX_DEPTH, MAX_NODES};
use crate::problem::SpanProblem;
use crate::scalar::Tag;
use crate::span::Span;

/// A node as written.
#[derive(Debug)]
pub(crate) struct Syntax {
    /// The start of its anchor or tag, or else of the node itself.
    pub(crate) start: usize,
    /// Its content: from the first to after the last byte, without the line break that ends a block scalar. Empty for a
    /// missing value.
    pub(crate) span: Span,
    /// The anchor it defines.
    pub(crate) anchor: Option<usize>,
    /// Its contents.
    pub(crate) kind: SyntaxKind,
}

/// The contents of a node.
#[derive(Debug)]
pub(crate) enum SyntaxKind {
    /// A scalar after unescaping.
    Scalar {
        /// Its text.
        text: String,
        /// True unless quoted or a block scalar.
        plain: bool,
        /// The type that its tag requires.
        tag: Tag,
    },
    /// A map, in source order.
    Map {
        /// `{…}`, or a single pair inside `[…]`.
        flow: bool,
        /// The pairs.
        pairs: Vec<Pair>,
    },
    /// A list, in source order.
    List {
        /// `[…]`.
        flow: bool,
        /// The items.
        items: Vec<Syntax>,
        /// The place of each item's dash, in a block list.
        dashes: Vec<usize>,
    },
    /// `*name`.
    Alias(usize),
}

impl SyntaxKind {
    /// Frees the unused capacity of a complete collection: a vector starts with room for four pairs, and most maps of a
    /// manifest have one or two.
    pub(crate) fn shrink(&mut self) {
        match self {
            Self::Map { pairs, .. } => pairs.shrink_to_fit(),
            Self::List { items, dashes, .. } => {
                items.shrink_to_fit();
                dashes.shrink_to_fit();
            }
            Self::Scalar { .. } | Self::Alias(_) => {}
        }
    }
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The start of the pair: the key, its anchor or tag, or a `?`.
    pub(crate) start: usize,
    /// The key.
    pub(crate) key: Syntax,
    /// After the colon; after the key if there is none.
    pub(crate) after_colon: usize,
    /// The value.
    pub(crate) value: Syntax,
}

impl Pair {
    /// From the key to the end of the value.
    pub(crate) fn span(&self) -> Span {
        Span::new(self.start, self.value.span.end.max(self.after_colon))
    }
}

impl Syntax {
    /// Whether the key merges another map in: an unquoted `<<`.
    pub(crate) fn is_merge_key(&self) -> bool {
        matches!(&self.kind, SyntaxKind::Scalar { text, plain: true, tag: Tag::None } if text == "<<")
    }

    /// Whether the key is the one of a List's objects.
    pub(crate) fn is_items(&self) -> bool {
        matches!(&self.kind, SyntaxKind::Scalar { text, .. } if text == "items")
    }

    /// Frees the memory of its contents.
    pub(crate) fn forget(&mut self) {
        self.kind = SyntaxKind::Scalar { text: String::new(), plain: false, tag: Tag::None };
    }

    /// Whether the value is missing, as in `key:`.
    pub(crate) fn is_absent(&self) -> bool {
        self.span.is_empty() && matches!(&self.kind, SyntaxKind::Scalar { plain: true, .. })
    }

    /// Whether it is a map or list in block style.
    pub(crate) fn is_block_collection(&self) -> bool {
        matches!(self.kind, SyntaxKind::Map { flow: false, .. } | SyntaxKind::List { flow: false, .. })
    }

    /// Calls `visit` for this node and all below it, keys included.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        match &self.kind {
            SyntaxKind::Map { pairs, .. } => {
                for pair in pairs {
                    pair.key.walk(visit);
                    pair.value.walk(visit);
                }
            }
            SyntaxKind::List { items, .. } => items.iter().for_each(|item| item.walk(visit)),
            SyntaxKind::Scalar { .. } | SyntaxKind::Alias(_) => {}
        }
    }
}

/// A function that is called with each item of the list `items` of a document when it is complete; the item's contents
/// are freed after that.
pub(crate) type SeeItem<'a> = dyn FnMut(&Syntax) + 'a;

pub(crate) fn too_many(at: Span) -> SpanProblem {
    SpanProblem::new(at, format!("the document contains more than {MAX_NODES} values"))
        .hint("split it into smaller documents")
}

pub(crate) fn too_deep(at: Span) -> SpanProblem {
    SpanProblem::new(at, format!("maps and lists nest more than {MAX_DEPTH} levels deep"))
        .hint("no Kubernetes object nests this deep; look for a bracket or an indentation that never ends")
}
