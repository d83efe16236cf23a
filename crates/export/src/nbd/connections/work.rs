//! Messages are handled, requests go to the devices, and what comes of them goes back.

use super::connection::{Message, NbdConnection, Phase};
use super::handshake::{Negotiation, Next};
use super::in_flight::{Gained, InFlight};
use super::session::ALLOCATION;
use super::table::NbdConnections;
use crate::nbd::exports::Exports;
use crate::nbd::limits::{REQUESTS_HELD_MAX, REQUESTS_MAX_ALL};
use crate::nbd::refusal::Refusal;
use onego_block::Completion;
use onego_buf::List;
use onego_nbd::codec::{HeaderStyle, OptionCode, OptionError, OptionHeader, RequestHeader, RequestType};
use onego_service::connections::Allowance;
use onego_wire::{ConnId, Time};
use std::rc::Rc;

impl NbdConnections {
    /// Have devices completed requests that nobody has looked at?
    pub(crate) fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// `came` bytes have come. Handles the messages that are here, until too much of the connection is in flight or waits to
    /// be sent.
    pub(super) fn work(&mut self, now: Time, conn: ConnId, came: usize, exports: &Exports) {
        let mut whole = false;
        loop {
            let Some((connection, allowance)) = self.table.get_with_allowance(conn) else { return };
            if !connection.has_room(self.requests.len()) || !allowance.may_answer() {
                self.table.stop(now, conn);
                break;
            }
            let message = match connection.next(allowance) {
                Ok(message) => message,
                Err(error) => return self.give_up(now, conn, &error),
            };
            let Some(message) = message else {
                if let Some(error) = connection.stream.failure().cloned() {
                    return self.give_up(now, conn, &error);
                }
                connection.all_handled();
                break;
            };
            whole = true;
            self.handle(now, conn, message, exports);
            self.table.count_replies(now, conn);
        }
        self.release(now, conn);
        self.table.count_replies(now, conn);
        if let Some(heaviest) = self.table.progress(now, conn, came, whole) {
            tracing::info!(conn = ?heaviest, "unfinished requests take too much memory: a client is given up");
            self.counters.given_up += 1;
            self.close(now, heaviest);
        }
        self.table.announce(conn);
        self.finish_if_over(now, conn);
    }

    /// Lets a connection end once its client has taken all replies, if there is nothing more to be done.
    fn finish_if_over(&mut self, now: Time, conn: ConnId) {
        if self.table.get(conn).is_some_and(|connection| connection.is_over()) {
            self.table.finish(now, conn);
        }
    }

    /// Passes the requests of a delivery on to their device.
    pub(super) fn release(&mut self, now: Time, conn: ConnId) {
        if let Some(session) = self.table.get(conn).and_then(NbdConnection::session)
            && !session.plug.is_empty()
        {
            session.plug.release(now, session.export.device());
        }
    }

    #[inline]
    fn handle(&mut self, now: Time, conn: ConnId, message: Message, exports: &Exports) {
        match message {
            Message::Request(header, payload) => self.request(now, conn, header, payload),
            Message::Refused(header, refusal) => {
                self.counters.requests += 1;
                self.refuse(conn, &header, &refusal);
            }
            Message::Flags(flags) => {
                if let Some(connection) = self.table.get(conn) {
                    connection.phase = Phase::Options(Negotiation::new(flags, self.tls.as_ref()));
                }
            }
            Message::Option(header, data) => self.option(now, conn, header, &data, exports),
            Message::LongOption(header) => {
                if let Some(connection) = self.table.get(conn) {
                    let message = "the option has more data than the server looks at";
                    connection.stream.outbound.option_error(header.code, OptionError::TooBig, message);
                }
            }
        }
    }

    fn option(&mut self, now: Time, conn: ConnId, header: OptionHeader, data: &List, exports: &Exports) {
        let Some(connection) = self.table.get(conn) else { return };
        let Phase::Options(negotiation) = &mut connection.phase else { return };
        let OptionHeader { code, .. } = header;
        match negotiation.option(code, &data.to_segment(), exports, &mut connection.stream.outbound) {
            Ok(Next::Option) => {}
            Ok(Next::Transmission(session)) => {
                tracing::info!(?conn, export = session.export.name(), "a client uses an export");
                connection.begin(session);
            }
            Ok(Next::End) => {
                debug_assert_eq!(code, OptionCode::Abort);
                connection.leave();
            }
            Ok(Next::Tls(negotiation)) => {
                let Some(tls) = &self.tls else { return };
                connection.phase = Phase::Options(negotiation);
                if let Err(error) = connection.stream.start_tls(&tls.config) {
                    self.give_up(now, conn, &error);
                }
            }
            Err(error) => self.give_up(now, conn, &error),
        }
    }

    /// Has a request carried out.
    fn request(&mut self, now: Time, conn: ConnId, mut header: RequestHeader, payload: List) {
        let Some(connection) = self.table.get(conn) else { return };
        let Phase::Transmission(session) = &mut connection.phase else { return };
        self.counters.requests += 1;
        if header.command == RequestType::Disconnect {
            return connection.leave();
        }
        if header.command == RequestType::BlockStatus && !payload.is_empty() {
            match session.narrowed(header, &payload.to_segment()) {
                Ok(narrowed) => header = narrowed,
                Err(refusal) => return self.refuse(conn, &header, &refusal),
            }
        }
        let Some(request) = InFlight::new(now, conn, Rc::clone(&session.export), header, payload) else {
            let style = session.style;
            return match header.command {
                RequestType::Read => connection.stream.outbound.data(style, &header, List::new()),
                _ => connection.stream.outbound.done(style, &header),
            };
        };
        connection.in_flight += 1;
        connection.held += request.held;
        let entry = self.requests.vacant_entry();
        let key = entry.key();
        let request = entry.insert(request);
        while let Some(step) = request.step(key, &self.completions) {
            session.plug.submit(now, session.export.device(), step);
        }
    }

    fn refuse(&mut self, conn: ConnId, header: &RequestHeader, refusal: &Refusal) {
        self.counters.errors += 1;
        let Some(connection) = self.table.get(conn) else { return };
        let style = connection.session().map_or(HeaderStyle::Simple, |session| session.style);
        connection.stream.outbound.refused(style, header, refusal);
    }

    /// Takes what the devices have done, and has long requests go on.
    pub(super) fn settle(&mut self, now: Time, exports: &Exports) {
        loop {
            while let Some(completion) = self.completions.take() {
                self.complete(now, completion, exports);
            }
            if self.steps_left == 0 {
                return;
            }
            let Some(key) = self.continuing.pop_front() else { return };
            self.go_on(now, key);
        }
    }

    /// Starts further steps of a long request.
    fn go_on(&mut self, now: Time, key: usize) {
        let Some(request) = self.requests.get_mut(key) else { return };
        request.queued = false;
        let export = Rc::clone(&request.export);
        while self.steps_left > 0
            && let Some(step) = request.step(key, &self.completions)
        {
            self.steps_left -= 1;
            export.device().submit(now, step);
        }
        if self.steps_left == 0 && request.is_idle() && request.has_more() {
            request.queued = true;
            self.continuing.push_back(key);
        }
    }

    /// A device has done a step.
    #[inline]
    fn complete(&mut self, now: Time, Completion { tag, result }: Completion, exports: &Exports) {
        let (key, index) = InFlight::names(tag);
        let Some(request) = self.requests.get_mut(key) else { return };
        request.completed(index, result);
        if request.is_over() {
            let request = self.requests.remove(key);
            return self.answer(now, request, exports);
        }
        if !request.has_more() {
            return;
        }
        if self.table.get(request.conn).is_some() {
            if !std::mem::replace(&mut request.queued, true) {
                self.continuing.push_back(key);
            }
        } else if request.is_idle() {
            // Nobody waits for the rest.
            let request = self.requests.remove(key);
            request.export.operations.forget();
            let had_room = self.table.has_room_for_replies();
            self.resume_after(now, request.conn, had_room, exports);
        }
    }

    /// A request is done: its client is told.
    fn answer(&mut self, now: Time, mut request: InFlight, exports: &Exports) {
        let conn = request.conn;
        let had_room = self.table.has_room_for_replies();
        let gained = request.gained();
        request.export.operations.end(now, &request.asked, gained.is_err());
        let InFlight { header, held, .. } = &request;
        if let Some(connection) = self.table.get(conn) {
            connection.in_flight -= 1;
            connection.held -= held;
            let style = connection.session().map_or(HeaderStyle::Simple, |session| session.style);
            let outbound = &mut connection.stream.outbound;
            match gained {
                Ok(Gained::Data(data)) => {
                    self.counters.read += header.length;
                    outbound.data(style, header, data);
                }
                Ok(Gained::Status(extents)) => outbound.status(style, header, ALLOCATION, extents),
                Ok(Gained::Nothing) => {
                    if header.command == RequestType::Write {
                        self.counters.written += header.length;
                    }
                    outbound.done(style, header);
                }
                Err(error) => {
                    tracing::debug!(?conn, %error, ?header, "a request has failed");
                    self.counters.errors += 1;
                    outbound.refused(style, header, &Refusal::of(&error, header));
                }
            }
            self.table.count_replies(now, conn);
            self.table.announce(conn);
            self.finish_if_over(now, conn);
        }
        self.resume_after(now, conn, had_room, exports);
    }

    /// A request less is in flight, or something was sent; before, there was room for replies or not (`had_room`). Goes on
    /// with the connections that were stopped.
    pub(super) fn resume_after(&mut self, now: Time, conn: ConnId, had_room: bool, exports: &Exports) {
        if !self.table.has_stopped() {
            return;
        }
        let in_flight = self.requests.len();
        let few_again = in_flight == REQUESTS_MAX_ALL / 2 || in_flight == REQUESTS_HELD_MAX / 2;
        let all = match few_again {
            true => self.table.all_stopped(),
            false => self.table.all_to_resume(conn, had_room),
        };
        for conn in all {
            self.resume(now, conn, exports);
        }
    }

    /// Goes on with a connection that was stopped, if half of what may wait is gone.
    pub(super) fn resume(&mut self, now: Time, conn: ConnId, exports: &Exports) {
        let in_flight = self.requests.len();
        let may = |connection: &NbdConnection, allowance: Allowance<'_>| {
            connection.has_half(in_flight) && allowance.may_answer()
        };
        if self.table.resume(now, conn, may) {
            // Requests are here that were not carried out.
            self.work(now, conn, 0, exports);
            self.table.read_again(conn);
        }
    }
}
