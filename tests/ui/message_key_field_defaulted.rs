use idempotent_jobs::prelude::*;

#[derive(serde::Serialize, serde::Deserialize, JobMessage)]
#[message(topic = "orders", key = "order_id, region.id")]
struct Charge {
    #[serde(default, rename = "orderId")]
    order_id: u64,
    #[serde(skip_serializing_if = "Region::is_home")]
    region: Region,
    #[serde(default)]
    note: String,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Region {
    id: u32,
}

impl Region {
    fn is_home(&self) -> bool {
        self.id == 0
    }
}

fn main() {}
