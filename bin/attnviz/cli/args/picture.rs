//! Which heads, and how they are drawn.

use std::path::PathBuf;
use std::str::FromStr;

use attnviz::picture::{Colormap, Format, Scale, Style};
use attnviz::{HeadChoice, Indices};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::pictures::Picture;

/// A value with the text that gave it.
#[derive(Debug, Clone)]
pub struct Given<T> {
    pub text: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Self { text: text.into(), value: text.parse()? })
    }
}

#[derive(Debug, Default, Args)]
pub struct ChoiceArgs {
    /// Layers to show: 0-3,-1 (from 0; negative from the end)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub layers: Option<Given<Indices>>,
    /// Heads to show: 0,7-9 of each layer, or L3H1,L5H11, or 3:1;5:0,11
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub heads: Option<Given<HeadChoice>>,
    /// Words instead of pieces: sum over pieces attended to, mean over pieces attending
    #[arg(long)]
    pub words: bool,
    /// Leave [CLS], [SEP] and the like out and let rows sum to 1 again
    #[arg(long)]
    pub no_special: bool,
}

#[derive(Debug, Args)]
pub struct PictureArgs {
    /// Palette
    #[arg(long, value_name = "NAME", default_value = Style::default().cmap.name())]
    #[arg(value_parser = PossibleValuesParser::new(Colormap::ALL.map(Colormap::name))
        .try_map(|name| name.parse::<Colormap>()))]
    pub cmap: Colormap,
    /// Range of the palette: head, layer, global, or fixed as in 0:1; or robust: each head's, but
    /// the last fifth of the palette is for weights over the 99% quantile of those above 0 outside
    /// the columns of the first and of special tokens, which soak up weight
    #[arg(long, value_name = "SCALE", default_value = "head", allow_hyphen_values = true)]
    pub scale: Given<Scale>,
    /// Write the numbers into the cells
    #[arg(long)]
    pub annotate: bool,
    /// Light on dark
    #[arg(long)]
    pub dark: bool,
    /// Resolution
    #[arg(long, value_name = "N", default_value_t = Style::default().dpi)]
    #[arg(value_parser = clap::value_parser!(u32)
        .range(i64::from(Style::DPI.0)..=i64::from(Style::DPI.1)))]
    pub dpi: u32,
    /// File formats: png, svg, or both as png,svg
    #[arg(long, value_name = "LIST", default_value = "png", value_delimiter = ',')]
    pub format: Vec<Format>,
    /// Draw only these: heads, means, grid
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<Picture>,
}

/// Pictures of a command whose first result is another.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pictures")]
pub struct DrawnArgs {
    /// Draw the attention, a picture per head
    #[arg(long)]
    pub png: bool,
    /// Write one offline page to look at the attention in
    #[arg(long)]
    pub html: bool,
    /// Folder that gets a folder, or a page, per text
    #[arg(short, long, value_name = "DIR", default_value = "notebooks-out")]
    pub out: PathBuf,
    /// Overwrite files that are there; write into a folder that attnviz did not make
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub picture: PictureArgs,
}

impl DrawnArgs {
    /// Whether anything is to be drawn.
    pub fn any(&self) -> bool {
        self.png || self.html
    }
}
