//! The imports keep the layers: dependencies point downward only.

mod layers {
    mod foreign;
    mod imports;
    pub mod source;
}
