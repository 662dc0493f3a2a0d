//! [`ValueScanner`] finds the end of one JSON value in bytes as they arrive, and keeps a bounded copy of it.
//!
//! It checks neither names nor numbers: the parser of the copy does. Its state is a few numbers, so that neither the
//! depth nor the size of a value costs memory.

use memchr::memchr2;

/// The largest object, as JSON. etcd stores at most 1.5 MiB for each (`--max-request-bytes`), in a form that is smaller
/// than JSON: real objects have less than 1.5 MiB here too, and only texts of characters that JSON escapes have more.
pub(crate) const MAX_OBJECT: usize = 4 << 20;
/// What is kept of a larger value: the API server writes name and version of an object first.
const MAX_BEGINNING: usize = 64 << 10;
/// The capacity that a scanner keeps between values. Most objects have less than 20 KB.
const KEPT_CAPACITY: usize = 256 << 10;
/// The only member in which the API server stores JSON of any depth and content, for all kinds that Mullion reads
/// (`metav1.FieldsV1`). It records who wrote what, and is in every `metadata`, those of templates included.
const FREE_FORM: &[u8] = b"\"fieldsV1\"";

/// One JSON value, without what is below `fieldsV1`, which is replaced by `{}`.
#[derive(Debug)]
pub(super) struct ValueScanner {
    limit: usize,
    bytes: Vec<u8>,
    too_large: bool,
    /// The number of lists and objects that are open.
    depth: usize,
    /// What the value is, once its first byte has been read.
    form: Option<Form>,
    text: TextPlace,
    /// Where the last text began in `bytes`.
    text_start: usize,
    member: Member,
    /// The depth at which the part begins that is left out.
    left_out_at: Option<usize>,
    complete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A list or an object.
    Container,
    Text,
    /// A number, `true`, `false` or `null`.
    Word,
}

/// Whether the next byte belongs to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextPlace {
    Outside,
    Inside,
    /// After a backslash that escapes the next byte.
    Escaped,
}

/// How much of `"fieldsV1":` has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Other,
    Name,
    Colon,
}

impl ValueScanner {
    /// A scanner of values that keeps at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: Vec::new(),
            too_large: false,
            depth: 0,
            form: None,
            text: TextPlace::Outside,
            text_start: 0,
            member: Member::Other,
            left_out_at: None,
            complete: false,
        }
    }

    /// Reads the next bytes. If the value ends in them, the result is the number of bytes up to its end.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Option<usize> {
        let end = self.scan(chunk);
        self.complete = end.is_some();
        end
    }

    fn scan(&mut self, chunk: &[u8]) -> Option<usize> {
        // The bytes from `kept` to `at` are to be copied.
        let (mut kept, mut at) = (0, 0);
        while let Some(&byte) = chunk.get(at) {
            if self.text != TextPlace::Outside {
                at += self.read_text(chunk.get(at..).unwrap_or_default());
                if self.text != TextPlace::Outside {
                    continue;
                }
                self.keep(chunk, kept, at);
                kept = at;
                let name = self.left_out_at.is_none() && !self.too_large;
                let is_free_form = name && self.bytes.get(self.text_start..) == Some(FREE_FORM);
                self.member = if is_free_form { Member::Name } else { Member::Other };
                if self.depth == 0 {
                    return Some(at);
                }
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' if self.form.is_none() => kept = at + 1,
                b'"' if self.form != Some(Form::Word) => {
                    self.form.get_or_insert(Form::Text);
                    self.keep(chunk, kept, at);
                    kept = at;
                    self.text_start = self.bytes.len();
                    self.text = TextPlace::Inside;
                }
                b'{' | b'[' if self.form != Some(Form::Word) => {
                    self.form.get_or_insert(Form::Container);
                    if self.member == Member::Colon {
                        self.keep(chunk, kept, at);
                        self.keep(b"{}", 0, 2);
                        self.left_out_at = Some(self.depth);
                        self.member = Member::Other;
                    }
                    self.depth += 1;
                }
                b'}' | b']' if self.form == Some(Form::Container) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.member = Member::Other;
                    if self.left_out_at == Some(self.depth) {
                        self.left_out_at = None;
                        kept = at + 1;
                    }
                    if self.depth == 0 {
                        self.keep(chunk, kept, at + 1);
                        return Some(at + 1);
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' if self.form == Some(Form::Container) => {}
                b':' if self.member == Member::Name => self.member = Member::Colon,
                _ if self.form == Some(Form::Container) => self.member = Member::Other,
                // The end of a word belongs to what contains it.
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b']' | b'}' | b':' | b'"' | b'{' | b'[' => {
                    self.keep(chunk, kept, at);
                    return Some(at);
                }
                _ => self.form = Some(Form::Word),
            }
            at += 1;
        }
        self.keep(chunk, kept, at);
        None
    }

    /// Reads a part of a text; the number of bytes that were read.
    fn read_text(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = chunk.get(at..).filter(|rest| !rest.is_empty()) {
            if self.text == TextPlace::Escaped {
                self.text = TextPlace::Inside;
                at += 1;
                continue;
            }
            let Some(next) = memchr2(b'"', b'\\', rest) else { break };
            at += next + 1;
            if rest.get(next) == Some(&b'"') {
                self.text = TextPlace::Outside;
                return at;
            }
            self.text = TextPlace::Escaped;
        }
        chunk.len()
    }

    /// Copies a part of the chunk.
    fn keep(&mut self, chunk: &[u8], from: usize, to: usize) {
        let part = chunk.get(from..to).unwrap_or_default();
        if self.left_out_at.is_some() || self.too_large || part.is_empty() {
            return;
        }
        if self.bytes.len() + part.len() > self.limit {
            self.too_large = true;
            let room = MAX_BEGINNING.saturating_sub(self.bytes.len()).min(part.len());
            self.bytes.extend_from_slice(part.get(..room).unwrap_or_default());
            self.bytes.truncate(MAX_BEGINNING.min(self.limit));
            self.bytes.shrink_to_fit();
            return;
        }
        self.bytes.extend_from_slice(part);
    }

    /// The value; its beginning, if it is [too large](Self::is_too_large).
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the value has more than the limit.
    pub(super) fn is_too_large(&self) -> bool {
        self.too_large
    }

    /// Whether a value has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.form.is_some()
    }

    /// Whether the value has ended.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Begins the next value.
    pub(super) fn reset(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if bytes.capacity() <= KEPT_CAPACITY {
            self.bytes = bytes;
        }
        *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::new(self.limit) };
    }
}
