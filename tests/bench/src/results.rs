//! Every round's numbers, and what follows from them.

use std::collections::BTreeMap;

/// Jobs per second by name, one number a round.
#[derive(Debug, Default)]
pub struct Results(Vec<(&'static str, Vec<f64>)>);

/// The middle of some numbers, and their ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Results {
    pub fn add(&mut self, name: &'static str, rate: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rates)) => rates.push(rate),
            None => self.0.push((name, vec![rate])),
        }
    }

    /// In the order they were measured.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, &[f64])> {
        self.0.iter().map(|(name, rates)| (*name, &rates[..]))
    }

    pub fn rates(&self, name: &str) -> Option<&[f64]> {
        self.lines().find_map(|(known, rates)| (known == name).then_some(rates))
    }

    /// The ratio of two lines: of each round by itself, since rounds differ more than neighbours do.
    pub fn ratio(&self, over: &str, under: &str) -> Option<Spread> {
        let (over, under) = (self.rates(over)?, self.rates(under)?);
        let ratios: Vec<_> = over.iter().zip(under).map(|(over, under)| over / under).collect();
        Spread::of(&ratios)
    }

    /// The ratios that the measured lines allow.
    pub fn ratios(&self, wanted: &[(&'static str, &'static str, &'static str)]) -> BTreeMap<&'static str, Spread> {
        wanted.iter().filter_map(|(name, over, under)| Some((*name, self.ratio(over, under)?))).collect()
    }
}

impl Spread {
    /// `None` of nothing.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::{Results, Spread};

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_ratio_is_of_rounds_and_not_of_medians() {
        let mut results = Results::default();
        for (ours, theirs) in [(1.0, 1.0), (4.0, 2.0), (3.0, 1.0)] {
            results.add("ours", ours);
            results.add("theirs", theirs);
        }
        assert_eq!(results.ratio("ours", "theirs").unwrap().median, 2.0);
        assert_eq!(results.ratio("ours", "nobody"), None);
    }
}
