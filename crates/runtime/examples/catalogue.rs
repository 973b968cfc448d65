//! Prints the catalogue of metrics as the table of the documentation.

fn main() {
    print(&muster_runtime::metrics::markdown());
}

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn print(text: &str) {
    print!("{text}");
}
