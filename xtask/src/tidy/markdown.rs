//! Links inside the repository must lead somewhere: a page moves, and nobody reads every page that names it.

use super::Problem;

/// Links of a Markdown page to files that do not exist. Code is not read, and links to the web are not followed.
pub(super) fn links(text: &str, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let dead = targets(line).filter(|target| !exists(target));
            problems.extend(dead.map(|target| Problem::new(index + 1, format!("dead link: {target}"))));
        }
    }
    problems
}

/// Paths that `line` links to, without anchors: `[text](path#anchor)`, images, and `[text]: path`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
    inline.chain(reference).filter(|target| is_local(target)).filter_map(|target| target.split('#').next())
}

fn is_local(target: &str) -> bool {
    !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_links_outside_code_are_checked() {
        let page = "See [a](docs/a.md#top), ![b](b.png) and [web](https://example.com/x) or [here](#here).\n\
                    ```\n[c](c.md)\n```\n[d]: d.md\n";
        assert_eq!(targets(page.lines().next().unwrap()).collect::<Vec<_>>(), ["docs/a.md", "b.png"]);
        let dead: Vec<_> = links(page, |target| target == "b.png").into_iter().map(|problem| problem.line).collect();
        assert_eq!(dead, [1, 5]);
    }
}
