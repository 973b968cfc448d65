//! What a pod of ours says on its admin port, which needs no rights at the API server.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::kubelet::PodView;

/// Port named `admin` of our Deployments.
const PORT: u16 = 8080;

/// A page that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Status and body of a page.
pub async fn page(pod: &PodView, path: &str) -> Result<(u16, String)> {
    let asked = async {
        let mut stream = TcpStream::connect((pod.ip, PORT)).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: pod\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        anyhow::Ok((status, body.to_owned()))
    };
    let answered = timeout(PATIENCE, asked).await.with_context(|| format!("no answer in {PATIENCE:?}"));
    answered.and_then(|answer| answer).with_context(|| format!("{}: {path}", pod.name))
}

/// Body of a page.
pub async fn get(pod: &PodView, path: &str) -> Result<String> {
    page(pod, path).await.map(|(_, body)| body)
}

/// Sum of the samples of a counter whose labels contain `labels`, such as `reason="Built"`.
pub async fn counter(pod: &PodView, name: &str, labels: &str) -> Result<u64> {
    sum(&get(pod, "/metrics").await?, name, labels)
}

fn sum(metrics: &str, name: &str, labels: &str) -> Result<u64> {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name).map(|rest| (line, rest)));
    let of_this_name = samples.filter(|(_, rest)| rest.starts_with(['{', ' ']) && rest.contains(labels));
    let values = of_this_name.map(|(line, rest)| {
        let value = rest.rsplit(' ').next().unwrap_or_default();
        value.parse::<u64>().with_context(|| format!("not a sample: {line}"))
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_name_are_summed_and_those_of_a_longer_name_are_not() {
        let metrics = "# TYPE builds counter\nbuilds{reason=\"Built\"} 3\nbuilds{reason=\"BadMaterial\"} 2\n\
                       builds_due{reason=\"Built\"} 7\nups 1\n";
        assert_eq!(sum(metrics, "builds", "").unwrap(), 5);
        assert_eq!(sum(metrics, "builds", "reason=\"Built\"").unwrap(), 3);
        assert_eq!(sum(metrics, "nothing", "").unwrap(), 0);
        assert!(sum("builds many\n", "builds", "").is_err());
    }
}
