//! The problems of bad files: each row is a text, and every problem of it as `line:column: message (hint)`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use mullion_engine::model::settings::{ApplyTaint, Denials, Mode, TemplateDenials};
use proptest::prelude::*;

use super::*;
use crate::schema::ValueShape;

type Rows = &'static [(&'static str, &'static [&'static str])];

/// `spec` of a PodPolicy, from line 5 and column 3.
#[rustfmt::skip]
const POD_SPECS: Rows = &[
    ("plcae: {}", &[
        "5:3: `spec` has no key `plcae` (did you mean `place`?)",
    ]),
    ("plcae: {toleration: [spot]}", &[
        "5:3: `spec` has no key `plcae` (did you mean `place`?)",
        "5:11: `spec.place` has no key `toleration` (did you mean `tolerations`?)",
        "5:23: `spec.place.tolerations` takes a map with mode and add, not a list (put the list under a key: `add: […]`)",
    ]),
    ("mode: Audit\nMode: x", &[
        "6:3: `spec` has no key `Mode` (did you mean `mode`?)",
    ]),
    ("m\u{43e}de: Audit", &[
        "5:3: `spec` has no key `m\u{43e}de` (did you mean `mode`? `\u{43e}` is not a Latin letter, but U+043E)",
    ]),
    ("mode:Audit", &[
        "5:3: `spec` takes a map with priority, mode, match, until, message, optOut, detect, place and rules, not the text `mode:Audit` (write `mode: Audit`, with a plain space after the colon)",
    ]),
    ("mode:\u{a0}Audit", &[
        "5:3: `spec` takes a map with priority, mode, match, until, message, optOut, detect, place and rules, not the text `mode:\\u{a0}Audit` (write `mode: Audit`, with a plain space after the colon)",
    ]),
    ("mode: false", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not a boolean (templates write `false` for words that are booleans in YAML 1.1, such as off and no; write `Disabled`)",
    ]),
    ("priority: 0100", &[
        "5:13: `spec.priority` is 64: YAML 1.1 reads `0100` in base 8 (write 100)",
    ]),
    ("priority: 99999999999999999999999", &[
        "5:13: `spec.priority` takes a whole number, not the number `99999999999999999999999` (it must lie between -9223372036854775808 and 9223372036854775807)",
    ]),
    ("match: {kinds: [DaemonSet], matchLabels: {a: b}, podSelector: {matchFields: []}}", &[
        "5:11: `spec.match` has no key `kinds` (policies do not distinguish kinds: match labels of their pods, under podSelector)",
        "5:31: `spec.match` has no key `matchLabels` (labels of pods belong under podSelector, labels of namespaces under namespaceSelector)",
        "5:66: `spec.match.podSelector` has no key `matchFields` (only labels of pods are compared)",
    ]),
    ("match: {namespaces: {include: [*-dev]}}", &[
        "5:34: `*-dev` refers to an anchor that is not defined before it (put text that begins with `*` in quotes; for an alias, write `&-dev` before it in the same document)",
    ]),
    ("match: {namespaces: {exclude: [!shop]}}", &[
        "5:39: `spec.match.namespaces.exclude[0]` is empty; it takes a namespace name, in which `*` matches anything (YAML reads `!shop` as a tag: put text that begins with `!` in quotes)",
    ]),
    ("match: {podSelector: {matchLabels: {on: x, \"true\": x}}}", &[
        "5:46: the key `true` occurs twice in this map; it occurs first on line 5 (remove one; readers disagree which of them counts)",
    ]),
    ("match: {podSelector: {matchLabels: {\"true\": x, on: x}}}", &[
        "5:50: the key `on`, which is read as `true`, occurs twice in this map; it occurs first on line 5 (remove one; readers disagree which of them counts)",
    ]),
    ("match: {podSelector: {matchLabels: {on: x}}}", &[
        "5:39: `spec.match.podSelector.matchLabels` has the key `on`, which YAML 1.1 reads as `true` (write it in quotes: \"on\")",
    ]),
    ("rules: {version: \u{201c}0.1\u{201d}}", &[
        "5:20: `spec.rules.version` takes a version of Mullion such as \"0.1\", not `\u{201c}0.1\u{201d}`: it is not a version (`\u{201c}` (U+201C) is typesetting; write `\"`)",
    ]),
    ("match: {namespaces: {include: [a\u{2013}b]}}", &[
        "5:34: `spec.match.namespaces.include[0]` takes a namespace name, in which `*` matches anything, not `a\u{2013}b`: namespace names do not contain `\u{2013}` (`\u{2013}` (U+2013) is typesetting; write `-`)",
    ]),
    ("mode: Audit # \u{202e}ecrofnE", &[
        "5:17: this is U+202E, which shows the text after it in another order than the one in the file (remove it, or write it as an escape in double quotes)",
    ]),
    ("mode: Audit # a\u{2028}  priority: 5", &[
        "5:18: this is U+2028, which looks like a line end and is not one (remove it, or write it as an escape in double quotes)",
    ]),
    ("rules: {actions: [{rule: MUL1xx, action: Warn}, {rule: MUL3*, action: Warn}, {rule: mul2, action: Warn}]}", &[
        "5:28: `spec.rules.actions[0].rule`: there is no rule `MUL1xx` (write `MUL1` for all rules whose codes start with it)",
        "5:58: `spec.rules.actions[1].rule`: there is no rule `MUL3*` (write `MUL3` for all rules whose codes start with it)",
        "5:87: `spec.rules.actions[2].rule`: there is no rule `mul2` (write `MUL2` for all rules whose codes start with it)",
    ]),
    ("place: {build: {mode: Exact, version: 10.0.20348}}", &[
        "5:32: `spec.place.build` has no key `version` (the build is that of the pod's images: set it in `spec.detect.images` if their names do not contain it)",
    ]),
    ("build: {}", &[
        "5:3: `spec` has no key `build` (it belongs under `spec.place`: indent it deeper than that)",
    ]),
    ("zzz: 1", &[
        "5:3: `spec` has no key `zzz` (known here: priority, mode, match, until, message, optOut, detect, place, rules; a newer version of Mullion may have more keys)",
    ]),
    ("mode: Enforced", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not `Enforced` (did you mean `Enforce`?)",
    ]),
    ("mode: enforce", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not `enforce` (did you mean `Enforce`?)",
    ]),
    ("mode: Off", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not a boolean (YAML 1.1 reads `Off` as false; write `Disabled`)",
    ]),
    ("mode: on", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not a boolean (YAML 1.1 reads `on` as true; write `Enforce`)",
    ]),
    ("mode:", &[
        "5:8: `spec.mode` has no value; it takes Enforce, Audit or Disabled (give it a value, or remove the key)",
    ]),
    ("mode: 1", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not the number `1`",
    ]),
    ("mode: []", &[
        "5:9: `spec.mode` takes Enforce, Audit or Disabled, not a list",
    ]),
    ("priority: high", &[
        "5:13: `spec.priority` takes a whole number, not the text `high`",
    ]),
    ("priority: 1.5", &[
        "5:13: `spec.priority` takes a whole number, not the number `1.5`",
    ]),
    ("priority: 99999999999999999999", &[
        "5:13: `spec.priority` takes a whole number, not the number `99999999999999999999` (it must lie between -9223372036854775808 and 9223372036854775807)",
    ]),
    ("priority: \"1\"", &[
        "5:13: `spec.priority` takes a whole number, not the text `1` (write it without quotes: 1)",
    ]),
    ("match: {namespaces: {include: dev-*}}", &[
        "5:33: `spec.match.namespaces.include` takes a list, not the text `dev-*` (put `- ` before each entry, or brackets around them)",
    ]),
    ("match: {namespaces: {include: [\"dev-?\", Dev, \"\", a.b]}}", &[
        "5:34: `spec.match.namespaces.include[0]` takes a namespace name, in which `*` matches anything, not `dev-?`: `?` has no meaning here, and namespace names do not contain it (`*` is the only wildcard; write several entries for alternatives)",
        "5:43: `spec.match.namespaces.include[1]` takes a namespace name, in which `*` matches anything, not `Dev`: namespace names have no upper-case letters (write `dev`)",
        "5:48: `spec.match.namespaces.include[2]` is empty; it takes a namespace name, in which `*` matches anything",
        "5:52: `spec.match.namespaces.include[3]` takes a namespace name, in which `*` matches anything, not `a.b`: namespace names do not contain `.`",
    ]),
    ("match: {namespaces: [a]}", &[
        "5:23: `spec.match.namespaces` takes a map with include and exclude, not a list (put the list under a key: `include: […]`)",
    ]),
    ("match: {namespaces: {include: [on, 1]}}", &[
        "5:34: `spec.match.namespaces.include[0]` takes a namespace name, in which `*` matches anything, not the boolean `on` (write it in quotes: \"on\")",
        "5:38: `spec.match.namespaces.include[1]` takes a namespace name, in which `*` matches anything, not the number `1` (write it in quotes: \"1\")",
    ]),
    ("match:\n  podSelector:\n    matchLabels: {a: true, \"a b\": c, x: \"b c\"}", &[
        "7:24: `spec.match.podSelector.matchLabels[a]` takes a label or taint value, not the boolean `true` (write it in quotes: \"true\")",
        "7:30: `spec.match.podSelector.matchLabels` cannot have the key `a b`: keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        "7:43: `spec.match.podSelector.matchLabels[x]` takes a label or taint value, not `b c`: values have at most 63 letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit",
    ]),
    ("match:\n  podSelector:\n    matchExpressions:\n    - {key: a, operator: In}\n    - {key: a, operator: Exists, values: [b]}\n    - {key: a, operator: in, values: [b]}\n    - {key: a, operator: NotIn, values: []}\n    - {operator: Exists}", &[
        "8:18: `spec.match.podSelector.matchExpressions[0]` has no values: operator In needs them (list at least one value, or use Exists or DoesNotExist)",
        "9:36: `spec.match.podSelector.matchExpressions[1].values` must be absent: operator Exists takes none (remove the values, or use In or NotIn)",
        "10:28: `spec.match.podSelector.matchExpressions[2].operator` takes In, NotIn, Exists or DoesNotExist, not `in` (did you mean `In`?)",
        "11:43: `spec.match.podSelector.matchExpressions[3]` has no values: operator NotIn needs them (list at least one value, or use Exists or DoesNotExist)",
        "12:10: `spec.match.podSelector.matchExpressions[4].key` is missing: a label or taint key such as example.com/team",
    ]),
    ("detect: {os: Windows}", &[
        "5:16: `spec.detect.os` takes windows, linux or any, not `Windows` (did you mean `windows`?)",
    ]),
    ("detect: {default: No}", &[
        "5:21: `spec.detect.default` takes LinuxWhenMixed, Linux or Nothing, not a boolean (YAML 1.1 reads `No` as false; write `Nothing`)",
    ]),
    ("detect: {images: {}}", &[
        "5:20: `spec.detect.images` takes a list, not a map (put `- ` before each entry, or brackets around them)",
    ]),
    ("detect:\n  images:\n  - {pattern: \"a.io/**\", os: windos}\n  - {pattern: \"https://a.io/x\", os: linux}\n  - {pattern: a.io/, os: linux}\n  - {pattern: \"a.io/{x,y}\", os: linux}\n  - {os: linux}\n  - {pattern: \"\", os: linux}\n  - {pattern: \"a/***\", os: linux}", &[
        "7:32: `spec.detect.images[0].os` takes windows, linux or multi, not `windos` (did you mean `windows`?)",
        "8:17: `spec.detect.images[1].pattern` takes an image reference, in which `*` and `**` match anything, not `https://a.io/x`: image references have no scheme (write `a.io/x`)",
        "9:17: `spec.detect.images[2].pattern` takes an image reference, in which `*` and `**` match anything, not `a.io/`: it has an empty path segment, and matches no image (write `a.io/**` for everything below)",
        "10:17: `spec.detect.images[3].pattern` takes an image reference, in which `*` and `**` match anything, not `a.io/{x,y}`: image references do not contain `{` (`*` and `**` are the only wildcards; write several entries for alternatives)",
        "11:8: `spec.detect.images[4].pattern` is missing: an image reference, in which `*` and `**` match anything",
        "12:17: `spec.detect.images[5].pattern` is empty; it takes an image reference, in which `*` and `**` match anything",
        "13:17: `spec.detect.images[6].pattern` takes an image reference, in which `*` and `**` match anything, not `a/***`: `***` means the same as `**` (write `**`)",
    ]),
    ("detect:\n  images:\n  - {pattern: a, os: windows, builds: [20348, 10.0, 10.0.20348.1, ltsc2022, true]}", &[
        "7:42: `spec.detect.images[0].builds[0]` takes a Windows build such as 10.0.20348, not the number `20348` (did you mean 10.0.20348?)",
        "7:49: `spec.detect.images[0].builds[1]` takes a Windows build such as 10.0.20348, not the number `10.0` (write all three parts, such as 10.0.20348; `mullion compat` lists the builds)",
        "7:55: `spec.detect.images[0].builds[2]`: `10.0.20348.1` has a revision as fourth part; builds are compared without it, write `10.0.20348`",
        "7:69: `spec.detect.images[0].builds[3]`: `ltsc2022` is not a Windows build; write `10.0.` and the build number, such as `10.0.20348`",
        "7:79: `spec.detect.images[0].builds[4]` takes a Windows build such as 10.0.20348, not the boolean `true` (write all three parts, such as 10.0.20348; `mullion compat` lists the builds)",
    ]),
    ("place: {tolerations: {add: [{operator: Equal, value: x}, {key: a, operator: Exists, value: x}, {key: a, tolerationSeconds: 1}, {key: a, effect: NoScheduel}, {key: a b, Effect: x}, os=windows]}}", &[
        "5:31: `spec.place.tolerations.add[0]` has no key; only operator Exists allows that (write the taint's key, or write `operator: Exists` to tolerate every taint)",
        "5:87: `spec.place.tolerations.add[1].value` must be absent: operator Exists takes any value (remove the value, or write `operator: Equal`)",
        "5:107: `spec.place.tolerations.add[2].tolerationSeconds` needs `effect: NoExecute` (only NoExecute taints evict; remove it, or add that effect)",
        "5:147: `spec.place.tolerations.add[3].effect` takes NoSchedule, PreferNoSchedule or NoExecute, not `NoScheduel` (did you mean `NoSchedule`?)",
        "5:166: `spec.place.tolerations.add[4].key` takes a label or taint key such as example.com/team, not `a b`: keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        "5:171: `spec.place.tolerations.add[4]` has no key `Effect` (did you mean `effect`?)",
        "5:179: `spec.place.tolerations.add[4].effect` takes NoSchedule, PreferNoSchedule or NoExecute, not `x`",
        "5:183: `spec.place.tolerations.add[5]` takes a map with key, operator, value, effect and tolerationSeconds, not the text `os=windows`",
    ]),
    ("place: {runtimeClass: {mode: Named}}", &[
        "5:26: `spec.place.runtimeClass.mode` is Named, and `spec.place.runtimeClass.name` is missing (write `{mode: Named, name: <RuntimeClass>}`)",
    ]),
    ("place: {runtimeClass: {mode: Never, name: x}}", &[
        "5:39: `spec.place.runtimeClass.name` has no effect: mode is Never (remove the name, or write `mode: Named`)",
    ]),
    ("place: {runtimeClass: Never}", &[
        "5:25: `spec.place.runtimeClass` takes a map with mode and name, not the text `Never` (write `{mode: Never}`)",
    ]),
    ("place: {specOs: {mode: Never}}", &[
        "5:11: `spec.place` has no key `specOs` (did you mean `specOS`?)",
    ]),
    ("place: {nodeSelector: {mode: Off}}", &[
        "5:32: `spec.place.nodeSelector.mode` takes Add or Never, not a boolean (YAML 1.1 reads `Off` as false; write `Never`)",
    ]),
    ("message: \"a\\nb\"", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not `a\\nb`: it has several lines (write one line, without `|`)",
    ]),
    ("message: \"a\\u202e\"", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not `a\\u{202e}`: it contains the control character `\\u{202e}`",
    ]),
    ("message: \"\\e[2J\"", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not `\\u{1b}[2J`: it contains the control character `\\u{1b}`",
    ]),
    ("message: \" \"", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not ` `: it is empty",
    ]),
    ("message: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: it has 257 bytes",
    ]),
    ("message: [a]", &[
        "5:12: `spec.message` takes a line of at most 256 bytes, not a list",
    ]),
    ("rules: {version: 0.1}", &[
        "5:20: `spec.rules.version` takes a version of Mullion such as \"0.1\", not the number `0.1` (write it in quotes: \"0.1\")",
    ]),
    ("rules: {version: v0.1}", &[
        "5:20: `spec.rules.version` takes a version of Mullion such as \"0.1\", not `v0.1`: it is not a version (write \"0.1\")",
    ]),
    ("rules: {version: \"1\"}", &[
        "5:20: `spec.rules.version` takes a version of Mullion such as \"0.1\", not `1`: it is not a version (write major and minor number: \"0.1\")",
    ]),
    ("rules: {actions: [{rule: run-as-usr, action: Deny}, {rule: conflicting-os, action: Repair}, {rule: MUL2, action: Repair}, {rule: MUL9, action: Deny}, {rule: MUL1, action: Repair}, {rule: mul201, action: Warn}, {rule: x, action: refuse}, run-as-user]}", &[
        "5:28: `spec.rules.actions[0].rule`: there is no rule `run-as-usr` (did you mean `run-as-user`?)",
        "5:86: `spec.rules.actions[1].action`: there is no repair for `conflicting-os` (write Deny, Warn or Allow)",
        "5:132: `spec.rules.actions[3].rule`: there is no rule `MUL9` (`mullion rules` lists those of this version)",
        "5:174: `spec.rules.actions[4].action`: there is no repair for `MUL1` (write Deny, Warn or Allow)",
        "5:190: `spec.rules.actions[5].rule`: there is no rule `mul201` (did you mean `MUL201`?)",
        "5:220: `spec.rules.actions[6].rule`: there is no rule `x` (`mullion rules` lists those of this version)",
        "5:231: `spec.rules.actions[6].action` takes Deny, Repair, Warn or Allow, not `refuse`",
        "5:240: `spec.rules.actions[7]` takes a map with rule and action, not the text `run-as-user`",
    ]),
    ("optOut: {allow: [run-as-user, nothing-such], ignore: Pod}", &[
        "5:33: `spec.optOut.allow[1]`: there is no rule `nothing-such` (`mullion rules` lists those of this version)",
        "5:56: `spec.optOut.ignore` takes Never, Namespaces or Pods, not `Pod` (did you mean `Pods`?)",
    ]),
    ("optOut: {allow: run-as-user}", &[
        "5:19: `spec.optOut.allow` takes a list, not the text `run-as-user` (put `- ` before each entry, or brackets around them)",
    ]),
];

/// `spec` of a NodePolicy, from line 5 and column 3.
#[rustfmt::skip]
const NODE_SPECS: Rows = &[
    ("labels: [Release]", &[
        "5:12: `spec.labels[0]` takes release or revision, not `Release` (did you mean `release`?)",
    ]),
    ("taint: {key: \"a b\", effect: NoScheduled, apply: Off}", &[
        "5:16: `spec.taint.key` takes a label or taint key such as example.com/team, not `a b`: keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        "5:31: `spec.taint.effect` takes NoSchedule, PreferNoSchedule or NoExecute, not `NoScheduled` (did you mean `NoSchedule`?)",
        "5:51: `spec.taint.apply` takes Always, WhenTolerated or Never, not a boolean (YAML 1.1 reads `Off` as false; write `Never`)",
    ]),
    ("windowsTaints: [windows, \"os=win*:NoSchedule\", \"=x\", \"os=a b\"]", &[
        "5:19: `spec.windowsTaints[0]` takes a taint as key=value, in which `*` matches anything, not `windows`: it has no `=` (write `windows=*` for any value)",
        "5:28: `spec.windowsTaints[1]` takes a taint as key=value, in which `*` matches anything, not `os=win*:NoSchedule`: an effect such as `NoSchedule` is not allowed here: taints match by key and value (write `os=win*`)",
        "5:50: `spec.windowsTaints[2]` takes a taint as key=value, in which `*` matches anything, not `=x`: `` is not a valid taint key",
        "5:56: `spec.windowsTaints[3]` takes a taint as key=value, in which `*` matches anything, not `os=a b`: `a b` is not a valid taint value",
    ]),
    ("expectedPools: [{build: 10.0.1, taints: [\"os=windows\", \"a b=c:NoSchedule\"]}, {}]", &[
        "5:44: `spec.expectedPools[0].taints[0]` takes a taint as key=value:Effect, not `os=windows`: it does not end in `:NoSchedule`, `:PreferNoSchedule` or `:NoExecute` (write it as in `kubectl taint`: `os=windows:NoSchedule`)",
        "5:58: `spec.expectedPools[0].taints[1]` takes a taint as key=value:Effect, not `a b=c:NoSchedule`: keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        "5:80: `spec.expectedPools[1].build` is missing: a Windows build such as 10.0.20348",
    ]),
    ("expectedPools: [{build: 10.0.1, labels: {a b: c, pool: win 25, count: 1}}]", &[
        "5:44: `spec.expectedPools[0].labels` cannot have the key `a b`: keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        "5:58: `spec.expectedPools[0].labels[pool]` takes a label or taint value, not `win 25`: values have at most 63 letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit",
        "5:73: `spec.expectedPools[0].labels[count]` takes a label or taint value, not the number `1` (write it in quotes: \"1\")",
    ]),
    ("releases: [{build: 10.0.20348, name: ltsc2028, runsFrom: 10.0.26100}, {build: 10.0.29000, name: X Y, runsFrom: 10.0.1}]", &[
        "5:50: `spec.releases[0].runsFrom` 10.0.26100 is newer than the release itself, 10.0.20348 (hosts run images of their own build and of older ones)",
        "5:99: `spec.releases[1].name` takes a name of at most 63 lower-case letters, digits and `-`, not `X Y`: it becomes a part of names and labels, which have no other characters, and begin and end with a letter or digit",
    ]),
    ("runtimeClasses: {handler: 1}", &[
        "5:29: `spec.runtimeClasses.handler` takes a name of at most 63 lower-case letters, digits and `-`, not the number `1` (write it in quotes: \"1\")",
    ]),
];

/// Whole files.
#[rustfmt::skip]
const FILES: Rows = &[
    ("", &[
        "1:1: the file contains no policy (write one, or remove the file)",
    ]),
    ("# only\n", &[
        "1:1: the file contains no policy (write one, or remove the file)",
    ]),
    ("---\n---\n", &[
        "1:1: the file contains no policy (write one, or remove the file)",
    ]),
    ("null", &[
        "1:1: the document is empty (a policy is a map with apiVersion, kind, metadata and spec)",
    ]),
    ("[]", &[
        "1:1: the document is not a policy but a list (a policy is a map with apiVersion, kind, metadata and spec)",
    ]),
    ("x", &[
        "1:1: the document is not a policy but the text `x` (a policy is a map with apiVersion, kind, metadata and spec)",
    ]),
    ("a: b", &[
        "1:1: `kind` is missing: PodPolicy, NodePolicy or RegistryPolicy (write `kind: PodPolicy`, `kind: NodePolicy` or `kind: RegistryPolicy`)",
    ]),
    ("Kind: PodPolicy", &[
        "1:1: `kind` is missing: PodPolicy, NodePolicy or RegistryPolicy (`Kind` should be `kind`)",
    ]),
    ("apiVersion: v1\nkind: Pod\n", &[
        "2:7: this is a Pod of v1, not a policy (move it elsewhere; a directory of policies must not contain anything else)",
    ]),
    ("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Service\n---\napiVersion: apps/v1\nkind: Deployment\n", &[
        "2:7: this is a Pod of v1, not a policy; nor are 2 more documents (among other manifests only ConfigMaps with policies count; check why there is none, or move them elsewhere)",
    ]),
    ("apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\ncases: []\n", &[
        "2:7: test cases are not a policy (put tests into files that end in .test.yaml, which are not loaded; `mullion policy test` runs them)",
    ]),
    ("apiVersion: mullion.dev/v1\nkind: PodPolicy\nmetadata: {}\nspec: {}", &[
        "1:13: `apiVersion` takes mullion.dev/v1alpha1, not `mullion.dev/v1` (write `apiVersion: mullion.dev/v1alpha1`, the only version that this Mullion supports)",
        "3:11: `metadata.name` is missing: a name of lower-case letters, digits, `-` and `.`",
    ]),
    ("kind: PodPolicy", &[
        "1:1: `apiVersion` is missing: mullion.dev/v1alpha1 (write `apiVersion: mullion.dev/v1alpha1`)",
        "1:1: `metadata` is missing: a map with name, labels and annotations (write `metadata: {name: <name>}`)",
        "1:1: `spec` is missing: a map with priority, mode, match, until, message, optOut, detect, place and rules (write `spec: {}` for a policy that sets nothing)",
    ]),
    ("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: A B, namespace: x}\nspec:\n", &[
        "3:18: `metadata.name` takes a name of lower-case letters, digits, `-` and `.`, not `A B`: names of Kubernetes objects have no other characters, and begin and end with a letter or digit",
        "3:23: `metadata` has no key `namespace` (known here: name, labels, annotations; a newer version of Mullion may have more keys)",
        "4:6: `spec` has no value; it takes a map with priority, mode, match, until, message, optOut, detect, place and rules (indent what belongs under it, or write `{}` for nothing)",
    ]),
    ("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec:\n  mode: Enforce\n  mode: Audit\n", &[
        "6:3: the key `mode` occurs twice in this map; it occurs first on line 5 (remove one; readers disagree which of them counts)",
    ]),
    ("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec:\n  match: {names", &[
        "5:10: unclosed bracket '{' (a bracket is opened and never closed)",
    ]),
    ("\u{feff}apiVersion: mullion.dev/v1alpha1\r\nkind: PodPolicy\r\nmetadata: {name: a}\r\nspec:\r\n  mod: Enforce\r\n", &[
        "5:3: `spec` has no key `mod` (did you mean `mode`?)",
    ]),
];

fn load(files: &[(&str, &str)]) -> Result<PolicySet, Vec<String>> {
    PolicySet::from_files(files).map_err(|all| all.iter().map(ToString::to_string).collect())
}

fn problems(text: &str) -> Vec<String> {
    load(&[("a.yaml", text)]).err().unwrap_or_default()
}

/// A PodPolicy whose `spec`, from line 5, is `spec`.
fn pod(name: &str, spec: &str) -> String {
    let spec: String = spec.lines().flat_map(|line| ["  ", line, "\n"]).collect();
    format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n{spec}")
}

fn node(name: &str, spec: &str) -> String {
    pod(name, spec).replace("PodPolicy", "NodePolicy")
}

fn assert_problems(rows: Rows, text: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    for (written, expected) in rows {
        let expected: Vec<_> = expected.iter().map(|problem| format!("a.yaml:{problem}")).collect();
        assert!(!expected.is_empty(), "{written}");
        let found = problems(&text(written));
        if found != expected {
            wrong.push(format!("{written}\n{}", found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_problem_is_reported_with_its_place() {
    assert_problems(POD_SPECS, |spec| pod("a", spec));
    assert_problems(NODE_SPECS, |spec| node("a", spec));
    assert_problems(FILES, str::to_owned);
}

#[test]
fn line_breaks_and_byte_order_marks_do_not_change_places() {
    for (spec, expected) in POD_SPECS {
        let expected: Vec<_> = expected.iter().map(|problem| format!("a.yaml:{problem}")).collect();
        let text = format!("\u{feff}{}", pod("a", spec).replace('\n', "\r\n"));
        assert_eq!(problems(&text), expected, "{spec}");
    }
}

#[test]
fn all_problems_of_all_documents_and_files_are_reported_at_once() {
    let one = format!(
        "{}---\n{}---\nbroken: [\n---\n{}",
        pod("a", "mod: x"),
        pod("b", "mode: Audit"),
        pod("c", "priority: x")
    );
    let found = load(&[("b.yaml", &one), ("a.yaml", "")]).unwrap_err();
    let places: Vec<_> = found.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["a.yaml:1:1", "b.yaml:5:3", "b.yaml:5:8", "b.yaml:13:9", "b.yaml:19:13"], "{found:#?}");
}

#[test]
fn no_file_is_a_problem() {
    let found = load(&[]).unwrap_err();
    assert_eq!(
        found,
        ["policies: there is no policy file (write one with the keys that differ from the built-in policies)"]
    );
}

#[test]
fn names_are_unique_for_each_kind() {
    let (first, second) = (pod("a", "priority: 1"), format!("# again\n{}", pod("a", "priority: 2")));
    assert_eq!(
        load(&[("b.yaml", &second), ("a.yaml", &first)]).unwrap_err(),
        [
            "b.yaml:4:18: there is a second PodPolicy `a`; the first is at a.yaml:3 (give one of them another name, or remove one)"
        ]
    );
    assert!(load(&[("a.yaml", &first), ("b.yaml", &node("a", "mode: Audit"))]).is_ok());
    assert_eq!(
        load(&[("a.yaml", &node("a", "mode: Audit")), ("b.yaml", &node("b", "mode: Audit"))]).unwrap_err(),
        [
            "b.yaml:3:18: there is a second NodePolicy, and only one is allowed; the first is at a.yaml:3 (merge both into one document, and remove the other)"
        ]
    );
}

#[test]
fn equal_priorities_may_not_contradict_each_other_in_lists() {
    let a = pod("a", "rules: {actions: [{rule: run-as-user, action: Warn}, {rule: MUL3, action: Warn}]}");
    let b = pod("b", "rules:\n  actions:\n    - {rule: MUL3, action: Warn}\n    - {rule: run-as-user, action: Deny}");
    let images = |name: &str, rest: &str| pod(name, &format!("detect: {{images: [{{pattern: a.io/**, {rest}}}]}}"));
    let hint = "(add `priority: 1` to `spec` on line 4 of b.yaml so that `b` takes precedence, or list different namespaces without `*` in match.namespaces.include of both)";
    assert_eq!(
        load(&[("a.yaml", &a), ("b.yaml", &b)]).unwrap_err(),
        [format!(
            "b.yaml:8:7: PodPolicies `b` and `a` set different values for `run-as-user` in `spec.rules.actions`, and both have priority 0: neither takes precedence; `a` sets it at a.yaml:5 {hint}"
        )]
    );
    let cases = [
        (&*a, &*a.replace("name: a", "name: b"), true),
        (&*a, &*b.replace("rules:", "priority: 1\n  rules:"), true),
        // The longer text decides, whichever policy it is in.
        (&*a, &pod("b", "rules: {actions: [{rule: MUL201, action: Deny}, {rule: MUL, action: Deny}]}"), true),
        // The first entry of a list counts.
        (&*a, &pod("b", "rules: {actions: [{rule: MUL3, action: Warn}, {rule: MUL3, action: Deny}]}"), true),
        (&images("a", "os: windows"), &images("b", "os: linux"), false),
        (&images("a", "os: windows"), &images("b", "os: windows, builds: [10.0.20348]"), false),
        (&images("a", "os: windows"), &images("b", "os: windows"), true),
    ];
    for (one, other, ok) in cases {
        assert_eq!(load(&[("a.yaml", one), ("b.yaml", other)]).is_ok(), ok, "{one}{other}");
    }
    let include = |names: &str, action: &str| {
        let rules = format!("rules: {{actions: [{{rule: MUL2, action: {action}}}]}}");
        pod(action.to_lowercase().as_str(), &format!("match: {{namespaces: {{include: [{names}]}}}}\n{rules}"))
    };
    for (one, other, ok) in [("x", "v, w", true), ("x, v", "v, w", false), ("x-*", "v", false), ("", "v", false)] {
        let loaded = load(&[("a.yaml", &include(one, "Warn")), ("b.yaml", &include(other, "Deny"))]);
        assert_eq!(loaded.is_ok(), ok, "{one} and {other}");
    }
}

#[test]
fn equal_priorities_may_not_set_the_same_key() {
    let a = pod(
        "a",
        "mode: Audit\nplace:\n  build: {mode: Exact}\n  specOS: {mode: Never}\nrules: {actions: [{rule: MUL2, action: Warn}]}",
    );
    let collide = pod(
        "b",
        "priority: 0\nplace:\n  specOS: {mode: Never}\nrules: {actions: [{rule: MUL1, action: Warn}]}\nmode: Enforce",
    );
    let hint = "(write `priority: 1` on line 5 of b.yaml so that `b` takes precedence, or list different namespaces without `*` in match.namespaces.include of both)";
    assert_eq!(
        load(&[("a.yaml", &a), ("b.yaml", &collide)]).unwrap_err(),
        [
            format!(
                "b.yaml:7:14: PodPolicies `b` and `a` both set `spec.place.specOS.mode`, and both have priority 0: neither takes precedence; `a` sets it at a.yaml:8 {hint}"
            ),
            format!(
                "b.yaml:9:3: PodPolicies `b` and `a` both set `spec.mode`, and both have priority 0: neither takes precedence; `a` sets it at a.yaml:5 {hint}"
            ),
        ]
    );
    let free = [
        // Another priority, other keys, or only lists.
        pod("b", "priority: 1\nmode: Enforce"),
        pod("b", "rules: {templates: Warn}\nplace: {runtimeClass: {mode: Never}}"),
        pod(
            "b",
            "rules: {actions: [{rule: MUL1, action: Warn}]}\ndetect: {images: []}\noptOut: {allow: [MUL2]}\nplace: {tolerations: {add: []}}",
        ),
    ];
    for text in free {
        assert!(load(&[("a.yaml", &a), ("b.yaml", &text)]).is_ok(), "{text}");
    }
    let include =
        |name: &str, names: &str| pod(name, &format!("match: {{namespaces: {{include: [{names}]}}}}\nmode: Audit"));
    for (one, other, ok) in [("x", "v, w", true), ("x, v", "v, w", false), ("x-*", "v", false), ("", "v", false)] {
        let loaded = load(&[("a.yaml", &include("a", one)), ("b.yaml", &include("b", other))]);
        assert_eq!(loaded.is_ok(), ok, "{one} and {other}");
    }
}

#[test]
fn a_collision_is_solved_by_the_line_that_its_hint_names() {
    let at = |priority: i64| format!("priority: {priority}\nmode: Audit");
    for (priority, others, line, order) in [
        (0, &[][..], "write `priority: 1` on line 5 of b.yaml so that `b` takes precedence", ["b", "a"]),
        (0, &[1, 2], "write `priority: 3` on line 5 of b.yaml so that `b` takes precedence", ["b", "a"]),
        (i64::MAX, &[], "write `priority: 9223372036854775806` on line 5 of b.yaml so that `b` gives way", ["a", "b"]),
    ] {
        let load_both = |b: &str| {
            let other = |priority: &i64| (format!("{priority}.yaml"), pod(&format!("p{priority}"), &at(*priority)));
            let mut files: Vec<_> = others.iter().map(other).collect();
            files.extend([("a.yaml".to_owned(), pod("a", &at(priority))), ("b.yaml".to_owned(), pod("b", b))]);
            PolicySet::from_files(&files).map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let found = load_both(&at(priority)).unwrap_err();
        assert!(found.len() == 1 && found[0].contains(line), "{found:?}");
        let written = line.split('`').nth(1).unwrap();
        let set = load_both(&format!("{written}\nmode: Audit")).unwrap();
        let found: Vec<_> = set.own().map(|policy| &*policy.name).filter(|name| order.contains(name)).collect();
        assert_eq!(found, order, "{priority}");
    }
}

#[test]
fn origins_are_the_places_of_keys() {
    let text = format!(
        "# head\n{}",
        pod(
            "a",
            "mode: Audit\ndetect:\n  images:\n  - {pattern: a, os: windows}\n  - pattern: b\n    os: linux\nrules:\n  actions:\n  - {rule: run-as-user, action: Warn}"
        )
    );
    let set = load(&[("dir/a.yaml", &text)]).unwrap();
    let policy = set.own().next().unwrap();
    let line = |key: &str| policy.origins.get(key).map(|origin| (&*origin.file, origin.line));
    assert_eq!(line("mode"), Some(("dir/a.yaml", 6)));
    assert_eq!(line("detect.images"), Some(("dir/a.yaml", 8)));
    assert_eq!(line("rules.templates"), None);
    assert_eq!(policy.origin("detect.os").line, 7);
    let settings = set.settings("x", None, &());
    let lines: Vec<_> = settings.images.iter().map(|image| image.origin.as_ref().unwrap().line).collect();
    assert_eq!(lines, [9, 10]);
    assert_eq!(settings.actions[0].origin.as_ref().unwrap().line, 14);
    assert_eq!(settings.origins["rules.actions"].line, 13);
    let own = settings.origins.iter().filter(|(_, origin)| &*origin.file == "dir/a.yaml");
    assert_eq!(own.map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["detect.images", "mode", "rules.actions"]);
}

#[test]
fn aliases_are_allowed_and_alias_bombs_are_not() {
    let text = pod("a", "match: {namespaceSelector: &s {matchLabels: {a: b}}, podSelector: *s}\nmode: Audit");
    let again = format!("{text}---\n{}", pod("b", "match: {namespaceSelector: {}}\noptOut: {allow: []}"));
    assert!(problems(&again).is_empty(), "{:?}", problems(&again));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.extend([format!("a{level}: &a{level} [{below}]\n")]);
    }
    let found = problems(&bomb);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("aliases"), "{found:?}");
}

#[test]
fn huge_and_hostile_files_are_rejected_with_few_problems() {
    let huge = "x".repeat(50 << 20);
    assert_eq!(
        problems(&huge),
        [
            "a.yaml: the file is larger than 4 MiB, the limit for a policy file (check that it is a policy file, and split it into several files)"
        ]
    );
    let keys = (0..20_000).map(|at| format!("k{at}: 1")).collect::<Vec<_>>().join("\n");
    let found = problems(&pod("a", &keys));
    assert_eq!(found.len(), 101);
    let more = "a.yaml: the file has more than 100 problems; the others are not listed (fix these and check again)";
    assert_eq!(found[100], more);
    // Documents that are not YAML count like any other problem.
    let found = problems(&"[\n---\n".repeat(200_000));
    assert_eq!((found.len(), found[100].as_str()), (101, more));
    let deep = problems(&pod("a", &format!("mode: {}", "[".repeat(100_000))));
    assert_eq!(deep.len(), 1);
    assert!(deep[0].len() < 300, "{deep:?}");
    let long = problems(&pod("a", &format!("{}: 1", "k".repeat(1 << 20))));
    assert!(long[0].len() < 300, "{}", long[0].len());
}

#[test]
fn many_policies_and_long_lines_cost_little() {
    let many = |count: usize, priority: &str| -> String {
        (0..count)
            .map(|at| pod(&format!("p{at}"), &format!("priority: {priority}\nmode: Audit")))
            .collect::<Vec<_>>()
            .join("---\n")
    };
    assert_eq!(
        problems(&many(MAX_POLICIES + 1, "0")),
        [
            "a.yaml:7003:18: there are 1001 PodPolicies, and at most 1000 are allowed: this is one too many (merge policies that differ only in their namespaces)"
        ]
    );
    let found = problems(&many(MAX_POLICIES, "0"));
    assert_eq!(found.len(), 101);
    assert!(found[100].starts_with("a.yaml: more policies of equal priority set the same keys"), "{}", found[100]);
    // Ten thousand patterns in one line: a quadratic algorithm takes minutes.
    let images: Vec<_> =
        (0..10_000).map(|at| serde_json::json!({"pattern": format!("example.com/{at}/**"), "os": "linux"})).collect();
    let text = serde_json::json!({
        "apiVersion": "mullion.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": "a"},
        "spec": {"detect": {"images": images}},
    });
    let set = load(&[("a.json", &text.to_string())]).unwrap();
    let settings = set.settings("a", None, &());
    assert_eq!(settings.images.find("example.com/9999/x").unwrap().pattern, "example.com/9999/**");
}

#[test]
fn invalid_utf_8_is_reported_with_its_place() {
    let found = PolicySet::from_files(&[("a.yaml", b"kind: x\nname: \xff".as_slice())]).unwrap_err();
    assert_eq!(found[0].to_string(), "a.yaml:2:7: not UTF-8 at byte 14 (save the file as UTF-8)");
}

#[test]
fn every_document_that_the_schema_allows_can_be_read() {
    // Every key with each of its words: a word or key of the schema that is missing in the types fails here.
    for (kind, object) in crate::schema::KINDS.iter() {
        let spec = object.key("spec").unwrap();
        let ValueShape::Object(spec) = spec.shape else { panic!("spec of {kind} is no map") };
        for value in values(&ValueShape::Object(spec)) {
            let document = serde_json::json!({
                "apiVersion": "mullion.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": value,
            });
            assert_eq!(problems(&document.to_string()), [""; 0], "{document}");
        }
    }
}

/// Good values of a shape that together contain each key and word once.
fn values(shape: &ValueShape) -> Vec<serde_json::Value> {
    use serde_json::json;

    use crate::schema::TextFormat;
    match shape {
        ValueShape::Object(object) => {
            let required: serde_json::Map<_, _> = object
                .keys
                .iter()
                .filter(|key| key.required)
                .map(|key| (key.name.to_owned(), values(&key.shape)[0].clone()))
                .collect();
            let with = |key: &crate::schema::SchemaKey, value: serde_json::Value| {
                let mut object = required.clone();
                object.insert(key.name.to_owned(), value);
                // The values that the constraints on several keys require.
                let word = |key: &str| object.get(key).and_then(|word| word.as_str()).map(str::to_owned);
                let toleration = ["effect", "value"].iter().any(|key| object.contains_key(*key));
                match (word("operator").as_deref(), word("mode").as_deref()) {
                    (Some("In" | "NotIn"), _) => drop(object.insert("values".to_owned(), json!(["x"]))),
                    (Some("Equal"), _) => drop(object.insert("key".to_owned(), json!("x"))),
                    (_, Some("Named")) => drop(object.insert("name".to_owned(), json!("x"))),
                    _ => {}
                }
                if key.name == "tolerationSeconds" {
                    object.insert("effect".to_owned(), json!("NoExecute"));
                    object.insert("key".to_owned(), json!("x"));
                }
                if toleration {
                    object.insert("key".to_owned(), json!("x"));
                }
                serde_json::Value::Object(object)
            };
            object
                .keys
                .iter()
                .flat_map(|key| values(&key.shape).into_iter().map(move |value| (key, value)))
                .map(|(key, value)| with(key, value))
                .collect()
        }
        ValueShape::Texts(..) => vec![json!({"a": "b"})],
        ValueShape::List(item) => values(item).into_iter().map(|value| json!([value])).collect(),
        ValueShape::Map => vec![json!({"a": 1})],
        ValueShape::Short(short, object) => [values(short), values(&ValueShape::Object(object))].concat(),
        ValueShape::Integer => vec![json!(7)],
        ValueShape::Word(words) => words.iter().map(|word| json!(word.word)).collect(),
        ValueShape::Text(text) => vec![json!(match text {
            TextFormat::Build => "10.0.20348",
            TextFormat::TaintPattern => "os=win*",
            TextFormat::Taint => "os=windows:NoSchedule",
            TextFormat::Rule | TextFormat::TranslatedRule => "run-as-user",
            TextFormat::Version => "0.1",
            TextFormat::Registry | TextFormat::RegistryPattern => "registry.local:5000",
            TextFormat::Path => "/etc/mullion/ca.pem",
            TextFormat::Span => "5m",
            TextFormat::Line => "Questions: #platform",
            TextFormat::Date => "2027-03-31",
            _ => "x",
        })],
    }
}

#[test]
fn a_registry_policy_is_unique_and_its_problems_are_reported() {
    let text = |spec: &str| pod("r", spec).replace("PodPolicy", "RegistryPolicy");
    let set = load(&[("a.yaml", &text("plainHTTP: [registry.local:5000]\nlifetimes: {tag: 1h}\n"))]).unwrap();
    assert_eq!(set.registries.plain_http, ["registry.local:5000"]);
    assert_eq!(set.registries.registries, []);
    let listed =
        load(&[("a.yaml", &text("registries: [docker.io, '*.corp.example', 'r.local:*', '[fd00::1]:5000']\n"))]);
    assert_eq!(listed.unwrap().registries.registries.len(), 4);
    assert_eq!(set.registries.lifetimes.tag, std::time::Duration::from_secs(3600));
    assert_eq!(set.registries.lifetimes.error, crate::registry_policy::RegistryPolicy::default().lifetimes.error);
    let table = [
        ("plainHttp: []", "`spec` has no key `plainHttp` (did you mean `plainHTTP`?)"),
        ("plainHTTP: registry.local", "`spec.plainHTTP` takes a list, not the text `registry.local`"),
        ("plainHTTP: ['http://registry.local/']", "registries have no scheme here (write `registry.local`)"),
        ("plainHTTP: [registry.local/team]", "not on the repository (write `registry.local`)"),
        ("plainHTTP: ['*.local']", "wildcards are not allowed here"),
        ("plainHTTP: [registry]", "a domain that has a dot, with host:port, or with localhost"),
        ("registries: [registry]", "a domain that has a dot, with host:port, or with localhost"),
        ("registries: ['https://*.local/']", "registries have no scheme here (write `*.local`)"),
        ("registries: [registry.local/team]", "with all its repositories (write `registry.local`)"),
        ("registries: ['*.local:http']", "only the name of a host and its port may contain `*`"),
        ("registries: '*.local'", "`spec.registries` takes a list, not the text `*.local`"),
        ("caFiles: [ca.pem]", "`spec.caFiles[0]` takes an absolute path such as /etc/mullion/ca.pem, not `ca.pem`"),
        ("timeout: 10", "`spec.timeout` takes a duration such as 90s, 5m, 24h or 7d, not the number `10`"),
        ("timeout: 10ms", "the part before the unit is not one whole number"),
        ("lifetimes: {error: 0s}", "it must be longer than zero"),
        ("lifetimes: {tags: 5m}", "did you mean `tag`?"),
    ];
    for (spec, expected) in table {
        let found = problems(&text(spec));
        assert!(found.len() == 1 && found[0].contains(expected), "{spec}: {found:?}");
    }
    let two = format!("{}---\n{}", text("timeout: 1s\n"), text("timeout: 2s\n").replace("name: r", "name: s"));
    let found = problems(&two);
    assert!(
        found[0].contains("there is a second RegistryPolicy, and only one is allowed; the first is on line 3 "),
        "{found:?}"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let loaded = PolicySet::from_files(&[("a.yaml", bytes)]);
        prop_assert!(loaded.is_err());
    }

    #[test]
    fn no_message_carries_control_characters(value in "(.|[\x00-\x1f]){0,9}", key in "(.|\x1b){0,5}") {
        let json = serde_json::json!({
            "apiVersion": value, "kind": "PodPolicy", "metadata": {"name": value, key.clone(): value, "labels": {key.clone(): value}},
            "spec": {
                "mode": value, key.clone(): value,
                "match": {"namespaces": {"include": [value]}},
                "detect": {"images": [{"pattern": value, "os": value, "builds": [value]}]},
                "rules": {"version": value, "actions": [{"rule": value, "action": "Repair"}]},
            },
        });
        let nodes = serde_json::json!({
            "apiVersion": "mullion.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "a"},
            "spec": {"windowsTaints": [value], "expectedPools": [{"build": "10.0.1", "taints": [value]}], "taint": {"key": value}},
        });
        for text in [json.to_string(), nodes.to_string(), serde_json::json!({"kind": value, key: 1}).to_string()] {
            for problem in PolicySet::from_files(&[("a.json", text)]).err().into_iter().flatten() {
                prop_assert!(!problem.to_string().contains(char::is_control), "{problem:?}");
            }
        }
    }

    #[test]
    fn half_of_a_file_never_panics(
        at in 0..4000_usize,
        flip in any::<u8>(),
        text in prop::sample::select(vec![
            include_str!("../../../../../policies/default.yaml"), include_str!("../../../../../policies/compatible.yaml"),
        ]),
    ) {
        let mut bytes = text.as_bytes().get(..at).unwrap_or(text.as_bytes()).to_owned();
        if let Some(last) = bytes.last_mut() {
            *last ^= flip;
        }
        if let Err(problems) = PolicySet::from_files(&[("a.yaml", bytes)]) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| problem.line >= 1 && problem.column >= 1));
        }
    }

    #[test]
    fn any_value_anywhere_is_checked(
        key in "(mode|match|detect|place|rules|priority|workloads|optOut|x)",
        below in "(mode|images|actions|namespaces|tolerations|add|allow|version|<<)",
        value in "(\\*a|&a x|\\[\\]|\\{\\}|on|~|0x1F|1e9|!!binary aa|'x'|\\[\\{\\}\\]|\\{x: y\\}|- )",
    ) {
        let _ = problems(&pod("a", &format!("{key}:\n  {below}: {value}")));
        let _ = problems(&node("a", &format!("{key}: {value}")));
    }
}

#[test]
fn the_built_in_policies_lie_under_those_of_the_files() {
    let built_in = PolicySet::built_in();
    let names = |set: &PolicySet| -> Vec<_> {
        set.pods.iter().map(|policy| (policy.name.clone(), policy.priority, policy.built_in)).collect()
    };
    let (system, lowest) = (("kube-system".to_owned(), Some(1000), true), ("default".to_owned(), None, true));
    assert_eq!(names(&built_in), [system.clone(), lowest.clone()]);
    // One key is enough: everything else is as without files.
    let set = load(&[("a.yaml", &pod("a", "rules: {templates: Warn}"))]).unwrap();
    assert_eq!(names(&set), [system.clone(), ("a".to_owned(), Some(0), false), lowest.clone()]);
    for (namespace, denials) in [("shop", Denials::Deny), ("kube-system", Denials::Warn)] {
        let settings = set.settings(namespace, None, &());
        assert_eq!((settings.denials, settings.templates), (denials, TemplateDenials::Warn), "{namespace}");
    }
    assert_eq!(set.documents.len(), 1);
    // This does not depend on its priority and its name.
    for (name, priority) in [("low", i64::MIN), ("default", i64::MIN), ("default", -1), ("high", i64::MAX)] {
        let set = load(&[("a.yaml", &pod(name, &format!("priority: {priority}\nmode: Audit")))]).unwrap();
        assert_eq!(set.settings("shop", None, &()).mode, Mode::Audit, "{priority}");
        assert_eq!(set.pods.last().map(|policy| (policy.name.as_str(), policy.built_in)), Some(("default", true)));
        assert_eq!(set.settings("kube-system", None, &()).denials, Denials::Warn, "{priority}");
    }
    // At equal priority the file decides, and does not collide.
    let set = load(&[("a.yaml", &pod("a", "priority: 1000\nrules: {denials: Deny}"))]).unwrap();
    assert_eq!(set.settings("kube-system", None, &()).denials, Denials::Deny);
    // A file replaces the policy for kube-system by its name.
    let set = load(&[("a.yaml", &pod("kube-system", "mode: Enforce"))]).unwrap();
    assert_eq!(names(&set), [("kube-system".to_owned(), Some(0), false), lowest]);
    assert_eq!(set.settings("kube-system", None, &()).denials, Denials::Deny);
}

#[test]
fn the_node_and_registry_policies_of_files_lie_over_the_built_in_ones() {
    let built_in = PolicySet::built_in();
    let registries = pod("mine", "timeout: 5s").replace("PodPolicy", "RegistryPolicy");
    let set = load(&[("a.yaml", &node("mine", "taint: {apply: Never}")), ("b.yaml", &registries)]).unwrap();
    let mut nodes = built_in.nodes.clone();
    nodes.taint.apply = ApplyTaint::Never;
    assert_eq!(set.nodes, nodes);
    assert_eq!(set.registries.timeout.as_secs(), 5);
    assert_eq!(set.registries.lifetimes, built_in.registries.lifetimes);
    let file = |origins: &BTreeMap<String, Origin>, key: &str| origins[key].file.to_string();
    assert_eq!(file(&set.node_origins, "taint.apply"), "a.yaml");
    assert_eq!(file(&set.node_origins, "windowsTaints"), BUILT_IN.0);
    assert_eq!(file(&set.registry_origins, "timeout"), "b.yaml");
    assert_eq!(file(&set.registry_origins, "lifetimes"), BUILT_IN.0);
}

/// A ConfigMap with a copy of the built-in file, as charts before this one installed it.
#[test]
fn a_copy_of_the_built_in_file_changes_nothing() {
    let copy = load(&[("default.yaml", BUILT_IN.1)]).unwrap();
    let values = |set: &PolicySet, namespace: &str| {
        let mut settings = (*set.settings(namespace, None, &())).clone();
        settings.origins.clear();
        format!("{settings:?}")
    };
    for namespace in ["shop", "kube-system"] {
        assert_eq!(values(&copy, namespace), values(&PolicySet::built_in(), namespace));
    }
    assert_eq!((&copy.nodes, &copy.registries), (&PolicySet::built_in().nodes, &PolicySet::built_in().registries));
    assert_eq!(crate::warnings::warnings(&copy), []);
}

/// Every key that a policy may set, under `until`.
#[test]
fn only_exemptions_may_have_an_end() {
    let good = [
        "rules: {denials: Warn}",
        "rules: {templates: Warn}",
        "rules: {denials: Warn, templates: Warn, actions: [{rule: MUL2, action: Warn}, {rule: host-pid, action: Allow}]}",
        "optOut: {ignore: Pods, allow: [run-as-user]}",
        "optOut: {ignore: Namespaces}",
        "priority: 7\nmatch: {namespaces: {include: [shop]}, podSelector: {matchLabels: {app: x}}}",
        "detect: {}\nrules: {}",
    ];
    let bad = [
        ("mode: Audit", "`spec.mode` must be absent"),
        ("optOut: {ignore: Never}", "`spec.optOut.ignore` takes Namespaces or Pods here, not Never"),
        ("detect: {os: linux}", "`spec.detect.os` must be absent"),
        ("detect: {default: Nothing}", "`spec.detect.default` must be absent"),
        ("detect: {images: []}", "`spec.detect.images` must be absent"),
        ("detect: {registry: {lookup: Never}}", "`spec.detect.registry.lookup` must be absent"),
        ("place: {nodeSelector: {mode: Never}}", "`spec.place.nodeSelector.mode` must be absent"),
        ("place: {tolerations: {mode: Never}}", "`spec.place.tolerations.mode` must be absent"),
        ("place: {tolerations: {add: []}}", "`spec.place.tolerations.add` must be absent"),
        ("place: {build: {mode: Never}}", "`spec.place.build.mode` must be absent"),
        ("place: {runtimeClass: {mode: Never}}", "`spec.place.runtimeClass.mode` must be absent"),
        ("place: {specOS: {mode: Never}}", "`spec.place.specOS.mode` must be absent"),
        ("rules: {version: '0.1'}", "`spec.rules.version` must be absent"),
        ("rules: {denials: Deny}", "`spec.rules.denials` takes Warn here, not Deny"),
        ("rules: {templates: Deny}", "`spec.rules.templates` takes Warn here, not Deny"),
        ("rules: {translate: []}", "`spec.rules.translate` must be absent"),
        (
            "rules: {actions: [{rule: MUL2, action: Deny}]}",
            "`spec.rules.actions[0].action` takes Warn or Allow here, not Deny",
        ),
        (
            "rules: {actions: [{rule: run-as-user, action: Repair}]}",
            "`spec.rules.actions[0].action` takes Warn or Allow here, not Repair",
        ),
    ];
    for until in
        ["2027-03-31", "'2027-03-31'", "2027-03-31T18:00:00Z", "2027-03-31 20:00:00+02:00", "!!timestamp 2027-03-31"]
    {
        let with = |spec: &str| problems(&pod("a", &format!("until: {until}\n{spec}")));
        for spec in good {
            assert_eq!(with(spec), [""; 0], "{until}: {spec}");
        }
        for (spec, message) in bad {
            let found = with(spec);
            assert!(
                found.len() == 1 && found[0].contains(message) && found[0].contains("must not move pods"),
                "{found:?}"
            );
            assert_eq!(problems(&pod("a", spec)), [""; 0], "{spec}");
        }
    }
    let found = problems(&pod("a", "until: 2027-02-30"));
    assert!(found.len() == 1 && found[0].contains("there is no such day"), "{found:?}");
    let found = problems(&pod("a", "until: 2027"));
    assert!(found.len() == 1 && found[0].contains("`spec.until` takes a date such as 2027-03-31"), "{found:?}");
}

#[test]
fn a_policy_has_no_effect_after_its_end() {
    let text = [
        pod("a", "until: 2027-03-31\nrules: {denials: Warn}"),
        pod(
            "kube-system",
            "until: 2027-03-30T12:00:00Z\nmatch: {namespaces: {include: [kube-system]}}\noptOut: {ignore: Pods}",
        ),
    ]
    .join("---\n");
    let loaded = load(&[("a.yaml", &text)]).unwrap();
    let denials = |set: &PolicySet, namespace: &str| set.settings(namespace, None, &()).denials;
    // 2027-03-31 at 24:00 UTC.
    let end = 1_806_537_600;
    let noon = end - 36 * 60 * 60;
    assert_eq!(loaded.next_end(), Some(noon));
    for (now, next, own, shop, system) in [
        (0, Some(noon), 2, Denials::Warn, Denials::Warn),
        (noon, Some(end), 1, Denials::Warn, Denials::Warn),
        (end - 1, Some(end), 1, Denials::Warn, Denials::Warn),
        // The built-in policy for kube-system applies again.
        (end, None, 0, Denials::Deny, Denials::Warn),
    ] {
        let set = loaded.at(now);
        assert_eq!((set.next_end(), set.own().count(), set.ended.len()), (next, own, 2 - own), "{now}");
        assert_eq!((denials(&set, "shop"), denials(&set, "kube-system")), (shop, system), "{now}");
        assert_eq!(set.exemptions().count(), 2);
        // The time may also go backwards.
        assert_eq!(set.at(0).own().count(), 2);
    }
}
