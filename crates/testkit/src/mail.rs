//! A private mail server: Postfix takes mail, Dovecot keeps it and shows it over IMAP. Both run on loopback, from one temporary directory, with a
//! certificate of an authority of their own, and are gone with the value. Needs to be root, as both change to other users.

pub mod person;

use crate::PATIENCE;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Domain of the users' addresses.
pub const DOMAIN: &str = "example.test";
/// Password of every user.
pub const PASSWORD: &str = "correct horse";
/// How often a server that starts is tried.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// A running mail server.
#[derive(Debug)]
pub struct MailServer {
    dir: TempDir,
    postfix: Option<Group>,
    dovecot: Option<Group>,
    /// Port on 127.0.0.1 that takes mail: STARTTLS, and signing in is needed.
    pub smtp_port: u16,
    /// Port on 127.0.0.1 with the mailboxes, STARTTLS offered.
    pub imap_port: u16,
}

impl MailServer {
    /// A server with a mailbox for each of `users`, who sign in with their name and [`PASSWORD`]. Mail to `user+anything` is the user's.
    /// What is sent to `gone` is accepted and comes back as a bounce.
    pub async fn start(users: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("switchboard-mail-").tempdir().expect("a directory");
        let (smtp_port, imap_port) = (free_port(), free_port());
        let at = dir.path();
        open_to_all(at);
        for (name, owner) in
            [("mail", "mail"), ("data", "postfix"), ("run", "root"), ("queue", "root"), ("conf", "root")]
        {
            std::fs::create_dir(at.join(name)).expect("a directory");
            run("chown", &[owner, &at.join(name).to_string_lossy()]).await;
        }
        certificates(at);
        let passwords: Vec<String> =
            users.iter().map(|user| format!("{user}:{{PLAIN}}{PASSWORD}\n")).collect();
        write(&at.join("passwd"), &passwords.concat());
        write(&at.join("dovecot.conf"), &dovecot_conf(at, imap_port));
        write(&at.join("conf/main.cf"), &main_cf(at, users));
        write(&at.join("conf/master.cf"), &format!("127.0.0.1:{smtp_port} inet n - n - - smtpd\n{SERVICES}"));
        run("/usr/sbin/postfix", &["-c", &at.join("conf").to_string_lossy(), "check"]).await;
        let mut server = Self { dir, postfix: None, dovecot: None, smtp_port, imap_port };
        server.start_imap().await;
        server.start_smtp().await;
        server
    }

    /// Address of a user.
    #[must_use]
    pub fn address(user: &str) -> String {
        format!("{user}@{DOMAIN}")
    }

    /// The certificate authority to believe, in PEM.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// `kill -9`, at once: no mail is taken any more.
    pub async fn kill_smtp(&mut self) {
        if let Some(group) = self.postfix.take() {
            group.kill().await;
        }
    }

    /// Mail is taken again, on the same port.
    pub async fn start_smtp(&mut self) {
        let mut command = Command::new("/usr/lib/postfix/sbin/master");
        command.arg("-c").arg(self.dir.path().join("conf")).arg("-d");
        self.postfix = Some(Group::start(command, self.smtp_port).await);
    }

    /// `kill -9`, at once: no mailbox can be read any more.
    pub async fn kill_imap(&mut self) {
        if let Some(group) = self.dovecot.take() {
            group.kill().await;
        }
    }

    /// Mailboxes can be read again, on the same port.
    pub async fn start_imap(&mut self) {
        // What the last one left says that it runs.
        let _ = std::fs::remove_file(self.dir.path().join("run/master.pid"));
        let mut command = Command::new("/usr/sbin/dovecot");
        command.arg("-c").arg(self.dir.path().join("dovecot.conf")).arg("-F");
        self.dovecot = Some(Group::start(command, self.imap_port).await);
    }

    /// What both have logged, for a test that failed.
    #[must_use]
    pub fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        format!("{}\n{}", read("postfix.log"), read("dovecot.log"))
    }
}

/// A server with the processes it starts.
#[derive(Debug)]
struct Group(Child);

impl Group {
    async fn start(mut command: Command, port: u16) -> Self {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().expect("postfix and dovecot are there: ./test unit installs them");
        let reached = async {
            while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
                tokio::time::sleep(TRY_EVERY).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("it listens in time");
        Self(child)
    }

    async fn kill(mut self) {
        self.signal();
        let _ = self.0.wait().await;
    }

    fn signal(&self) {
        if let Some(id) = self.0.id() {
            let _ = std::process::Command::new("kill").args(["-KILL", "--", &format!("-{id}")]).status();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    listener.local_addr().expect("bound").port()
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its owner is here");
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file can be written");
}

async fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).status().await;
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}; ./test unit installs it");
}

/// An authority, and a certificate of it for 127.0.0.1 and localhost.
fn certificates(dir: &Path) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let root = authority.self_signed(&authority_key).expect("an authority");
    let issuer = Issuer::new(authority, authority_key);
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&key, &issuer))
        .expect("a certificate");
    write(&dir.join("ca.pem"), &root.pem());
    write(&dir.join("cert.pem"), &leaf.pem());
    write(&dir.join("key.pem"), &key.serialize_pem());
}

fn dovecot_conf(dir: &Path, port: u16) -> String {
    format!(
        "base_dir = {0}/run\nstate_dir = {0}/run\nlog_path = {0}/dovecot.log\nprotocols = imap lmtp\nlisten = 127.0.0.1\n\
         ssl = yes\nssl_cert = <{0}/cert.pem\nssl_key = <{0}/key.pem\ndisable_plaintext_auth = no\nauth_mechanisms = plain login\n\
         mail_location = maildir:{0}/mail/%n\nfirst_valid_uid = 1\nrecipient_delimiter = +\n\
         passdb {{\n  driver = passwd-file\n  args = username_format=%n {0}/passwd\n}}\n\
         userdb {{\n  driver = static\n  args = uid=mail gid=mail home={0}/mail/%n\n}}\n\
         service imap-login {{\n  chroot =\n  inet_listener imap {{\n    port = {port}\n  }}\n  inet_listener imaps {{\n    port = 0\n  }}\n}}\n\
         service lmtp {{\n  unix_listener lmtp {{\n    mode = 0666\n  }}\n}}\n\
         service auth {{\n  unix_listener auth-smtp {{\n    mode = 0666\n  }}\n}}\n",
        dir.display()
    )
}

fn main_cf(dir: &Path, users: &[&str]) -> String {
    let known: Vec<String> =
        users.iter().chain(&["gone"]).map(|user| format!("{{{user}@{DOMAIN}=1}}, ")).collect();
    let known = known.concat();
    format!(
        "compatibility_level = 3.6\nqueue_directory = {0}/queue\ndata_directory = {0}/data\n\
         command_directory = /usr/sbin\ndaemon_directory = /usr/lib/postfix/sbin\nmail_owner = postfix\nsetgid_group = postdrop\n\
         maillog_file = {0}/postfix.log\nmaillog_file_prefixes = {0}\nmyhostname = mx.{DOMAIN}\nmydestination =\nmynetworks =\n\
         inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nalias_maps =\nalias_database =\nlocal_recipient_maps =\n\
         virtual_mailbox_domains = {DOMAIN}\nvirtual_mailbox_maps = inline:{{ {known} }}\nrecipient_delimiter = +\n\
         virtual_transport = lmtp:unix:{0}/run/lmtp\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\n\
         smtpd_sasl_path = {0}/run/auth-smtp\nsmtpd_tls_security_level = may\nsmtpd_tls_cert_file = {0}/cert.pem\n\
         smtpd_tls_key_file = {0}/key.pem\nsmtpd_relay_restrictions = permit_sasl_authenticated, reject\nsmtpd_peername_lookup = no\n\
         default_transport = error:5.1.2 no way out of a test\ndisable_dns_lookups = yes\n",
        dir.display()
    )
}

/// What Postfix runs beside the one that takes mail.
const SERVICES: &str = "pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
";
