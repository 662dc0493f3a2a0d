//! Names of users and of gMSA credential specs: valid, at each limit, and with each mistake that the API server detects
//! (`validateWindowsSecurityContextOptions`).

/// `runAsUserName`.
pub(super) fn users() -> Vec<String> {
    let a = |count: usize| "a".repeat(count);
    let mut names: Vec<String> = [
        // valid
        "ContainerUser",
        "ContainerAdministrator",
        "containeradministrator",
        "NT AUTHORITY\\SYSTEM",
        "NT AUTHORITY\\Local service",
        "NT AUTHORITY\\NetworkService",
        "CORP\\web$",
        "corp.example.com\\web",
        "CORP.Example.COM\\web",
        "a b",
        ". a",
        "user.name",
        "Ünsal",
        "用户",
        "-corp-\\u",
        "~!#$%^&()\\u",
        // empty in parts
        "",
        "\\",
        "\\u",
        "CORP\\",
        " \\u",
        // more than one backslash
        "A\\B\\C",
        "\\\\u",
        "CORP\\\\u",
        // dots and spaces only
        ".",
        "..",
        " ",
        " . .",
        "CORP\\. .",
        // a user principal name
        "web@corp.example.com",
        // domains in neither form
        ".CORP\\u",
        "corp..example\\u",
        "-corp.example.com-\\u",
        "corp_very_long_name.example.com\\u",
        "CO/RP\\u",
        "CO:RP\\u",
        "CO*RP\\u",
        "CO?RP\\u",
        "CO\"RP\\u",
        "CO<RP\\u",
        "CO>RP\\u",
        "CO|RP\\u",
        "CO,RP\\u",
        "CO@RP\\u",
        "C.O,RP\\u",
        "ünternehmen-gmb\\u",
        "ünternehmen-gmbh\\u",
    ]
    .map(str::to_owned)
    .into();
    // each character a user may not have, at both ends and within
    for c in "\"/:;|=,+*?<>@[]".chars() {
        names.extend([format!("u{c}v"), format!("{c}u"), format!("CORP\\u{c}")]);
    }
    // control characters, those beyond ASCII included
    for c in ['\u{1}', '\t', '\n', '\r', '\u{1f}', '\u{7f}', '\u{80}', '\u{85}', '\u{2028}', '\u{200b}'] {
        names.extend([format!("u{c}v"), format!("CORP\\u{c}"), format!("CO{c}RP\\u")]);
    }
    names.extend([
        // a user of 104 bytes, and of one more; multi-byte characters count by byte
        a(104),
        a(105),
        "é".repeat(52),
        "é".repeat(52) + "a",
        format!("CORP\\{}", a(104)),
        format!("CORP\\{}", a(105)),
        // a NetBIOS domain of 15 characters, and of one more, which is no DNS name either for its underscore
        format!("{}_\\u", a(14)),
        format!("{}_\\u", a(15)),
        format!("{}\\u", "é".repeat(15)),
        format!("{}\\u", "é".repeat(16)),
        // a DNS label of 63 characters, and of one more
        format!("{}.b\\u", a(63)),
        format!("{}.b\\u", a(64)),
        // a domain of 255 bytes, and of one more
        format!("{0}.{0}.{0}.{0}\\u", a(63)),
        format!("{0}.{0}.{0}.{0}.\\u", a(63)),
        format!("{0}.{0}.{0}.{1}.b\\u", a(63), a(61)),
        format!("{0}.{0}.{0}.{1}.b\\u", a(63), a(62)),
        // everything at once
        format!("{}\\{}", a(256), "@".repeat(105)),
        format!("{}\\. ", a(256)),
        a(10_000),
    ]);
    names
}

/// `gmsaCredentialSpecName`.
pub(super) fn spec_names() -> Vec<String> {
    let a = |count: usize| "a".repeat(count);
    let mut names: Vec<String> = [
        "web",
        "gmsa-web.example",
        "1",
        "a.b",
        "",
        "Web",
        "WEB",
        "web_1",
        "-web",
        "web-",
        "web.",
        ".web",
        "a..b",
        "a b",
        "wéb",
        "web/x",
        "*",
    ]
    .map(str::to_owned)
    .into();
    names.extend([
        a(253),
        a(254),
        format!("{}.b", a(251)),
        format!("{}.b", a(252)),
        format!("{0}.{0}.{0}.{1}", a(63), a(61)),
        "web\n".to_owned(),
    ]);
    names
}

/// `gmsaCredentialSpec`.
pub(super) fn specs() -> Vec<(&'static str, String)> {
    vec![
        ("usual", r#"{"CmsPlugins":["ActiveDirectory"],"DomainJoinConfig":{"DnsName":"corp.example.com"}}"#.to_owned()),
        ("no JSON", "x".to_owned()),
        ("empty", String::new()),
        ("64 KiB", "x".repeat(65_536)),
        ("64 KiB and one", "x".repeat(65_537)),
        ("64 KiB of é", "é".repeat(32_768)),
        ("64 KiB of é and one", "é".repeat(32_768) + "x"),
    ]
}
