//! What must not differ between two messages of one key. (contract)

/// Which parts of the payload are compared; its id is stored beside each fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheme { id: String, paths: Vec<String> }

impl Scheme {
    /// The whole payload when `paths` is empty, else only these wire paths (`amount_cents`, `customer.id`).
    pub fn new(paths: &[&str]) -> Self { todo!() }
    /// `v1` or `v1:amount_cents,customer.id`.
    pub fn id(&self) -> &str { &self.id }
    /// SHA-256 over the wire value in canonical form.
    pub fn fingerprint(&self, payload: &[u8]) -> Result<Fingerprint, crate::error::Rejection> { todo!() }
}

/// The digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);
