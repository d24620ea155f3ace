//! A proxy that pools by transaction, as PgBouncer does: a client has a server connection from
//! its first statement to the end of the transaction, and not longer.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

type Pool = Arc<Mutex<Vec<TcpStream>>>;

pub async fn before(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pool = Pool::default();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server, Arc::clone(&pool)));
        }
    });
    address
}

async fn serve(mut client: TcpStream, server: SocketAddr, pool: Pool) -> std::io::Result<()> {
    let mut upstream = TcpStream::connect(server).await?;
    // The client may ask for TLS first, which the server of the tests answers by one byte.
    let mut first = untyped(&mut client).await?;
    if first.len() == 8 {
        client.write_all(b"N").await?;
        first = untyped(&mut client).await?;
    }
    upstream.write_all(&first).await?;
    answer(&mut upstream, &mut client).await?;
    pool.lock().await.push(upstream);
    loop {
        let mut request = typed(&mut client).await?;
        let mut upstream = pool.lock().await.pop().expect("a server connection for each client");
        loop {
            while !matches!(request[0], b'Q' | b'S') {
                upstream.write_all(&request).await?;
                request = typed(&mut client).await?;
            }
            upstream.write_all(&request).await?;
            if answer(&mut upstream, &mut client).await? == b'I' {
                break;
            }
            request = typed(&mut client).await?;
        }
        pool.lock().await.push(upstream);
    }
}

/// Passes messages on up to ReadyForQuery, whose status it returns.
async fn answer(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<u8> {
    loop {
        let message = typed(from).await?;
        to.write_all(&message).await?;
        if message[0] == b'Z' {
            return Ok(message[5]);
        }
    }
}

async fn typed(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let kind = from.read_u8().await?;
    let mut message = vec![kind];
    message.extend(untyped(from).await?);
    Ok(message)
}

async fn untyped(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut message = length.to_be_bytes().to_vec();
    message.resize(length as usize, 0);
    from.read_exact(&mut message[4..]).await?;
    Ok(message)
}
