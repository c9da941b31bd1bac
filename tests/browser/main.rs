//! The page in a real browser: every view and what is chosen over it, by pointer and keyboard, read back
//! from the DOM and from the pixels of the canvases. `CHROMIUM` names the browser where it is not found.

mod choices;
mod chromium;
mod faults;
#[cfg(feature = "serve")]
mod live;
mod measure;
mod pages;
mod safety;
#[cfg(feature = "serve")]
#[path = "../served/mod.rs"]
mod served;
mod views;
