//! One form for the figures of all benches: a JSON object for programs, and the same object as a row of a table for people.

use comfy_table::{CellAlignment, Table, TableStyle};
use serde_json::Value;

/// A column: the key of the object, and what stands above it.
pub(super) type Column = (&'static str, &'static str);

/// How the programs that were measured were built; this one is built with them.
pub(super) const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// Prints a line of the result; stdout holds nothing else.
#[expect(clippy::print_stdout, reason = "the result of a command line tool")]
pub(super) fn print(text: &str) {
    println!("{text}");
}

/// Says what is being done, for the person who waits.
#[expect(clippy::print_stderr, reason = "progress of a command line tool")]
pub(super) fn note(line: &str) {
    eprintln!("bench: {line}");
}

/// These columns of these objects. Numbers are set to the right.
pub(super) fn table(columns: &[Column], rows: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(columns.iter().map(|(_, head)| *head));
    for row in rows {
        table.add_row(columns.iter().map(|(key, _)| cell(&row[*key])));
    }
    for (column, (key, _)) in table.column_iter_mut().zip(columns) {
        if rows.iter().all(|row| row[*key].is_number() || row[*key].is_null()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n")
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// Of times in their order; the lower of the two in the middle if they are even in number.
pub(super) fn median(times: &[f64]) -> Option<f64> {
    times.get(times.len().saturating_sub(1) / 2).copied()
}

/// The value that 99 of 100 of these do not exceed. In their order.
pub(super) fn p99(times: &[f64]) -> Option<f64> {
    times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_stand_right_and_absent_ones_are_a_dash() {
        let rows =
            [json!({"phase": "create", "writes": 1_300, "seconds": 2.345}), json!({"phase": "idle", "writes": 0})];
        let text = table(&[("phase", "PHASE"), ("writes", "WRITES"), ("seconds", "SECONDS")], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["PHASE   WRITES  SECONDS", "create    1300     2.35", "idle         0        -"]);
    }

    #[test]
    fn the_middle_and_the_tail_are_values_that_were_seen() {
        assert_eq!((median(&[1.0, 2.0]), median(&[])), (Some(1.0), None));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((p99(&hundred), p99(&[3.0]), p99(&[])), (Some(99.0), Some(3.0), None));
    }
}
