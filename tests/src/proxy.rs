//! A way to PostgreSQL that can be cut, also in the middle of a COMMIT.

mod pgwire;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::pgwire::{Answer, Requests};

/// Where a COMMIT is intercepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The server never gets it.
    Unsent,
    /// The server did it; the client never hears so.
    Unanswered,
}

#[derive(Default)]
struct State {
    down: bool,
    trap: Option<Trap>,
    /// What the server said to an intercepted COMMIT: empty when it never got it.
    sprung: Option<String>,
    open: Vec<TcpStream>,
}

struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

/// A TCP proxy on loopback.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Between clients of `url`, rewritten by [`url`](Self::url), and its server.
    ///
    /// # Panics
    /// When the address makes no sense.
    pub fn to(url: &str) -> Self {
        let (_, rest) = authority(url);
        let server = rest.to_socket_addrs().expect("the database's address").next().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a bound port has a number");
        let shared = Arc::new(Shared { server, state: Mutex::default(), changed: Condvar::new() });
        let lent = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                lent.connect(client);
            }
        });
        Self { address, shared }
    }

    /// The same URL by way of this proxy.
    pub fn url(&self, url: &str) -> String {
        let (before, rest) = authority(url);
        let after = &url[before.len() + rest.len()..];
        format!("{before}{}{after}", self.address)
    }

    /// Closes every connection and lets no new one through, until mended.
    pub fn cut(&self) {
        let mut state = self.shared.state();
        state.down = true;
        state.close();
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.shared.state().down = false;
    }

    /// Closes every connection; new ones are let through.
    pub fn drop_connections(&self) {
        self.shared.state().close();
    }

    /// Intercepts the next COMMIT.
    pub fn trap(&self, trap: Trap) {
        let mut state = self.shared.state();
        state.trap = Some(trap);
        state.sprung = None;
    }

    /// Waits until a COMMIT was intercepted, and done by the server if it got it; what the
    /// server said.
    ///
    /// # Panics
    /// When none comes in time.
    pub fn sprung(&self, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.state();
        loop {
            if let Some(said) = &state.sprung {
                return said.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no COMMIT came through the proxy in {limit:?}");
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// `postgres://user:word@`, `host:port`
fn authority(url: &str) -> (&str, &str) {
    let start = url.rfind('@').map_or_else(|| url.find("://").map_or(0, |at| at + 3), |at| at + 1);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    (&url[..start], &url[start..end])
}

impl State {
    fn close(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        let mut state = self.state();
        if state.down {
            let _ = client.shutdown(Shutdown::Both);
            return;
        }
        let Ok(server) = TcpStream::connect(self.server) else {
            let _ = client.shutdown(Shutdown::Both);
            return;
        };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let clone = |stream: &TcpStream| stream.try_clone().expect("a socket can be shared");
        state.open.extend([clone(&client), clone(&server)]);
        let caught = Arc::new(Mutex::new(Answer::default()));
        let (shared, to, from, held) = (Arc::clone(self), clone(&server), clone(&client), Arc::clone(&caught));
        thread::spawn(move || shared.forward(from, to, &held));
        let shared = Arc::clone(self);
        thread::spawn(move || shared.back(server, client, &caught));
    }

    /// Client to server.
    fn forward(&self, mut client: TcpStream, mut server: TcpStream, caught: &Mutex<Answer>) {
        let mut requests = Requests::default();
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            let commits = requests.take(&buffer[..read]);
            let trap = if commits { self.state().trap.take() } else { None };
            match trap {
                Some(Trap::Unsent) => {
                    self.spring(String::new());
                    // The client waits for an answer until it is cut off or killed.
                    let _ = client.read(&mut buffer);
                    break;
                }
                Some(Trap::Unanswered) => caught.lock().unwrap_or_else(PoisonError::into_inner).withhold(),
                None => {}
            }
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    }

    /// Server to client.
    fn back(&self, mut server: TcpStream, mut client: TcpStream, caught: &Mutex<Answer>) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = server.read(&mut buffer) {
            let mut answer = caught.lock().unwrap_or_else(PoisonError::into_inner);
            if answer.is_withheld() {
                if let Some(said) = answer.take(&buffer[..read]) {
                    self.spring(said);
                }
                continue;
            }
            drop(answer);
            if client.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }

    fn spring(&self, said: String) {
        self.state().sprung = Some(said);
        self.changed.notify_all();
    }
}
