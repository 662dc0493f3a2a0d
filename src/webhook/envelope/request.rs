//! The request of an AdmissionReview, read in one pass: kind and operation come before the objects and decide how much of them
//! is read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use anyhow::{anyhow, bail};
use mullion_engine::model::text::shorten;
use mullion_engine::model::{Operation, WorkloadKind};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer as _, MapAccess, Visitor};
use serde_json::Value;

use crate::webhook::envelope::names::{NamespaceName, RequestUid, ShortName};
use crate::webhook::envelope::object::{BorrowedText, Extent, JsonTree, Part};
use crate::webhook::envelope::reading_limits::{CutMembers, LimitedReading, ReadingLimits};
use crate::webhook::envelope::username::{UserInfo, Username};

/// The only supported version.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
/// The only supported kind.
pub(super) const KIND: &str = "AdmissionReview";

/// How much of a foreign version and kind is quoted, in characters.
const QUOTED: usize = 80;

/// `request` of an AdmissionReview: the members that Mullion reads. `T` is the type into which the objects are read.
#[derive(Debug)]
pub struct AdmissionRequest<T = Value> {
    /// The UID, which is repeated in the response.
    pub uid: RequestUid,
    /// The kind of `object`, after conversion to the version that the webhook is registered for.
    pub kind: GroupVersionKind,
    /// `ephemeralcontainers`, `status`, …
    pub sub_resource: ShortName,
    /// Empty on CREATE with `generateName`.
    pub name: ShortName,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<NamespaceName>,
    /// `None` if Mullion does not know it.
    pub operation: Option<Operation>,
    /// `userInfo.username`. Nothing else of `userInfo` is read.
    pub username: Username,
    /// The part of the object that is read: nothing on DELETE and of kinds that Mullion does not know; of other kinds,
    /// all members that reviews read.
    pub object: T,
    /// On UPDATE; read like `object`.
    pub old_object: T,
    /// If true, nothing will be stored. Mullion has no side effects in either case.
    pub dry_run: Option<bool>,
    /// The members of the objects that were not read to their end.
    pub cut: CutMembers,
}

/// The type of an object.
#[derive(Debug, Deserialize)]
pub struct GroupVersionKind {
    /// Empty for the core group.
    #[serde(default)]
    pub group: ShortName,
    /// `Pod`.
    pub kind: ShortName,
}

/// The type of a body that is not a [`Whole`], and whether it has a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    request: Option<IgnoredAny>,
}

/// The type of a body, and its request, if it has one.
struct Whole<'a, T> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    request: Option<AdmissionRequest<T>>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum EnvelopeMember {
    ApiVersion,
    Kind,
    Request,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Member {
    Uid,
    Kind,
    SubResource,
    Name,
    Namespace,
    Operation,
    UserInfo,
    Object,
    OldObject,
    DryRun,
    #[serde(other)]
    Other,
}

/// The members so far.
#[derive(Default)]
struct Members<T> {
    uid: Option<RequestUid>,
    kind: Option<GroupVersionKind>,
    sub_resource: Option<ShortName>,
    name: Option<ShortName>,
    namespace: Option<AbsentIfEmpty>,
    operation: Option<KnownOperation>,
    username: Option<Username>,
    object: Option<T>,
    old_object: Option<T>,
    dry_run: Option<bool>,
}

/// Reads a whole body.
struct WholeReader<'r, T>(RequestReader<'r, T>);

impl<'de, T: JsonTree> DeserializeSeed<'de> for WholeReader<'_, T> {
    type Value = Whole<'de, T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: JsonTree> Visitor<'de> for WholeReader<'_, T> {
    type Value = Whole<'de, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let limits = self.0.limits;
        let (mut api_version, mut kind, mut request) = (None, None, None);
        while let Some(member) = map.next_key()? {
            match member {
                EnvelopeMember::ApiVersion => {
                    once(&mut api_version, "apiVersion", map.next_value::<Option<BorrowedText<'de>>>()?)?;
                }
                EnvelopeMember::Kind => once(&mut kind, "kind", map.next_value::<Option<BorrowedText<'de>>>()?)?,
                EnvelopeMember::Request => once(
                    &mut request,
                    "request",
                    Some(map.next_value_seed(RequestReader { limits, tree: PhantomData })?),
                )?,
                EnvelopeMember::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let text = |text: Option<BorrowedText<'de>>| text.unwrap_or_default().0;
        Ok(Whole { api_version: text(api_version), kind: text(kind), request })
    }
}

/// Reads a request, and its objects under limits.
struct RequestReader<'r, T> {
    limits: Option<&'r LimitedReading>,
    tree: PhantomData<T>,
}

impl<'de, T: JsonTree> DeserializeSeed<'de> for RequestReader<'_, T> {
    type Value = AdmissionRequest<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: JsonTree> Visitor<'de> for RequestReader<'_, T> {
    type Value = AdmissionRequest<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Members::<T>::default();
        while let Some(member) = map.next_key()? {
            match member {
                Member::Uid => once(&mut all.uid, "uid", Some(map.next_value()?))?,
                Member::Kind => once(&mut all.kind, "kind", Some(map.next_value()?))?,
                Member::SubResource => once(&mut all.sub_resource, "subResource", map.next_value()?)?,
                Member::Name => once(&mut all.name, "name", map.next_value()?)?,
                Member::Namespace => once(&mut all.namespace, "namespace", Some(map.next_value()?))?,
                Member::Operation => {
                    let BorrowedText(name) = map.next_value()?;
                    once(&mut all.operation, "operation", Some(KnownOperation(parse_operation(&name))))?;
                }
                Member::UserInfo => {
                    let info: Option<UserInfo> = map.next_value()?;
                    once(&mut all.username, "userInfo", info.map(|info| info.username))?;
                }
                Member::Object => {
                    let part = Part::whole(all.extent(), self.limits.filter(|_| !all.is_of_watched_kind()));
                    once(&mut all.object, "object", Some(map.next_value_seed(part)?))?;
                }
                Member::OldObject => {
                    let part = Part::whole(all.extent(), self.limits.filter(|_| !all.is_of_watched_kind()));
                    once(&mut all.old_object, "oldObject", Some(map.next_value_seed(part)?))?;
                }
                Member::DryRun => once(&mut all.dry_run, "dryRun", map.next_value()?)?,
                Member::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(AdmissionRequest {
            uid: required(all.uid, "uid")?,
            kind: required(all.kind, "kind")?,
            sub_resource: all.sub_resource.unwrap_or_default(),
            name: all.name.unwrap_or_default(),
            namespace: all.namespace.and_then(|AbsentIfEmpty(name)| name),
            operation: required(all.operation, "operation")?.0,
            username: all.username.unwrap_or_default(),
            object: all.object.unwrap_or_default(),
            old_object: all.old_object.unwrap_or_default(),
            dry_run: all.dry_run,
            cut: CutMembers::default(),
        })
    }
}

fn once<T, E: Error>(place: &mut Option<T>, name: &'static str, value: Option<T>) -> Result<(), E> {
    match std::mem::replace(place, value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

fn required<T, E: Error>(value: Option<T>, name: &'static str) -> Result<T, E> {
    value.ok_or_else(|| E::missing_field(name))
}

impl<T> Members<T> {
    fn is_of_watched_kind(&self) -> bool {
        self.kind.as_ref().is_some_and(is_watched)
    }

    /// How much of the objects is read: the part that the handler of the request uses.
    fn extent(&self) -> Extent {
        // The API server writes kind and operation first; other clients need not do so.
        let (Some(kind), Some(KnownOperation(operation))) = (&self.kind, &self.operation) else { return Extent::Whole };
        let known = WorkloadKind::in_group(&kind.group, &kind.kind).is_some();
        match *operation {
            Some(operation @ (Operation::Create | Operation::Update)) if known => Extent::Reviewed(operation),
            Some(Operation::Create | Operation::Update) if is_watched(kind) => Extent::Whole,
            _ => Extent::Nothing,
        }
    }
}

impl GroupVersionKind {
    /// Whether it is that kind of the core group.
    pub(crate) fn is_core(&self, kind: &str) -> bool {
        self.group.is_empty() && *self.kind == *kind
    }
}

/// Whether it is a kind without pods that Mullion reviews.
fn is_watched(kind: &GroupVersionKind) -> bool {
    kind.is_core("Node") || kind.is_core("ConfigMap")
}

impl<T: JsonTree> AdmissionRequest<T> {
    /// Reads the body of a POST.
    pub fn parse(body: &[u8]) -> anyhow::Result<Self> {
        Self::parse_all(body, None)
    }

    /// Reads the body of a POST with limits of the lists and maps of workloads.
    pub fn parse_within(body: &[u8], limits: ReadingLimits) -> anyhow::Result<Self> {
        let reading = LimitedReading::new(limits);
        let request = Self::parse_all(body, Some(&reading))?;
        Ok(Self { cut: reading.into_cut(), ..request })
    }

    fn parse_all(body: &[u8], limits: Option<&LimitedReading>) -> anyhow::Result<Self> {
        let reader = RequestReader { limits, tree: PhantomData };
        // A valid review is parsed in one pass over the text.
        let mut parser = serde_json::Deserializer::from_slice(body);
        let read = WholeReader(reader).deserialize(&mut parser);
        let error = match read.and_then(|whole| parser.end().map(|()| whole)) {
            Ok(Whole { api_version, kind, request: Some(request) }) if api_version == API_VERSION && kind == KIND => {
                return Ok(request);
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        // The type of anything else is read again, so that the error for another version is about the version, and not
        // about a missing member.
        let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(|error| not_a_review(&error))?;
        if envelope.api_version != API_VERSION || envelope.kind != KIND {
            let [api_version, kind] = [&envelope.api_version, &envelope.kind].map(|text| shorten(text, QUOTED));
            bail!("expected apiVersion {API_VERSION} and kind {KIND}, found {api_version:?} and {kind:?}");
        }
        Err(match error {
            Some(error) if envelope.request.is_some() => not_a_review(&error),
            _ => anyhow!("the AdmissionReview has no member \"request\""),
        })
    }
}

impl AdmissionRequest {
    /// The kind, if it is one that Mullion knows.
    pub fn known_kind(&self) -> Option<WorkloadKind> {
        WorkloadKind::in_group(&self.kind.group, &self.kind.kind)
    }

    /// `None` for the object itself.
    pub fn subresource(&self) -> Option<&str> {
        Some(&*self.sub_resource).filter(|name| !name.is_empty())
    }
}

/// The error of a body that is truncated, not JSON, empty, nested too deep, or without a required member.
fn not_a_review(error: &serde_json::Error) -> anyhow::Error {
    anyhow!(
        "the body is not an AdmissionReview: {error}; expected the JSON that the Kubernetes API server sends to webhooks"
    )
}

/// An operation, if Mullion knows it.
struct KnownOperation(Option<Operation>);

/// A namespace, which is empty or absent for cluster-scoped objects.
struct AbsentIfEmpty(Option<NamespaceName>);

impl<'de> Deserialize<'de> for AbsentIfEmpty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::deserialize(deserializer)? {
            None | Some(BorrowedText(Cow::Borrowed(""))) => Ok(Self(None)),
            Some(BorrowedText(text)) => {
                NamespaceName::deserialize(text.into_deserializer()).map(|name| Self(Some(name)))
            }
        }
    }
}

fn parse_operation(name: &str) -> Option<Operation> {
    match name {
        "CREATE" => Some(Operation::Create),
        "UPDATE" => Some(Operation::Update),
        "DELETE" => Some(Operation::Delete),
        "CONNECT" => Some(Operation::Connect),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    pub(crate) fn request(text: &str) -> AdmissionRequest {
        AdmissionRequest::parse(text.as_bytes()).unwrap()
    }

    pub(crate) const MINIMAL: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":
        {"uid":"u-1","kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","name":null}}"#;

    #[test]
    fn absent_members_are_empty() {
        let found = request(MINIMAL);
        assert_eq!(&*found.uid, "u-1");
        assert_eq!((&*found.name, found.namespace.as_ref(), found.subresource()), ("", None, None));
        assert_eq!((found.known_kind(), found.operation), (Some(WorkloadKind::Pod), Some(Operation::Create)));
        for namespace in ["\"\"", "null"] {
            let found = request(&MINIMAL.replace("\"name\":null", &format!("\"namespace\":{namespace}")));
            assert_eq!(found.namespace, None);
        }
    }

    #[test]
    fn only_the_username_of_the_user_is_read() {
        let with = |info: &str| request(&MINIMAL.replace("\"name\":null", &format!("\"userInfo\":{info}"))).username;
        for (info, known) in [
            (r#"{"username":"jane","groups":["a"],"extra":{"k":[{"deep":1}]},"uid":"u"}"#, true),
            (r#"{"uid":"u","username":"j\u0061ne"}"#, true),
            (r#"{"username":"Jane"}"#, false),
            (r#"{"username":""}"#, false),
            (r#"{"username":null}"#, false),
            (r#"{"groups":["jane"]}"#, false),
            ("{}", false),
            ("null", false),
        ] {
            assert_eq!(with(info).is("jane"), known, "{info}");
            assert_eq!(with(info).is_absent(), !info.contains("ane\"}") && !known, "{info}");
        }
        assert!(request(MINIMAL).username.is_absent());
    }

    #[test]
    fn a_foreign_kind_of_a_known_name_is_not_known() {
        let text = MINIMAL.replace(r#""group":"""#, r#""group":"batch.volcano.sh""#).replace("Pod", "Job");
        assert_eq!(request(&text).known_kind(), None);
        let text = MINIMAL.replace(r#""group":"""#, r#""group":"extensions""#).replace("Pod", "DaemonSet");
        assert_eq!(request(&text).known_kind(), Some(WorkloadKind::DaemonSet));
    }

    #[test]
    fn errors_of_a_malformed_review_are_short() {
        for (text, expected) in [
            ("", "the body is not an AdmissionReview"),
            ("{", "the body is not an AdmissionReview"),
            ("[]", "expected apiVersion admission.k8s.io/v1"),
            ("{}", "expected apiVersion admission.k8s.io/v1"),
            (&MINIMAL.replace("k8s.io/v1", "k8s.io/v1beta1"), "found \"admission.k8s.io/v1beta1\""),
            (&MINIMAL.replace("uid", "id"), "missing field `uid`"),
            (r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#, "no member \"request\""),
            (&"[".repeat(100_000), "the body is not an AdmissionReview"),
        ] {
            let error = AdmissionRequest::<Value>::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 400, "{error}");
        }
    }
}
