//! [`SignatureArgs`]: the flags of `run` for the signatures of components.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use pilothouse_manager::SignaturePolicy;
use pilothouse_registry::SignatureKeys;

use super::read;

#[derive(Args)]
pub(crate) struct SignatureArgs {
    /// What becomes of Plugins whose component has no cosign signature by a key of --signature-key [default: off]
    #[arg(long, value_enum, value_name = "POLICY", requires = "plugins_from_cluster")]
    signatures: Option<Signatures>,
    /// File with public keys in PEM, as cosign.pub; one key has to have signed; may be repeated
    #[arg(long, value_name = "FILE", requires = "signatures")]
    signature_key: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Signatures {
    /// They are refused
    Require,
    /// They run, with a line in the log
    Warn,
    /// Signatures are not looked at
    Off,
}

impl SignatureArgs {
    /// The policy; none if signatures are not looked at.
    pub(crate) fn policy(&self) -> Result<Option<SignaturePolicy>> {
        let required = match self.signatures {
            None | Some(Signatures::Off) => return Ok(None),
            Some(Signatures::Warn) => false,
            Some(Signatures::Require) => true,
        };
        let keys = read_keys(&self.signature_key)?;
        if keys == SignatureKeys::default() {
            bail!(
                "--signatures: there is no key to check signatures with; name the file of one with --signature-key"
            );
        }
        Ok(Some(SignaturePolicy { keys, required }))
    }
}

/// The keys of all these files.
pub(crate) fn read_keys(files: &[PathBuf]) -> Result<SignatureKeys> {
    let mut keys = SignatureKeys::default();
    for file in files {
        let refused = |reason| anyhow!("--signature-key: {}: {reason}", file.display());
        keys.add(&read(file)?).map_err(refused)?;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base point of P-256, which is a public key as any other.
    const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
";

    fn policy(signatures: Signatures, keys: &[&str]) -> Result<Option<SignaturePolicy>> {
        let folder = tempfile::tempdir().unwrap();
        let mut signature_key = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let file = folder.path().join(format!("{number}.pub"));
            std::fs::write(&file, key).unwrap();
            signature_key.push(file);
        }
        SignatureArgs { signatures: Some(signatures), signature_key }.policy()
    }

    #[test]
    fn a_policy_that_looks_at_signatures_has_keys() {
        assert!(policy(Signatures::Require, &[KEY]).unwrap().unwrap().required);
        assert!(!policy(Signatures::Warn, &[KEY]).unwrap().unwrap().required);
        assert!(policy(Signatures::Off, &[KEY]).unwrap().is_none());
        let error = policy(Signatures::Require, &[]).unwrap_err().to_string();
        assert!(error.contains("name the file of one with --signature-key"), "{error}");
        let error = policy(Signatures::Warn, &[KEY, "text"]).unwrap_err().to_string();
        assert!(error.contains("1.pub: it has no public key"), "{error}");
    }
}
