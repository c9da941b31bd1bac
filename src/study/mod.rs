//! Studies of head pruning: strategies × scores × fractions × seeds against masks at random.
//!
//! A [`Plan`] is read from TOML. Its [`Cell`]s run one by one, in any order, on any machine, and leave
//! a file each in a [`Store`]; [`merge`] makes a [`Table`] and a picture of what is there. Heads are
//! off by gates, so that the same sentences run through the same weights for every curve: scores
//! are of the part for training, greedy choices of the one for validation, curves of the one for
//! tests.

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

pub use area::{Estimate, area};
pub use cell::{Cell, Choice, Share, Way};
pub use metric::Against;
pub use plan::{Data, EXAMPLE, LOSSES, Metric, Plan, SCORES};
pub use run::{Bench, Done, run};
pub use store::{About, Curve, Point, Source, Store, Want};
pub use subject::{Measure, Plain, Subject, Texts};
pub use table::{At, Compared, Masks, Row, Table, merge};
