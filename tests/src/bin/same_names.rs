//! Two jobs of one name, in two modules.

#[derive(Debug, serde::Deserialize)]
struct Parcel {
    parcel: u64,
}

mod inbound {
    use idempotent_jobs::prelude::*;

    #[idempotent_job(topic = "parcels", key = "parcel")]
    async fn handle(_tx: &mut SqliteTx, _: super::Parcel) -> JobResult {
        Ok(())
    }
}

mod outbound {
    use idempotent_jobs::prelude::*;

    #[idempotent_job(topic = "parcels", key = "parcel")]
    async fn handle(_tx: &mut SqliteTx, _: super::Parcel) -> JobResult {
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), idempotent_jobs::Error> {
    idempotent_jobs::run().await
}
