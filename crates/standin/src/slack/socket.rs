//! Socket Mode: greets, brings envelopes, hears acknowledgements.

use super::Room;
use super::room::{APP, Order, Socket};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

type Wire = WebSocketStream<TcpStream>;

/// Serves one connection until one side ends it. A ticket is good once.
pub async fn serve(stream: TcpStream, room: Arc<Room>) {
    let state = room.clone();
    #[expect(clippy::result_large_err, reason = "the type is the library's")]
    let check = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap_or_default();
        let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket=")).unwrap_or_default();
        let mut state = state.state.lock();
        let known = state.tickets.iter().position(|known| known == ticket);
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        let at = known.ok_or(refusal)?;
        state.tickets[at].push_str(" used");
        Ok(response)
    };
    let Ok(mut wire) = accept_hdr_async(stream, check).await else { return };
    let (orders, received) = unbounded_channel();
    let number = room.change(|state| {
        let number = state.opened.0;
        state.sockets.push(Socket { number, orders, leaving: false });
        state.opened = (number + 1, state.opened.1.max(state.sockets.len()));
        number
    });
    converse(&mut wire, received, &room).await;
    room.change(|state| state.sockets.retain(|socket| socket.number != number));
}

async fn converse(wire: &mut Wire, mut orders: UnboundedReceiver<Order>, room: &Room) {
    let hello = json!({
        "type": "hello",
        "num_connections": 1,
        "debug_info": { "host": "applink-1", "build_number": 10, "approximate_connection_time": 18060 },
        "connection_info": { "app_id": APP },
    });
    let greeted = wire.send(Message::text(hello.to_string())).await;
    if greeted.is_err() || wire.send(Message::Ping(Bytes::from_static(b"1"))).await.is_err() {
        return;
    }
    room.change(|state| state.bring(false));
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Text(text)) => if wire.send(Message::text(text)).await.is_err() { return },
                Some(Order::Freeze) => {
                    // The connection stands, and nobody is there.
                    while !matches!(orders.recv().await, Some(Order::Close) | None) {}
                    return;
                }
                Some(Order::Close) | None => return,
            },
            frame = wire.next() => match frame {
                Some(Ok(Message::Text(text))) => heard(&text, room),
                Some(Ok(Message::Pong(_))) => room.change(|state| state.pongs += 1),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

fn heard(text: &str, room: &Room) {
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    room.change(|state| {
        for envelope in
            state.envelopes.iter_mut().filter(|envelope| said["envelope_id"] == envelope.id.as_str())
        {
            envelope.acknowledged = true;
        }
    });
}
