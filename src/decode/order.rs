//! Which mask to fill first: [`Order`].

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// In which order several masks are filled. Each is read with those before it filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they stand.
    #[default]
    LeftToRight,
    /// The mask first whose likeliest token is the most probable, and so on with those left, as
    /// mask-predict ranks them (Ghazvininejad et al. 2019).
    Confident,
}

impl Order {
    /// The orders with their names.
    pub const NAMES: [(&'static str, Order); 2] =
        [("left-to-right", Order::LeftToRight), ("confident", Order::Confident)];
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(one, _)| *one == name);
        found.map(|&(_, order)| order).ok_or_else(|| Error::Usage {
            flag: "--fill-order".into(),
            want: Self::NAMES.map(|(name, _)| name).join(" or "),
            found: name.into(),
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, order)| order == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}
