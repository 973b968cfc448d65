//! What a `main` does beside calling its library: a runtime, one line about a failure, an exit code.

use std::process::ExitCode;
use std::time::Duration;

/// How long threads that are still busy may take once everything else has ended.
const LEFTOVERS: Duration = Duration::from_secs(1);

/// Runs `main` to its end and makes an exit code of it: 0, or 1 with the error and its causes on standard error.
///
/// The runtime has at least two threads, however little CPU the container has, so that one busy task does not stop all
/// others; and its end does not wait for threads that are blocked.
pub fn block_on<E>(main: impl Future<Output = Result<(), E>>) -> ExitCode
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let threads = std::thread::available_parallelism().map_or(2, |threads| threads.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let result = runtime.block_on(main);
    runtime.shutdown_timeout(LEFTOVERS);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.into().as_ref()),
    }
}

#[expect(clippy::print_stderr, reason = "the last words of a process, which may have no log yet")]
fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let causes: Vec<String> =
        std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect();
    eprintln!("error: {}", causes.join(": "));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_does_not_keep_the_process() {
        let begun = std::time::Instant::now();
        let code = block_on(async {
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_mins(5)));
            Ok::<(), std::io::Error>(())
        });
        assert_eq!(code, ExitCode::SUCCESS);
        assert!(begun.elapsed() < Duration::from_mins(1));
    }

    #[test]
    fn a_failure_is_an_exit_code() {
        assert_eq!(block_on(async { Err(std::io::Error::other("no")) }), ExitCode::FAILURE);
    }
}
