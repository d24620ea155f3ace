//! What is there at the end.

use crate::Failure;
use crate::place::Place;

/// Rows of ours, and what the services remember.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub orders: i64,
    pub charges: i64,
    pub receipts: i64,
    pub payments: i64,
    pub mails: i64,
    /// Calls of the services, the repeated ones included.
    pub calls: i64,
}

impl Report {
    pub async fn read(place: &Place) -> Result<Self, Failure> {
        let (orders, charges, receipts) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM charges), (SELECT count(*) FROM receipts)",
        )
        .fetch_one(&place.ours)
        .await?;
        let (payments, mails, calls) = sqlx::query_as(
            "SELECT count(*) FILTER (WHERE service = 'bank'), count(*) FILTER (WHERE service = 'mail'), \
             coalesce(sum(calls), 0) FROM done",
        )
        .fetch_one(&place.services)
        .await?;
        Ok(Self { orders, charges, receipts, payments, mails, calls })
    }

    pub fn print(&self) {
        let Self { orders, charges, receipts, payments, mails, calls } = self;
        println!("{orders} orders, {charges} charges, {receipts} receipts");
        println!("{payments} payments and {mails} mails by {calls} calls");
    }
}
