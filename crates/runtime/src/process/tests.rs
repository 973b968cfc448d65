//! A whole process on loopback: bound, probed, drained, aborted. Signals are scripted; the API server is never called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::*;

const SOON: Duration = Duration::from_secs(10);
const COMPONENT: Component = Component { name: "muster-test", version: "0.0.0" };

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    process: ProcessArgs,
}

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
";

struct Rig {
    process: Process,
    signals: UnboundedSender<&'static str>,
    _home: tempfile::TempDir,
}

async fn start(flags: &[&str]) -> Result<Rig, StartError> {
    start_at("[::]:0", flags).await
}

async fn start_at(admin: &str, flags: &[&str]) -> Result<Rig, StartError> {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let usual = ["muster", "--health-addr=[::]:0", "--admin-addr", admin, "--kubeconfig", kubeconfig.to_str().unwrap()];
    let args = Flags::parse_from([&usual, flags].concat()).process;
    let telemetry = Telemetry::new(&args.telemetry, COMPONENT, &args.pod).unwrap();
    let (sender, signals) = Signals::scripted();
    let deadlines = [("--build-timeout", Duration::from_mins(1))];
    let setup = Setup { component: COMPONENT, loops: &LoopId::RECONCILER, deadlines: &deadlines };
    let process = Process::bind_with(&args, setup, &[], telemetry, signals).await?;
    Ok(Rig { process, signals: sender, _home: home })
}

/// A plain HTTP GET on the admin port.
async fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn becomes(port: u16, path: &str, expected: &str) {
    let seen = async {
        while !get(port, path).await.is_ok_and(|answer| answer.contains(expected)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, seen).await.unwrap_or_else(|_| panic!("{path} never says {expected:?}"));
}

async fn ends(running: JoinHandle<Result<(), RunError>>) -> Result<(), RunError> {
    tokio::time::timeout(SOON, running).await.expect("it ends").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_takes_readiness_away_first_then_drains_then_closes() {
    let rig = start(&[]).await.unwrap();
    let (admin, grpc) = (rig.process.admin_addr().port(), rig.process.health_addr().port());
    let draining = rig.process.shutdown.draining().clone();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let done = Arc::new(AtomicBool::new(false));
    let flag = done.clone();
    rig.process.spawn("work", async move {
        draining.cancelled().await;
        let _ = finished.await;
        flag.store(true, Ordering::SeqCst);
    });
    let running = tokio::spawn(rig.process.run());
    becomes(admin, "/readyz", "200 OK").await;
    becomes(admin, "/metrics", "muster_ready 1").await;
    becomes(admin, "/metrics", "muster_build_info{component=\"muster-test\",version=\"0.0.0\"} 1").await;

    rig.signals.send("SIGTERM").unwrap();
    becomes(admin, "/readyz", "shutting down").await;
    becomes(admin, "/healthz", "200 OK").await;
    assert!(!running.is_finished() && !done.load(Ordering::SeqCst));

    finish.send(()).unwrap();
    assert!(ends(running).await.is_ok());
    assert!(done.load(Ordering::SeqCst));
    for port in [admin, grpc] {
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "port {port} is closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_and_the_end_of_the_grace_period_abort() {
    let rig = start(&[]).await.unwrap();
    rig.process.spawn("stuck", std::future::pending::<()>());
    let running = tokio::spawn(rig.process.run());
    rig.signals.send("SIGTERM").unwrap();
    rig.signals.send("SIGINT").unwrap();
    let error = ends(running).await.unwrap_err();
    assert_eq!(error.to_string(), "1 tasks were dropped during shutdown: SIGINT");

    let rig = start(&["--grace-period", "50ms"]).await.unwrap();
    rig.process.spawn("stuck", std::future::pending::<()>());
    let running = tokio::spawn(rig.process.run());
    rig.signals.send("SIGTERM").unwrap();
    let error = ends(running).await.unwrap_err();
    assert_eq!(error.to_string(), "1 tasks were dropped during shutdown: the grace period is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c33_a_task_that_panics_ends_the_process_with_its_reason() {
    let rig = start(&[]).await.unwrap();
    let (go, going) = tokio::sync::oneshot::channel::<()>();
    let admin = rig.process.admin_addr().port();
    rig.process.spawn("watch-executors", async move {
        let _ = going.await;
        assert_eq!(1, 2, "wrong");
    });
    let running = tokio::spawn(rig.process.run());
    becomes(admin, "/readyz", "200 OK").await;
    go.send(()).unwrap();
    let error = ends(running).await.unwrap_err();
    assert_eq!(error.category(), "TaskEnded");
    assert!(error.to_string().starts_with("task watch-executors panicked: assertion"), "{error}");
}

#[tokio::test]
async fn probes_are_answered_while_the_main_runtime_is_blocked() {
    let rig = start(&[]).await.unwrap();
    let admin = rig.process.admin_addr().port();
    let running = tokio::spawn(rig.process.run());
    becomes(admin, "/healthz", "200 OK").await;
    // This test's runtime has one thread, and it is busy here.
    let answer = {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", admin)).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(answer.contains("200 OK"), "{answer}");
    rig.signals.send("SIGTERM").unwrap();
    assert!(ends(running).await.is_ok());
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_runs() {
    let refused = |result: Result<Rig, StartError>| result.map(|_| ()).unwrap_err();
    let error = refused(start(&["--stall-threshold", "90s"]).await);
    assert_eq!(error.category(), "TooShort");
    assert!(error.to_string().contains("1m30s") && error.to_string().contains("2m"), "{error}");

    let error = refused(start(&["--list-timeout", "0s"]).await);
    assert_eq!(error.to_string(), "--list-timeout 0s is too short; use at least 1s");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(start_at(&taken.local_addr().unwrap().to_string(), &[]).await);
    assert!(error.to_string().contains("(--admin-addr): another process has this port"), "{error}");

    let error = refused(start(&["--context", "nowhere"]).await);
    assert_eq!(error.category(), "Kubeconfig");
}

#[test]
fn the_flags_of_a_process_fit_together() {
    use clap::CommandFactory as _;
    Flags::command().debug_assert();
    let faults =
        Flags::command().get_arguments().filter(|arg| ["hang", "delay"].contains(&arg.get_id().as_str())).count();
    assert_eq!(faults, if cfg!(feature = "fault") { 2 } else { 0 }, "shipped builds cannot hang a loop");
}
