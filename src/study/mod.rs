//! Studies of head pruning: strategies × scores × fractions × seeds against masks at random.
//!
//! A [`Plan`] is read from TOML. Its [`Cell`]s run one by one, in any order, on any machine, and leave
//! a file each in a [`Store`]; [`merge`] makes a [`Table`] and a picture of what is there. Heads are
//! off by gates, so that the same sentences run through the same weights for every curve: scores
//! are of the part for training, greedy choices of the one for validation, curves of the one for
//! tests.
//!
//! ```
//! use attnviz::study::{Plan, Share};
//!
//! let text = "data = 'sentiment'\nscores = ['gradient', 'confidence']\nrandom = 20\n";
//! let plan = Plan::parse(text, "study.toml".as_ref())?;
//! let cells = plan.cells(); // one for each score, one for each random mask
//! assert_eq!((cells.len(), cells[0].to_string()), (22, "one-shot.gradient.0".into()));
//! let second: Share = "2/4".parse()?;
//! assert_eq!(second.of(cells.len()), 5..11);
//! # Ok::<(), attnviz::Error>(())
//! ```

mod area;
mod cell;
mod csv;
mod curves;
mod draw;
mod hash;
mod metric;
mod plan;
mod run;
mod store;
mod subject;
mod table;
mod texts;

pub use area::{Estimate, area};
pub use cell::{Cell, Choice, Share, Way};
pub use metric::Against;
pub use plan::{Data, EXAMPLE, LOSSES, Metric, Plan};
pub use run::{Bench, Done, run};
pub use store::{About, Curve, Point, Source, Store, Want};
pub use subject::Subject;
pub use table::{At, Compared, Masks, Row, Table, merge};
pub use texts::{Measure, Plain, Texts};
