//! A connection for one kind of short errands, opened when it is needed and closed when in doubt.

use std::ops::{Deref, DerefMut};

use sqlx::ConnectOptions;
use tokio::sync::{Mutex, MutexGuard};

use super::StoreError;
use super::dialect::{Dialect, Options};
use super::slots::connect;

/// The place of the connection; one errand at a time.
pub(super) struct Line<DB: Dialect> {
    options: Options<DB>,
    settings: &'static str,
    kept: Mutex<Option<DB::Connection>>,
}

impl<DB: Dialect> Line<DB> {
    /// A line whose connections get these settings.
    pub(super) fn new(options: Options<DB>, settings: &'static str) -> Self {
        // The driver's log shows whole statements.
        Self { options: options.disable_statement_logging(), settings, kept: Mutex::default() }
    }

    /// The connection, a new one unless the last errand gave it back.
    pub(super) async fn take(&self) -> Result<Lent<'_, DB>, StoreError> {
        let mut place = self.kept.lock().await;
        let conn = match place.take() {
            Some(conn) => conn,
            None => self.open().await?,
        };
        Ok(Lent { place, conn: Some(conn) })
    }

    async fn open(&self) -> Result<DB::Connection, StoreError> {
        const DOING: &str = "preparing a connection of the relay";
        let mut conn = connect::<DB>(&self.options).await?;
        DB::run(&mut conn, self.settings.to_owned()).await.map_err(|error| StoreError::driver::<DB>(DOING, error))?;
        Ok(conn)
    }
}

/// A connection on its errand. Dropped, it is closed: only [`done`](Self::done) keeps it.
pub(super) struct Lent<'a, DB: Dialect> {
    place: MutexGuard<'a, Option<DB::Connection>>,
    conn: Option<DB::Connection>,
}

impl<DB: Dialect> Lent<'_, DB> {
    /// The errand is done, and nothing is open on the connection.
    pub(super) fn done(mut self) {
        *self.place = self.conn.take();
    }
}

impl<DB: Dialect> Deref for Lent<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &Self::Target {
        self.conn.as_ref().expect("it is there until done")
    }
}

impl<DB: Dialect> DerefMut for Lent<'_, DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.conn.as_mut().expect("it is there until done")
    }
}
