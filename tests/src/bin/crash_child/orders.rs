//! Follows orders from standard input, and tells events on standard output.

use std::io::stdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use idempotent_jobs::__private::{Point, Probe};
use idempotent_jobs::Coordinates;
use tests::events;

#[derive(Default)]
struct State {
    halts: usize,
    armed: Option<(Point, usize)>,
    halted: bool,
}

#[derive(Clone, Default)]
pub struct Orders(Arc<(Mutex<State>, Condvar)>);

/// Begins to read orders.
pub fn follow() -> impl Probe {
    let orders = Orders::default();
    // Armed from the first moment, where an order would come too late.
    if let Ok(word) = std::env::var("CHILD_HALT") {
        let nth = std::env::var("CHILD_HALT_NTH").unwrap_or_else(|_| "1".to_owned());
        orders.obey(&format!("halt {word} {nth}"));
    }
    let reader = orders.clone();
    thread::spawn(move || {
        stdin().lines().map_while(Result::ok).for_each(|line| reader.obey(&line));
        std::process::exit(111);
    });
    orders
}

impl Orders {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn obey(&self, line: &str) {
        let mut state = self.state();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["halt", word, nth] => {
                let point = events::point(word).expect("a known point");
                state.armed = Some((point, nth.parse().expect("a number")));
                state.halts += 1;
                println!("armed {}.", state.halts);
            }
            ["go"] => {
                state.halted = false;
                self.0.1.notify_all();
            }
            _ => panic!("unknown order: {line}"),
        }
    }
}

impl Probe for Orders {
    fn reached(&self, point: Point, at: &Coordinates) {
        // Nobody outside asks for it.
        if point == Point::Accepted {
            return;
        }
        let mut state = self.state();
        println!("{}", events::line(point, at));
        match &mut state.armed {
            Some((armed, left)) if *armed == point => *left -= 1,
            _ => return,
        }
        if state.armed.is_some_and(|(_, left)| left > 0) {
            return;
        }
        state.armed = None;
        state.halted = true;
        println!("halted {}. {}", state.halts, events::line(point, at));
        while state.halted {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
