//! Classes of a set and those of a head, and the tokens that stand for words.

use std::collections::BTreeSet;

use crate::tokens::Encoding;

/// For each class its place among those of a head, no two the same: by name, whatever the case where
/// none is the same; by number, where the classes are numbers.
pub(crate) fn named(classes: &[String], own: &[String]) -> Option<Vec<u32>> {
    let number = |name: &String| name.parse().ok().filter(|&number: &usize| number < own.len());
    let by_name: Option<Vec<usize>> = classes.iter().map(|name| find(name, own)).collect();
    let places = by_name.or_else(|| classes.iter().map(number).collect())?;
    let distinct = places.iter().collect::<BTreeSet<_>>().len() == places.len();
    distinct.then(|| places.into_iter().map(|place| place as u32).collect())
}

/// The same, and in their order where there are as many and the head knows none of their names.
pub(super) fn matched(classes: &[String], own: &[String]) -> Option<Vec<u32>> {
    // names that are known in part are a mistake, not another spelling of all
    let strange = || !classes.iter().any(|name| find(name, own).is_some());
    let in_order = || classes.len() == own.len() && strange();
    named(classes, own).or_else(|| in_order().then(|| (0..own.len() as u32).collect()))
}

fn find(name: &str, own: &[String]) -> Option<usize> {
    let same = own.iter().position(|one| one == name);
    same.or_else(|| own.iter().position(|one| one.eq_ignore_ascii_case(name)))
}

/// Some names, for a reader.
pub(super) fn listed(names: &[String]) -> String {
    let some: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
    let more = if names.len() > some.len() { ", …" } else { "" };
    format!("{} ({}{more})", names.len(), some.join(", "))
}

/// The first token of each word; words that were cut off, or of which no token is left, have none.
pub(super) fn first_tokens(encoding: &Encoding, words: &[String]) -> Vec<Option<usize>> {
    let mut text = encoding.texts.first().map_or("", String::as_str);
    let mut at = 0;
    let mut find = |word: &String| {
        let skipped = text.find(word.as_str())?;
        let start = at + text[..skipped].chars().count();
        let end = start + word.chars().count();
        (text, at) = (&text[skipped + word.len()..], end);
        encoding.tokens.iter().position(|token| {
            token.sequence == Some(0) && token.offsets.0 < end && token.offsets.1 > start
        })
    };
    words.iter().map(&mut find).collect()
}

#[cfg(test)]
mod tests {
    use super::{matched, named};

    #[test]
    fn classes_are_those_of_the_head_by_name_or_number() {
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let own = names(&["O", "B-PER", "I-PER"]);
        assert_eq!(matched(&names(&["b-per", "o"]), &own), Some(vec![1, 0]));
        assert_eq!(matched(&names(&["0", "2"]), &own), Some(vec![0, 2]));
        assert_eq!(matched(&names(&["B-PER", "I-LOC", "O"]), &own), None);
        let own = names(&["LABEL_0", "LABEL_1"]);
        assert_eq!(matched(&names(&["bad", "good"]), &own), Some(vec![0, 1]));
        assert_eq!(named(&names(&["bad", "good"]), &own), None);
        assert_eq!(matched(&names(&["bad", "fair", "good"]), &own), None);
        // no two classes are one of the head
        assert_eq!(named(&names(&["X", "x"]), &names(&["x", "y"])), None);
        assert_eq!(named(&names(&["X", "x"]), &names(&["x", "X"])), Some(vec![1, 0]));
    }
}
