//! `switchboard backup`: a consistent copy, while everything goes on.

use crate::api::Api;
use crate::args::{Backup, Global};
use crate::failure::Failure;
use crate::terminal::Output;
use std::time::Duration;
use switchboard_protocol::admin::BackupIn;

/// A large store takes a while to copy.
const PATIENCE: Duration = Duration::from_hours(1);

/// Asks the running hub for a copy of its store.
pub async fn run(global: &Global, output: Output, backup: &Backup) -> Result<(), Failure> {
    let api = Api::find_patient(global, PATIENCE)?;
    let file = std::path::absolute(&backup.file).map_err(|error| Failure::file(&backup.file, &error))?;
    let target = file.to_str().ok_or_else(|| Failure::usage("The file's name must be Unicode."))?.to_owned();
    let () = api.post("/admin/v1/backup", &BackupIn { target: target.clone() }).await?;
    let bytes = std::fs::metadata(&file).map(|metadata| metadata.len()).ok();
    let copied = serde_json::json!({ "file": target, "bytes": bytes });
    output.show(&copied, |_| {
        let size = bytes.map(|bytes| format!(", {}", crate::terminal::bytes(bytes))).unwrap_or_default();
        format!(
            "Copied to {}{size}. It holds the hub's keys: keep it as private as the data directory.\n\
             Try it: switchboard restore {} --data-dir NEW\n",
            file.display(),
            file.display()
        )
    });
    Ok(())
}
