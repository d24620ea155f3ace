use super::Extract;
use crate::context::Context;
use crate::error::JobError;
use crate::message::Headers;

impl Extract for Headers {
    fn extract(context: &Context) -> Result<Self, JobError> {
        Ok(context.message.headers.clone())
    }
}
