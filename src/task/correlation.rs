//! How two lists go together.

/// Spearman's rank correlation of two lists; ties share the mean of their ranks. `None` for lists of
/// different lengths or of less than two numbers, and for one of equal numbers.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

/// Pearson's correlation of two lists; `None` for lists of different lengths or of less than two
/// numbers, and for one of equal numbers.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let centred = |list: &[f64]| -> Vec<f64> {
        let mean = list.iter().sum::<f64>() / list.len() as f64;
        list.iter().map(|x| x - mean).collect()
    };
    let (a, b) = (centred(a), centred(b));
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let spread = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (spread > 0.0).then(|| sum(&a, &b) / spread)
}

/// Ranks from 0, ties at the mean of theirs.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[i].total_cmp(&numbers[j]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&i, &j| numbers[i] == numbers[j]) {
        let rank = first as f64 + (tied.len() - 1) as f64 / 2.0;
        tied.iter().for_each(|&i| ranks[i] = rank);
        first += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_proportion() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let opposite = pearson(&[1.0, 2.0, 4.0], &[-1.0, -2.0, -4.0]);
        assert!(opposite.is_some_and(|r| (r + 1.0).abs() < 1e-12));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 10.0, 100.0]), Some(1.0));
        assert_eq!((pearson(&[1.0], &[1.0]), pearson(&[1.0, 1.0], &[1.0, 2.0])), (None, None));
    }
}
