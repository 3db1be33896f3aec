//! Certificates made for a test, and kubeconfig files.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use pilothouse_client::{Client, ClientOptions, Result};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;

/// A self-signed certificate of `127.0.0.1`.
pub(crate) struct Tls {
    pub(crate) server: Arc<rustls::ServerConfig>,
    pub(crate) ca: String,
}

/// Makes a certificate; the server speaks `protocols`.
pub(crate) fn tls(protocols: &[&str]) -> Tls {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    server.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Tls { server: Arc::new(server), ca: certificate.pem() }
}

/// A folder with a kubeconfig of one context, `here`.
pub(crate) struct Kubeconfig {
    pub(crate) dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Kubeconfig {
    /// `cluster` and `user` are further fields, as `token: x`, one per line.
    pub(crate) fn new(server: &str, cluster: &[&str], user: &[&str]) -> Self {
        let fields = |fields: &[&str]| fields.iter().map(|f| format!("    {f}\n")).collect::<String>();
        let user = if user.is_empty() { "    {}\n".to_owned() } else { fields(user) };
        Self::of_text(&format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             contexts:\n- name: here\n  context: {{cluster: home, user: me, namespace: mine}}\n\
             clusters:\n- name: home\n  cluster:\n    server: {server}\n{}\
             users:\n- name: me\n  user:\n{user}",
            fields(cluster)
        ))
    }

    pub(crate) fn of_text(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        Self { dir, path }
    }

    /// Writes a file beside it, for fields that name one; nobody sees half of it.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let (new, path) = (self.dir.path().join("being-written"), self.dir.path().join(name));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// Puts a file there whose reading hangs until what is returned is dropped, as on a mount that is gone.
    pub(crate) fn hangs(&self, name: &str) -> Hanging {
        let path = self.dir.path().join("hanging");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Opened for both it does not wait for the other side.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let name = self.dir.path().join(name);
        std::fs::rename(path, &name).unwrap();
        Hanging { path: name, file }
    }

    /// A kubeconfig that trusts a server's certificate.
    pub(crate) fn trusting(server: &str, tls: &Tls) -> Self {
        let kubeconfig = Self::new(server, &["certificate-authority: ca.pem"], &[]);
        kubeconfig.file("ca.pem", &tls.ca);
        kubeconfig
    }

    pub(crate) fn options(&self) -> ClientOptions {
        ClientOptions { kubeconfig: Some(self.path.clone()), ..ClientOptions::default() }
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Client::new(self.options()).await
    }
}

/// A file whose reading hangs while this lives.
pub(crate) struct Hanging {
    path: PathBuf,
    file: File,
}

impl Hanging {
    /// Gives this text to the reader of the file, and puts a file with it in its place.
    pub(crate) fn end_with(mut self, text: &str) {
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.path).unwrap();
        self.file.write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // Nobody may open it again, who would wait for ever; a test may have put another in its place.
        if std::fs::metadata(&self.path).is_ok_and(|file| file.file_type().is_fifo()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
