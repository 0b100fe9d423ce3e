//! The channels over stand-ins of their services.
