//! The jobs linked into this program.

use std::any::Any;
use std::sync::Arc;

use crate::context::Handle;
use crate::job::{Declaration, Job, JobPayload};

/// A job as the linker collects it.
pub struct Registration(pub fn() -> Registered);

inventory::collect!(Registration);

/// A registered job and the handle it is lent.
pub struct Registered {
    pub(crate) name: &'static str,
    pub(crate) handle: &'static str,
    job: Box<dyn Any + Send + Sync>,
}

impl Registered {
    /// Erases the handle's type; [`jobs`] finds it again.
    pub fn new<H: Handle>(job: Arc<dyn Job<H>>) -> Self {
        Self { name: job.spec().name, handle: H::NAME, job: Box::new(job) }
    }

    /// The job, if it takes handles of type `H`.
    pub(crate) fn job<H: Handle>(&self) -> Option<Arc<dyn Job<H>>> {
        self.job.downcast_ref::<Arc<dyn Job<H>>>().cloned()
    }
}

/// Finishes a declaration, erasing its payload's type and then its handle's.
///
/// It takes no argument itself: a type that does not fit is then pointed at where the generated
/// block names it, which is the user's own token.
pub fn register<H: Handle, P: JobPayload>() -> fn(Declaration<H, P>) -> Registered {
    |declaration| Registered::new(declaration.erase())
}

/// Every job linked into this program, by name.
pub(crate) fn all() -> Vec<Registered> {
    let mut jobs: Vec<_> = inventory::iter::<Registration>().map(|registration| registration.0()).collect();
    jobs.sort_by_key(|job| job.name);
    jobs
}
