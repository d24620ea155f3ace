//! A TCP proxy before PostgreSQL that meddles with COMMIT, or with every statement.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What the proxy does when the client sends COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum At {
    /// Passes it on, and the answer back.
    Pass = 0,
    /// Cuts the connection before the server has it.
    CutBefore = 1,
    /// Cuts it when the server has answered, the answer withheld.
    CutAfter = 2,
    /// Passes it on and withholds the answer, connection open.
    Silent = 3,
    /// Swallows this and every other statement, connection open: a path that lost its way.
    Deaf = 4,
}

/// A COMMIT of the simple protocol, by itself and within a string.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
const CHAIN: &[u8] = b"; COMMIT AND CHAIN; ";

pub struct Proxy {
    pub address: SocketAddr,
    at: Arc<AtomicU8>,
}

impl Proxy {
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let at = Arc::new(AtomicU8::new(At::Pass as u8));
        let mode = Arc::clone(&at);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(serve(client, server, Arc::clone(&mode)));
            }
        });
        Self { address, at }
    }

    pub fn at_commit(&self, at: At) {
        self.at.store(at as u8, Ordering::SeqCst);
    }
}

async fn serve(client: TcpStream, server: TcpStream, mode: Arc<AtomicU8>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut asked = [0; 16_384];
    let mut answered = [0; 16_384];
    let mut withheld = At::Pass;
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let Some(bytes) = some(read, &asked) else { return };
                if mode.load(Ordering::SeqCst) == At::Deaf as u8 && matches!(bytes[0], b'Q' | b'P' | b'B') {
                    continue;
                }
                if has(bytes, COMMIT) || has(bytes, CHAIN) {
                    withheld = match mode.load(Ordering::SeqCst) {
                        1 => return reunite(from_client, to_client),
                        2 => At::CutAfter,
                        3 => At::Silent,
                        _ => At::Pass,
                    };
                }
                if to_server.write_all(bytes).await.is_err() { return }
            }
            read = from_server.read(&mut answered) => {
                let Some(bytes) = some(read, &answered) else { return };
                match withheld {
                    At::CutAfter => return reunite(from_client, to_client),
                    At::Silent => {}
                    _ => if to_client.write_all(bytes).await.is_err() { return },
                }
            }
        }
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn some(read: std::io::Result<usize>, buffer: &[u8]) -> Option<&[u8]> {
    read.ok().filter(|length| *length > 0).map(|length| &buffer[..length])
}

/// Closes both ways at once.
fn reunite(read: OwnedReadHalf, write: OwnedWriteHalf) {
    drop(read.reunite(write));
}
