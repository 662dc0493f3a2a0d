//! The webhook configurations `mullion` of a cluster, for commands: they name the namespace of Mullion, and select the
//! objects that Mullion reviews.

use futures::try_join;

use crate::cluster::reading::{
    Absence, ClusterReader, Kind, MUTATING_CONFIGURATIONS, UnreadObjects, VALIDATING_CONFIGURATIONS,
};
use crate::controller::{CONFIGURATION, WebhookConfiguration};

/// A webhook configuration; `None` if it does not exist.
pub(crate) type ReadConfiguration = Result<Option<WebhookConfiguration>, UnreadObjects>;

/// Reads the configuration of the mutating and that of the validating webhooks (`get` on each). An error is one that
/// would also occur for every other object.
pub(crate) async fn read_configurations(reader: &ClusterReader<'_>) -> anyhow::Result<[ReadConfiguration; 2]> {
    let (mutating, validating) = try_join!(
        read_configuration(reader, &MUTATING_CONFIGURATIONS),
        read_configuration(reader, &VALIDATING_CONFIGURATIONS)
    )?;
    Ok([mutating, validating])
}

async fn read_configuration(reader: &ClusterReader<'_>, kind: &'static Kind) -> anyhow::Result<ReadConfiguration> {
    Ok(match reader.get(kind, None, CONFIGURATION).await? {
        Ok(object) => serde_json::from_value(object).map(Some).map_err(|error| UnreadObjects {
            kind: kind.plural,
            namespace: None,
            absence: Absence::Unreadable,
            message: format!("{} {CONFIGURATION}: {error}", kind.name),
        }),
        Err(unread) if unread.absence == Absence::NotFound => Ok(None),
        Err(unread) => Err(unread),
    })
}
