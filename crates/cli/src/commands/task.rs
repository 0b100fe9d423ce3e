//! `switchboard task`: questions nobody answered in time, for a person to decide on.

use crate::api::{Api, path};
use crate::args::Task;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin;

const PATH: &str = "/admin/v1/vaults";

/// Lists tasks, or decides on one.
pub async fn run(api: &Api, output: Output, command: &Task) -> Result<(), Failure> {
    match command {
        Task::List { vault } => {
            let tasks: Vec<admin::Task> = api.get(&path(PATH, &[vault, "tasks"])).await?;
            output.show(&tasks, |tasks| list(tasks));
        }
        Task::Approve { number, vault } => {
            api.act(&path(PATH, &[vault, "tasks", &number.to_string(), "approve"])).await?;
            output.done(&format!("Task {number} is open for work."));
        }
        Task::Decline { number, vault } => {
            api.act(&path(PATH, &[vault, "tasks", &number.to_string(), "decline"])).await?;
            output.done(&format!("Task {number} is rejected."));
        }
    }
    Ok(())
}

fn list(tasks: &[admin::Task]) -> String {
    if tasks.is_empty() {
        return "No task: every question was answered in time, or waits.\n".into();
    }
    let row = |task: &admin::Task| {
        vec![
            task.number.to_string(),
            task.state.clone(),
            task.created_at.to_string(),
            task.question_gid.clone(),
            task.title.clone(),
        ]
    };
    terminal::table(
        &["TASK", "STATE", "PROPOSED", "QUESTION", "TITLE"],
        &tasks.iter().map(row).collect::<Vec<_>>(),
    )
}
