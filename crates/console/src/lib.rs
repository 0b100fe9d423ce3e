//! How the console looks: one template for each page, the stylesheet, the scripts. It knows neither hub nor HTTP: the door fills
//! in what is in [`page`] and sends what comes out.
//!
//! To add a page: its struct in [`page`], its template in `templates`, its entry in [`shell::Section`]. Whatever a person or an
//! agent chose is a [`text::Foreign`]: it is shown as text, never as markup, and what could not be seen is made visible.

pub mod assets;
pub mod page;
pub mod shell;
pub mod text;

pub use askama::Template;
