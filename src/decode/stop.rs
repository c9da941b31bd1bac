//! Texts that end a text: [`Stop`].

/// Looks for stop texts in a text that comes in parts, and holds back what may be the beginning of
/// one.
///
/// ```
/// use attnviz::decode::Stop;
///
/// let mut stop = Stop::new(vec!["\n\n".into()]);
/// assert_eq!(stop.push("One line.\n"), "One line.");
/// assert_eq!(stop.push("Another.\n\nNo more"), "\nAnother.");
/// assert!(stop.reached());
/// ```
#[derive(Debug, Clone)]
pub struct Stop {
    stops: Vec<String>,
    held: String,
    reached: bool,
}

impl Stop {
    /// Stops at the first of these; an empty text stops nothing.
    pub fn new(stops: Vec<String>) -> Self {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        Self { stops, held: String::new(), reached: false }
    }

    /// Takes the next part and gives what is certain to be before any stop text.
    pub fn push(&mut self, part: &str) -> String {
        if self.reached {
            return String::new();
        }
        self.held += part;
        if let Some(at) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.reached = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let begun = |at: &usize| {
            let rest = &self.held[*at..];
            self.stops.iter().any(|stop| stop.starts_with(rest))
        };
        let places = self.held.char_indices().map(|(at, _)| at);
        let certain = places.into_iter().find(begun).unwrap_or(self.held.len());
        self.held.drain(..certain).collect()
    }

    /// Whether a stop text came.
    pub fn reached(&self) -> bool {
        self.reached
    }

    /// What was held back and turned out to begin none.
    pub fn finish(self) -> String {
        self.held
    }
}
