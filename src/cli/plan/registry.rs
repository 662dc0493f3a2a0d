//! Queries registries for the images of the workloads that move, and for the images that a plan proposes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mullion_engine::model::image::ImageRef;
use mullion_plan::{PlanContext, wanted_images};
use mullion_snapshot::ImagePlatforms;
use mullion_survey::Inventory;

use crate::cli::io_handles::Io;
use crate::cli::plan::registry_cache::RegistryCache;
use crate::cli::registry::look_up;
use crate::registry::LookupError;

/// How often is asked. The first results can change a proposal, and the second ones refute the new one.
const ROUNDS: usize = 3;

/// The most images of one plan; with a second for each, look-ups take 20 minutes.
const MAX_IMAGES: usize = 10_000;

/// Asks about every image that the plan wants to know, and adds the results to the inventory and the cache.
pub(crate) fn ask(
    inventory: &mut Inventory,
    context: PlanContext<'_>,
    mut cache: Option<&mut RegistryCache>,
    io: &mut Io<'_>,
) -> anyhow::Result<()> {
    let mut asked = BTreeSet::new();
    for _ in 0..ROUNDS {
        let wanted = wanted_images(inventory, context).into_iter();
        // A template that is not filled in is no image.
        let wanted = wanted.filter(|image| !asked.contains(image) && ImageRef::parse(image).is_ok());
        let mut wanted: Vec<String> = wanted.collect();
        let most = MAX_IMAGES.saturating_sub(asked.len());
        if wanted.len() > most {
            let left_out = wanted.len() - most;
            io.eprintln(format_args!(
                "{left_out} images are not looked up: a plan looks up at most {MAX_IMAGES}; move one release at a time with --from"
            ))?;
            wanted.truncate(most);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        asked.extend(wanted.iter().cloned());
        let found = look_up(wanted, Some(context.target), &context.survey.policies.registries, io)?;
        let mut reported = ImagePlatforms {
            taken_at: Some(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            images: found.images,
            ..ImagePlatforms::default()
        };
        for (image, bytes) in found.sizes {
            reported.sizes.entry(image).or_default().insert(context.target, bytes);
        }
        for (image, error) in found.failed {
            if error == LookupError::Absent {
                reported.absent.insert(image);
            } else {
                reported.unanswered.insert(image, error.to_string());
            }
        }
        if let Some(cache) = &mut cache {
            cache.add(reported.clone())?;
        }
        inventory.add_images(reported);
    }
    Ok(())
}
