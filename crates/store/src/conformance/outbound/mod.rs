//! The outbound plane: what is accepted is sent once, in order, to whom may be reached, and every end is on the books.

pub mod accept;
pub mod amends;
pub mod approvals;
pub mod attempts;
pub mod consent;
pub mod escalate;
pub mod floor;
pub mod hear;
pub mod nodes;
pub mod plane;
pub mod quiet;
pub mod random;
pub mod reads;
pub mod rounds;
pub mod strand;
pub mod texts;

pub use plane::Plane;
