//! The key of a call.

use super::OnceError;
use crate::key::{Key, KeyPart, KeyValue};

/// A key of [`once`](super::once()): one value or a tuple of values, each of which can be a [`KeyPart`].
///
/// `"42"` and `42` differ, and so do `("a", "bc")` and `("ab", "c")`. A key with an empty text in it is refused: that
/// is what a caller without one sends.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    label = "not a key",
    note = "a key is a value that can be a key part (integers, strings, `bool`, `char`, `uuid::Uuid`, types with `#[derive(KeyPart)]`), or a tuple of up to four of them"
)]
pub trait OnceKey {
    /// The parts, in their order.
    fn parts(&self) -> Vec<KeyValue<'_>>;
}

#[diagnostic::do_not_recommend]
impl<T: KeyPart> OnceKey for T {
    fn parts(&self) -> Vec<KeyValue<'_>> {
        vec![self.value()]
    }
}

macro_rules! tuples {
    ($(($($part:ident $index:tt),+))+) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($part: KeyPart),+> OnceKey for ($($part,)+) {
            fn parts(&self) -> Vec<KeyValue<'_>> {
                vec![$(self.$index.value()),+]
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

/// The key in its text form. Empty, it would make one key of all callers who have none.
pub(super) fn of<E>(scope: &str, key: &impl OnceKey) -> Result<Key, OnceError<E>> {
    let parts = key.parts();
    let empty = |part: &KeyValue<'_>| matches!(part, KeyValue::Text(text) if text.is_empty());
    if parts.iter().any(empty) {
        return Err(OnceError::KeyMissing { scope: scope.to_owned() });
    }
    Ok(Key::new(parts))
}
