//! Every state is repaired, and no intermediate state interrupts calls that work, with simulated watches of the API
//! server, simulated webhooks and controllers, and real certificates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::sync::LazyLock;

use proptest::prelude::*;
use rustls::pki_types::ServerName;

use super::*;
use crate::controller::certificates::settings::parse_name;

/// 2026-01-01.
const START: i64 = 1_767_225_600;
const TENTH: Duration = Duration::from_millis(100);
/// The shortest time between two failures. Each failure costs a round, or a pause of 9 s if the controller restarts. A
/// short pair has 20 s left when it is due, so it expires if there is more than one failure in that time.
const BETWEEN_FAILURES: Duration = Duration::from_secs(20);

fn settings(lifetime: u64, ca_lifetime: u64) -> CertificateSettings {
    let lifetimes = (Some(Duration::from_secs(lifetime)), Some(Duration::from_secs(ca_lifetime)));
    CertificateSettings::new("webhook", "mullion", &[parse_name("127.0.0.1").unwrap()], lifetimes).unwrap()
}

/// Pause 9 s, short pause 2 s, overlap 18 s.
static SHORT: LazyLock<CertificateSettings> = LazyLock::new(|| settings(60, 180));
static DEFAULT: LazyLock<CertificateSettings> =
    LazyLock::new(|| CertificateSettings::new("webhook", "mullion", &[], (None, None)).unwrap());

fn content(data: &[(&str, &str)]) -> SecretContent {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
    SecretContent { data, right_type: true }
}

fn ca_content(now: i64, settings: &CertificateSettings) -> SecretContent {
    let issued = issuer::issue_ca(now, settings.ca_lifetime).unwrap();
    content(&[("ca.crt", &issued.certificate), ("ca.key", &issued.key)])
}

fn tls_content(
    ca: &SecretContent,
    names: &[ServerName<'_>],
    now: i64,
    settings: &CertificateSettings,
) -> SecretContent {
    let signing_ca = x509::parse_signing_ca(ca.get("ca.crt"), ca.get("ca.key")).unwrap();
    let issued = issuer::issue_pair(&signing_ca, names, now, settings.lifetime).unwrap();
    let ca_crt = x509::pem([&signing_ca.certificate]);
    content(&[("tls.crt", &issued.certificate), ("tls.key", &issued.key), ("ca.crt", &ca_crt)])
}

/// Whether a call works if `pair` is served and `bundle` is trusted.
fn works(pair: &SecretContent, bundle: &[u8], now: i64, names: &[ServerName<'_>]) -> bool {
    let serving = x509::parse_pair(pair.get("tls.crt"), pair.get("tls.key")).unwrap();
    x509::parse_ca_certificates(bundle).iter().any(|ca| serving.is_accepted(ca, names, now))
}

/// `mullion-ca` and the bundles.
type Trust = (Option<SecretContent>, Vec<Vec<Vec<u8>>>);

/// The four objects, a clock, and a controller.
#[derive(Clone)]
struct Cluster {
    settings: &'static CertificateSettings,
    ca: Option<SecretContent>,
    tls: Option<SecretContent>,
    bundles: Vec<Vec<Vec<u8>>>,
    passed: Duration,
    /// Seconds that are added to the wall clock.
    jumped: i64,
    /// The CA and bundles that the controller last read, the same of the pair, and when it first read them.
    trust: Option<(Trust, Duration)>,
    pair: Option<(Option<SecretContent>, Duration)>,
    writes: usize,
}

impl Cluster {
    fn empty(settings: &'static CertificateSettings) -> Self {
        Self {
            settings,
            ca: None,
            tls: None,
            bundles: vec![vec![Vec::new(); 2]; 2],
            passed: Duration::ZERO,
            jumped: 0,
            trust: None,
            pair: None,
            writes: 0,
        }
    }

    fn now(&self) -> i64 {
        START + i64::try_from(self.passed.as_secs()).unwrap() + self.jumped
    }

    fn plan(&mut self) -> CertificatePlan {
        let passed = self.passed;
        let trust = (self.ca.clone(), self.bundles.clone());
        if self.trust.as_ref().is_none_or(|(last, _)| *last != trust) {
            self.trust = Some((trust, passed));
        }
        if self.pair.as_ref().is_none_or(|(last, _)| *last != self.tls) {
            self.pair = Some((self.tls.clone(), passed));
        }
        let observation = Observation {
            ca: self.ca.as_ref(),
            tls: self.tls.as_ref(),
            bundles: &self.bundles,
            all_bundles: true,
            now: self.now(),
            trusted_for: passed.saturating_sub(self.trust.as_ref().unwrap().1),
            served_for: passed.saturating_sub(self.pair.as_ref().unwrap().1),
        };
        plan(&observation, self.settings)
    }

    fn carry_out(&mut self, step: &CertificateStep, signing_ca: Option<&SigningCa>) {
        self.writes += 1;
        let now = self.now();
        match step {
            CertificateStep::NewCa { previous, .. } => {
                let mut ca = ca_content(now, self.settings);
                ca.data.insert("previous.crt".to_owned(), x509::pem(previous).into_bytes());
                self.ca = Some(ca);
            }
            CertificateStep::PreviousCas { previous } => {
                let ca = self.ca.as_mut().unwrap();
                ca.data.insert("previous.crt".to_owned(), x509::pem(previous).into_bytes());
            }
            CertificateStep::Bundle { configuration, bundle } => {
                self.bundles[*configuration].fill(bundle.as_bytes().to_vec());
            }
            CertificateStep::NewPair { .. } => {
                let ca = signing_ca.unwrap();
                let issued = issuer::issue_pair(ca, &self.settings.names, now, self.settings.lifetime).unwrap();
                let ca_crt = x509::pem([&ca.certificate]);
                let data = [("tls.crt", issued.certificate.as_str()), ("tls.key", &issued.key), ("ca.crt", &ca_crt)];
                self.tls = Some(content(&data));
            }
        }
    }

    /// Runs the controller until it has nothing to write for two hours, or half a lifetime.
    fn settle(&mut self, what: &str) {
        let until = self.passed + Duration::from_secs(3600 * 2).min(self.settings.lifetime / 2);
        let before = self.writes;
        while self.passed < until {
            let plan = self.plan();
            for step in &plan.steps {
                self.carry_out(step, plan.signing_ca.as_ref());
            }
            assert!(self.writes - before < 20, "{what}: it does not stop writing: {:?}", plan.steps);
            if plan.steps.is_empty() {
                assert!(plan.check_after > Duration::ZERO, "{what}");
                // Waits of the plan stay in effect; if only the clock is due, more time passes.
                let idle = plan.check_after == self.settings.check();
                self.passed += if idle { self.settings.overlap() / 4 } else { plan.check_after };
            }
        }
        assert_eq!(self.plan().steps, [], "{what}: it writes again");
        self.assert_healthy(what);
    }

    fn assert_healthy(&mut self, what: &str) {
        let (ca, tls) = (self.ca.as_ref().expect(what), self.tls.as_ref().expect(what));
        let ca = x509::parse_signing_ca(ca.get("ca.crt"), ca.get("ca.key")).expect(what).certificate;
        let serving = x509::parse_pair(tls.get("tls.crt"), tls.get("tls.key")).expect(what);
        assert!(serving.is_accepted(&ca, &self.settings.names, self.now()), "{what}");
        assert!(tls.right_type, "{what}");
        for bundle in self.bundles.iter().flatten() {
            assert_eq!(x509::parse_ca_certificates(bundle), std::slice::from_ref(&ca), "{what}: previous CAs stay");
        }
    }
}

/// Cuts a PEM text in the middle.
fn half(content: &SecretContent, key: &str) -> SecretContent {
    let mut content = content.clone();
    let text = content.data.get_mut(key).unwrap();
    text.truncate(text.len() / 2);
    content
}

fn with(content: &SecretContent, key: &str, value: &[u8]) -> SecretContent {
    let mut content = content.clone();
    content.data.insert(key.to_owned(), value.to_vec());
    content
}

#[test]
fn every_state_heals_in_a_few_writes() {
    let settings: &'static CertificateSettings = &DEFAULT;
    let year = 365 * 24 * 3600;
    let good = ca_content(START - 1000, settings);
    let other = ca_content(START - 1000, settings);
    let names = &settings.names[..];
    let pair = tls_content(&good, names, START - 1000, settings);
    let cas = [
        ("no CA", None),
        ("a good CA", Some(good.clone())),
        ("an expired CA", Some(ca_content(START - 3 * year, settings))),
        ("a CA of the future", Some(ca_content(START + 3 * year, settings))),
        ("a CA that is due", Some(ca_content(START - year * 3 / 2, settings))),
        ("an empty CA Secret", Some(content(&[]))),
        ("half a CA", Some(half(&good, "ca.crt"))),
        ("half a key", Some(half(&good, "ca.key"))),
        ("a lost key", Some(with(&good, "ca.key", b""))),
        ("another's key", Some(with(&good, "ca.key", other.get("ca.key")))),
        (
            "a pair for a CA",
            Some(content(&[
                ("ca.crt", std::str::from_utf8(pair.get("tls.crt")).unwrap()),
                ("ca.key", std::str::from_utf8(pair.get("tls.key")).unwrap()),
            ])),
        ),
        ("bytes for a CA", Some(with(&good, "ca.crt", &[0xff, 0, 1, 2]))),
        ("a previous CA that is not needed", Some(with(&good, "previous.crt", other.get("ca.crt")))),
        ("bytes for a previous CA", Some(with(&good, "previous.crt", &[0xff, 0, 1, 2]))),
    ];
    let wrong_type = SecretContent { right_type: false, ..pair.clone() };
    let pairs = [
        ("no pair", None),
        ("a good pair", Some(pair.clone())),
        ("a pair of another CA", Some(tls_content(&other, names, START - 1000, settings))),
        ("an expired pair", Some(tls_content(&good, names, START - year, settings))),
        ("a pair of the future", Some(tls_content(&good, names, START + year, settings))),
        ("a pair that is due", Some(tls_content(&good, names, START - 61 * 24 * 3600, settings))),
        ("a pair for other names", Some(tls_content(&good, &names[1..], START - 1000, settings))),
        ("an empty Secret", Some(content(&[]))),
        ("half a certificate", Some(half(&pair, "tls.crt"))),
        ("half a key", Some(half(&pair, "tls.key"))),
        ("swapped values", Some(with(&with(&pair, "tls.crt", pair.get("tls.key")), "tls.key", pair.get("tls.crt")))),
        ("another's key", Some(with(&pair, "tls.key", good.get("ca.key")))),
        ("the CA for a pair", Some(with(&with(&pair, "tls.crt", good.get("ca.crt")), "tls.key", good.get("ca.key")))),
        ("no ca.crt", Some(with(&pair, "ca.crt", b""))),
        ("a Secret of another type", Some(wrong_type)),
    ];
    let both = [good.get("ca.crt"), other.get("ca.crt")].concat();
    let bundles = [
        ("empty bundles", vec![vec![Vec::new(); 2]; 2]),
        ("good bundles", vec![vec![good.get("ca.crt").to_vec(); 2]; 2]),
        ("another CA's bundles", vec![vec![other.get("ca.crt").to_vec(); 2]; 2]),
        ("both CAs in one bundle", vec![vec![Vec::new(), both], vec![b"garbage".to_vec(), Vec::new()]]),
        ("no configurations", vec![]),
    ];
    for (row, (ca_name, ca)) in cas.iter().enumerate() {
        for (column, (pair_name, tls)) in pairs.iter().enumerate() {
            // Every CA and every pair with every kind of bundles; all three combined would take minutes.
            let (bundles_name, bundles) = &bundles[(row + column) % bundles.len()];
            let (ca, tls, bundles) = (ca.clone(), tls.clone(), bundles.clone());
            let mut cluster = Cluster { ca, tls, bundles, ..Cluster::empty(settings) };
            cluster.settle(&format!("{ca_name}, {pair_name}, {bundles_name}"));
        }
    }
}

#[test]
fn a_clock_that_jumps_heals() {
    let mut cluster = Cluster::empty(&DEFAULT);
    cluster.settle("nothing");
    let year = 365 * 24 * 3600;
    for jumped in [year / 6, 10 * year, -10 * year, 0, 7_000 * year, -START, 5] {
        cluster.jumped = jumped;
        cluster.settle(&format!("after {jumped} s"));
    }
}

#[test]
fn a_controller_that_was_down_for_two_months_renews() {
    let mut cluster = Cluster::empty(&DEFAULT);
    cluster.settle("nothing");
    let before = (cluster.ca.clone(), cluster.tls.clone(), cluster.bundles.clone());
    cluster.passed += Duration::from_secs(3600 * 24 * 61);
    cluster.settle("two months later");
    assert!(cluster.tls != before.1 && cluster.ca == before.0 && cluster.bundles == before.2, "only the pair is new");
    cluster.passed += Duration::from_secs(3600 * 24 * 365 * 4 / 3);
    cluster.settle("two thirds of the CA's life later");
    assert!(cluster.ca != before.0);
}

/// If a configuration cannot be read, only writes that change no trust are planned.
#[test]
fn no_ca_changes_while_a_configuration_cannot_be_read() {
    let settings: &'static CertificateSettings = &DEFAULT;
    let day = 24 * 3600;
    let (due, old) = (ca_content(START - 500 * day, settings), ca_content(START - 1000, settings));
    let names = &settings.names[..];
    let hours = Duration::from_secs(3600 * 3);
    for (ca, pair, all_bundles, expected) in [
        (&due, tls_content(&due, names, START - 70 * day, settings), true, "pair and CA"),
        (&due, tls_content(&due, names, START - 70 * day, settings), false, "pair"),
        (&due, tls_content(&due, names, START - 40 * day, settings), true, "pair and CA"),
        (&due, tls_content(&due, names, START - 40 * day, settings), false, ""),
        (&due, tls_content(&due, names, START - day, settings), true, "CA"),
        (&old, tls_content(&due, names, START - day, settings), true, "pair"),
        (&old, tls_content(&due, names, START - day, settings), false, ""),
        (&old, content(&[]), false, "pair"),
    ] {
        let ca = with(ca, "previous.crt", if ca == &old { due.get("ca.crt") } else { b"" });
        let trusted = [ca.get("ca.crt"), ca.get("previous.crt")].concat();
        let observation = Observation {
            ca: Some(&ca),
            tls: Some(&pair),
            bundles: &[vec![trusted]],
            all_bundles,
            now: START,
            trusted_for: hours,
            served_for: Duration::ZERO,
        };
        let steps: Vec<_> = plan(&observation, settings)
            .steps
            .iter()
            .map(|step| match step {
                CertificateStep::NewCa { .. } => "CA",
                CertificateStep::NewPair { .. } => "pair",
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(steps.join(" and "), expected);
    }
}

#[test]
fn lost_cas_do_not_pile_up() {
    let mut cluster = Cluster::empty(&SHORT);
    for _ in 0..30 {
        for _ in 0..3 {
            let plan = cluster.plan();
            for step in &plan.steps {
                cluster.carry_out(step, plan.signing_ca.as_ref());
            }
        }
        cluster.ca = None;
        let most = cluster.bundles.iter().flatten().map(|bundle| x509::parse_ca_certificates(bundle).len()).max();
        assert!(most.unwrap() <= MAX_PREVIOUS + 1, "{most:?}");
    }
    cluster.settle("at last");
}

/// Numbers that look random, from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn tenths(&mut self, most: u64) -> Duration {
        TENTH * u32::try_from(self.below(most + 1)).unwrap()
    }
}

/// Receives what was written with a delay, in order.
#[derive(Clone)]
struct Follower<T> {
    has: Option<T>,
    coming: VecDeque<(Duration, T)>,
    last: Option<T>,
}

impl<T: Clone + PartialEq> Follower<T> {
    fn new() -> Self {
        Self { has: None, coming: VecDeque::new(), last: None }
    }

    fn follow(&mut self, written: &T, now: Duration, lag: Duration) {
        if self.last.as_ref() != Some(written) {
            let earliest = self.coming.back().map_or(now, |(at, _)| *at);
            self.coming.push_back(((now + lag).max(earliest), written.clone()));
            self.last = Some(written.clone());
        }
        while let Some((_, arrived)) = self.coming.pop_front_if(|(at, _)| *at <= now) {
            self.has = Some(arrived);
        }
    }
}

/// Two API servers and two webhooks around a cluster.
struct Simulation {
    cluster: Cluster,
    random: Random,
    servers: [Follower<Vec<Vec<Vec<u8>>>>; 2],
    webhooks: [Follower<SecretContent>; 2],
    /// In tenths of a second.
    server_lag: u64,
    webhook_lag: u64,
    next_round: Duration,
    last_failure: Duration,
    checked: (Vec<Vec<u8>>, Vec<SecretContent>, i64),
    pairs: usize,
    cas: usize,
}

impl Simulation {
    fn new(seed: u64, server_lag: u64, webhook_lag: u64) -> Self {
        let mut cluster = Cluster::empty(&SHORT);
        cluster.settle("nothing");
        Self {
            cluster,
            random: Random(seed | 1),
            servers: [Follower::new(), Follower::new()],
            webhooks: [Follower::new(), Follower::new()],
            server_lag,
            webhook_lag,
            next_round: Duration::ZERO,
            last_failure: Duration::ZERO,
            checked: Default::default(),
            pairs: 0,
            cas: 0,
        }
    }

    /// The controller plans and writes. Some writes fail, or are not reached because the controller ends before them.
    fn reconcile(&mut self, failing: bool) {
        let plan = self.cluster.plan();
        for step in &plan.steps {
            let passed = self.cluster.passed;
            let may_fail = failing && passed >= self.last_failure + BETWEEN_FAILURES;
            match self.random.below(if may_fail { 10 } else { u64::MAX }) {
                0 | 1 => self.last_failure = passed,
                2 => {
                    // The process ends here; another starts without memory.
                    (self.cluster.trust, self.cluster.pair) = (None, None);
                    self.last_failure = passed;
                    break;
                }
                _ => {
                    self.cluster.carry_out(step, plan.signing_ca.as_ref());
                    self.pairs += usize::from(matches!(step, CertificateStep::NewPair { .. }));
                    self.cas += usize::from(matches!(step, CertificateStep::NewCa { .. }));
                }
            }
        }
        self.next_round = self.cluster.passed + self.random.tenths(10) + TENTH;
    }

    /// A tenth of a second in which every API server calls every webhook.
    fn tick(&mut self, failing: bool) {
        self.cluster.passed += TENTH;
        if self.cluster.passed >= self.next_round {
            self.reconcile(failing);
        }
        let now = self.cluster.passed;
        for server in &mut self.servers {
            let lag = self.random.tenths(self.server_lag);
            server.follow(&self.cluster.bundles, now, lag);
        }
        for webhook in &mut self.webhooks {
            let lag = self.random.tenths(self.webhook_lag);
            // A deleted Secret, or one without a pair, does not replace what is served.
            let usable = |tls: &&SecretContent| x509::parse_pair(tls.get("tls.crt"), tls.get("tls.key")).is_ok();
            if let Some(tls) = self.cluster.tls.as_ref().filter(usable) {
                webhook.follow(tls, now, lag);
            }
        }
        let mut bundles: Vec<Vec<u8>> =
            self.servers.iter().filter_map(|server| server.has.as_ref()).flatten().flatten().cloned().collect();
        bundles.sort();
        bundles.dedup();
        let mut pairs: Vec<SecretContent> = self.webhooks.iter().filter_map(|webhook| webhook.has.clone()).collect();
        pairs.dedup();
        // Certificates also change when they expire.
        let checked = (bundles, pairs, self.cluster.now() / 5 * 5);
        if checked != self.checked {
            for bundle in &checked.0 {
                for pair in &checked.1 {
                    let works = works(pair, bundle, checked.2, &self.cluster.settings.names);
                    let served = x509::parse_pair(pair.get("tls.crt"), pair.get("tls.key")).unwrap();
                    assert!(
                        works,
                        "after {now:?}, a pair is served that a bundle does not trust: {:?} of {}, {} CAs",
                        served.valid,
                        checked.2,
                        x509::parse_ca_certificates(bundle).len()
                    );
                }
            }
            self.checked = checked;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    /// Controllers end at any write, writes fail, API servers receive bundles up to 8 s late, webhooks follow up to 5 s
    /// late.
    #[test]
    fn no_call_fails_while_certificates_change(seed: u64) {
        let mut simulation = Simulation::new(seed, 80, 50);
        for _ in 0..4_000 {
            simulation.tick(true);
        }
        prop_assert!(simulation.pairs >= 8 && simulation.cas >= 2, "{} pairs, {} CAs", simulation.pairs, simulation.cas);
    }

    /// Webhooks and bundles keep what they have, and API servers receive a bundle at most half a second late.
    #[test]
    fn no_call_fails_when_secrets_are_lost(seed: u64) {
        let mut simulation = Simulation::new(seed, 5, 20);
        for round in 0..10 {
            for _ in 0..300 {
                simulation.tick(false);
            }
            let (what, kind) = (&mut simulation.cluster, round % 5);
            match kind {
                0 => what.tls = None,
                1 => what.ca = None,
                2 => (what.tls, what.ca) = (None, None),
                3 => what.tls = what.tls.as_ref().map(|tls| half(tls, "tls.key")),
                // Restored from elsewhere: a good CA that signed nothing here.
                _ => what.ca = Some(ca_content(what.now(), what.settings)),
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(
        ca in prop::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..2000,
        flip in 1_u8..,
    ) {
        let (mut good, mut cluster) = (ca_content(START, &SHORT), Cluster::empty(&SHORT));
        let text = good.data.get_mut(if at % 2 == 0 { "ca.crt" } else { "ca.key" }).unwrap();
        let at = at % text.len();
        text[at] ^= flip;
        cluster.ca = Some(with(&good, "previous.crt", &ca));
        cluster.bundles[0][1].clone_from(&ca);
        cluster.tls = Some(with(&with(&good, "tls.crt", &ca), "tls.key", good.get("ca.key")));
        cluster.settle("bytes");
    }
}

/// A changed byte anywhere in a CA's certificate. In its subject, or in an extension, the key still matches.
#[test]
fn a_damaged_ca_is_replaced() {
    let good = ca_content(START, &SHORT);
    for at in (30..good.get("ca.crt").len() - 30).step_by(3) {
        let mut text = good.get("ca.crt").to_vec();
        text[at] ^= 0x22;
        let mut cluster = Cluster::empty(&SHORT);
        cluster.ca = Some(with(&good, "ca.crt", &text));
        cluster.settle(&format!("byte {at}"));
    }
}

/// 2.5.4.10, the type of `O`, becomes 3.5.4.10, which no encoder can write.
#[test]
fn a_ca_with_an_invalid_attribute_type_is_replaced() {
    let good = ca_content(START, &SHORT);
    let mut ca = x509::parse_ca_certificates(good.get("ca.crt")).remove(0);
    let mut der = ca.der.to_vec();
    // In the issuer and in the subject, which are the same.
    let types: Vec<usize> = (0..der.len() - 5).filter(|&at| der[at..].starts_with(&[6, 3, 0x55, 4, 10])).collect();
    assert_eq!(types.len(), 2);
    for at in types {
        der[at + 2] = 0x7d;
    }
    ca.der = der.into();
    let mut cluster = Cluster::empty(&SHORT);
    cluster.ca = Some(with(&good, "ca.crt", x509::pem([&ca]).as_bytes()));
    cluster.settle("an invalid attribute type");
}

#[test]
fn debug_output_contains_no_secret() {
    let ca = ca_content(START, &SHORT);
    let tls = tls_content(&ca, &SHORT.names, START, &SHORT);
    let observation = Observation {
        ca: Some(&ca),
        tls: Some(&tls),
        bundles: &[],
        all_bundles: true,
        now: START,
        trusted_for: Duration::ZERO,
        served_for: Duration::ZERO,
    };
    let issued = issuer::issue_ca(START, Duration::from_secs(60)).unwrap();
    let plan = plan(&Observation { tls: None, ..observation }, &SHORT);
    let shown = format!("{observation:?} {observation:#?} {issued:?} {:?}", plan.steps);
    assert!(shown.contains("ca.key"), "{shown}");
    for secret in [ca.get("ca.key"), tls.get("tls.key"), issued.key.as_bytes()] {
        let text = std::str::from_utf8(secret).unwrap();
        let line = text.lines().nth(1).unwrap();
        assert!(!shown.contains(line) && !shown.contains("PRIVATE"), "{shown}");
        assert!(!shown.contains(&format!("{secret:?}")), "{shown}");
    }
}
