//! From the start-up checks to the last committed offset. (contract)
use crate::error::Error;
use crate::worker::Builder;

pub(crate) async fn serve(builder: Builder) -> Result<(), Error> {
    let _ = builder;
    todo!("joined when the ports are merged")
}
