//! What to write next, from what the cluster holds. Pure but for a trial signature by a CA before it is to sign: the clock
//! is an argument, and what is written is made elsewhere.
//!
//! | what stands | what is done |
//! |---|---|
//! | no CA that can sign now, and is trusted for it, or one past two thirds of its life | a new one; those that are still needed become previous |
//! | a previous CA that nobody needs, or one that is needed and not noted | `mullion-ca` is put right |
//! | a `caBundle` other than the CA and the previous ones | it is replaced |
//! | no pair, or one that clients would not accept | a new one, `SETTLE` after the bundles changed |
//! | a pair of a previous CA | a new one, `PAUSE` after every bundle has the CA |
//! | a pair past two thirds of its life, or past one third before its CA changes | a new one |

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::controller::certificates::read::{Authority, CaCertificate, Serving};
use crate::controller::certificates::{Settings, issue, read};

/// Most previous CAs that are kept: bundles would grow without end where every CA is lost as soon as it is made.
const MOST_PREVIOUS: usize = 8;

/// The data of a Secret.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    pub(crate) data: BTreeMap<String, Vec<u8>>,
    /// Whether its type is the one it should have.
    pub(crate) right_type: bool,
}

impl Content {
    pub(crate) fn get(&self, key: &str) -> &[u8] {
        self.data.get(key).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

/// The four objects, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// Secret `mullion-ca`.
    pub(crate) ca: Option<&'a Content>,
    /// Secret `mullion-tls`.
    pub(crate) tls: Option<&'a Content>,
    /// The `caBundle`s of each configuration that is ours to fill in.
    pub(crate) bundles: &'a [Vec<Vec<u8>>],
    /// Whether those are all there are: none could not be read.
    pub(crate) all_bundles: bool,
    /// Seconds since 1970, by the wall clock.
    pub(crate) now: i64,
    /// How long `ca` and `bundles` have been as they are: at least.
    pub(crate) trusted_for: Duration,
    /// How long `tls` has been as it is: at least.
    pub(crate) served_for: Duration,
}

/// One write. Any of a plan may fail, and the others are still right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// `mullion-ca` gets a new CA, beside these previous ones.
    NewCa { previous: Vec<CaCertificate>, why: &'static str },
    /// `mullion-ca` keeps its CA and has these previous ones.
    Previous { previous: Vec<CaCertificate> },
    /// Every `caBundle` of the configuration at this place becomes this.
    Bundle { configuration: usize, bundle: String },
    /// `mullion-tls` gets a new pair, signed by the CA in `mullion-ca`.
    Serving { why: String },
}

/// What to do, and when to look again if nothing happens until then.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) check_after: Duration,
    /// The CA that signs now, if there is one.
    pub(crate) authority: Option<Authority>,
    /// From when to when the CA is valid.
    pub(crate) ca_valid: Option<Range<i64>>,
    /// From when to when the pair is valid, if it is one.
    pub(crate) serving_valid: Option<Range<i64>>,
}

/// What to write now.
pub(crate) fn plan(seen: &Seen<'_>, settings: &Settings) -> Plan {
    let standing = Standing::read(seen, settings);
    let mut plan = Plan {
        steps: Vec::new(),
        check_after: settings.check(),
        authority: None,
        ca_valid: None,
        serving_valid: standing.serving.as_ref().ok().map(|serving| serving.valid.range()),
    };
    let authority = match authority(seen) {
        Ok(authority) => authority,
        Err(why) => {
            plan.steps.push(Step::NewCa { previous: standing.outlived(None), why });
            return plan;
        }
    };
    let ca = authority.certificate.clone();
    let needs_pair = standing.pair_needed(&ca, settings);
    if !matches!(needs_pair, Pair::No) && !issue::signs(&authority, &settings.names, seen.now, settings.lifetime) {
        let why = "what it signs would not be accepted: its certificate is damaged";
        plan.steps.push(Step::NewCa { previous: standing.outlived(None), why });
        return plan;
    }
    plan.ca_valid = Some(ca.valid.range());
    plan.authority = Some(authority);
    if seen.now >= ca.valid.part(2) && seen.all_bundles {
        // The pair has a long life ahead while the CA changes, also where `mullion-ca` is what cannot be written.
        match needs_pair {
            Pair::Now(why) => plan.steps.push(Step::Serving { why }),
            Pair::No if standing.middle_aged() => {
                plan.steps.push(Step::Serving { why: "its CA is about to change".to_owned() });
            }
            _ => {}
        }
        let why = "two thirds of its life are over";
        plan.steps.push(Step::NewCa { previous: standing.outlived(Some(&ca)), why });
        return plan;
    }

    let previous = standing.still_needed(&ca, settings);
    let noted = seen.ca.map_or(&[][..], |ca| ca.get("previous.crt"));
    if noted != read::pem(&previous).as_bytes() {
        plan.steps.push(Step::Previous { previous: previous.clone() });
    }
    let bundle = read::pem(std::iter::once(&ca).chain(&previous));
    let missing = |bundles: &[Vec<u8>]| bundles.iter().any(|found| found != bundle.as_bytes());
    let incomplete = seen.bundles.iter().enumerate().filter(|(_, bundles)| missing(bundles));
    plan.steps.extend(incomplete.map(|(configuration, _)| Step::Bundle { configuration, bundle: bundle.clone() }));
    let complete = seen.all_bundles && !plan.steps.iter().any(|step| matches!(step, Step::Bundle { .. }));
    let mut over = |whole: Duration, passed: Duration| {
        if passed < whole {
            plan.check_after = plan.check_after.min(whole.saturating_sub(passed));
        }
        passed >= whole
    };
    over(settings.overlap(), seen.served_for);
    let why = match needs_pair {
        Pair::No => None,
        Pair::Now(why) => Some(why),
        Pair::AfterSettling(why) => over(settings.settle(), seen.trusted_for).then_some(why),
        Pair::AfterPause(why) => (over(settings.pause(), seen.trusted_for) && complete).then_some(why),
    };
    plan.steps.extend(why.map(|why| Step::Serving { why }));
    plan
}

/// The CA that signs, if it can be used now; else why not.
fn authority(seen: &Seen<'_>) -> Result<Authority, &'static str> {
    let content = seen.ca.ok_or("there is none")?;
    let found = read::authority(content.get("ca.crt"), content.get("ca.key"))?;
    let valid = found.certificate.valid;
    if valid.to < seen.now {
        return Err("it has expired");
    }
    if valid.from > seen.now {
        return Err("it is not valid yet, by this machine's clock");
    }
    Ok(found)
}

/// Whether a new pair is needed.
enum Pair {
    No,
    Now(String),
    /// Nothing that is served is accepted as it is.
    AfterSettling(String),
    /// What is served is accepted, because of a previous CA.
    AfterPause(String),
}

/// What stands, read.
struct Standing<'a> {
    seen: &'a Seen<'a>,
    serving: Result<Serving, String>,
    /// CAs in `previous.crt` that have not expired.
    noted: Vec<CaCertificate>,
    /// CAs that are not noted, but in a bundle or beside the pair, and have not expired.
    strays: Vec<CaCertificate>,
    /// Those of both that make clients accept the pair.
    accepting: Vec<CaCertificate>,
}

impl<'a> Standing<'a> {
    fn read(seen: &'a Seen<'a>, settings: &Settings) -> Self {
        let serving = seen.tls.map_or_else(
            || Err("there is none".to_owned()),
            |content| read::serving(content.get("tls.crt"), content.get("tls.key")),
        );
        let valid = |pem: &[u8]| {
            let mut found = read::ca_certificates(pem);
            found.retain(|ca| ca.valid.holds(seen.now));
            found
        };
        let noted = seen.ca.map(|ca| valid(ca.get("previous.crt"))).unwrap_or_default();
        let mut strays = Vec::new();
        // A CA without its key can sign no more, but what it signed is still served.
        let in_ca = seen.ca.map(|ca| ca.get("ca.crt"));
        let beside = seen.tls.map(|tls| tls.get("ca.crt"));
        // One text in most cases: every webhook of every configuration has the same.
        let mut bundles: Vec<&[u8]> = seen.bundles.iter().flatten().map(Vec::as_slice).collect();
        bundles.sort_unstable();
        bundles.dedup();
        for ca in in_ca.into_iter().chain(beside).chain(bundles).flat_map(valid) {
            if !noted.contains(&ca) && !strays.contains(&ca) {
                strays.push(ca);
            }
        }
        let accepts =
            |ca: &&CaCertificate| serving.as_ref().is_ok_and(|serving| serving.accepted(ca, &settings.names, seen.now));
        let accepting = noted.iter().chain(&strays).filter(accepts).cloned().collect();
        Self { seen, serving, noted, strays, accepting }
    }

    fn pair_needed(&self, ca: &CaCertificate, settings: &Settings) -> Pair {
        let serving = match &self.serving {
            Ok(serving) => serving,
            Err(problem) => return Pair::AfterSettling(problem.clone()),
        };
        if !serving.accepted(ca, &settings.names, self.seen.now) {
            if self.accepting.iter().any(|other| other != ca) {
                return Pair::AfterPause("another CA signed it".to_owned());
            }
            let why = if serving.valid.to < self.seen.now {
                "it has expired"
            } else if serving.valid.from > self.seen.now {
                "it is not valid yet, by this machine's clock"
            } else {
                "clients that trust the CA would not accept it: another CA signed it, or it is for other names"
            };
            return Pair::AfterSettling(why.to_owned());
        }
        if self.seen.now >= serving.valid.part(2) {
            return Pair::Now("two thirds of its life are over".to_owned());
        }
        let content = self.seen.tls;
        if content.is_some_and(|content| content.get("ca.crt") != read::pem([ca]).as_bytes()) {
            return Pair::Now("the ca.crt beside it is not that of its CA".to_owned());
        }
        if content.is_some_and(|content| !content.right_type) {
            return Pair::Now("the Secret is not of type kubernetes.io/tls".to_owned());
        }
        Pair::No
    }

    /// Whether more than a third of the pair's life is over.
    fn middle_aged(&self) -> bool {
        self.serving.as_ref().is_ok_and(|serving| serving.valid.part(1) <= self.seen.now)
    }

    /// What becomes previous when a new CA comes; `current`: the CA that signed until then. Whatever may still be
    /// served somewhere: webhooks keep a pair that is taken from them.
    fn outlived(&self, current: Option<&CaCertificate>) -> Vec<CaCertificate> {
        let ours = self.noted.iter().chain(self.strays.iter().filter(|ca| ca.ours));
        distinct(self.accepting.iter().chain(current).chain(ours), None)
    }

    /// What stays previous beside `ca`.
    fn still_needed(&self, ca: &CaCertificate, settings: &Settings) -> Vec<CaCertificate> {
        let followed = self.serving.as_ref().is_ok_and(|serving| serving.accepted(ca, &settings.names, self.seen.now));
        if followed && self.seen.served_for >= settings.overlap() {
            return Vec::new();
        }
        let accepting = self.accepting.iter().filter(|_| !followed);
        let mut kept = distinct(accepting.chain(&self.noted), Some(ca));
        // In the order they were noted: a bundle must not change because a pair does.
        kept.sort_by_key(|ca| self.noted.iter().position(|noted| noted == ca).unwrap_or(usize::MAX));
        kept
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a CaCertificate>, without: Option<&CaCertificate>) -> Vec<CaCertificate> {
    let mut found: Vec<CaCertificate> = Vec::new();
    for ca in all.filter(|ca| Some(*ca) != without) {
        if found.len() < MOST_PREVIOUS && !found.contains(ca) {
            found.push(ca.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests;
