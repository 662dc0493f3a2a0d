//! Patterns in file arguments. On Windows the program expands `*`, `?` and `**` itself, because cmd and PowerShell pass
//! them as they are. On other systems the shell does that, and these characters are part of a name.

use std::path::PathBuf;

/// The files of the arguments. The error names a pattern without a match.
#[cfg(not(windows))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Windows")]
pub(crate) fn expanded(arguments: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    Ok(arguments)
}

/// The files of the arguments. The error names a pattern without a match.
#[cfg(windows)]
pub(crate) fn expanded(arguments: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for argument in arguments {
        files.extend(expand(argument)?);
    }
    Ok(files)
}

/// The files that an argument names, in order. A file with exactly this name takes precedence.
#[cfg(any(windows, test))]
fn expand(argument: PathBuf) -> Result<Vec<PathBuf>, String> {
    let Some(text) = argument.to_str().filter(|text| text.contains(['*', '?']) && !argument.exists()) else {
        return Ok(vec![argument]);
    };
    // Brackets are part of names, as for cmd. Files that begin with a full stop must be named.
    let options = glob::MatchOptions {
        case_sensitive: !cfg!(windows),
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let found = glob::glob_with(&text.replace('[', "[[]"), options)
        .map_err(|error| format!("{text}: it is not a pattern of files: {error}"))?;
    // A directory that cannot be read has no matches.
    let found: Vec<PathBuf> = found.filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(format!("{text}: no file matches this pattern; correct it, or name a directory"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn patterns_name_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yaml", "c.yml", ".d.yaml", "x[1].yaml", "sub/e.yaml", "lit*.yaml", "lit2.yaml"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let table: [(&str, &[&str]); 7] = [
            ("?.yaml", &["a.yaml", "b.yaml"]),
            ("*.yml", &["c.yml"]),
            ("s*/*.yaml", &["sub/e.yaml"]),
            ("x[1]*", &["x[1].yaml"]),
            ("lit*.yaml", &["lit*.yaml"]),
            ("missing.yaml", &["missing.yaml"]),
            ("**/e.yaml", &["sub/e.yaml"]),
        ];
        for (pattern, expected) in table {
            let found = expand(dir.path().join(pattern)).unwrap();
            assert_eq!(found, expected.iter().map(|name| dir.path().join(name)).collect::<Vec<_>>(), "{pattern}");
        }
        assert!(expand(dir.path().join("*.json")).unwrap_err().contains("*.json: no file matches this pattern"));
        assert!(expand(dir.path().join("***")).unwrap_err().contains("not a pattern of files"));
    }
}
