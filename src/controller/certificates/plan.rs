//! The next writes, planned from what the cluster contains. Pure except for a test signature of a CA before it has to
//! sign: the clock is an argument, and certificates are issued elsewhere.
//!
//! | present | result |
//! |---|---|
//! | no CA that can sign now with accepted signatures, or one past two thirds of its life | a new CA; those that are still needed become previous |
//! | a previous CA that is not needed, or a needed one that is not recorded | `mullion-ca` is corrected |
//! | a `caBundle` other than the CA and the previous ones | it is replaced |
//! | no pair, or one that clients would not accept | a new pair, `SHORT_PAUSE` after the bundles changed |
//! | a pair of a previous CA | a new pair, `PAUSE` after every bundle contains the CA |
//! | a pair past two thirds of its life, or past one third before its CA changes | a new pair |

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::controller::certificates::settings::CertificateSettings;
use crate::controller::certificates::x509::{CaCertificate, ServingPair, SigningCa};
use crate::controller::certificates::{issuer, x509};

/// The maximum number of previous CAs. Without it, bundles would grow forever if every CA is lost soon after its issue.
const MAX_PREVIOUS: usize = 8;

/// The data of a Secret.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct SecretContent {
    pub(crate) data: BTreeMap<String, Vec<u8>>,
    /// Whether its type is the required one.
    pub(crate) right_type: bool,
}

impl SecretContent {
    pub(crate) fn get(&self, key: &str) -> &[u8] {
        self.data.get(key).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.data.keys()).finish()
    }
}

/// The four objects, and the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observation<'a> {
    /// Secret `mullion-ca`.
    pub(crate) ca: Option<&'a SecretContent>,
    /// Secret `mullion-tls`.
    pub(crate) tls: Option<&'a SecretContent>,
    /// The `caBundle`s of each configuration; empty for a configuration that another tool fills in.
    pub(crate) bundles: &'a [Vec<Vec<u8>>],
    /// Whether every configuration could be read.
    pub(crate) all_bundles: bool,
    /// Seconds since 1970, by the wall clock.
    pub(crate) now: i64,
    /// How long `ca` and `bundles` have been unchanged, at least.
    pub(crate) trusted_for: Duration,
    /// How long `tls` has been unchanged, at least.
    pub(crate) served_for: Duration,
}

/// One write. If one write of a plan fails, the others are still correct.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CertificateStep {
    /// `mullion-ca` gets a new CA, beside these previous ones.
    NewCa { previous: Vec<CaCertificate>, why: &'static str },
    /// `mullion-ca` keeps its CA and gets these previous ones.
    PreviousCas { previous: Vec<CaCertificate> },
    /// Every `caBundle` of the configuration with this index becomes this.
    Bundle { configuration: usize, bundle: String },
    /// `mullion-tls` gets a new pair, signed by the CA in `mullion-ca`.
    NewPair { why: String },
}

/// What to write, and when to plan again if nothing changes until then.
pub(crate) struct CertificatePlan {
    pub(crate) steps: Vec<CertificateStep>,
    pub(crate) check_after: Duration,
    /// The CA that signs now.
    pub(crate) signing_ca: Option<SigningCa>,
    /// The validity of the CA.
    pub(crate) ca_valid: Option<Range<i64>>,
    /// The validity of the pair.
    pub(crate) pair_valid: Option<Range<i64>>,
}

/// Plans the writes that are due now.
pub(crate) fn plan(observed: &Observation<'_>, settings: &CertificateSettings) -> CertificatePlan {
    let present = PresentCertificates::parse(observed, settings);
    let mut plan = CertificatePlan {
        steps: Vec::new(),
        check_after: settings.check(),
        signing_ca: None,
        ca_valid: None,
        pair_valid: present.pair.as_ref().ok().map(|pair| pair.valid.range()),
    };
    let signing_ca = match signing_ca(observed) {
        Ok(signing_ca) => signing_ca,
        Err(why) => {
            plan.steps.push(CertificateStep::NewCa { previous: present.previous_of_new_ca(None), why });
            return plan;
        }
    };
    let ca = signing_ca.certificate.clone();
    let renewal = present.renewal(&ca, settings);
    if !matches!(renewal, PairRenewal::NotDue)
        && !issuer::can_sign(&signing_ca, &settings.names, observed.now, settings.lifetime)
    {
        let why = "its certificate is damaged: clients would not accept what it signs";
        plan.steps.push(CertificateStep::NewCa { previous: present.previous_of_new_ca(None), why });
        return plan;
    }
    plan.ca_valid = Some(ca.valid.range());
    plan.signing_ca = Some(signing_ca);
    if observed.now >= ca.valid.after_thirds(2) && observed.all_bundles {
        // The pair still has a long lifetime while the CA changes, even if `mullion-ca` cannot be written.
        match renewal {
            PairRenewal::Now(why) => plan.steps.push(CertificateStep::NewPair { why }),
            PairRenewal::NotDue if present.is_pair_past_a_third() => {
                plan.steps.push(CertificateStep::NewPair { why: "its CA is about to change".to_owned() });
            }
            _ => {}
        }
        let why = "two thirds of its life are over";
        plan.steps.push(CertificateStep::NewCa { previous: present.previous_of_new_ca(Some(&ca)), why });
        return plan;
    }

    let previous = present.needed_previous(&ca, settings);
    let recorded = observed.ca.map_or(&[][..], |ca| ca.get("previous.crt"));
    if recorded != x509::pem(&previous).as_bytes() {
        plan.steps.push(CertificateStep::PreviousCas { previous: previous.clone() });
    }
    let bundle = x509::pem(std::iter::once(&ca).chain(&previous));
    let differs = |bundles: &[Vec<u8>]| bundles.iter().any(|present| present != bundle.as_bytes());
    let outdated = observed.bundles.iter().enumerate().filter(|(_, bundles)| differs(bundles));
    plan.steps
        .extend(outdated.map(|(configuration, _)| CertificateStep::Bundle { configuration, bundle: bundle.clone() }));
    let complete =
        observed.all_bundles && !plan.steps.iter().any(|step| matches!(step, CertificateStep::Bundle { .. }));
    let mut is_over = |whole: Duration, passed: Duration| {
        if passed < whole {
            plan.check_after = plan.check_after.min(whole.saturating_sub(passed));
        }
        passed >= whole
    };
    is_over(settings.overlap(), observed.served_for);
    let why = match renewal {
        PairRenewal::NotDue => None,
        PairRenewal::Now(why) => Some(why),
        PairRenewal::AfterShortPause(why) => is_over(settings.short_pause(), observed.trusted_for).then_some(why),
        PairRenewal::AfterPause(why) => (is_over(settings.pause(), observed.trusted_for) && complete).then_some(why),
    };
    plan.steps.extend(why.map(|why| CertificateStep::NewPair { why }));
    plan
}

/// The CA that signs, if it can be used now. An error describes the problem.
fn signing_ca(observed: &Observation<'_>) -> Result<SigningCa, &'static str> {
    let content = observed.ca.ok_or("there is no CA")?;
    let ca = x509::parse_signing_ca(content.get("ca.crt"), content.get("ca.key"))?;
    let valid = ca.certificate.valid;
    if valid.to < observed.now {
        return Err(EXPIRED);
    }
    if valid.from > observed.now {
        return Err(NOT_YET_VALID);
    }
    Ok(ca)
}

const EXPIRED: &str = "it has expired";
const NOT_YET_VALID: &str = "it is not valid yet, by the clock of this machine";

/// When a new pair is due, and why.
enum PairRenewal {
    NotDue,
    Now(String),
    /// No client accepts the current pair.
    AfterShortPause(String),
    /// Clients accept the current pair, because of a previous CA.
    AfterPause(String),
}

/// The content of the four objects, parsed.
struct PresentCertificates<'a> {
    observed: &'a Observation<'a>,
    pair: Result<ServingPair, String>,
    /// CAs in `previous.crt` that have not expired.
    recorded: Vec<CaCertificate>,
    /// CAs in a bundle or beside the pair that are not recorded and have not expired.
    unrecorded: Vec<CaCertificate>,
    /// The CAs of both lists for which clients accept the pair.
    accepting: Vec<CaCertificate>,
}

impl<'a> PresentCertificates<'a> {
    fn parse(observed: &'a Observation<'a>, settings: &CertificateSettings) -> Self {
        let pair = observed.tls.map_or_else(
            || Err("there is no pair".to_owned()),
            |content| x509::parse_pair(content.get("tls.crt"), content.get("tls.key")),
        );
        let valid = |pem: &[u8]| {
            let mut cas = x509::parse_ca_certificates(pem);
            cas.retain(|ca| ca.valid.contains(observed.now));
            cas
        };
        let recorded = observed.ca.map(|ca| valid(ca.get("previous.crt"))).unwrap_or_default();
        let mut unrecorded = Vec::new();
        // A CA without its key cannot sign, but pairs that it signed are still served.
        let in_ca = observed.ca.map(|ca| ca.get("ca.crt"));
        let beside = observed.tls.map(|tls| tls.get("ca.crt"));
        // Usually all bundles are the same text.
        let mut bundles: Vec<&[u8]> = observed.bundles.iter().flatten().map(Vec::as_slice).collect();
        bundles.sort_unstable();
        bundles.dedup();
        for ca in in_ca.into_iter().chain(beside).chain(bundles).flat_map(valid) {
            if !recorded.contains(&ca) && !unrecorded.contains(&ca) {
                unrecorded.push(ca);
            }
        }
        let accepts =
            |ca: &&CaCertificate| pair.as_ref().is_ok_and(|pair| pair.is_accepted(ca, &settings.names, observed.now));
        let accepting = recorded.iter().chain(&unrecorded).filter(accepts).cloned().collect();
        Self { observed, pair, recorded, unrecorded, accepting }
    }

    fn renewal(&self, ca: &CaCertificate, settings: &CertificateSettings) -> PairRenewal {
        let pair = match &self.pair {
            Ok(pair) => pair,
            Err(problem) => return PairRenewal::AfterShortPause(problem.clone()),
        };
        let now = self.observed.now;
        if !pair.is_accepted(ca, &settings.names, now) {
            if self.accepting.iter().any(|other| other != ca) {
                return PairRenewal::AfterPause("another CA signed it".to_owned());
            }
            let why = if pair.valid.to < now {
                EXPIRED
            } else if pair.valid.from > now {
                NOT_YET_VALID
            } else {
                "clients that trust the CA would not accept it: another CA signed it, or it is for other names"
            };
            return PairRenewal::AfterShortPause(why.to_owned());
        }
        if now >= pair.valid.after_thirds(2) {
            return PairRenewal::Now("two thirds of its life are over".to_owned());
        }
        let content = self.observed.tls;
        if content.is_some_and(|content| content.get("ca.crt") != x509::pem([ca]).as_bytes()) {
            return PairRenewal::Now("its ca.crt is not the CA that signed it".to_owned());
        }
        if content.is_some_and(|content| !content.right_type) {
            return PairRenewal::Now("the Secret is not of type kubernetes.io/tls".to_owned());
        }
        PairRenewal::NotDue
    }

    fn is_pair_past_a_third(&self) -> bool {
        self.pair.as_ref().is_ok_and(|pair| pair.valid.after_thirds(1) <= self.observed.now)
    }

    /// The previous CAs to store with a new one: all whose pairs may still be served, because webhooks keep a pair
    /// after its Secret is deleted. `current` is the CA that signed until then.
    fn previous_of_new_ca(&self, current: Option<&CaCertificate>) -> Vec<CaCertificate> {
        let ours = self.recorded.iter().chain(self.unrecorded.iter().filter(|ca| ca.ours));
        distinct(self.accepting.iter().chain(current).chain(ours), None)
    }

    /// The previous CAs that must stay with `ca`.
    fn needed_previous(&self, ca: &CaCertificate, settings: &CertificateSettings) -> Vec<CaCertificate> {
        let is_current = |pair: &ServingPair| pair.is_accepted(ca, &settings.names, self.observed.now);
        let is_current = self.pair.as_ref().is_ok_and(is_current);
        if is_current && self.observed.served_for >= settings.overlap() {
            return Vec::new();
        }
        let accepting = self.accepting.iter().filter(|_| !is_current);
        let mut kept = distinct(accepting.chain(&self.recorded), Some(ca));
        // In the recorded order, because a bundle must not change when a pair does.
        kept.sort_by_key(|ca| self.recorded.iter().position(|recorded| recorded == ca).unwrap_or(usize::MAX));
        kept
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a CaCertificate>, without: Option<&CaCertificate>) -> Vec<CaCertificate> {
    let mut certificates: Vec<CaCertificate> = Vec::new();
    for ca in all.filter(|ca| Some(*ca) != without) {
        if certificates.len() < MAX_PREVIOUS && !certificates.contains(ca) {
            certificates.push(ca.clone());
        }
    }
    certificates
}

#[cfg(test)]
mod tests;
