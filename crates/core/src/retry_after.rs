//! `Retry-After`, read the same way from every upstream and from the API server (C26).
//!
//! What is read is a wish and only ever a floor for a wait: junk is no wish, and no wish is longer than [`MAX`].

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// Longest wish that is honoured, in time. A server that asks for more, by fault or by a clock years ahead, would
/// otherwise silence a replica for ever.
pub const MAX: Duration = Duration::from_hours(1);

/// The wish expressed by the values of all `Retry-After` headers of one answer, relative to the wall time `now`.
///
/// `None` if no value asks for a wait: no header, junk, zero, a negative number, a date that has passed. Of several
/// values the longest wins. Accepted are seconds, with a sign or decimals too, although RFC 9110 §10.2.3 allows neither,
/// because their meaning is beyond doubt and waiting longer is the safe side; and dates in the three forms of RFC 9110
/// §5.6.7. The result is above zero and at most [`MAX`].
pub fn longest<'a, V>(values: impl IntoIterator<Item = &'a V>, now: Timestamp) -> Option<Duration>
where
    V: AsRef<[u8]> + ?Sized + 'a,
{
    values.into_iter().filter_map(|value| wish(value.as_ref(), now)).max()
}

fn wish(value: &[u8], now: Timestamp) -> Option<Duration> {
    let value = str::from_utf8(value).ok()?.trim();
    let wait = seconds(value).or_else(|| until_date(value, now))?;
    (!wait.is_zero()).then_some(wait.min(MAX))
}

/// `7`, `+3`, `0.249`. More digits than fit any number are still a number, and a huge one.
fn seconds(value: &str) -> Option<Duration> {
    let digits = value.strip_prefix('+').unwrap_or(value);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !numeric(whole) || !numeric(fraction) {
        return None;
    }
    let whole = whole.parse().map_or(MAX, Duration::from_secs);
    // Rounded up, so that the wait is never under the wish.
    let thousandths = format!("{fraction:0<3}").get(..3).and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(999);
    let rest = fraction.bytes().skip(3).any(|byte| byte != b'0');
    Some(whole.min(MAX) + Duration::from_millis(thousandths + u64::from(rest)))
}

fn until_date(value: &str, now: Timestamp) -> Option<Duration> {
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::from(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
