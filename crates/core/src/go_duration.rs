//! Durations as Go writes them, because `refreshInterval` and every flag of a Kubernetes program are written that way.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration that reads and prints as Go's do: `1h`, `1h30m`, `0s`, `250ms`. Never negative, at most some 292 years
/// (2⁶³ − 1 nanoseconds, Go's own limit).
///
/// It prints the shortest form that Go reads back to the same value: `1h`, where Go itself prints `1h0m0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoDuration(Duration);

/// Why a text is no [`GoDuration`]. The input is quoted, cut to 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing at all.
    #[error("a duration is empty; write it like 1h, 1h30m, 250ms or 0s")]
    Empty,
    /// A minus sign.
    #[error("duration {input:?} is negative")]
    Negative {
        /// What was read.
        input: String,
    },
    /// A number that is not followed by a unit.
    #[error("duration {input:?} lacks a unit after {number:?}; use h, m, s, ms, us or ns")]
    MissingUnit {
        /// What was read.
        input: String,
        /// The number without a unit.
        number: String,
    },
    /// A unit that Go does not know, for example `d`.
    #[error("duration {input:?} has the unknown unit {unit:?}; use h, m, s, ms, us or ns")]
    UnknownUnit {
        /// What was read.
        input: String,
        /// The unknown unit.
        unit: String,
    },
    /// Something where a number belongs.
    #[error("duration {input:?} is not a list of numbers with units, like 1h30m")]
    Malformed {
        /// What was read.
        input: String,
    },
    /// More than Go can hold.
    #[error("duration {input:?} is longer than 2562047h (292 years)")]
    TooLong {
        /// What was read.
        input: String,
    },
}

/// Go's limit: an `int64` of nanoseconds.
const MAX_NANOS: u128 = i64::MAX as u128;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl GoDuration {
    /// The duration as the standard library's.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// True for `0s`, which switches the thing off that the duration paces.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl ParseError {
    /// Stable word for this kind of error.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Negative { .. } => "Negative",
            Self::MissingUnit { .. } => "MissingUnit",
            Self::UnknownUnit { .. } => "UnknownUnit",
            Self::Malformed { .. } => "Malformed",
            Self::TooLong { .. } => "TooLong",
        }
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl TryFrom<Duration> for GoDuration {
    type Error = ParseError;

    fn try_from(duration: Duration) -> Result<Self, ParseError> {
        if duration.as_nanos() > MAX_NANOS {
            return Err(ParseError::TooLong { input: format!("{}s", duration.as_secs()) });
        }
        Ok(Self(duration))
    }
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let input = || crate::text::cut(text, 40).into_owned();
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        if text.starts_with('-') {
            return Err(ParseError::Negative { input: input() });
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(ParseError::Malformed { input: input() });
        }
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let (number, after) = split_at_first(rest, |c| !(c.is_ascii_digit() || c == '.'));
            let (unit, after) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
            rest = after;
            if number.is_empty() {
                return Err(ParseError::Malformed { input: input() });
            }
            if unit.is_empty() {
                return Err(ParseError::MissingUnit {
                    input: input(),
                    number: crate::text::cut(number, 40).into_owned(),
                });
            }
            let Some(scale) = nanos_of(unit) else {
                return Err(ParseError::UnknownUnit { input: input(), unit: crate::text::cut(unit, 40).into_owned() });
            };
            let part = scaled(number, scale).ok_or_else(|| ParseError::Malformed { input: input() })?;
            nanos = nanos.saturating_add(part);
            if nanos > MAX_NANOS {
                return Err(ParseError::TooLong { input: input() });
            }
        }
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        Ok(Self(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32)))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos();
        let seconds = self.0.as_secs();
        if seconds == 0 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => write_decimal(f, u64::from(nanos), 3, "us"),
                _ => write_decimal(f, u64::from(nanos), 6, "ms"),
            };
        }
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if seconds > 0 || nanos > 0 {
            write_decimal(f, seconds * 1_000_000_000 + u64::from(nanos), 9, "s")?;
        }
        Ok(())
    }
}

fn split_at_first(text: &str, border: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(border).unwrap_or(text.len()))
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu, as in Go.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// `number` (digits with at most one point, at least one digit) times `scale`; what does not fit saturates.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole =
        whole.bytes().fold(0_u128, |sum, digit| sum.saturating_mul(10).saturating_add(u128::from(digit - b'0')));
    let mut nanos = whole.saturating_mul(scale);
    // Every digit counts a tenth of the one before it; below a nanosecond they are dropped, as in Go.
    let (mut value, mut divisor) = (0_u128, 1_u128);
    for digit in fraction.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        divisor *= 10;
    }
    nanos = nanos.saturating_add(value * scale / divisor);
    Some(nanos)
}

/// Writes `value` divided by ten to the power of `places`, without trailing zeros.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, places: usize, unit: &str) -> fmt::Result {
    let divisor = 10_u64.pow(places as u32);
    let fraction = format!("{:0places$}", value % divisor);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    write!(f, "{}{point}{fraction}{unit}", value / divisor)
}

#[cfg(test)]
mod tests;
