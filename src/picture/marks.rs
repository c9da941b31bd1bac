//! Lines and bands, which lie between pixels.

use crate::picture::palette::Rgb;

/// A point in pixels.
pub(crate) type Place = (f32, f32);

/// A shape that is drawn with smooth edges.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    /// A line through points from left to right.
    Line { points: Vec<Place>, width: f32, dash: Option<f32>, colour: Rgb },
    /// What is between two lines, from `high` down to `low`, at the same places across.
    Band { low: Vec<Place>, high: Vec<Place>, opacity: f32, colour: Rgb },
}

impl Mark {
    /// Every pixel that it touches with the share of it that it covers.
    pub fn cover(&self, mut each: impl FnMut(i32, i32, f32)) {
        match self {
            Self::Line { points, width, dash, .. } => line(points, *width, *dash, &mut each),
            Self::Band { low, high, opacity, .. } => {
                band(low, high, &mut |x, y, share| each(x, y, share * opacity));
            }
        }
    }

    pub fn colour(&self) -> Rgb {
        match self {
            Self::Line { colour, .. } | Self::Band { colour, .. } => *colour,
        }
    }
}

fn line(points: &[Place], width: f32, dash: Option<f32>, each: &mut impl FnMut(i32, i32, f32)) {
    let reach = width / 2.0 + 1.0;
    let ends = |of: fn(&Place) -> f32| {
        let all = || points.iter().map(of);
        (all().fold(f32::MAX, f32::min) - reach, all().fold(f32::MIN, f32::max) + reach)
    };
    let ((left, right), (top, bottom)) = (ends(|p| p.0), ends(|p| p.1));
    if points.is_empty() || !(right - left + bottom - top).is_finite() {
        return;
    }
    for y in top.floor() as i32..=bottom.ceil() as i32 {
        for x in left.floor() as i32..=right.ceil() as i32 {
            let (away, along) = nearest(points, (x as f32 + 0.5, y as f32 + 0.5));
            let solid = dash.is_none_or(|dash| (along / dash) as i64 % 2 == 0);
            let share = (width / 2.0 + 0.5 - away).clamp(0.0, 1.0);
            if solid && share > 0.0 {
                each(x, y, share);
            }
        }
    }
}

/// How far a line is from a place, and how far along the line its nearest point is.
fn nearest(points: &[Place], (x, y): Place) -> (f32, f32) {
    let (mut best, mut before) = ((f32::MAX, 0.0), 0.0);
    let only = [points[0], points[0]];
    let pairs = if points.len() > 1 { points } else { &only };
    for pair in pairs.windows(2) {
        let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
        let (dx, dy) = (bx - ax, by - ay);
        let length = dx.hypot(dy);
        let share = match length {
            0.0 => 0.0,
            _ => (((x - ax) * dx + (y - ay) * dy) / (length * length)).clamp(0.0, 1.0),
        };
        let away = (x - ax - share * dx).hypot(y - ay - share * dy);
        if away < best.0 {
            best = (away, before + share * length);
        }
        before += length;
    }
    best
}

fn band(low: &[Place], high: &[Place], each: &mut impl FnMut(i32, i32, f32)) {
    let (Some(first), Some(last)) = (low.first(), low.last()) else { return };
    for x in first.0.round() as i32..last.0.round() as i32 {
        let at = x as f32 + 0.5;
        let (Some(bottom), Some(top)) = (height(low, at), height(high, at)) else { continue };
        for y in top.floor() as i32..=bottom.floor() as i32 {
            let share = bottom.min(y as f32 + 1.0) - top.max(y as f32);
            if share > 0.0 {
                each(x, y, share);
            }
        }
    }
}

/// The height of a line at a place across.
fn height(points: &[Place], x: f32) -> Option<f32> {
    let pair = points.windows(2).find(|pair| pair[0].0 <= x && x <= pair[1].0)?;
    let width = pair[1].0 - pair[0].0;
    let share = if width > 0.0 { (x - pair[0].0) / width } else { 0.0 };
    Some(pair[0].1 + share * (pair[1].1 - pair[0].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(mark: &Mark) -> Vec<(i32, i32, f32)> {
        let mut all = Vec::new();
        mark.cover(|x, y, share| all.push((x, y, share)));
        all
    }

    #[test]
    fn lines_cover_their_length_times_their_width() {
        let line = |points, dash| Mark::Line { points, width: 2.0, dash, colour: [0; 3] };
        let sum = |mark: &Mark| pixels(mark).iter().map(|p| p.2).sum::<f32>();
        let level = sum(&line(vec![(0.0, 5.0), (50.0, 5.0), (100.0, 5.0)], None));
        let steep = sum(&line(vec![(0.0, 0.0), (60.0, 80.0)], None));
        assert!((level - steep).abs() < 4.0 && (level - 203.0).abs() < 4.0, "{level} {steep}");
        let dashed = sum(&line(vec![(0.0, 5.0), (100.0, 5.0)], Some(5.0)));
        assert!((dashed - 100.0).abs() < 6.0, "{dashed}");
        assert!(pixels(&line(vec![], None)).is_empty());
        assert!(pixels(&line(vec![(f32::NAN, 0.0)], None)).is_empty());
        assert_eq!(pixels(&line(vec![(3.5, 3.5)], None)).iter().filter(|p| p.2 > 0.9).count(), 1);
    }

    #[test]
    fn bands_cover_what_is_between() {
        let low = vec![(0.0, 10.0), (10.0, 20.0)];
        let high = vec![(0.0, 5.5), (10.0, 15.5)];
        let band = Mark::Band { low, high, opacity: 0.5, colour: [0; 3] };
        let sum: f32 = pixels(&band).iter().map(|p| p.2).sum();
        assert!((sum - 0.5 * 45.0).abs() < 1e-3, "{sum}");
        assert!(
            pixels(&band).iter().all(|&(x, y, _)| (0..10).contains(&x) && (5..20).contains(&y))
        );
    }
}
