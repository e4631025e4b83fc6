//! What a killed runner left, and the runner after it. Alone in a program of its own: the next runner
//! of the machine looks after it, and among other tests that would be one of theirs.

#[path = "../it/harness.rs"]
#[expect(dead_code, reason = "the other program of tests needs more of it")]
mod harness;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runner::worker::process::is_running;

use harness::{World, fork_server_of, hidden_pid, wait_for};

#[test]
fn what_a_killed_runner_and_its_killed_fork_server_left_is_ended_by_the_next_runner() {
    let world = World::new();
    let mut command = world.start(&["hidden", "pass"], &["--execute-timeout=3600"]);
    let mut child = command.spawn().unwrap();
    let hidden = hidden_pid(&world, "hidden");
    let fork_server = fork_server_of(&child);
    // Stopped first, so that neither can look after what the other leaves.
    kill(Pid::from_raw(fork_server.try_into().unwrap()), Signal::SIGSTOP).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    kill(Pid::from_raw(fork_server.try_into().unwrap()), Signal::SIGKILL).unwrap();
    wait_for("the fork server to end", || !is_running(fork_server));
    assert!(is_running(hidden), "nobody has looked after it yet");
    let ended = world.run(&["resume", "r"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("that a runner left which was killed"), "{}", ended.stderr);
    wait_for("its end", || !is_running(hidden));
}
